//! How far the cores of a device are initialised.
//!
//! Spec `driver.md` section 3, core init.
//!
//! ```text
//!   INVALID ── asked for STARTED ──> STARTED ── COMPLETED ──> COMPLETED
//!      ^                                                          |
//!      +─────────────────── reset of the core ────────────────────+
//! ```

use super::call::{Call, Failure, Handled};
use super::waiting::{Waited, until};
use crate::config::DriverFault;
use std::time::Instant;
use xu_abi::driver::errno::{E2BIG, EINTR, EINVAL};
use xu_abi::driver::{CinitSet, CoreInit, NcModelStartedCount};

/// The state of each core of a device.
#[derive(Debug)]
pub(super) struct CoreInits {
    cores: Vec<Core>,
}

#[derive(Clone, Copy, Debug)]
struct Core {
    state: CoreInit,
    /// When a process that the fault plan thinks of completes it.
    completes: Option<Instant>,
}

const INVALID: Core = Core {
    state: CoreInit::Invalid,
    completes: None,
};

impl CoreInits {
    pub(super) fn new(cores: u8) -> Self {
        Self {
            cores: vec![INVALID; cores.into()],
        }
    }

    /// Cores that are not invalid.
    pub(super) fn initialised(&self) -> Vec<(usize, CoreInit)> {
        let states = self.cores.iter().map(|core| core.state).enumerate();
        states.filter(|(_, s)| *s != CoreInit::Invalid).collect()
    }

    /// A core is reset.
    pub(super) fn invalidate(&mut self, core: u8) {
        if let Some(core) = self.cores.get_mut(usize::from(core)) {
            *core = INVALID;
        }
    }

    /// A core as it is now.
    fn now(&mut self, core: u32) -> Option<&mut Core> {
        // CAST: widening.
        let core = self.cores.get_mut(core as usize)?;
        if core.completes.is_some_and(|at| Instant::now() >= at) {
            core.state = CoreInit::Completed;
            core.completes = None;
        }
        Some(core)
    }
}

/// CINIT_SET_STATE. Started in the answer is either "it is yours" or "the other process did not complete it in time".
pub(super) fn cinit_set_state(call: &Call<'_>) -> Handled {
    let mut set: CinitSet = call.argument()?;
    check(call, set.nc_id)?;
    let wanted = CoreInit::from_raw(set.state).ok_or(Failure::Errno(EINVAL))?;
    let state = match wanted {
        CoreInit::Started => start(call, set.nc_id)?,
        CoreInit::Completed | CoreInit::Invalid => {
            if let Some(core) = call.device.core_inits.lock().now(set.nc_id) {
                *core = Core {
                    state: wanted,
                    completes: None,
                };
            }
            wanted
        }
    };
    set.new_state = state.raw();
    Ok(call.answer(&set)?)
}

/// A process wants to initialise a core, or to hear that another has.
fn start(call: &Call<'_>, nc: u32) -> Result<CoreInit, Failure> {
    let device = call.device;
    if try_start(call, nc) {
        return Ok(CoreInit::Started);
    }
    let limit = device.config().waits.core_init;
    let waited = until(call.caller, device, Some(limit), || {
        let mut inits = device.core_inits.lock();
        let state = inits.now(nc)?.state;
        (state != CoreInit::Started).then_some(state)
    });
    match waited {
        Waited::Came(state) => Ok(state),
        Waited::TimedOut => Ok(CoreInit::Started),
        Waited::Interrupted => Err(Failure::Errno(EINTR)),
        Waited::Gone(errno) => Err(Failure::Errno(errno)),
    }
}

/// Takes an invalid core, unless the fault plan has another process take it.
fn try_start(call: &Call<'_>, nc: u32) -> bool {
    let device = call.device;
    let mut inits = device.core_inits.lock();
    let Some(core) = inits.now(nc).filter(|c| c.state == CoreInit::Invalid) else {
        return false;
    };
    core.state = CoreInit::Started;
    let elsewhere = device
        .faults
        .happens(DriverFault::InitElsewhere, call.pid());
    if elsewhere {
        core.completes = Instant::now().checked_add(device.config().waits.elsewhere);
    }
    !elsewhere
}

/// NC_MODEL_STARTED_COUNT: always 0, as it counts on v1 only.
pub(super) fn nc_model_started_count(call: &Call<'_>) -> Handled {
    let mut count: NcModelStartedCount = call.argument()?;
    check(call, count.nc_id)?;
    count.count = 0;
    Ok(call.answer(&count)?)
}

fn check(call: &Call<'_>, nc: u32) -> Handled {
    if nc >= call.device.cores() {
        return Err(Failure::Errno(E2BIG));
    }
    Ok(())
}
