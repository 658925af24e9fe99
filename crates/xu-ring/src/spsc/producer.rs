//! The end that pushes.

use core::fmt;

use super::control::End;
use super::error::Full;
use super::heap::Heap;
use super::storage::{Storage, Track};

/// The end that pushes.
///
/// There is one per queue: it is `Send` (if `T` is) and neither `Clone` nor `Sync`. Dropping it leaves what it pushed to the
/// consumer, which sees [`Consumer::is_abandoned`](super::Consumer::is_abandoned).
///
/// ```compile_fail,E0599
/// let (producer, consumer) = xu_ring::spsc::channel::<u32>(8).unwrap();
/// let second = producer.clone(); // There is one producer.
/// ```
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>(_: &T) {}
/// let (producer, consumer) = xu_ring::spsc::channel::<u32>(8).unwrap();
/// is_sync(&producer); // Two threads cannot push at once.
/// ```
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>(_: &T) {}
/// let (producer, consumer) = xu_ring::spsc::channel::<std::rc::Rc<u32>>(8).unwrap();
/// is_send(&producer); // The value cannot leave its thread, so the end cannot either.
/// ```
pub struct Producer<T, S: Storage<T> = Heap<T>> {
    track: Track<T, S>,
}

impl<T, S: Storage<T>> Producer<T, S> {
    pub(crate) const fn new(track: Track<T, S>) -> Self {
        Self { track }
    }

    /// Pushes a value, which the consumer can see at once.
    ///
    /// # Errors
    /// [`Full`] when there is no room; the value comes back.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        let slot = self.track.slot();
        if slot.is_full_for_producer() {
            return Err(Full(value));
        }
        // SAFETY: we are the producer, and the slot is empty.
        unsafe { slot.fill(value) };
        self.track.advance();
        Ok(())
    }

    /// Pushes copies of the first values of `values` until there is no room, and returns how many.
    ///
    /// The consumer sees each value as soon as it is pushed.
    pub fn push_slice(&mut self, values: &[T]) -> usize
    where
        T: Copy,
    {
        let mut left = values.iter();
        self.track.visit(|slot| {
            if slot.is_full_for_producer() {
                return false;
            }
            let Some(value) = left.next() else {
                return false;
            };
            // SAFETY: we are the producer, and the slot is empty.
            unsafe { slot.fill(*value) };
            true
        });
        values.len() - left.len()
    }

    /// Pushes values until there are no more or there is no room, and returns how many.
    ///
    /// It looks for room before it asks for a value, so none is lost: to go on later, pass `iter.by_ref()`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mut producer, mut consumer) = xu_ring::spsc::channel(2)?;
    /// let mut values = 1..=3;
    /// assert_eq!(producer.push_iter(values.by_ref()), 2);
    /// assert_eq!(consumer.pop(), Some(1));
    /// assert_eq!(producer.push_iter(values), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn push_iter(&mut self, values: impl IntoIterator<Item = T>) -> usize {
        let mut values = values.into_iter();
        let mut pushed = 0;
        self.track.visit(|slot| {
            if slot.is_full_for_producer() {
                return false;
            }
            let Some(value) = values.next() else {
                return false;
            };
            // SAFETY: we are the producer, and the slot is empty.
            unsafe { slot.fill(value) };
            pushed += 1;
            true
        });
        pushed
    }

    /// Whether a push would fail now. The consumer may change that at any time.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.track.slot().is_full_for_producer()
    }

    /// Whether the consumer has popped everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values are in the queue: at most so many, since the consumer goes on.
    ///
    /// It looks at about log2(capacity) slots. No count is kept, since keeping one would cost every push a second line.
    #[must_use]
    pub fn len(&self) -> usize {
        self.capacity() - self.vacant_len()
    }

    /// How many values there is room for: at least so many. A search, as [`Producer::len`].
    #[must_use]
    pub fn vacant_len(&self) -> usize {
        self.track.count_mine(|slot| !slot.is_full_for_producer())
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.track.count()
    }

    /// Whether the consumer is gone: nobody will pop any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        !self.track.control().is_open(End::Consumer)
    }

    /// The slot of the next push.
    #[cfg(feature = "async")]
    pub(crate) fn slot(&self) -> &super::slot::Slot<T> {
        self.track.slot()
    }

    #[cfg(feature = "async")]
    pub(crate) fn control(&self) -> &super::control::Control {
        self.track.control()
    }

    /// As [`Producer::push`]; says whether the consumer waits for it.
    #[cfg(feature = "async")]
    pub(crate) fn push_and_look(&mut self, value: T) -> Result<bool, Full<T>> {
        let slot = self.track.slot();
        if slot.is_full_for_producer() {
            return Err(Full(value));
        }
        // SAFETY: we are the producer, and the slot is empty.
        let is_awaited = unsafe { slot.fill_and_look(value) };
        self.track.advance();
        Ok(is_awaited)
    }
}

impl<T, S: Storage<T>> Drop for Producer<T, S> {
    fn drop(&mut self) {
        self.track.leave(End::Producer);
    }
}

impl<T, S: Storage<T>> fmt::Debug for Producer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("capacity", &self.capacity())
            .field("is_full", &self.is_full())
            .finish_non_exhaustive()
    }
}
