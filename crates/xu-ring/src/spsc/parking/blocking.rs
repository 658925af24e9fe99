//! Waiting in a thread: a short spin, then sleep.
#![forbid(unsafe_code)]

extern crate std;

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::hint::spin_loop;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::{Closed, Receiver, Sender, Storage, TryRecvError, TrySendError};

/// No value came in time, or none will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RecvTimeoutError {
    /// None came in time.
    #[error("no value came in time")]
    Timeout,
    /// There will be none: the sender is gone.
    #[error("the queue is empty and the sender is gone")]
    Closed,
}

impl<T, S: Storage<T>> Sender<T, S> {
    /// Sends a value, and lets the thread sleep while there is no room.
    ///
    /// # Errors
    /// [`Closed`] with the value, when the receiver is gone.
    pub fn send_blocking(&mut self, value: T) -> Result<(), Closed<T>> {
        let mut value = value;
        for _ in 0..SPINS {
            match self.try_send(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(value)) => return Err(Closed(value)),
                Err(TrySendError::Full(back)) => value = back,
            }
            spin_loop();
        }
        let mut sending = pin!(self.send(value));
        match sleep_until(None, |context| sending.as_mut().poll(context)) {
            Some(sent) => sent,
            None => unreachable!("there is no deadline"),
        }
    }
}

impl<T, S: Storage<T>> Receiver<T, S> {
    /// Receives the oldest value, and lets the thread sleep while there is none; `None` when the sender is gone and nothing
    /// is left.
    pub fn recv_blocking(&mut self) -> Option<T> {
        match self.spin() {
            Ok(value) => Some(value),
            Err(TryRecvError::Closed) => None,
            Err(TryRecvError::Empty) => {
                sleep_until(None, |context| self.poll_recv(context)).flatten()
            }
        }
    }

    /// As [`Receiver::recv_blocking`], for at most `timeout`.
    ///
    /// # Errors
    /// [`RecvTimeoutError`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        match self.spin() {
            Ok(value) => return Ok(value),
            Err(TryRecvError::Closed) => return Err(RecvTimeoutError::Closed),
            Err(TryRecvError::Empty) => {}
        }
        // A time that the clock cannot express never comes.
        let deadline = Instant::now().checked_add(timeout);
        match sleep_until(deadline, |context| self.poll_recv(context)) {
            Some(Some(value)) => Ok(value),
            Some(None) => Err(RecvTimeoutError::Closed),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    fn spin(&mut self) -> Result<T, TryRecvError> {
        for _ in 0..SPINS {
            match self.try_recv() {
                Err(TryRecvError::Empty) => spin_loop(),
                result => return result,
            }
        }
        Err(TryRecvError::Empty)
    }
}

/// Looks before a thread sleeps: a few hundred nanoseconds, what a value needs from a busy core. More would burn the time
/// that the other end needs where both share a core.
const SPINS: u32 = 32;

/// Wakes a thread.
struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // PAIRS: with the swap in `sleep_until`; a token of somebody else's `unpark` is not mistaken for ours.
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls until it is ready; sleeps between two polls until it is woken. `None`: the deadline passed first.
fn sleep_until<R>(
    deadline: Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>,
) -> Option<R> {
    let parked = Arc::new(Parked {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(parked.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = poll(&mut context) {
            return Some(result);
        }
        // PAIRS: with the store in `wake_by_ref`.
        while !parked.is_woken.swap(false, Ordering::Acquire) {
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => thread::park_timeout(left),
            }
        }
    }
}
