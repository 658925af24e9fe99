//! Resets of cores and of whole devices.
//!
//! Spec `driver.md` sections 1 and 3. What a reset does happens when it is asked for; how long the device says that it is
//! resetting is [`Waits::reset`](crate::config::Waits::reset). One request for each process, until it is asked about.
//!
//! ```text
//!   NC_RESET ──> RESETTING ── time ──> READY, or INVALID when the fault plan has it fail
//!                    opens wait             opens are refused until a reset does not fail
//! ```

use super::call::{Call, Failure, Handled};
use super::device::Device;
use super::waiting::{Waited, until};
use super::{copies, notification, rings};
use crate::config::DriverFault;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use xu_abi::driver::{DeviceReady, DeviceReset};

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Resetting,
    Ready,
    /// A reset failed.
    Invalid,
}

impl State {
    /// As sysfs has it.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Resetting => 0,
            Self::Ready => 1,
            Self::Invalid => 2,
        }
    }
}

/// The resets of a device that were asked for.
#[derive(Debug)]
pub(super) struct Resets {
    takes: Duration,
    inner: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    by_process: BTreeMap<u32, Request>,
    invalid: bool,
}

/// The reset of one process.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// None: never.
    ends: Option<Instant>,
    fails: bool,
    done: bool,
}

impl Resets {
    pub(super) fn new(takes: Duration) -> Self {
        Self {
            takes,
            inner: Mutex::default(),
        }
    }

    /// The state of the device.
    pub(super) fn state(&self) -> State {
        let mut requests = self.inner.lock();
        requests.settle();
        if requests.by_process.values().any(|request| !request.done) {
            State::Resetting
        } else if requests.invalid {
            State::Invalid
        } else {
            State::Ready
        }
    }

    /// Processes with a reset that nobody has asked about.
    pub(super) fn pending(&self) -> Vec<u32> {
        self.inner.lock().by_process.keys().copied().collect()
    }

    /// Queues the reset of a process; false when it has one.
    fn queue(&self, pid: u32, fails: bool) -> bool {
        let mut requests = self.inner.lock();
        if requests.by_process.contains_key(&pid) {
            return false;
        }
        let request = Request {
            ends: Instant::now().checked_add(self.takes),
            fails,
            done: false,
        };
        requests.by_process.insert(pid, request);
        true
    }

    /// What became of a request: `Some(failed)` when it is done, and forgotten. An unknown one has failed.
    fn result(&self, request: u32) -> Option<bool> {
        let mut requests = self.inner.lock();
        requests.settle();
        match requests.by_process.get(&request) {
            None => Some(true),
            Some(pending) if pending.done => {
                let failed = pending.fails;
                requests.by_process.remove(&request);
                Some(failed)
            }
            Some(_) => None,
        }
    }

    /// A process goes: its reset is over at once, where the driver waits for it.
    pub(super) fn finish(&self, pid: u32) {
        let mut requests = self.inner.lock();
        if let Some(request) = requests.by_process.get_mut(&pid) {
            request.ends = Some(Instant::now());
        }
        requests.settle();
        requests.by_process.remove(&pid);
    }
}

impl Requests {
    /// Ends what has taken its time.
    fn settle(&mut self) {
        let now = Instant::now();
        for request in self.by_process.values_mut() {
            if !request.done && request.ends.is_some_and(|ends| ends <= now) {
                request.done = true;
                self.invalid = request.fails;
            }
        }
    }
}

/// NC_RESET.
pub(super) fn nc_reset(call: &Call<'_>) -> Handled {
    let mut reset: DeviceReset = call.argument()?;
    reset.request_id = call.pid();
    call.answer(&reset)?;
    request(call.device, call.pid(), reset.nc_map)
}

/// DEVICE_RESET: all of it, as the older interface has it.
pub(super) fn device_reset(call: &Call<'_>) -> Handled {
    request(call.device, call.pid(), DeviceReset::WHOLE_DEVICE)
}

/// A reset of the whole device that no process asked for, and none will ask about.
pub(super) fn whole(device: &Device) {
    // Nobody else has a reset of process 0, so it is queued.
    let _ = request(device, 0, DeviceReset::WHOLE_DEVICE);
    device.resets.finish(0);
}

/// Rings and states of the cores go first, and go also when the process has a reset queued already.
fn request(device: &Device, pid: u32, nc_map: u32) -> Handled {
    let cores = (0..device.table().cores).filter(|core| nc_map >> core & 1 == 1);
    for core in cores.clone() {
        forget_copies(device, pid, core);
        notification::destroy(device, core);
        device.core_inits.lock().invalidate(core);
    }
    let fails = device.faults.happens(DriverFault::ResetFails, pid);
    if !device.resets.queue(pid, fails) {
        return Err(Failure::Positive(1));
    }
    for core in cores {
        rings::reset(device, core);
        device.chip.reset_core(core);
    }
    device.datastores.lock().count_reset(nc_map, fails);
    Ok(())
}

/// The rings of the copy queue are freed first: what still waits there is never made.
fn forget_copies(device: &Device, pid: u32, core: u8) {
    let copies = copies::forget(device, core);
    if copies > 0 {
        let lost = format!(
            "a reset of core {core} by process {pid} before {copies} copies through it were waited for: they are not made"
        );
        device.warn(pid, lost);
    }
}

/// NC_RESET_READY, which succeeds whatever its result is.
pub(super) fn nc_reset_ready(call: &Call<'_>) -> Handled {
    let mut ready: DeviceReady = call.argument()?;
    ready.result = wait(call, ready.request_id)?;
    Ok(call.answer(&ready)?)
}

/// DEVICE_READY: 1 when the reset of this process went well.
pub(super) fn device_ready(call: &Call<'_>) -> Handled {
    let ready = u8::from(wait(call, call.pid())? == 0);
    Ok(call.answer(&ready)?)
}

/// DEVICE_RESET_STATUS: always 1.
pub(super) fn device_reset_status(call: &Call<'_>) -> Handled {
    Ok(call.answer(&1_u8)?)
}

fn wait(call: &Call<'_>, request: u32) -> Result<i32, Failure> {
    let resets = &call.device.resets;
    let waited = until(call.caller, call.device, None, || resets.result(request));
    match waited {
        Waited::Came(failed) => Ok(if failed { DeviceReady::FAILED } else { 0 }),
        Waited::Interrupted | Waited::TimedOut => Ok(DeviceReady::INTERRUPTED),
        Waited::Gone(errno) => Err(Failure::Errno(errno)),
    }
}
