//! Whether this process was forked while runtimes were open: such a child opens none of its own.
//!
//! Asked by [`Builder::open`](crate::Builder::open), told by the runtime. What the inherited runtimes wait with, their locks and the
//! threads that were parked in them, is in the child's memory, but nobody there is alive: a new runtime would sooner or later wait
//! for one of them. Handles of the inherited ones have their own fence ([`HereOnly`](xu_worker::here_only::HereOnly)).

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// How many runtimes are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// The process that has opened them.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// Whether some are open that another process has opened.
pub(crate) fn are_open() -> bool {
    // Relaxed: a child has one thread, and sees what its parent's forking thread saw.
    OPEN.load(Ordering::Relaxed) > 0 && OPENER.load(Ordering::Relaxed) != std::process::id()
}

/// One more is open.
pub(crate) fn opened() {
    OPENER.store(std::process::id(), Ordering::Relaxed);
    OPEN.fetch_add(1, Ordering::Relaxed);
}

/// One has gone, in the process that has opened it.
pub(crate) fn gone() {
    OPEN.fetch_sub(1, Ordering::Relaxed);
}
