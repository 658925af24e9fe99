//! A host for tests: a tree of files, and a driver that answers as a healthy one unless it is told otherwise.
//!
//! A node is a link to a character device that every host has; it is never opened, since the kernel is ours.

use super::host::Host;
use nrta::neuron::abi::errno::{self, Answer};
use nrta::neuron::abi::{
    AppInfo, CompatibleVersion, CrwlNcMapExt, DeviceBasicInfo, DeviceBdfExt, DeviceDriverInfo,
    GetAppsInfo, MemAllocV2MemType64, MemGetExtendedInfo,
};
use nrta::neuron::{Access, Call, Descriptor, Grain, Kernel, Pages};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A device, and what is odd about it.
#[derive(Clone, Debug)]
pub(super) struct Device {
    open: Result<(), i32>,
    is_neuron: bool,
    versions: (u32, u32),
    arch: u32,
    features: u64,
    taken: Vec<u32>,
    processes: Vec<(u32, u64)>,
    host_memory: bool,
}

impl Device {
    pub(super) fn v2() -> Self {
        Self {
            open: Ok(()),
            is_neuron: true,
            versions: (5, 7),
            arch: 2,
            features: 0xFF,
            taken: Vec::new(),
            processes: Vec::new(),
            host_memory: true,
        }
    }

    pub(super) fn unreadable() -> Self {
        Self {
            open: Err(errno::EACCES),
            ..Self::v2()
        }
    }

    pub(super) fn of_another_driver() -> Self {
        Self {
            is_neuron: false,
            ..Self::v2()
        }
    }

    pub(super) fn versions(self, min: u32, max: u32) -> Self {
        let versions = (min, max);
        Self { versions, ..self }
    }

    pub(super) fn arch(self, arch: u32) -> Self {
        Self { arch, ..self }
    }

    pub(super) fn features(self, features: u64) -> Self {
        Self { features, ..self }
    }

    /// Core `core` of the device belongs to another process.
    pub(super) fn taken(mut self, core: u32) -> Self {
        self.taken.push(core);
        self
    }

    /// A process that is attached, with bytes of device memory.
    pub(super) fn process(mut self, pid: u32, bytes: u64) -> Self {
        self.processes.push((pid, bytes));
        self
    }

    pub(super) fn without_host_memory(self) -> Self {
        Self {
            host_memory: false,
            ..self
        }
    }
}

#[derive(Debug, Default)]
struct Driver {
    devices: Mutex<HashMap<u32, Device>>,
    /// Descriptors that are open, by number: the device.
    open: Mutex<HashMap<u32, u32>>,
    /// Marks and chunks that are not given back, and the last number given.
    held: Mutex<(Vec<u64>, u32)>,
    attached: AtomicUsize,
}

/// A tree of its own, which goes with the test.
#[derive(Debug)]
pub(super) struct FakeHost {
    root: PathBuf,
    driver: Arc<Driver>,
}

