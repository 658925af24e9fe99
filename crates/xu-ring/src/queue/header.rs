//! The 256 bytes that say whose a ring is and how far it is: `xu_abi::QueueHeader`, as atomics.
//!
//! ```text
//!   0x00 xu_id  0x08 buffer  0x10 capacity      written when a ring begins and when it is gone
//!   0x40 completed                              written by the work half
//!   0x80 triggered, 0xC0 submitted              written by the submit half
//! ```
//!
//! Every ring has one: [`ring`](super::ring) makes it, [`ring_in`](super::ring_in) is given one that lies in somebody else's
//! memory. A header without a ring is all zero; `buffer` says whether it has one, since it is what a new ring claims.
//! Layout: spec `xu.md` section 2.1.

use core::fmt;
use core::ptr::{self, NonNull};

use xu_abi::XuId;

use super::observer::Snapshot;
use super::order;
use crate::sync::{AtomicPtr, AtomicU16, AtomicU64, Ordering};

/// Where a ring says who it is and how far it is, for the ring's ends and for whoever looks at the memory.
///
/// One that you make is empty; [`ring_in`](super::ring_in) puts a ring into it, and when the last end of that ring is gone it
/// is empty again. Nobody but a ring changes it.
///
/// ```
/// use std::sync::Arc;
/// use xu_abi::XuId;
/// use xu_ring::queue::{Header, ring_in};
///
/// #[derive(Default)]
/// struct Unit { health: u32, work_queue: Header }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let unit = Arc::new(Unit::default());
/// let xu = XuId::from_raw(0x0301);
/// let (mut submitter, _worker, observer) = ring_in(xu, 8, unit.clone(), |unit| &unit.work_queue)?;
/// submitter.submit(Box::new("run the model"))?;
/// assert_eq!(unit.work_queue.snapshot(), Some(observer.snapshot()));
/// drop((submitter, _worker, observer));
/// assert!(!unit.work_queue.is_in_use());
/// # Ok(())
/// # }
/// ```
#[repr(C, align(64))]
pub struct Header {
    xu_id: AtomicU16,
    _pad_02: [u8; 6],
    /// Of the first slot. Never followed: it says whether there is a ring.
    buffer: AtomicPtr<()>,
    capacity: AtomicU64,
    _pad_18: [u8; 40],
    /// `exec_head`: the first request that is not complete. 0 without a ring.
    pub(super) completed: AtomicU64,
    _pad_48: [u8; 56],
    /// `scheduled_head`: the first request that the worker may not see yet.
    pub(super) triggered: AtomicU64,
    _pad_88: [u8; 56],
    /// `scheduled_tail`: the number that the next request gets.
    pub(super) submitted: AtomicU64,
    _pad_c8: [u8; 56],
}

// Loom's atomics are bigger than the words they stand for.
#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    use xu_abi::QueueHeader;

    assert!(size_of::<Header>() == size_of::<QueueHeader>());
    assert!(align_of::<Header>() == align_of::<QueueHeader>());
    assert!(offset_of!(Header, xu_id) == offset_of!(QueueHeader, xu_id));
    assert!(offset_of!(Header, buffer) == offset_of!(QueueHeader, buffer));
    assert!(offset_of!(Header, capacity) == offset_of!(QueueHeader, capacity));
    assert!(offset_of!(Header, completed) == offset_of!(QueueHeader, exec_head));
    assert!(offset_of!(Header, triggered) == offset_of!(QueueHeader, scheduled_head));
    assert!(offset_of!(Header, submitted) == offset_of!(QueueHeader, scheduled_tail));
};

/// A header without cursors; a constant expression where atomics can be made in one.
macro_rules! header {
    ($buffer:expr) => {
        Self {
            xu_id: AtomicU16::new(0),
            _pad_02: [0; 6],
            buffer: AtomicPtr::new($buffer),
            capacity: AtomicU64::new(0),
            _pad_18: [0; 40],
            completed: AtomicU64::new(0),
            _pad_48: [0; 56],
            triggered: AtomicU64::new(0),
            _pad_88: [0; 56],
            submitted: AtomicU64::new(0),
            _pad_c8: [0; 56],
        }
    };
}

