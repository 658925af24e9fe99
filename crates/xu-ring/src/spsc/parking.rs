//! Ends that can wait: for a value or for room, in a task or (with the feature `std`) in a thread.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! let (mut sender, mut receiver) = xu_ring::spsc::parking::channel::<u32>(4).unwrap();
//! let sending = std::thread::spawn(move || {
//!     for value in 0..100 {
//!         sender.send_blocking(value).expect("the receiver is there");
//!     }
//! });
//! let mut sum = 0;
//! while let Some(value) = receiver.recv_blocking() {
//!     sum += value;
//! }
//! assert_eq!(sum, 4950);
//! # sending.join().unwrap();
//! # }
//! ```
//!
//! The queue is the one of [`spsc`](super); the difference is that these ends change the state of a slot with a swap. An end
//! that wants to sleep leaves a mark in the very slot that it waits for. Mark and swap are read-modify-write operations on
//! one byte: if the swap comes later it finds the mark, and the sleeper is woken; if it comes earlier the mark is refused,
//! since the slot has changed, and nobody sleeps. Nobody pays for a wake-up where nobody waits.
//!
//! | first | then | what is ordered |
//! |---|---|---|
//! | the waker is left, then the mark (release) | the swap finds the mark (acquire) | the waker before the bell is rung |
//! | the swap (release) | a look at the slot (acquire) | the value, or its reading, as without waiting |
//! | the second waker, where a mark stands already | ringing | see below |
//! | an end closes, then rings | a waker is left, then the end is looked at | see below |
//!
//! In the last two rows neither side acquires what the other has released in the slot. There it is the bell that decides,
//! `AtomicWaker`, whose registering and ringing are acquiring and releasing operations on one word: if the ringing comes
//! later it finds the waker; if it comes earlier, the registering acquires what happened before it, and the look that follows
//! sees it. No model can kill a weaker mark, since loom's own waker orders more than `AtomicWaker` does.
//!
//! Waiting is fair only in that there is one end at each side. A future that is dropped has changed nothing, except that a
//! [`Sender::send`] takes its value with it: use [`Sender::ready`] where that matters.

use core::future::poll_fn;
use core::task::{Context, Poll};

use super::control::End;
use super::error::Full;
use super::heap::Heap;
use super::slot::{EMPTY, FULL};
use super::storage::Storage;
use super::{Consumer, Inline, Producer};
use crate::mutant::Mutant;

#[cfg(feature = "std")]
mod blocking;
#[cfg(feature = "std")]
pub use blocking::RecvTimeoutError;

/// Makes a queue of `capacity` slots on the heap, and returns its ends.
///
/// # Errors
/// As [`spsc::channel`](super::channel).
#[cfg(feature = "alloc")]
pub fn channel<T>(capacity: usize) -> Result<(Sender<T>, Receiver<T>), super::CapacityError> {
    let (producer, consumer) = super::channel(capacity)?;
    Ok((Sender { producer }, Receiver { consumer }))
}

/// The ends of a queue in place.
pub type InlineEnds<'a, T, const N: usize> =
    (Sender<T, &'a Inline<T, N>>, Receiver<T, &'a Inline<T, N>>);

/// The two ends of a queue in place; `None` while ends of either kind are left.
#[must_use]
pub fn split<T, const N: usize>(queue: &Inline<T, N>) -> Option<InlineEnds<'_, T, N>> {
    let (producer, consumer) = queue.split()?;
    Some((Sender { producer }, Receiver { consumer }))
}

/// The receiver is gone: nobody will receive any more. The value comes back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the receiver is gone")]
pub struct Closed<T>(pub T);

impl<T> Closed<T> {
    /// The value that was not taken.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> core::fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Closed").finish_non_exhaustive()
    }
}

/// The sender did not take the value; it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TrySendError<T> {
    /// There is no room now.
    #[error("the queue is full")]
    Full(T),
    /// The receiver is gone.
    #[error("the receiver is gone")]
    Closed(T),
}

impl<T> TrySendError<T> {
    /// The value that was not taken.
    #[must_use]
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> core::fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

/// There is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TryRecvError {
    /// There is none now.
    #[error("the queue is empty")]
    Empty,
    /// There will be none: the sender is gone.
    #[error("the queue is empty and the sender is gone")]
    Closed,
}

/// The end that sends, and can wait for room. Dropping it closes the queue: the receiver gets what is left, then `None`.
pub struct Sender<T, S: Storage<T> = Heap<T>> {
    producer: Producer<T, S>,
}

