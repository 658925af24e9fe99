//! Wake a caller's task without letting it harm the thread that wakes it.
//!
//! Used by completions and rooms, with no lock of ours held. Failure kinds F4 and W7.

use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Wakes. A waker is foreign code: a panic in it is reported by the panic hook and ends there.
pub(crate) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}
