//! Several at one device: what one waits for, or is in the middle of, while another calls.
//!
//! The other comes exactly then, since it is the kernel that calls it.

use super::device::{CORE, HBM};
use super::script::{Script, V2, edit};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use xu_abi::driver::Semaphore;
use xu_abi::driver::errno::{Answer, ENOMEM};
use xu_device::neuron::{Access, Call, Descriptor, Grain, Kernel, NeuronDevice, Options, Pages};
use xu_device::{Device, DeviceError};

const PAGE: u64 = 4096;

type Hook = Box<dyn Fn(&mut Call<'_, '_>) -> Option<Answer> + Send + Sync>;

/// Passes calls on to the script, but first to whoever is to come in between.
struct Between {
    script: Arc<Script>,
    hook: OnceLock<Hook>,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").finish_non_exhaustive()
    }
}

impl Kernel for Between {
    fn open(&self, path: &Path, access: Access) -> Result<Descriptor, i32> {
        self.script.kernel().open(path, access)
    }

    fn ioctl(&self, descriptor: &Descriptor, call: &mut Call<'_, '_>) -> Answer {
        let answer = self.hook.get().and_then(|hook| hook(call));
        answer.unwrap_or_else(|| self.script.ioctl(descriptor, call))
    }

    fn map(
        &self,
        descriptor: &Descriptor,
        offset: u64,
        bytes: usize,
        access: Access,
        grain: Grain,
    ) -> Result<Pages, i32> {
        self.script.map(descriptor, offset, bytes, access, grain)
    }

    fn unmap(&self, pages: Pages) -> Result<(), i32> {
        self.script.unmap(pages)
    }

    fn close(&self, descriptor: Descriptor) {
        self.script.close(descriptor);
    }
}

/// A device whose calls are seen in between, with so much device memory for each core.
fn open(hbm_bytes: u64) -> (Arc<Between>, Arc<NeuronDevice>) {
    let script = Script::new(V2);
    let options = Options {
        directory: script.root().to_owned(),
        sysfs: script.root().join("sys"),
        hbm_bytes: Some(hbm_bytes),
        ..Options::default()
    };
    let between = Arc::new(Between {
        script,
        hook: OnceLock::new(),
    });
    let kernel: Arc<dyn Kernel> = Arc::<Between>::clone(&between);
    let device = NeuronDevice::open(&kernel, &options).unwrap();
    (between, device)
}

fn is_allocation(call: &Call<'_, '_>) -> bool {
    call.ioctl().name.starts_with("MEM_ALLOC")
}

fn exhausted(asked: u64, free: u64) -> Result<xu_abi::DeviceAddr, DeviceError> {
    Err(DeviceError::OutOfMemory {
        place: HBM,
        asked,
        free,
        largest: free,
    })
}

/// Has another thread reserve `asked` bytes while the driver is at a reservation: what it gets. The first reservation is
/// answered with `answer`, or by the driver.
fn meanwhile(
    between: &Between,
    device: &Arc<NeuronDevice>,
    asked: u64,
    answer: Option<Answer>,
) -> Arc<Mutex<Option<Result<xu_abi::DeviceAddr, DeviceError>>>> {
    let got = Arc::new(Mutex::new(None));
    let (device, told, calls) = (Arc::downgrade(device), Arc::clone(&got), AtomicU32::new(0));
    let hook: Hook = Box::new(move |call| {
        if !is_allocation(call) || calls.fetch_add(1, Ordering::Relaxed) > 0 {
            return None;
        }
        let device = device.upgrade().unwrap();
        let other = thread::spawn(move || device.allocate(HBM, asked, 1));
        *told.lock().unwrap() = Some(other.join().unwrap());
        answer
    });
    assert!(between.hook.set(hook).is_ok());
    got
}

#[test]
fn d4_two_threads_that_reserve_at_the_limit_do_not_get_more_than_there_is() {
    let (between, device) = open(3 * PAGE);
    let got = meanwhile(&between, &device, 2 * PAGE, None);
    // The other one comes when this one has been counted, and the driver has not given it yet.
    device.allocate(HBM, 2 * PAGE, 1).unwrap();
    assert_eq!(got.lock().unwrap().take(), Some(exhausted(2 * PAGE, PAGE)));
    assert_eq!(device.memory_use(HBM).unwrap().used, 2 * PAGE);
    device.allocate(HBM, PAGE, 1).unwrap();
    assert_eq!(device.allocate(HBM, 1, 1), exhausted(1, 0));
}

#[test]
fn d4_both_get_theirs_where_there_is_room_for_both() {
    let (between, device) = open(4 * PAGE);
    let got = meanwhile(&between, &device, 2 * PAGE, None);
    let first = device.allocate(HBM, 2 * PAGE, 1).unwrap();
    let second = got.lock().unwrap().take().unwrap().unwrap();
    assert_ne!(first, second);
    assert_eq!(device.memory_use(HBM).unwrap().used, 4 * PAGE);
    for addr in [first, second] {
        device.release(addr).unwrap();
    }
    assert_eq!(device.memory_use(HBM).unwrap().used, 0);
}

#[test]
fn d4_what_the_driver_refuses_is_counted_for_nobody() {
    let (between, device) = open(3 * PAGE);
    let got = meanwhile(&between, &device, 2 * PAGE, Some(Answer::Errno(ENOMEM)));
    assert_eq!(
        device.allocate(HBM, 2 * PAGE, 1),
        exhausted(2 * PAGE, 0),
        "of how much there is the driver says nothing"
    );
    // Refused, too: while it asked, the first had it.
    assert_eq!(got.lock().unwrap().take(), Some(exhausted(2 * PAGE, PAGE)));
    device.allocate(HBM, 3 * PAGE, 1).unwrap();
}

/// It would wait for the core for a minute.
#[test]
fn d7_who_waits_for_a_core_keeps_nobody_from_calling_or_closing() {
    let (between, device) = open(PAGE);
    let (looked, looks) = mpsc::channel();
    let hook: Hook = Box::new(move |call| {
        if call.ioctl().name != "SEMAPHORE_READ" {
            return None;
        }
        // Nobody may listen any more.
        let _ = looked.send(());
        Some(edit(call, |semaphore: &mut Semaphore| semaphore.value = 1))
    });
    assert!(between.hook.set(hook).is_ok());
    let waiting = thread::spawn({
        let device = Arc::clone(&device);
        move || device.quiesce(CORE, Duration::MAX)
    });
    looks.recv().unwrap();
    let addr = device.allocate(HBM, PAGE, 1).unwrap();
    device.write(addr, &[1; 4]).unwrap();
    looks.recv().unwrap();
    device.close();
    assert_eq!(waiting.join().unwrap(), Err(DeviceError::Lost));
}
