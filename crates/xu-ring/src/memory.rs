//! The memory that all ends share: header, slots, and the number of ends that are left.
//!
//! ```text
//!   Memory ──┐    Block                            slots
//!   Memory ──┼──▶ 0x000 header, 256 bytes ───────▶ capacity × 32 bytes
//!   Memory ──┘    0x100 number of handles          slot of cursor c: c % capacity
//! ```
//!
//! Both halves and every observer hold a [`Memory`]; the last one to go frees everything. Layouts: spec `xu.md`
//! sections 2.1 and 2.2.
//!
//! # The ownership rule
//!
//! Every `unsafe` block of this crate rests on this rule, and calls it by this name. The cursors decide who may touch
//! the cells (`status` and `item`) of a slot:
//!
//! | cursor of the slot | the cells belong to |
//! |---|---|
//! | `submitted .. completed + capacity` (free) | the submit half |
//! | `triggered .. submitted` (held back) | the submit half |
//! | `completed .. triggered` (in flight) | the work half |
//!
//! * Exactly one submit half and one work half exist per block, and neither can be cloned.
//! * Only the submit half moves `submitted` and `triggered`, only the work half moves `completed`. Each move gives
//!   slots away, and happens after the last access to them: a release store that the receiver acquires.
//! * Third parties touch atomic words only: the cursors, `seq` and `waiter`.
//! * `item` is `Some` exactly while the payload is in the ring. Zeroed memory is `None`, the submit half puts the
//!   payload in, and the work half takes it out before it moves `completed`.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::num::NonZero;
use core::ptr::{self, NonNull};

use xu_abi::{Cursor, SeqId, XuId};

use crate::error::{PeekError, RingError};
use crate::order;
use crate::sync::{AtomicI32, AtomicU64, Ordering, UnsafeCell};

/// Whether every look at a slot compares its sequence with the cursor.
pub(crate) const CHECKED: bool = cfg!(any(debug_assertions, feature = "checked"));

/// `xu_abi::QueueHeader` with the cursors as atomics.
#[repr(C, align(64))]
struct Header<T> {
    xu_id: u16,
    _pad_02: [u8; 6],
    buffer: NonNull<Slot<T>>,
    capacity: u64,
    _pad_18: [u8; 40],
    /// `exec_head`: the first request that is not complete.
    completed: AtomicU64,
    _pad_48: [u8; 56],
    /// `scheduled_head`: the first request that the worker may not see yet.
    triggered: AtomicU64,
    _pad_88: [u8; 56],
    /// `scheduled_tail`: the number that the next request gets.
    submitted: AtomicU64,
    _pad_c8: [u8; 56],
}

/// `xu_abi::Slot` with what third parties touch as atomics, and the rest in cells.
#[repr(C)]
pub(crate) struct Slot<T> {
    /// `seq_id`: written at submit.
    pub(crate) seq: AtomicU64,
    /// `exec_status`: carried for the worker, never used here.
    pub(crate) status: UnsafeCell<*const AtomicI32>,
    /// `mark_comp_efd` and `efd_from_pool`: see [`crate::Waiter`].
    pub(crate) waiter: AtomicU64,
    /// `exec_info`: the payload's address, or null.
    pub(crate) item: UnsafeCell<Option<Box<T>>>,
}

