//! Slots in place: a queue of fixed capacity in a `static`, on a stack, or inside another struct.

use core::fmt;
use core::ptr::NonNull;

use super::control::{Control, End};
use super::slot::Slot;
use super::storage::{Run, Track, drop_values, sealed};
use super::{InlineConsumer, InlineProducer};

/// A queue of `N` slots that needs no allocator.
///
/// It takes no more memory than it needs: its slots stand close together, wherever it is put, and its control words next to
/// them. A queue on the heap keeps slots from lying across two lines, and the control words away from them.
///
/// It holds the slots; [`Inline::split`] gives its two ends, which borrow it. A capacity of 0 does not compile.
///
/// ```
/// use xu_ring::spsc::Inline;
///
/// static QUEUE: Inline<u32, 4> = Inline::new();
///
/// let (mut producer, mut consumer) = QUEUE.split().expect("nobody else has split it");
/// producer.push(7).expect("room for four");
/// assert_eq!(consumer.pop(), Some(7));
/// assert!(QUEUE.split().is_none(), "there is one producer and one consumer");
/// ```
///
/// ```compile_fail,E0080
/// let queue = xu_ring::spsc::Inline::<u32, 0>::new();
/// ```
pub struct Inline<T, const N: usize> {
    control: Control,
    slots: [Slot<T>; N],
}

// SAFETY: shared, it gives out at most one pair of ends, which move values between their threads by the hand-over rule:
//   that needs `T: Send`, and nothing more. The control words are atomic.
unsafe impl<T: Send, const N: usize> Sync for Inline<T, N> {}

impl<T, const N: usize> Inline<T, N> {
    const NOT_EMPTY: () = assert!(N > 0, "a queue needs a capacity of at least 1");

    /// An empty queue.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        let () = Self::NOT_EMPTY;
        Self {
            control: Control::unclaimed(),
            slots: [const { Slot::empty() }; N],
        }
    }

    /// An empty queue that loom can watch.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        let () = Self::NOT_EMPTY;
        Self {
            control: Control::unclaimed(),
            slots: core::array::from_fn(|_| Slot::empty()),
        }
    }

    /// The two ends; `None` while one of an earlier pair is left.
    ///
    /// A new pair goes on where the last one stopped, with the values that it left.
    #[must_use]
    pub fn split(&self) -> Option<(InlineProducer<'_, T, N>, InlineConsumer<'_, T, N>)> {
        self.control.claim().then(|| {
            // SAFETY: no end is left, and both places are where the last ones stood.
            let producer = unsafe { Track::new(self, self.control.left_at(End::Producer)) };
            // SAFETY: as above.
            let consumer = unsafe { Track::new(self, self.control.left_at(End::Consumer)) };
            (InlineProducer::new(producer), InlineConsumer::new(consumer))
        })
    }
}

impl<T, const N: usize> Default for Inline<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Drops the values that are left, oldest first.
impl<T, const N: usize> Drop for Inline<T, N> {
    fn drop(&mut self) {
        let oldest = self.control.left_at(End::Consumer);
        // SAFETY: the ends borrow the queue, so none is left. (One that was forgotten cannot be used any more.)
        unsafe { drop_values(sealed::Storage::run(&&*self), oldest) };
    }
}

impl<T, const N: usize> fmt::Debug for Inline<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inline")
            .field("capacity", &N)
            .finish_non_exhaustive()
    }
}

// SAFETY: the queue is borrowed, so it stays where it is; its slots and control words are initialised by `new`.
unsafe impl<T, const N: usize> sealed::Storage<T> for &Inline<T, N> {
    fn run(&self) -> Run<T> {
        Run {
            first: NonNull::from(&self.slots).cast(),
            count: N,
            stride: size_of::<Slot<T>>(),
        }
    }

    fn control(&self) -> &Control {
        &self.control
    }

    unsafe fn release(&self) {
        // The owner of the queue drops what is left.
    }
}