impl<T, S: Storage<T>> Sender<T, S> {
    /// Sends a value if there is room.
    ///
    /// # Errors
    /// [`TrySendError`] with the value.
    pub fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        if self.producer.is_abandoned() {
            return Err(TrySendError::Closed(value));
        }
        self.push(value)
            .map_err(|Full(value)| TrySendError::Full(value))
    }

    /// Sends a value, and waits for room if there is none.
    ///
    /// # Errors
    /// [`Closed`] with the value, when the receiver is gone.
    pub async fn send(&mut self, value: T) -> Result<(), Closed<T>> {
        let mut value = value;
        loop {
            match self.try_send(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(value)) => return Err(Closed(value)),
                Err(TrySendError::Full(back)) => value = back,
            }
            // `Closed` is found out at the next try, which returns the value.
            let _ = self.ready().await;
        }
    }

    /// Waits until there is room: then the next [`Sender::try_send`] finds it.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub async fn ready(&mut self) -> Result<(), Closed<()>> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// [`Sender::ready`], to be polled by hand. The task of the latest call is woken.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Closed<()>>> {
        let control = self.producer.control();
        if !control.is_open(End::Consumer) {
            return Poll::Ready(Err(Closed(())));
        }
        if !self.producer.is_full() {
            return Poll::Ready(Ok(()));
        }
        control.wait(End::Producer, context.waker());
        if !self.producer.slot().wait_until_not(FULL) {
            return Poll::Ready(Ok(()));
        }
        // Only now: a receiver that goes after this look rings the bell.
        if control.is_open(End::Consumer) {
            Poll::Pending
        } else {
            Poll::Ready(Err(Closed(())))
        }
    }

    /// Whether the receiver is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.producer.is_abandoned()
    }

    /// Whether there is no room now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.producer.is_full()
    }

    /// How many values are in the queue, at most: see [`Producer::len`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.producer.len()
    }

    /// Whether the receiver has received everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producer.is_empty()
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.producer.capacity()
    }

    fn push(&mut self, value: T) -> Result<(), Full<T>> {
        if self.producer.push_and_look(value)? {
            self.producer.control().bell(End::Consumer).wake();
        }
        Ok(())
    }
}

/// The end that receives, and can wait for a value. Dropping it closes the queue: the sender gets its values back.
pub struct Receiver<T, S: Storage<T> = Heap<T>> {
    consumer: Consumer<T, S>,
}

impl<T, S: Storage<T>> Receiver<T, S> {
    /// Receives the oldest value, if there is one.
    ///
    /// # Errors
    /// [`TryRecvError`].
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if let Some(value) = self.pop() {
            return Ok(value);
        }
        if self.consumer.control().is_open(End::Producer) {
            return Err(TryRecvError::Empty);
        }
        // It may have sent between the two looks.
        self.pop().ok_or(TryRecvError::Closed)
    }

    /// Receives the oldest value, and waits for one if there is none; `None` when the sender is gone and nothing is left.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// [`Receiver::recv`], to be polled by hand. The task of the latest call is woken.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        match self.try_recv() {
            Ok(value) => return Poll::Ready(Some(value)),
            Err(TryRecvError::Closed) => return Poll::Ready(None),
            Err(TryRecvError::Empty) => {}
        }
        let control = self.consumer.control();
        control.wait(End::Consumer, context.waker());
        let may_sleep = if Mutant::SpscNoSecondLook.is_seeded() {
            true
        } else {
            // Only then: a sender that goes after this look rings the bell.
            self.consumer.slot().wait_until_not(EMPTY) && control.is_open(End::Producer)
        };
        if may_sleep {
            return Poll::Pending;
        }
        match self.try_recv() {
            Ok(value) => Poll::Ready(Some(value)),
            // The slot has changed, or the sender is gone.
            Err(_) => Poll::Ready(None),
        }
    }

    /// The oldest value, which stays; `None` when there is none now.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.consumer.peek()
    }

    /// Whether the sender is gone. Values may be left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.consumer.is_abandoned()
    }

    /// Whether there is no value now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consumer.is_empty()
    }

    /// How many values are in the queue, at least: see [`Consumer::len`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.consumer.len()
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.consumer.capacity()
    }

    fn pop(&mut self) -> Option<T> {
        let (value, is_awaited) = self.consumer.pop_and_look()?;
        if is_awaited {
            self.consumer.control().bell(End::Producer).wake();
        }
        Some(value)
    }
}

impl<T, S: Storage<T>> core::fmt::Debug for Sender<T, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Sender").field(&self.producer).finish()
    }
}

impl<T, S: Storage<T>> core::fmt::Debug for Receiver<T, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Receiver").field(&self.consumer).finish()
    }
}