// Loom's atomics and cells are bigger than the words they stand for.
#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    use xu_abi::{QueueHeader, Slot as AbiSlot};

    assert!(size_of::<Header<()>>() == size_of::<QueueHeader>());
    assert!(align_of::<Header<()>>() == align_of::<QueueHeader>());
    assert!(offset_of!(Header<()>, xu_id) == offset_of!(QueueHeader, xu_id));
    assert!(offset_of!(Header<()>, buffer) == offset_of!(QueueHeader, buffer));
    assert!(offset_of!(Header<()>, capacity) == offset_of!(QueueHeader, capacity));
    assert!(offset_of!(Header<()>, completed) == offset_of!(QueueHeader, exec_head));
    assert!(offset_of!(Header<()>, triggered) == offset_of!(QueueHeader, scheduled_head));
    assert!(offset_of!(Header<()>, submitted) == offset_of!(QueueHeader, scheduled_tail));

    assert!(size_of::<Slot<()>>() == size_of::<AbiSlot>());
    assert!(align_of::<Slot<()>>() == align_of::<AbiSlot>());
    assert!(offset_of!(Slot<()>, seq) == offset_of!(AbiSlot, seq_id));
    assert!(offset_of!(Slot<()>, status) == offset_of!(AbiSlot, exec_status));
    assert!(offset_of!(Slot<()>, waiter) == offset_of!(AbiSlot, mark_comp_efd));
    assert!(offset_of!(Slot<()>, waiter) + 4 == offset_of!(AbiSlot, efd_from_pool));
    assert!(offset_of!(Slot<()>, item) == offset_of!(AbiSlot, exec_info));
    // Whatever the payload, a slot holds its address in one word.
    assert!(size_of::<Option<Box<[u64; 26]>>>() == size_of::<u64>());
};

impl<T> Slot<T> {
    /// Compares the sequence in the slot with the one at the cursor, in debug and `checked` builds.
    #[inline]
    pub(crate) fn verify(&self, expected: SeqId) -> Result<(), PeekError> {
        if CHECKED {
            let found = self.seq();
            if found != expected {
                return Err(PeekError::Corrupt { expected, found });
            }
        }
        Ok(())
    }

    /// What the slot says whose it is.
    #[inline]
    pub(crate) fn seq(&self) -> SeqId {
        // Relaxed: the cursor that led the caller here was acquired, or is the caller's own.
        SeqId::from_raw(self.seq.load(Ordering::Relaxed))
    }
}

#[repr(C)]
struct Block<T> {
    header: Header<T>,
    handles: AtomicU64,
}

/// A handle of the shared memory: a counted reference, made without aborting when memory is short.
pub(crate) struct Memory<T> {
    block: NonNull<Block<T>>,
    owns: PhantomData<Block<T>>,
}

// SAFETY: by the ownership rule a payload is touched by one half at a time, and ownership of it may pass to the
//   thread of the other half or of the last handle: that needs `T: Send`, and nothing more. Status addresses are
//   carried and not used. All else that is shared is atomic or never written after construction.
unsafe impl<T: Send> Send for Memory<T> {}
// SAFETY: as for `Send`. `&Memory` gives safe code atomic words only; it is the halves that reach a payload, and
//   they are not `Sync`, so `T: Sync` is not needed.
unsafe impl<T: Send> Sync for Memory<T> {}

impl<T> Memory<T> {
    /// Makes the memory of an empty ring whose first request gets the number `start`.
    pub(crate) fn new(xu: XuId, capacity: u64, start: u64) -> Result<Self, RingError> {
        let no_memory = RingError::NoMemory { xu, capacity };
        let Ok(slot_count) = usize::try_from(capacity) else {
            return Err(no_memory);
        };
        let slot_count = NonZero::new(slot_count).ok_or(RingError::ZeroCapacity { xu })?;
        let slots = empty_slots::<T>(slot_count).ok_or(no_memory)?;
        let layout = Layout::new::<Block<T>>();
        // SAFETY: a `Block` is not of size zero.
        let block = unsafe { alloc(layout) };
        let block = NonNull::new(block).ok_or(no_memory)?.cast::<Block<T>>();
        let header = Header {
            xu_id: xu.raw(),
            _pad_02: [0; 6],
            // From here on the block owns the slots; its `Drop` puts the box together again.
            buffer: NonNull::from(Box::leak(slots)).cast(),
            capacity,
            _pad_18: [0; 40],
            completed: AtomicU64::new(start),
            _pad_48: [0; 56],
            triggered: AtomicU64::new(start),
            _pad_88: [0; 56],
            submitted: AtomicU64::new(start),
            _pad_c8: [0; 56],
        };
        // SAFETY: just allocated with the layout of a `Block`, and unshared.
        unsafe {
            block.write(Block {
                header,
                handles: AtomicU64::new(1),
            })
        };
        Ok(Self {
            block,
            owns: PhantomData,
        })
    }

