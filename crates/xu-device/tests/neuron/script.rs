//! A kernel that follows a script: a v2 driver in good health, unless a test says otherwise.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{
    CinitSet, CompatibleVersion, DeviceBasicInfo, DeviceBdfExt, DeviceDriverInfo, DeviceInfo,
    DeviceReady, Ioctl, MemAllocV2MemType64, MemGetExtendedInfo, NeuronDsInfo,
    NotificationsInitWithReallocV2, ioctl,
};
use xu_abi::driver::{CrwlNcMap, CrwlNcMapExt};
use xu_device::neuron::{
    Access, Call, Chunk, ChunkSpec, Descriptor, DriverError, Grain, Kernel, Node, Pages,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) const HOST_BIT: u64 = 1 << 44;
/// Where the driver puts notification rings.
pub(crate) const NQ_OFFSET: u64 = HOST_BIT | 0x7000_0000;
/// Between two of them.
const NQ_STRIDE: u64 = 0x10_0000;
pub(crate) const BAR0: u64 = 0xFFFF_C900_0000_0000;
pub(crate) const BAR0_BYTES: u64 = 0x4000_0000;

/// Answers one call instead of the driver.
type Reply = Box<dyn FnMut(&mut Call<'_, '_>) -> Answer + Send>;

/// A call that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) argument: Vec<u8>,
    pub(crate) buffers: Vec<Vec<u8>>,
}

impl Made {
    pub(crate) fn argument<A: FromBytes>(&self) -> A {
        A::read_from_bytes(&self.argument).unwrap()
    }
}

/// What the driver is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    pub(crate) versions: (u32, u32),
    pub(crate) arch: u32,
    /// `None` has no DRIVER_INFO_GET.
    pub(crate) features: Option<u64>,
}

pub(crate) const V2: Driver = Driver {
    versions: (5, 7),
    arch: 2,
    features: Some(0xFF),
};
pub(crate) const V3: Driver = Driver {
    versions: (10, 11),
    arch: 3,
    features: Some(0xFF),
};

#[derive(Clone, Copy)]
struct Given {
    bytes: u64,
    host: bool,
    pa: u64,
}

struct State {
    driver: Driver,
    made: Vec<Made>,
    /// What happened besides ioctls, and MEM_FREE among it.
    events: Vec<String>,
    replies: HashMap<&'static str, VecDeque<Reply>>,
    chunks: HashMap<u64, Given>,
    next: u64,
    /// Cores of other processes, counted from the descriptor's device.
    taken: Vec<u32>,
    marked: Vec<u32>,
    /// Rings that were given so far.
    rings: u64,
    /// By address, as the driver counts.
    registers: HashMap<u64, u32>,
    /// What the datastore held when it was unmapped.
    datastore: Vec<u64>,
}

pub(crate) struct Script {
    root: PathBuf,
    state: Mutex<State>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({})", self.root.display())
    }
}

