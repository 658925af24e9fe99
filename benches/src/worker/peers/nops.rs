//! `io_uring` with requests that do nothing: the kernel answers them within the call, so there is no second thread.

use io_uring::{IoUring, opcode};

use crate::pin::Pair;
use crate::worker::service::{Caller, Service};

/// A power of two, more than the deepest loop has outstanding.
const ENTRIES: u32 = 64;

/// Waits until any request is complete.
pub(crate) struct Any;

/// Waits until all are.
pub(crate) struct All;

pub(crate) struct Asking {
    ring: IoUring,
    outstanding: usize,
    waits_for_all: bool,
}

impl Asking {
    fn new(waits_for_all: bool) -> Option<Self> {
        Some(Self {
            ring: IoUring::new(ENTRIES).ok()?,
            outstanding: 0,
            waits_for_all,
        })
    }
}

impl Service for Any {
    type Caller = Asking;

    fn start(_: Pair) -> Option<Asking> {
        Asking::new(false)
    }
}

impl Service for All {
    type Caller = Asking;

    fn start(_: Pair) -> Option<Asking> {
        Asking::new(true)
    }
}

impl Caller for Asking {
    #[inline]
    fn submit(&mut self) {
        let nop = opcode::Nop::new().build();
        // SAFETY: the entry refers to no memory.
        let pushed = unsafe { self.ring.submission().push(&nop) };
        assert!(
            pushed.is_ok(),
            "the queue has room for all that are outstanding"
        );
        self.outstanding += 1;
    }

    #[inline]
    fn wait(&mut self) -> usize {
        let wanted = if self.waits_for_all {
            self.outstanding
        } else {
            1
        };
        // A signal may end the call early: then there is nothing, or less.
        let _ = self.ring.submit_and_wait(wanted);
        let completed = self.ring.completion().count();
        self.outstanding -= completed;
        completed
    }

    fn stop(self) {}
}