    #[inline]
    fn block(&self) -> &Block<T> {
        // SAFETY: initialised by `new`, freed only with the last handle, and never borrowed mutably before that.
        unsafe { self.block.as_ref() }
    }

    #[inline]
    fn header(&self) -> &Header<T> {
        &self.block().header
    }

    #[inline]
    pub(crate) fn xu(&self) -> XuId {
        XuId::from_raw(self.header().xu_id)
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.header().capacity
    }

    /// The sequence of a cursor of this queue.
    #[inline]
    pub(crate) fn seq(&self, cursor: u64) -> SeqId {
        SeqId::new(self.xu(), as_cursor(cursor))
    }

    /// All slots; the ownership rule says whose cells they are.
    #[inline]
    pub(crate) fn slots(&self) -> &[Slot<T>] {
        let header = self.header();
        // SAFETY: the two fields describe the boxed slice that `new` took apart, and never change. Whatever of a slot
        //   changes while it is shared is atomic or in a cell.
        unsafe { core::slice::from_raw_parts(header.buffer.as_ptr(), header.slot_count()) }
    }

    /// The index of a cursor's slot. It divides: ends that move a cursor keep its index instead.
    #[inline]
    pub(crate) fn index_of(&self, cursor: u64) -> usize {
        index_of(cursor, self.capacity())
    }

    /// The completed cursor, for deciding which slots are free again.
    #[inline]
    pub(crate) fn completed_for_submitter(&self) -> u64 {
        // PAIRS: with the release store in `publish_completed`; orders the worker's last look at a slot before its reuse.
        self.header()
            .completed
            .load(order::completed_load_by_submitter())
    }

    /// The completed cursor, for telling others about it.
    #[inline]
    pub(crate) fn completed_for_observer(&self) -> u64 {
        // PAIRS: with the release store in `publish_completed`; orders all that the worker did for a request, its status
        //   above all, before the news that it is complete. Also every older value of the other two cursors.
        self.header()
            .completed
            .load(order::completed_load_by_observer())
    }

    /// The triggered cursor, for reading the slots before it.
    #[inline]
    pub(crate) fn triggered_for_worker(&self) -> u64 {
        // PAIRS: with the release store in `publish_triggered`; orders the submit half's writes to a slot before its use.
        self.header()
            .triggered
            .load(order::triggered_load_by_worker())
    }

    /// The triggered cursor, for telling others about it.
    #[inline]
    pub(crate) fn triggered_for_observer(&self) -> u64 {
        // PAIRS: with the release store in `publish_triggered`; whoever then loads `submitted` finds at least this value.
        self.header()
            .triggered
            .load(order::triggered_load_by_observer())
    }

    /// The submitted cursor, for telling others about it and for finding the slots before it.
    #[inline]
    pub(crate) fn submitted_for_observer(&self) -> u64 {
        // PAIRS: with the release store in `publish_submitted`; orders `seq` and the reset of `waiter` before the number
        //   is known to anybody.
        self.header().submitted.load(order::submitted_load())
    }

    /// Moves the submitted cursor.
    ///
    /// # Safety
    /// * The caller is the submit half, and `cursor` is the one after the cursor's present value.
    /// * Its slot was free, and is written.
    #[inline]
    pub(crate) unsafe fn publish_submitted(&self, cursor: u64) {
        // PAIRS: with the acquire load in `submitted_for_observer`.
        self.header()
            .submitted
            .store(cursor, order::submitted_store());
    }

    /// Moves the triggered cursor, and gives the slots that it passes to the work half.
    ///
    /// # Safety
    /// * The caller is the submit half, and `cursor` is between the present values of `triggered` and `submitted`.
    #[inline]
    pub(crate) unsafe fn publish_triggered(&self, cursor: u64) {
        // PAIRS: with the acquire loads in `triggered_for_worker` and `triggered_for_observer`.
        self.header()
            .triggered
            .store(cursor, order::triggered_store());
    }