impl Header {
    /// A header without a ring.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        header!(ptr::null_mut())
    }

    /// A header without a ring, that loom can watch.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        header!(ptr::null_mut())
    }

    /// A header that belongs to a ring whose slots begin at `buffer`, as if it had claimed it.
    pub(super) fn claimed(buffer: NonNull<()>) -> Self {
        header!(buffer.as_ptr())
    }

    /// Whether there is a ring, or one is being made or unmade.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        // Relaxed: whoever wants the header has to claim it, which orders.
        !self.buffer.load(Ordering::Relaxed).is_null()
    }

    /// The queue of the ring; `None` without one.
    ///
    /// As all that a header says: where a ring goes during the call and another comes, either may answer.
    #[must_use]
    pub fn xu(&self) -> Option<XuId> {
        // Relaxed: ordered by `has_begun`.
        self.has_begun()
            .then(|| XuId::from_raw(self.xu_id.load(Ordering::Relaxed)))
    }

    /// The number of slots of the ring; `None` without one.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        // Relaxed: ordered by `has_begun`. Zero: the ring went meanwhile.
        self.has_begun()
            .then(|| self.capacity.load(Ordering::Relaxed))
            .filter(|&capacity| capacity > 0)
    }

    /// The three cursors, as [`Observer::snapshot`](super::Observer::snapshot) loads them; `None` without a ring, and when the
    /// ring came or went between the loads so that they do not fit each other.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let completed = self.completed_for_observer();
        let triggered = self.triggered_for_observer();
        let submitted = self.submitted_for_observer();
        let is_sound = 0 < completed && completed <= triggered && triggered <= submitted;
        is_sound.then(|| Snapshot::new(completed, triggered, submitted))
    }

    /// Whether there is a ring, all of whose words are there.
    fn has_begun(&self) -> bool {
        self.completed_for_observer() > 0
    }

    /// The completed cursor, for telling others about it.
    #[inline]
    pub(super) fn completed_for_observer(&self) -> u64 {
        // PAIRS: with the release store in `Memory::publish_completed`; orders all that the worker did for a request, its
        //   status above all, before the news that it is complete. Also every older value of the other two cursors.
        //   With the one in `begin`: orders the other words of the header.
        self.completed.load(order::completed_load_by_observer())
    }

    /// The triggered cursor, for telling others about it.
    #[inline]
    pub(super) fn triggered_for_observer(&self) -> u64 {
        // PAIRS: with the release store in `Memory::publish_triggered`; whoever then loads `submitted` finds at least this
        //   value.
        self.triggered.load(order::triggered_load())
    }

    /// The submitted cursor, for telling others about it and for finding the slots before it.
    #[inline]
    pub(super) fn submitted_for_observer(&self) -> u64 {
        // PAIRS: with the release store in `Memory::publish_submitted`; orders `seq` and the reset of `waiter` before the
        //   number is known to anybody.
        self.submitted.load(order::submitted_load())
    }

    /// Takes the header for a ring whose slots begin at `buffer`; `false` when it is taken.
    pub(super) fn claim(&self, buffer: NonNull<()>) -> bool {
        // PAIRS: with the release store in `clear`; orders all that was done through the last ring before the next one.
        //   Relaxed where it fails: nothing follows from that.
        self.buffer
            .compare_exchange(
                ptr::null_mut(),
                buffer.as_ptr(),
                order::header_claim(),
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Says what ring this is: an empty one, whose first request gets the number `start`.
    ///
    /// # Safety
    /// * The caller has claimed the header, and no end of its ring exists yet.
    pub(super) unsafe fn begin(&self, xu: XuId, capacity: u64, start: u64) {
        // Relaxed: ordered by `completed`, which comes last.
        self.xu_id.store(xu.raw(), Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.submitted.store(start, Ordering::Relaxed);
        self.triggered.store(start, Ordering::Relaxed);
        // PAIRS: with the acquire load in `completed_for_observer`, of those who have the header and no end.
        self.completed.store(start, order::completed_store());
    }

    /// Makes the header empty, for the next ring.
    ///
    /// # Safety
    /// * The caller has claimed the header, and every end of its ring is gone.
    pub(super) unsafe fn clear(&self) {
        // Relaxed: who looks meanwhile sees cursors that do not fit, or none.
        for word in [
            &self.completed,
            &self.triggered,
            &self.submitted,
            &self.capacity,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.xu_id.store(0, Ordering::Relaxed);
        // PAIRS: with the acquire of `claim`.
        self.buffer.store(ptr::null_mut(), order::header_clear());
    }
}

/// As [`Header::new`].
impl Default for Header {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("xu", &self.xu())
            .field("capacity", &self.capacity())
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const XU: XuId = XuId::from_raw(0x0301);

    #[test]
    fn empty_header_says_nothing() {
        static HEADER: Header = Header::new();
        assert!(!HEADER.is_in_use());
        assert_eq!((HEADER.xu(), HEADER.capacity()), (None, None));
        assert_eq!(HEADER.snapshot(), None);
    }

    #[test]
    fn header_is_claimed_once_until_it_is_cleared() {
        let header = Header::new();
        let buffer = NonNull::dangling();
        assert!(header.claim(buffer));
        assert!(!header.claim(buffer), "it is taken");
        assert!(header.is_in_use());
        assert_eq!(header.xu(), None, "no ring has begun");
        // SAFETY: claimed above, and there is no end.
        unsafe { header.begin(XU, 8, 5) };
        assert_eq!((header.xu(), header.capacity()), (Some(XU), Some(8)));
        assert_eq!(header.snapshot(), Some(Snapshot::new(5, 5, 5)));
        // SAFETY: as above.
        unsafe { header.clear() };
        assert!(!header.is_in_use());
        assert_eq!(header.snapshot(), None);
        assert!(header.claim(buffer), "it is free again");
    }

    #[test]
    fn cursors_that_do_not_fit_are_no_snapshot() {
        let header = Header::new();
        for cursors in [[5, 1, 1], [5, 5, 1], [1, 5, 0]] {
            let words = [&header.completed, &header.triggered, &header.submitted];
            for (word, cursor) in words.into_iter().zip(cursors) {
                word.store(cursor, Ordering::Relaxed);
            }
            assert_eq!(header.snapshot(), None, "{cursors:?}");
        }
    }
}
