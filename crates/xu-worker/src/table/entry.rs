//! One unit in memory: the words, locks and ring header that the ABI puts into 576 bytes.
//!
//! [`UnitTable`](super::UnitTable) has many of them. Layout: spec `xu.md` sections 2.3 and 2.4, `xu_abi::unit`.

use crate::sync::{AtomicI32, AtomicU32, Mutex, MutexGuard, Ordering};
use core::fmt;
// No model looks at these.
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU64};
use xu_abi::XuId;
use xu_ring::queue::Header;

/// A lock's area: 40 bytes with a lock in them, and with the address of what it covers.
///
/// The lock is at the end: the areas of submitting and of completing share a cache line, and only the last 16 bytes of
/// the second are in the next one. Submitters and the worker would take that line from each other for every request.
#[repr(C)]
pub struct LockArea<T> {
    _pad: [u64; 3],
    lock: Mutex<Option<Box<T>>>,
}

impl<T> LockArea<T> {
    pub(super) fn new() -> Self {
        Self {
            _pad: [0; 3],
            lock: Mutex::new(None),
        }
    }

    /// Waits for the lock; `None` in it while there is no unit.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Box<T>>> {
        self.lock.lock()
    }

    /// Takes out what the lock covers, and lets it go without the lock.
    pub(super) fn empty(&self) {
        let covered = self.lock().take();
        drop(covered);
    }
}

impl<T> fmt::Debug for LockArea<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockArea").finish_non_exhaustive()
    }
}

/// One unit in memory: `xu_abi::unit::Unit` with atomics, locks and the header of a ring.
///
/// `P`, `W` and `U` are what the locks of submitting, of completing and of unstaging cover.
#[repr(C, align(64))]
pub struct Entry<P, W, U> {
    xu_id: AtomicU16,
    initialized: AtomicU8,
    _pad_03: [u8; 5],
    pub(crate) vcore: AtomicU64,
    pub(crate) has_work_efd: AtomicI32,
    pub(crate) health_status: AtomicU32,
    _pad_18: [u8; 40],
    pub(crate) work_queue: Header,
    pub(crate) submit_work_lock: LockArea<P>,
    pub(crate) mark_comp_lock: LockArea<W>,
    _pad_190: [u8; 48],
    pub(crate) current_exec_initialized: AtomicU8,
    _pad_1c1: [u8; 7],
    pub(crate) current_exec_state: AtomicU64,
    pub(crate) last_posted_model: AtomicU64,
    pub(crate) deferred_unstage_ref: [AtomicU64; 2],
    pub(crate) last_exec_model: [AtomicU32; 2],
    pub(crate) unstage_lock: LockArea<U>,
    _pad_218: [u8; 40],
}

// Loom's atomics and locks are bigger than the words they stand for.
#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    use xu_abi::unit::{UNIT_TABLE_ENTRIES, Unit, UnitBase};

    /// The three parameters have nothing in common, so that the layout is seen not to depend on them.
    type E = Entry<[u64; 26], (), u8>;

    assert!(size_of::<LockArea<()>>() == size_of::<xu_abi::unit::LockArea>());
    assert!(size_of::<LockArea<[u64; 26]>>() == size_of::<xu_abi::unit::LockArea>());
    assert!(size_of::<E>() == size_of::<Unit>());
    assert!(align_of::<E>() == align_of::<Unit>());
    assert!(offset_of!(E, xu_id) == offset_of!(UnitBase, xu_id));
    assert!(offset_of!(E, initialized) == offset_of!(UnitBase, initialized));
    assert!(offset_of!(E, vcore) == offset_of!(UnitBase, vcore));
    assert!(offset_of!(E, has_work_efd) == offset_of!(UnitBase, has_work_efd));
    assert!(offset_of!(E, health_status) == offset_of!(UnitBase, health_status));
    assert!(offset_of!(E, work_queue) == offset_of!(UnitBase, work_queue));
    assert!(offset_of!(E, submit_work_lock) == offset_of!(UnitBase, submit_work_lock));
    assert!(offset_of!(E, mark_comp_lock) == offset_of!(UnitBase, mark_comp_lock));
    assert!(offset_of!(E, current_exec_initialized) == offset_of!(Unit, current_exec_initialized));
    assert!(offset_of!(E, current_exec_state) == offset_of!(Unit, current_exec_state));
    assert!(offset_of!(E, last_posted_model) == offset_of!(Unit, last_posted_model));
    assert!(offset_of!(E, deferred_unstage_ref) == offset_of!(Unit, deferred_unstage_ref));
    assert!(offset_of!(E, last_exec_model) == offset_of!(Unit, last_exec_model));
    assert!(offset_of!(E, unstage_lock) == offset_of!(Unit, unstage_lock));
    // In two lines.
    assert!((offset_of!(E, submit_work_lock) + offset_of!(LockArea<()>, lock)) / 64 == 5);
    assert!((offset_of!(E, mark_comp_lock) + offset_of!(LockArea<()>, lock)) / 64 == 6);
    assert!(UNIT_TABLE_ENTRIES * size_of::<E>() == 0x24000);
    // An index is a byte.
    assert!(UNIT_TABLE_ENTRIES == 1 << u8::BITS);
};

