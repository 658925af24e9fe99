//! Wake a caller's task without letting it harm the thread that wakes it.
//!
//! Used by completions and rooms, with no lock of ours held. Failure kinds F4 and W7.

use core::any::Any;
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Wakes. A waker is foreign code: a panic in it is reported by the panic hook and ends there.
pub(crate) fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        discard(payload);
    }
}

/// Gets rid of what a panic threw. But for a message it is forgotten: its destructor is foreign code too, and could panic
/// again.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if payload.is::<&'static str>() || payload.is::<String>() {
        drop(payload);
    } else {
        core::mem::forget(payload);
    }
}

/// Drops what is the caller's. A panic in its destructor ends here.
pub(crate) fn drop_foreign<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        discard(payload);
    }
}