impl Script {
    pub(crate) fn new(driver: Driver) -> Arc<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A directory of its own: a device is open once in a process.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            root: PathBuf::from(format!("/scripted/{number}")),
            state: Mutex::new(State {
                driver,
                made: Vec::new(),
                events: Vec::new(),
                replies: HashMap::new(),
                chunks: HashMap::new(),
                next: 1,
                taken: Vec::new(),
                marked: Vec::new(),
                rings: 0,
                registers: HashMap::new(),
                datastore: Vec::new(),
            }),
        })
    }

    /// A node of a driver in good health, with nothing recorded.
    pub(crate) fn node(driver: Driver) -> (Arc<Self>, Arc<Node>) {
        let script = Self::new(driver);
        let node = Arc::new(script.open(0).unwrap());
        script.calls();
        script.events();
        (script, node)
    }

    pub(crate) fn open(self: &Arc<Self>, index: u32) -> Result<Node, DriverError> {
        Node::open(self.kernel(), &self.root, index)
    }

    pub(crate) fn kernel(self: &Arc<Self>) -> Arc<dyn Kernel> {
        Arc::<Self>::clone(self)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Answers the next call of this name instead of the driver; again for the one after.
    pub(crate) fn reply(
        &self,
        ioctl: &Ioctl,
        reply: impl FnMut(&mut Call<'_, '_>) -> Answer + Send + 'static,
    ) {
        let mut state = self.state.lock().unwrap();
        let queue = state.replies.entry(ioctl.name).or_default();
        queue.push_back(Box::new(reply));
    }

    pub(crate) fn answer(&self, ioctl: &Ioctl, answer: Answer) {
        self.reply(ioctl, move |_| answer);
    }

    pub(crate) fn take_cores(&self, cores: &[u32]) {
        self.state.lock().unwrap().taken = cores.to_vec();
    }

    pub(crate) fn marked(&self) -> Vec<u32> {
        let mut marked = self.state.lock().unwrap().marked.clone();
        marked.sort_unstable();
        marked
    }

    /// The calls since the last time.
    pub(crate) fn calls(&self) -> Vec<Made> {
        std::mem::take(&mut self.state.lock().unwrap().made)
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.calls().iter().map(|made| made.name).collect()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().events)
    }

    /// A register, at an address as the driver counts.
    pub(crate) fn register(&self, address: u64) -> u32 {
        let state = self.state.lock().unwrap();
        state.registers.get(&address).copied().unwrap_or_default()
    }

    pub(crate) fn set_register(&self, address: u64, value: u32) {
        self.state.lock().unwrap().registers.insert(address, value);
    }

    /// What stood at an offset of the datastore when it was unmapped.
    pub(crate) fn datastore_word(&self, offset: u32) -> u64 {
        self.state.lock().unwrap().datastore[offset as usize / 8]
    }

    fn note(&self, event: String) {
        self.state.lock().unwrap().events.push(event);
    }
}

/// Reads the argument, lets `change` write into it, and puts it back.
pub(crate) fn edit<A>(call: &mut Call<'_, '_>, change: impl FnOnce(&mut A)) -> Answer
where
    A: FromBytes + IntoBytes + KnownLayout + Immutable,
{
    let mut argument = A::read_from_bytes(call.argument()).unwrap();
    change(&mut argument);
    call.argument_mut().copy_from_slice(argument.as_bytes());
    Answer::Done
}

impl Kernel for Script {
    fn open(&self, path: &Path, access: Access) -> Result<Descriptor, i32> {
        let name = path.file_name().unwrap().to_str().unwrap();
        self.note(format!("open {name} {access:?}"));
        Ok(Descriptor::numbered(7))
    }

    fn ioctl(&self, descriptor: &Descriptor, call: &mut Call<'_, '_>) -> Answer {
        assert_eq!(descriptor.number(), Some(7));
        let name = call.ioctl().name;
        let mut state = self.state.lock().unwrap();
        let made = Made {
            name,
            argument: call.argument().to_vec(),
            buffers: call.buffers().iter().map(|b| b.bytes().to_vec()).collect(),
        };
        state.made.push(made);
        if matches!(name, "MEM_FREE" | "NC_RESET") {
            state.events.push(name.to_owned());
        }
        match state.replies.get_mut(name).and_then(VecDeque::pop_front) {
            Some(mut reply) => reply(call),
            None => state.drive(call),
        }
    }

    fn map(
        &self,
        _: &Descriptor,
        offset: u64,
        bytes: usize,
        access: Access,
        grain: Grain,
    ) -> Result<Pages, i32> {
        self.note(format!("map {offset:#x} {bytes} {access:?}"));
        let pages = Pages::anonymous(bytes, access, grain)?;
        if (NQ_OFFSET..NQ_OFFSET + 16 * NQ_STRIDE).contains(&offset) {
            // A ring may hold old records.
            for at in (0..bytes).step_by(4) {
                pages
                    .word(at)
                    .unwrap()
                    .store(0xA5A5_A5A5, Ordering::Relaxed);
            }
        }
        Ok(pages)
    }