impl FakeHost {
    pub(super) fn new(name: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nrta-doctor-{}-{number}-{name}", std::process::id());
        let fake = Self {
            root: std::env::temp_dir().join(name),
            driver: Arc::default(),
        };
        std::fs::create_dir_all(fake.root.join("dev")).unwrap();
        let limits =
            "Max open files 65536 65536 files\nMax locked memory unlimited unlimited bytes\n";
        fake.write("proc/self/limits", limits)
            .write("proc/self/status", "Name: nrta\nUid:\t1000\t1000\t1000\t1000\n")
            .write("proc/sys/kernel/osrelease", "6.1.0\n")
            .write(
                "proc/meminfo",
                "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nHugePages_Total: 0\nHugepagesize: 2048 kB\n",
            )
            .write("proc/buddyinfo", "Node 0, zone Normal 1 1 1 1 1 1 1 1 1 1 7\n");
        fake
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(super) fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(super) fn link(&self, path: &str, target: &Path) -> &Self {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    pub(super) fn with_driver(&self, version: &str) -> &Self {
        self.write("sys/module/neuron/version", version)
    }

    pub(super) fn with_device(&self, index: u32, device: Device) -> &Self {
        if !self.path(&format!("dev/neuron{index}")).exists() {
            self.link(&format!("dev/neuron{index}"), Path::new("/dev/null"));
        }
        let class = format!("sys/class/neuron_device/neuron{index}");
        self.write(
            &format!("{class}/info/architecture/device_name"),
            "Trainium1\n",
        )
        .write(
            &format!("{class}/info/architecture/instance_type"),
            "Trn1\n",
        );
        for core in 0..2 {
            let file = format!("{class}/neuron_core{core}/stats/memory_usage/device_mem/total");
            self.write(&file, &format!("{}\n", (core + 1) << 20));
        }
        self.driver.devices.lock().unwrap().insert(index, device);
        self
    }

    pub(super) fn host(&self) -> Host {
        Host {
            dev: self.path("dev"),
            sys: self.path("sys"),
            proc: self.path("proc"),
            kernel: Arc::<Driver>::clone(&self.driver),
            variables: Vec::new(),
        }
    }

    /// How often the process was attached to a device.
    pub(super) fn attached(&self) -> usize {
        self.driver.attached.load(Ordering::Relaxed)
    }

    /// Whether nothing is open, claimed or allocated.
    pub(super) fn is_at_rest(&self) -> bool {
        self.driver.open.lock().unwrap().is_empty() && self.driver.held.lock().unwrap().0.is_empty()
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Puts an argument where the driver writes it.
fn put(call: &mut Call<'_, '_>, bytes: &[u8]) -> Answer {
    call.argument_mut()[..bytes.len()].copy_from_slice(bytes);
    Answer::Done
}

impl Kernel for Driver {
    fn open(&self, path: &Path, access: Access) -> Result<Descriptor, i32> {
        let name = path.file_name().unwrap().to_str().unwrap();
        let index: u32 = name.strip_prefix("neuron").unwrap().parse().unwrap();
        let devices = self.devices.lock().unwrap();
        devices.get(&index).ok_or(errno::ENOENT)?.open?;
        if access == Access::Full {
            self.attached.fetch_add(1, Ordering::Relaxed);
        }
        let number = self.next();
        self.open.lock().unwrap().insert(number, index);
        Ok(Descriptor::numbered(number))
    }

    fn ioctl(&self, descriptor: &Descriptor, call: &mut Call<'_, '_>) -> Answer {
        let index = self.open.lock().unwrap()[&descriptor.number().unwrap()];
        let device = self.devices.lock().unwrap()[&index].clone();
        if !device.is_neuron {
            return Answer::Errno(errno::ENOTTY);
        }
        self.drive(&device, call)
    }

    fn map(
        &self,
        _: &Descriptor,
        _: u64,
        bytes: usize,
        access: Access,
        grain: Grain,
    ) -> Result<Pages, i32> {
        Pages::anonymous(bytes, access, grain)
    }

    fn unmap(&self, pages: Pages) -> Result<(), i32> {
        nrta::neuron::System.unmap(pages)
    }

    fn close(&self, descriptor: Descriptor) {
        let number = descriptor.number().unwrap();
        self.open.lock().unwrap().remove(&number).unwrap();
    }
}

impl Driver {
    fn next(&self) -> u32 {
        let mut held = self.held.lock().unwrap();
        held.1 += 1;
        held.1
    }

    fn hold(&self, what: u64) {
        self.held.lock().unwrap().0.push(what);
    }

    fn give_back(&self, what: u64) {
        self.held.lock().unwrap().0.retain(|held| *held != what);
    }

    fn drive(&self, device: &Device, call: &mut Call<'_, '_>) -> Answer {
        match call.ioctl().name {
            "COMPATIBLE_VERSION" => {
                let (min, max) = device.versions;
                put(call, &CompatibleVersion { min, max }.to_bytes())
            }
            "DEVICE_BASIC_INFO" => {
                let info = DeviceBasicInfo {
                    architecture: device.arch,
                    ..DeviceBasicInfo::ZEROED
                };
                put(call, &info.to_bytes())
            }
            "DRIVER_INFO_GET" => {
                let info = DeviceDriverInfo {
                    feature_flags1: device.features,
                    ..DeviceDriverInfo::ZEROED
                };
                put(call, &info.to_bytes())
            }
            "DEVICE_BDF_EXT" => {
                let bdf = DeviceBdfExt {
                    bus: 0x5E,
                    slot: 3,
                    ..DeviceBdfExt::ZEROED
                };
                put(call, &bdf.to_bytes())
            }
            "CRWL_NC_RANGE_MARK_EXT0" => self.mark(device, call),
            "CRWL_NC_RANGE_UNMARK_EXT0" => {
                let asked = CrwlNcMapExt::read(call.argument()).unwrap();
                self.give_back(asked.bitmap[0] << 32);
                Answer::Done
            }
            "DEVICE_GET_ALL_APPS_INFO" => tell_processes(device, call),
            "MEM_ALLOC_V2MT64" => self.allocate(device, call),
            "MEM_GET_EXTENDED_INFO" => locate(call),
            "MEM_FREE" => {
                let handle = u64::from_ne_bytes(call.argument().try_into().unwrap());
                self.give_back(handle);
                Answer::Done
            }
            _ => Answer::Done,
        }
    }

    fn mark(&self, device: &Device, call: &mut Call<'_, '_>) -> Answer {
        let mut asked = CrwlNcMapExt::read(call.argument()).unwrap();
        if device.taken.contains(&asked.start_nc_index) {
            return Answer::Errno(errno::EBUSY);
        }
        asked.bitmap[0] = 1 << asked.start_nc_index;
        self.hold(asked.bitmap[0] << 32);
        put(call, &asked.to_bytes())
    }

    /// The handle of a chunk says its size in MiB and where it is.
    fn allocate(&self, device: &Device, call: &mut Call<'_, '_>) -> Answer {
        let asked = MemAllocV2MemType64::read(call.argument()).unwrap();
        if asked.host_memory == 1 && !device.host_memory {
            return Answer::Errno(errno::ENOMEM);
        }
        let handle = asked.size >> 20 << 1 | u64::from(asked.host_memory);
        self.hold(handle);
        let bytes = call.buffers()[0].bytes_mut().unwrap();
        bytes.copy_from_slice(&handle.to_ne_bytes());
        Answer::Done
    }
}

fn locate(call: &mut Call<'_, '_>) -> Answer {
    let asked = MemGetExtendedInfo::read(call.argument()).unwrap();
    let host = asked.mem_handle & 1;
    let pa = host << 44 | 0x1000_0000;
    let info = MemGetExtendedInfo {
        // CAST: one bit.
        host_memory: host as u32,
        mmap_offset: pa,
        pa,
        size: asked.mem_handle >> 1 << 20,
        ..MemGetExtendedInfo::ZEROED
    };
    put(call, &info.to_bytes())
}

fn tell_processes(device: &Device, call: &mut Call<'_, '_>) -> Answer {
    let asked = GetAppsInfo::read(call.argument()).unwrap();
    let own = (std::process::id(), 0);
    let all = device.processes.iter().copied().chain([own]);
    let mut bytes = GetAppsInfo {
        // CAST: few.
        size: device.processes.len() as u32 + 1,
        ..asked
    }
    .to_bytes()
    .to_vec();
    for (pid, device_mem_size) in all {
        let app = AppInfo {
            pid,
            device_mem_size,
            ..AppInfo::ZEROED
        };
        bytes.extend(app.to_bytes());
    }
    put(call, &bytes)
}
