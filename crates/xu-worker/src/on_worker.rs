//! Whether the calling thread is a worker, which must not wait for requests.
//!
//! A waker, a destructor or a callback of the application's runs on a worker's thread. If it waited there for a request, the
//! worker would wait for itself: so what waits asks here before it sleeps. Failure kinds F4 and F7.

use core::cell::Cell;

std::thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Says that the calling thread is a worker, until this is dropped.
#[derive(Debug)]
pub(crate) struct OnWorker(());

impl OnWorker {
    pub(crate) fn begin() -> Self {
        IS_WORKER.set(true);
        Self(())
    }
}

impl Drop for OnWorker {
    fn drop(&mut self) {
        IS_WORKER.set(false);
    }
}

/// Whether the calling thread is a worker, which must not wait for a request. A caller's waker may run on one.
#[must_use]
pub fn is_worker_thread() -> bool {
    is_worker()
}

/// Whether the calling thread is a worker. Not known in a model, whose threads share one thread of the system.
pub(crate) fn is_worker() -> bool {
    !cfg!(loom) && IS_WORKER.get()
}