    fn unmap(&self, pages: Pages) -> Result<(), i32> {
        self.note(format!("unmap {}", pages.bytes()));
        if pages.double_word(0).is_some() {
            let words = (0..pages.bytes()).step_by(8);
            let word = |at| pages.double_word(at).unwrap().load(Ordering::Relaxed);
            self.state.lock().unwrap().datastore = words.map(word).collect();
        }
        xu_device::neuron::System.unmap(pages)
    }

    fn close(&self, descriptor: Descriptor) {
        assert_eq!(descriptor.number(), Some(7));
        self.note("close".to_owned());
    }
}

impl State {
    fn drive(&mut self, call: &mut Call<'_, '_>) -> Answer {
        let driver = self.driver;
        match call.ioctl().name {
            "COMPATIBLE_VERSION" => edit(call, |a: &mut CompatibleVersion| {
                (a.min, a.max) = driver.versions;
            }),
            "DEVICE_BASIC_INFO" => edit(call, |a: &mut DeviceBasicInfo| {
                a.architecture = driver.arch;
                a.revision = 255;
            }),
            "DRIVER_INFO_GET" => match driver.features {
                Some(features) => edit(call, |a: &mut DeviceDriverInfo| {
                    a.feature_flags1 = features;
                }),
                None => Answer::Errno(22),
            },
            "DEVICE_BDF_EXT" => edit(call, |a: &mut DeviceBdfExt| {
                (a.bus, a.slot) = (0x5E, 3);
            }),
            "DEVICE_INFO" => edit(call, |a: &mut DeviceInfo| {
                a.bar_address[0] = BAR0;
                a.bar_size[0] = BAR0_BYTES;
            }),
            "MEM_ALLOC_V2" | "MEM_ALLOC_V2MT" | "MEM_ALLOC_V2MT64" => self.allocate(call),
            "MEM_GET_EXTENDED_INFO" => self.locate(call),
            "NOTIFICATIONS_INIT_WITH_REALLOC_V2" => {
                let offset = NQ_OFFSET + self.rings % 16 * NQ_STRIDE;
                self.rings += 1;
                edit(call, |a: &mut NotificationsInitWithReallocV2| {
                    a.mmap_offset = offset;
                    a.mem_handle = 99;
                })
            }
            "NC_RESET_READY" => edit(call, |a: &mut DeviceReady| a.result = 0),
            "CINIT_SET_STATE" => edit(call, |a: &mut CinitSet| a.new_state = a.state),
            "ACQUIRE_NEURON_DS" => edit(call, |a: &mut NeuronDsInfo| {
                (a.mmap_offset, a.size) = (HOST_BIT | 0x5000, 256 << 10);
            }),
            "BAR_READ" | "BAR_WRITE" => self.access(call),
            "CRWL_NC_RANGE_MARK_EXT0" => {
                let mut asked = CrwlNcMapExt::read(call.argument()).unwrap();
                match self.mark(asked.start_nc_index, asked.end_nc_index) {
                    Some(bitmap) => asked.bitmap = bitmap,
                    None => return Answer::Errno(16),
                }
                edit(call, |a| *a = asked)
            }
            "CRWL_NC_RANGE_MARK" => {
                let mut asked = CrwlNcMap::read(call.argument()).unwrap();
                match self.mark(asked.start_nc_index, asked.end_nc_index) {
                    Some(bitmap) => asked.bitmap = bitmap[0],
                    None => return Answer::Errno(16),
                }
                edit(call, |a| *a = asked)
            }
            "CRWL_NC_RANGE_UNMARK_EXT0" => {
                let asked = CrwlNcMapExt::read(call.argument()).unwrap();
                let set = |core: &u32| asked.bitmap[*core as usize / 64] >> (core % 64) & 1 == 1;
                self.marked.retain(|core| !set(core));
                Answer::Done
            }
            "CRWL_NC_RANGE_UNMARK" => {
                let asked = CrwlNcMap::read(call.argument()).unwrap();
                self.marked.retain(|core| asked.bitmap >> core & 1 == 0);
                Answer::Done
            }
            _ => Answer::Done,
        }
    }