impl<P, W, U> Entry<P, W, U> {
    pub(super) fn new() -> Self {
        Self {
            xu_id: AtomicU16::new(0),
            initialized: AtomicU8::new(0),
            _pad_03: [0; 5],
            vcore: AtomicU64::new(0),
            has_work_efd: AtomicI32::new(0),
            health_status: AtomicU32::new(0),
            _pad_18: [0; 40],
            work_queue: Header::new(),
            submit_work_lock: LockArea::new(),
            mark_comp_lock: LockArea::new(),
            _pad_190: [0; 48],
            current_exec_initialized: AtomicU8::new(0),
            _pad_1c1: [0; 7],
            current_exec_state: AtomicU64::new(0),
            last_posted_model: AtomicU64::new(0),
            deferred_unstage_ref: [(); 2].map(|()| AtomicU64::new(0)),
            last_exec_model: [(); 2].map(|()| AtomicU32::new(0)),
            unstage_lock: LockArea::new(),
            _pad_218: [0; 40],
        }
    }

    /// Makes the words those of a new unit: healthy, without an eventfd, with nothing executed.
    pub(super) fn begin(&self, xu: XuId, vcore: u64) {
        // Relaxed, all: the entry is claimed, and whoever finds it by a lookup has acquired `initialized`.
        self.xu_id.store(xu.raw(), Ordering::Relaxed);
        self.vcore.store(vcore, Ordering::Relaxed);
        self.has_work_efd.store(-1, Ordering::Relaxed);
        self.health_status.store(0, Ordering::Relaxed);
        self.current_exec_initialized.store(0, Ordering::Relaxed);
        let words = [&self.current_exec_state, &self.last_posted_model];
        for word in words.into_iter().chain(&self.deferred_unstage_ref) {
            word.store(0, Ordering::Relaxed);
        }
        for word in &self.last_exec_model {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The unit that this is, or was last; the bits are zero in an entry that never was one.
    #[must_use]
    pub fn xu(&self) -> XuId {
        XuId::from_raw(self.xu_id.load(Ordering::Relaxed))
    }

    /// Whether lookups find it. Then all that was written before [`Claim::publish`](super::Claim::publish) is visible to the caller.
    #[must_use]
    pub fn is_published(&self) -> bool {
        // PAIRS: with the release store in `show`; orders all that the owner put in place before its use.
        self.initialized.load(Ordering::Acquire) != 0
    }

    /// Lets lookups find it.
    pub(super) fn show(&self) {
        // PAIRS: with the acquire load in `is_published`.
        self.initialized.store(1, Ordering::Release);
    }

    /// Hides it from lookups.
    pub(super) fn hide(&self) {
        // Relaxed: whoever finds the entry a last time has no promise that it stays.
        self.initialized.store(0, Ordering::Relaxed);
        self.has_work_efd.store(-1, Ordering::Relaxed);
    }

    /// The address of the logical core that it is bound to.
    #[must_use]
    pub fn vcore(&self) -> u64 {
        self.vcore.load(Ordering::Relaxed)
    }

    /// The descriptor that counts its work; negative while there is none.
    #[must_use]
    pub fn has_work_efd(&self) -> i32 {
        if self.is_published() {
            self.has_work_efd.load(Ordering::Relaxed)
        } else {
            -1
        }
    }

    /// The header of its ring.
    #[must_use]
    pub const fn work_queue(&self) -> &Header {
        &self.work_queue
    }
}

impl<P, W, U> fmt::Debug for Entry<P, W, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("xu", &self.xu())
            .field("is_published", &self.is_published())
            .field("work_queue", &self.work_queue)
            .finish_non_exhaustive()
    }
}
