//! What all devices of the driver share: claims of cores, the trace, the bugs.
//!
//! Lock order: each of these locks is taken last and alone.

use super::bug::Bug;
use super::claims::Claims;
use super::trace::{Event, Trace};
use crate::config::Config;
use parking_lot::Mutex;

/// What all devices share.
#[derive(Debug)]
pub(super) struct System {
    pub(super) config: Config,
    pub(super) claims: Mutex<Claims>,
    pub(super) bugs: Mutex<Vec<Bug>>,
    trace: Mutex<Trace>,
}

impl System {
    pub(super) fn new(config: Config) -> Self {
        Self {
            claims: Mutex::default(),
            bugs: Mutex::default(),
            trace: Mutex::new(Trace::new(config.trace_entries)),
            config,
        }
    }

    /// Records what happened. `node` is a device, `pid` a process, 0 for none.
    pub(super) fn record(&self, pid: u32, node: Option<u32>, event: Event) {
        self.trace.lock().push(pid, node, event);
    }

    pub(super) fn trace(&self) -> parking_lot::MutexGuard<'_, Trace> {
        self.trace.lock()
    }
}