    /// Moves the completed cursor, and gives the slot that it passes to the submit half.
    ///
    /// # Safety
    /// * The caller is the work half, and `cursor` is the one after the cursor's present value.
    /// * Its slot was in flight, and its `item` is `None`.
    #[inline]
    pub(crate) unsafe fn publish_completed(&self, cursor: u64) {
        // PAIRS: with the acquire loads in `completed_for_submitter` and `completed_for_observer`.
        self.header()
            .completed
            .store(cursor, order::completed_store());
    }
}

impl<T> Clone for Memory<T> {
    fn clone(&self) -> Self {
        // Relaxed: the new handle comes from one that exists, and whoever carries it to another thread orders that.
        // The count cannot wrap: that takes centuries of cloning and forgetting.
        self.block().handles.fetch_add(1, Ordering::Relaxed);
        Self {
            block: self.block,
            owns: PhantomData,
        }
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // PAIRS: with itself: the release of every handle that goes with the acquire of the last one, which orders all
        //   accesses to the block before it is freed.
        if self.block().handles.fetch_sub(1, order::share_return()) == 1 {
            // SAFETY: allocated by the global allocator with this layout, and no other handle is left.
            drop(unsafe { Box::from_raw(self.block.as_ptr()) });
        }
    }
}

impl<T> Header<T> {
    #[inline]
    fn slot_count(&self) -> usize {
        // CAST: `Memory::new` made it from a `usize`.
        self.capacity as usize
    }
}

/// Drops the payloads that are left, oldest first, each after it has left its slot: a destructor that panics cannot
/// make one run again. Those behind it are then dropped by the box of slots while the panic unwinds.
impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        let header = &self.header;
        let slots = ptr::slice_from_raw_parts_mut(header.buffer.as_ptr(), header.slot_count());
        // SAFETY: the boxed slice that `Memory::new` took apart, put together again once.
        let slots = unsafe { Box::from_raw(slots) };
        // Relaxed: the handles are gone, and giving them back ordered all that was done through them.
        let completed = header.completed.load(Ordering::Relaxed);
        let submitted = header.submitted.load(Ordering::Relaxed);
        for cursor in completed..submitted {
            let slot = &slots[index_of(cursor, header.capacity)];
            // SAFETY: no half is left that could own the cell, and `slots` is not shared.
            let item = slot.item.with_mut(|item| unsafe { (*item).take() });
            drop(item);
        }
    }
}

fn index_of(cursor: u64, capacity: u64) -> usize {
    // CAST: less than `capacity`, which `Memory::new` made from a `usize`.
    (cursor % capacity) as usize
}

/// A counter as a [`Cursor`]. Cursors never leave 48 bits, so nothing is cut off.
#[inline]
pub(crate) fn as_cursor(cursor: u64) -> Cursor {
    SeqId::from_raw(cursor).cursor()
}

/// Slots of zeroes, which the system need not even touch; `None` when there is no memory for them.
#[cfg(not(loom))]
fn empty_slots<T>(count: NonZero<usize>) -> Option<Box<[Slot<T>]>> {
    let layout = Layout::array::<Slot<T>>(count.get()).ok()?;
    // SAFETY: `count` slots of 32 bytes are not of size zero.
    let start = unsafe { alloc::alloc::alloc_zeroed(layout) };
    let start = NonNull::new(start)?.cast::<Slot<T>>();
    let slots = ptr::slice_from_raw_parts_mut(start.as_ptr(), count.get());
    // SAFETY: allocated by the global allocator with the layout of this slice. Zero bytes are a valid slot: numbers, a
    //   null address, and `None`, which the documentation of `Option` promises for a `Box`.
    Some(unsafe { Box::from_raw(slots) })
}

/// Slots that loom can watch, which no zeroed memory can become.
#[cfg(loom)]
fn empty_slots<T>(count: NonZero<usize>) -> Option<Box<[Slot<T>]>> {
    let mut slots = alloc::vec::Vec::new();
    slots.try_reserve_exact(count.get()).ok()?;
    slots.resize_with(count.get(), || Slot {
        seq: AtomicU64::new(0),
        status: UnsafeCell::new(ptr::null()),
        waiter: AtomicU64::new(0),
        item: UnsafeCell::new(None),
    });
    Some(slots.into_boxed_slice())
}