    /// Registers, one after the other.
    fn access(&mut self, call: &mut Call<'_, '_>) -> Answer {
        let reads = call.ioctl().name == "BAR_READ";
        let [addresses, values] = call.buffers() else {
            panic!("two buffers")
        };
        let addresses = addresses.bytes().chunks_exact(8);
        let values = values.bytes_mut().unwrap().chunks_exact_mut(4);
        for (address, value) in addresses.zip(values) {
            let address = u64::from_ne_bytes(address.try_into().unwrap());
            let register = self.registers.entry(address).or_default();
            if reads {
                value.copy_from_slice(&register.to_ne_bytes());
            } else {
                *register = u32::from_ne_bytes((&*value).try_into().unwrap());
            }
        }
        Answer::Done
    }

    fn host_bit(&self) -> u64 {
        match self.driver.arch {
            3 => HOST_BIT << 2,
            _ => HOST_BIT,
        }
    }

    fn mark(&mut self, first: u32, last: u32) -> Option<[u64; 8]> {
        let mut bitmap = [0; 8];
        for core in first..=last {
            if self.taken.contains(&core) || self.marked.contains(&core) {
                return None;
            }
            bitmap[core as usize / 64] |= 1 << (core % 64);
        }
        self.marked.extend(first..=last);
        Some(bitmap)
    }

    fn allocate(&mut self, call: &mut Call<'_, '_>) -> Answer {
        // The fields that are read here lie at the same offsets in every variant.
        let mut bytes = [0; 56];
        let argument = call.argument();
        bytes[..argument.len()].copy_from_slice(argument);
        let asked = MemAllocV2MemType64::from_bytes(bytes);
        let handle = self.next;
        self.next += 1;
        let host = asked.host_memory == 1;
        let channel = u64::from(asked.dram_channel) << 36;
        let given = Given {
            bytes: asked.size.next_multiple_of(4096),
            host,
            pa: handle << 24 | if host { self.host_bit() } else { channel },
        };
        self.chunks.insert(handle, given);
        call.buffers()[0]
            .bytes_mut()
            .unwrap()
            .copy_from_slice(&handle.to_ne_bytes());
        Answer::Done
    }

    fn locate(&mut self, call: &mut Call<'_, '_>) -> Answer {
        let asked = MemGetExtendedInfo::read(call.argument()).unwrap();
        let Some(given) = self.chunks.get(&asked.mem_handle).copied() else {
            return Answer::Positive(22);
        };
        edit(call, |a: &mut MemGetExtendedInfo| {
            *a = MemGetExtendedInfo {
                mem_handle: 0xFFFF_8881_0000_0000,
                version: 77,
                host_memory: given.host.into(),
                mmap_offset: given.pa,
                pa: given.pa,
                pid: 1,
                size: given.bytes,
            };
        })
    }
}

/// A chunk, and nothing recorded.
pub(crate) fn chunk(script: &Script, node: &Arc<Node>, spec: ChunkSpec) -> Arc<Chunk> {
    let chunk = Arc::new(Chunk::allocate(node, spec).unwrap());
    script.calls();
    script.events();
    chunk
}

/// The refusal of a guard: its text, after which nothing was asked.
pub(crate) fn refused<T: fmt::Debug>(script: &Script, result: Result<T, DriverError>) -> String {
    let error = result.unwrap_err();
    assert!(
        matches!(error, DriverError::BadArgument { .. }),
        "{error:?}"
    );
    assert_eq!(error.status(), xu_device::Status::INVALID);
    let names = script.names();
    assert!(names.is_empty(), "{error}: {names:?}");
    error.to_string()
}

/// Every ioctl of the table by its name.
pub(crate) fn named(name: &str) -> &'static Ioctl {
    ioctl::ALL.iter().find(|ioctl| ioctl.name == name).unwrap()
}
