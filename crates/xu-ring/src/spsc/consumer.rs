//! The end that pops.

use core::fmt;
use core::iter::FusedIterator;

use super::control::End;
use super::heap::Heap;
use super::slot::Slot;
use super::storage::{Storage, Track};

/// The end that pops.
///
/// There is one per queue: it is `Send` (if `T` is) and neither `Clone` nor `Sync`. When both ends are gone, the values that
/// are left are dropped, oldest first.
///
/// ```compile_fail,E0505
/// let (producer, mut consumer) = xu_ring::spsc::channel::<u32>(8).unwrap();
/// let first = consumer.peek();
/// drop(consumer); // A view does not outlive the end that it came from.
/// drop(first);
/// ```
///
/// ```compile_fail,E0502
/// let (producer, mut consumer) = xu_ring::spsc::channel::<u32>(8).unwrap();
/// let first = consumer.peek();
/// consumer.pop(); // The value is borrowed.
/// drop(first);
/// ```
pub struct Consumer<T, S: Storage<T> = Heap<T>> {
    track: Track<T, S>,
}

impl<T, S: Storage<T>> Consumer<T, S> {
    pub(crate) const fn new(track: Track<T, S>) -> Self {
        Self { track }
    }

    /// Pops the oldest value; `None` when there is none.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let slot = self.track.slot();
        if !slot.is_full_for_consumer() {
            return None;
        }
        // SAFETY: we are the consumer, and the slot is full.
        let value = unsafe { slot.vacate() };
        self.track.advance();
        Some(value)
    }

    /// The oldest value, which stays.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        let slot = self.track.slot();
        if !slot.is_full_for_consumer() {
            return None;
        }
        // SAFETY: we are the consumer, and the slot is full; it stays so while `self` is borrowed, since popping and
        //   `peek_mut` need `&mut self`.
        Some(unsafe { slot.value() })
    }

    /// The oldest value, to be changed in place.
    #[inline]
    #[must_use]
    pub fn peek_mut(&mut self) -> Option<&mut T> {
        let slot = self.track.slot();
        if !slot.is_full_for_consumer() {
            return None;
        }
        // SAFETY: we are the consumer, and the slot is full; `self` is borrowed mutably, so nobody else looks.
        Some(unsafe { slot.value_mut() })
    }

    /// Pops values into the first places of `values` until there are no more, and returns how many.
    pub fn pop_slice(&mut self, values: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut left = values.iter_mut();
        self.track.visit(|slot| {
            if !slot.is_full_for_consumer() {
                return false;
            }
            let Some(place) = left.next() else {
                return false;
            };
            // SAFETY: we are the consumer, and the slot is full.
            *place = unsafe { slot.vacate() };
            true
        });
        let left = left.len();
        values.len() - left
    }

    /// Pops at most `max` values, each when the iterator is asked for it, and ends at the first look that finds none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mut producer, mut consumer) = xu_ring::spsc::channel(8)?;
    /// producer.push_iter(1..=5);
    /// assert_eq!(consumer.pop_iter(3).sum::<u32>(), 6);
    /// assert_eq!(consumer.pop_iter(usize::MAX).collect::<Vec<_>>(), [4, 5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pop_iter(&mut self, max: usize) -> PopIter<'_, T, S> {
        PopIter {
            consumer: self,
            left: max,
        }
    }

    /// Whether a pop would find nothing now. The producer may change that at any time.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.track.slot().is_full_for_consumer()
    }

    /// How many values are in the queue: at least so many, since the producer goes on.
    ///
    /// It looks at about log2(capacity) slots. No count is kept, since keeping one would cost every push a second line.
    #[must_use]
    pub fn len(&self) -> usize {
        self.track.count_mine(Slot::is_full_for_consumer)
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.track.count()
    }

    /// Whether the producer is gone. What it pushed before is visible: once the queue is empty *after* this was `true`, it
    /// stays empty.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        !self.track.control().is_open(End::Producer)
    }

    /// The slot of the next pop.
    #[cfg(feature = "async")]
    pub(crate) fn slot(&self) -> &super::slot::Slot<T> {
        self.track.slot()
    }

    #[cfg(feature = "async")]
    pub(crate) fn control(&self) -> &super::control::Control {
        self.track.control()
    }

    /// As [`Consumer::pop`]; says also whether the producer waits for room.
    #[cfg(feature = "async")]
    pub(crate) fn pop_and_look(&mut self) -> Option<(T, bool)> {
        let slot = self.track.slot();
        if !slot.is_full_for_consumer() {
            return None;
        }
        // SAFETY: we are the consumer, and the slot is full.
        let popped = unsafe { slot.vacate_and_look() };
        self.track.advance();
        Some(popped)
    }
}

impl<T, S: Storage<T>> Drop for Consumer<T, S> {
    fn drop(&mut self) {
        self.track.leave(End::Consumer);
    }
}

impl<T, S: Storage<T>> fmt::Debug for Consumer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("capacity", &self.capacity())
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}

/// Pops values one by one; made by [`Consumer::pop_iter`].
///
/// Dropping it leaves the rest in the queue.
#[must_use = "values stay in the queue until they are asked for"]
pub struct PopIter<'a, T, S: Storage<T> = Heap<T>> {
    consumer: &'a mut Consumer<T, S>,
    left: usize,
}

impl<T, S: Storage<T>> Iterator for PopIter<'_, T, S> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        let value = self.consumer.pop();
        self.left = if value.is_some() { self.left - 1 } else { 0 };
        value
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

impl<T, S: Storage<T>> FusedIterator for PopIter<'_, T, S> {}

impl<T, S: Storage<T>> fmt::Debug for PopIter<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PopIter")
            .field("consumer", &self.consumer)
            .field("left", &self.left)
            .finish()
    }
}
