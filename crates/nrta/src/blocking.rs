//! Streams for a thread without an executor.
//!
//! Made by [`Completions::blocking`](crate::Completions::blocking) and [`HealthWatch::blocking`](crate::HealthWatch::blocking).

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use futures_core::Stream;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};
use xu_worker::is_worker_thread;

/// A stream of this crate as an iterator that blocks until there is an item.
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is asked"]
pub struct Blocking<S>(pub(crate) S);

impl<S: Stream + Unpin> Iterator for Blocking<S> {
    type Item = S::Item;

    fn next(&mut self) -> Option<S::Item> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self.0).poll_next(&mut cx) {
                Poll::Ready(item) => return item,
                Poll::Pending if is_worker_thread() => return None,
                // The waker unparks; other reasons to wake up cost one look.
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
