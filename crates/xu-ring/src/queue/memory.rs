//! The memory that all ends share: header, slots, and the number of ends that are left.
//!
//! ```text
//!   Memory ──┐    Block, at 128 bytes              slots, at 128 bytes
//!   Memory ──┼──▶ 0x000 header, 256 bytes ───────▶ capacity × 32 bytes
//!   Memory ──┘    0x100 number of handles          slot of cursor c: c % capacity
//!
//!   with a home, the header is there instead, and that of the block stays empty:
//!
//!   Memory ──┬──▶ the header, 256 bytes, in the home ──▶ slots
//!            └──▶ Block: number of handles, the home
//! ```
//!
//! Both halves and every observer hold a [`Memory`]. The last one to go drops the payloads that are left, makes the header
//! empty and lets the home go if it has one, and frees the rest, in this order. Each handle has the addresses of header and
//! slots at hand, so that it makes no difference to an end where they are.
//! Layouts: spec `xu.md` sections 2.1 and 2.2.
//!
//! Processors fetch cache lines in pairs, so the block's header and the slots begin on one: the worker's cursor
//! then shares its pair with what never changes, the submit half's two cursors share one, the count of handles is
//! behind them, and no slot lies across two lines. A header in a home begins on a line, as its type says. Where that is the
//! second of a pair, the worker's cursor shares its pair with `triggered`: still no line has two writers.
//!
//! # The stage of a slot
//!
//! A byte that is padding in the original says how far the slot's request is. It travels with the request, so that who
//! waits for the next one polls a single line:
//!
//! ```text
//!            submit              trigger                pop
//!   FREE ─────────────▶ HELD ─────────────▶ TRIGGERED ─────────────▶ DONE
//!                        ▲                                            │
//!                        └──────── submit, one lap later ─────────────┘
//! ```
//!
//! The submit half stores `HELD` and `TRIGGERED`, the work half `DONE`. Each half loads stages of its own slots only: the
//! work half the one at its cursor, the submit half those of requests that it issued and whose slots it has not filled
//! again.
//!
//! # The ownership rule
//!
//! Every `unsafe` block of this module's halves rests on this rule, and calls it by this name. It decides who may touch
//! the cells (`status` and `item`) of the slot of a cursor:
//!
//! | the slot | its cells belong to |
//! |---|---|
//! | free: the cursor is in `submitted .. completed + capacity` | the submit half, once it has acquired that `completed` |
//! | held back: `HELD` | the submit half |
//! | in flight: `TRIGGERED` | the work half, once it has acquired that stage |
//! | done: `DONE`, and the cursor is not before `completed` | nobody |
//!
//! * Exactly one submit half and one work half exist per block, and neither can be cloned. A block has a header to itself,
//!   from before its halves exist until after they are gone: its own, or one that it has claimed.
//! * A half gives cells away after its last access to them, by a release store that the receiver acquires: the submit
//!   half by storing `TRIGGERED`, the work half by moving `completed`. `DONE` gives nothing to anybody: it is an answer.
//! * The work half takes `TRIGGERED` at its own cursor for the request of that cursor, and is right: the one of the lap
//!   before lies behind its own `DONE`, and the one of the lap after is not stored before it moves `completed`.
//! * Only the submit half moves `submitted` and `triggered`, only the work half moves `completed`. `triggered` moves before
//!   the stages of the slots that it passes change, `completed` after, so that
//!   `completed <= triggered <= submitted <= completed + capacity` holds in memory at every moment.
//! * Third parties touch atomic words only: the cursors, `seq`, and the two words of the waiter.
//! * `item` is `Some` exactly while the payload is in the ring. Zeroed memory is `None`, the submit half puts the
//!   payload in, and the work half takes it out before it stores `DONE`.

use alloc::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::num::NonZero;
use core::ptr::NonNull;

use xu_abi::{Cursor, SeqId, XuId};

use super::error::{PeekError, RingError};
use super::header::Header;
use super::home::{Claimed, Home};
use super::order;
use super::waiter::Waiter;
use crate::mutant::Mutant;
use crate::sync::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// Whether every look at a slot compares its sequence with the cursor.
pub(super) const CHECKED: bool = cfg!(any(debug_assertions, feature = "checked"));

/// `xu_abi::Slot` with what third parties touch as atomics, the stage in its padding, and the rest in cells.
#[repr(C)]
pub(super) struct Slot<T> {
    /// `seq_id`: written at submit.
    pub(super) seq: AtomicU64,
    /// `exec_status`: carried for the worker, never used here.
    pub(super) status: UnsafeCell<*const AtomicI32>,
    /// `mark_comp_efd`, by its bits: the descriptor of a [`Waiter`], or [`Waiter::NO_EFD`].
    efd: AtomicU32,
    /// `efd_from_pool`: what becomes of the descriptor, 0 or 1.
    from_pool: AtomicU8,
    /// One of [`stage`].
    stage: AtomicU8,
    _pad_16: [u8; 2],
    /// `exec_info`: the payload's address, or null.
    pub(super) item: UnsafeCell<Option<Box<T>>>,
}

/// How far the request of a slot is.
mod stage {
    /// No request has used the slot. Zero, as memory is at first.
    pub(super) const FREE: u8 = 0;
    /// Submitted, and not triggered.
    pub(super) const HELD: u8 = 1;
    /// The worker's.
    pub(super) const TRIGGERED: u8 = 2;
    /// Popped.
    pub(super) const DONE: u8 = 3;
}

// Loom's atomics and cells are bigger than the words they stand for.
#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    use xu_abi::{QueueHeader, Slot as AbiSlot};

    assert!(size_of::<Slot<()>>() == size_of::<AbiSlot>());
    assert!(align_of::<Slot<()>>() == align_of::<AbiSlot>());
    assert!(offset_of!(Slot<()>, seq) == offset_of!(AbiSlot, seq_id));
    assert!(offset_of!(Slot<()>, status) == offset_of!(AbiSlot, exec_status));
    assert!(offset_of!(Slot<()>, efd) == offset_of!(AbiSlot, mark_comp_efd));
    assert!(offset_of!(Slot<()>, from_pool) == offset_of!(AbiSlot, efd_from_pool));
    assert!(offset_of!(Slot<()>, stage) == offset_of!(AbiSlot, stage));
    assert!(offset_of!(Slot<()>, _pad_16) + 2 == offset_of!(AbiSlot, exec_info));
    assert!(offset_of!(Slot<()>, item) == offset_of!(AbiSlot, exec_info));
    // Whatever the payload, a slot holds its address in one word.
    assert!(size_of::<Option<Box<[u64; 26]>>>() == size_of::<u64>());

    assert!(align_of::<Block<()>>() == LINE_PAIR);
    assert!(offset_of!(Block<()>, own) == 0);
    // The first cursor is in the first pair, the other two are in the second, and the count is in the third.
    assert!(offset_of!(QueueHeader, exec_head) < LINE_PAIR);
    assert!(offset_of!(QueueHeader, scheduled_head) == LINE_PAIR);
    assert!(offset_of!(Block<()>, handles) == 2 * LINE_PAIR);
    // What is behind it fits the same pair.
    assert!(size_of::<Block<()>>() == 3 * LINE_PAIR);
    // Slots never lie across two lines.
    assert!(LINE_PAIR.is_multiple_of(size_of::<Slot<()>>()));
};

impl<T> Slot<T> {
    /// Compares the sequence in the slot with the one at the cursor, in debug and `checked` builds.
    #[inline]
    pub(super) fn verify(&self, expected: SeqId) -> Result<(), PeekError> {
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
    pub(super) fn seq(&self) -> SeqId {
        // Relaxed: the cursor or the stage that led the caller here was acquired, or is the caller's own.
        SeqId::from_raw(self.seq.load(Ordering::Relaxed))
    }

    /// Begins a new request: held back, and nobody waits for it.
    ///
    /// # Safety
    /// * The caller is the submit half, and the slot is free.
    #[inline]
    pub(super) unsafe fn hold(&self, seq: SeqId) {
        // Relaxed, all: whoever looks at these words learns of the request through a cursor or a stage that is stored with
        // release afterwards.
        self.seq.store(seq.raw(), Ordering::Relaxed);
        if !Mutant::WaiterNotReset.is_seeded() {
            let no_waiter = Waiter::NO_EFD.cast_unsigned();
            self.efd.store(no_waiter, Ordering::Relaxed);
        }
        if !Mutant::StageNotReset.is_seeded() {
            self.stage.store(stage::HELD, Ordering::Relaxed);
        }
    }

    /// Gives the cells to the work half.
    ///
    /// # Safety
    /// * The caller is the submit half, the slot is held back, and its cells are written.
    /// * `triggered` is past its cursor.
    #[inline]
    pub(super) unsafe fn trigger(&self) {
        // PAIRS: with the acquire load in `is_triggered`.
        self.stage
            .store(stage::TRIGGERED, order::stage_store_by_trigger());
    }

    /// Whether the work half, at whose cursor this slot is, owns its cells.
    #[inline]
    pub(super) fn is_triggered(&self) -> bool {
        // PAIRS: with the release store in `trigger`; orders the submit half's writes to the slot before its use. Also the
        //   value of `triggered` before the `completed` that this leads to.
        self.stage.load(order::stage_load_by_worker()) == stage::TRIGGERED
    }

    /// Answers the submit half that the request is done. The cells belong to nobody until `completed` moves.
    ///
    /// # Safety
    /// * The caller is the work half, the slot is in flight, and its `item` is `None`.
    #[inline]
    pub(super) unsafe fn finish(&self) {
        // PAIRS: with the acquire load in `is_done`.
        self.stage.store(stage::DONE, order::stage_store_by_pop());
    }

    /// Whether the worker is done with the request, for the submit half, which has submitted it and not used the slot again.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        // PAIRS: with the release store in `finish`; orders all that the worker did for the request before the answer.
        match self.stage.load(order::stage_load_by_submitter()) {
            stage::HELD | stage::TRIGGERED => false,
            // `FREE` counts too: a request from before the start of a ring that starts late.
            stage::FREE | stage::DONE.. => true,
        }
    }

    /// Leaves a waiter, and returns the one that was there.
    #[inline]
    pub(super) fn install(&self, waiter: Waiter) -> Option<Waiter> {
        // Swaps, so that of two callers without the lock each learns of a descriptor that it replaces. The flag goes first:
        // who sees the descriptor sees the flag that belongs to it, or a newer one.
        let swap_flag = || self.from_pool.swap(waiter.flag(), Ordering::Relaxed);
        let swap_efd = || {
            let efd = waiter.efd().cast_unsigned();
            // PAIRS: with the acquire load in `waiter`.
            self.efd.swap(efd, order::waiter_store()).cast_signed()
        };
        let (from_pool, efd) = if Mutant::WaiterFlagLast.is_seeded() {
            let efd = swap_efd();
            (swap_flag(), efd)
        } else {
            (swap_flag(), swap_efd())
        };
        Waiter::from_parts(efd, from_pool)
    }

    /// Takes a waiter back; `false` when it is not the one that is there.
    pub(super) fn remove(&self, waiter: Waiter) -> bool {
        if self.waiter() != Some(waiter) {
            return false;
        }
        if Mutant::WaiterNotRemoved.is_seeded() {
            return true;
        }
        // Exchanged, so that without the lock a waiter that was installed meanwhile stays. Relaxed: an empty place tells
        // nobody anything.
        let (efd, no_waiter) = (waiter.efd().cast_unsigned(), Waiter::NO_EFD.cast_unsigned());
        self.efd
            .compare_exchange(efd, no_waiter, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Who waits for the request.
    #[inline]
    pub(super) fn waiter(&self) -> Option<Waiter> {
        // PAIRS: with the release swap in `install`; orders the flag before the descriptor, for callers without the lock.
        let efd = self.efd.load(order::waiter_load()).cast_signed();
        if efd < 0 {
            return None;
        }
        // Relaxed: ordered by the descriptor.
        Waiter::from_parts(efd, self.from_pool.load(Ordering::Relaxed))
    }
}

/// Two cache lines, which processors fetch together.
const LINE_PAIR: usize = 128;

#[repr(C, align(128))]
struct Block<T> {
    /// The header of a ring without a home. With one it stays empty: unused bytes are simpler than a second kind of block.
    own: Header,
    handles: AtomicU64,
    /// Where the header is, if it is not `own`. Before `buffer`, so that a header never names slots that are freed.
    home: Option<Claimed>,
    /// The slots.
    buffer: Buffer<T>,
}

/// A handle of the shared memory: a counted reference, made without aborting when memory is short.
pub(super) struct Memory<T> {
    block: NonNull<Block<T>>,
    /// That of the block, at hand wherever it is.
    header: NonNull<Header>,
    /// What `xu_id`, `buffer` and `capacity` in the header say, at hand: nothing in the header is read for a request but
    /// cursors.
    xu: XuId,
    slots: NonNull<[Slot<T>]>,
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
    pub(super) fn new(
        xu: XuId,
        capacity: u64,
        start: u64,
        home: Option<Home>,
    ) -> Result<Self, RingError> {
        let no_memory = RingError::NoMemory { xu, capacity };
        let Ok(slot_count) = usize::try_from(capacity) else {
            return Err(no_memory);
        };
        let slot_count = NonZero::new(slot_count).ok_or(RingError::ZeroCapacity { xu })?;
        let buffer = Buffer::new(slot_count).ok_or(no_memory)?;
        let slots = buffer.slots();
        let home = match home {
            Some(home) => Some(
                home.claim(buffer.first.cast())
                    .ok_or(RingError::HeaderInUse { xu })?,
            ),
            None => None,
        };
        let block = Block::new(buffer, home).ok_or(no_memory)?;
        // SAFETY: just made, and freed by the handle only.
        let header = unsafe { block.as_ref() }.header();
        // SAFETY: claimed by `Block::new` or above, and the first handle, from which the ends come, is made below.
        unsafe { header.begin(xu, capacity, start) };
        Ok(Self {
            block,
            header: NonNull::from(header),
            xu,
            slots,
            owns: PhantomData,
        })
    }

    #[inline]
    fn block(&self) -> &Block<T> {
        // SAFETY: initialised by `new`, freed only with the last handle, and never borrowed mutably before that.
        unsafe { self.block.as_ref() }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: that of the block: in it, or in the home that it keeps. It lives as long as the block, and whoever has it has
        //   a shared borrow of it.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    pub(super) fn xu(&self) -> XuId {
        self.xu
    }

    #[inline]
    pub(super) fn capacity(&self) -> u64 {
        // CAST: `new` made it from a `u64`.
        self.slots.len() as u64
    }

    /// The sequence of a cursor of this queue.
    #[inline]
    pub(super) fn seq(&self, cursor: u64) -> SeqId {
        SeqId::new(self.xu(), as_cursor(cursor))
    }

    /// All slots; the ownership rule says whose cells they are.
    #[inline]
    pub(super) fn slots(&self) -> &[Slot<T>] {
        // SAFETY: the slots of the block's `Buffer`, which live as long as the block. Whatever of a slot changes while it is
        //   shared is atomic or in a cell.
        unsafe { self.slots.as_ref() }
    }

    /// The index of a cursor's slot. It divides: ends that move a cursor keep its index instead.
    #[inline]
    pub(super) fn index_of(&self, cursor: u64) -> usize {
        index_of(cursor, self.capacity())
    }

    /// The completed cursor, for deciding which slots are free again.
    #[inline]
    pub(super) fn completed_for_submitter(&self) -> u64 {
        // PAIRS: with the release store in `publish_completed`; orders the worker's last look at a slot before its reuse.
        self.header()
            .completed
            .load(order::completed_load_by_submitter())
    }

    /// The completed cursor, for telling others about it.
    #[inline]
    pub(super) fn completed_for_observer(&self) -> u64 {
        self.header().completed_for_observer()
    }

    /// The triggered cursor, for telling others about it.
    #[inline]
    pub(super) fn triggered_for_observer(&self) -> u64 {
        self.header().triggered_for_observer()
    }

    /// The submitted cursor, for telling others about it and for finding the slots before it.
    #[inline]
    pub(super) fn submitted_for_observer(&self) -> u64 {
        self.header().submitted_for_observer()
    }

    /// Moves the submitted cursor.
    ///
    /// # Safety
    /// * The caller is the submit half, and `cursor` is not before the cursor's present value.
    /// * The slots that it passes were free, and are written.
    #[inline]
    pub(super) unsafe fn publish_submitted(&self, cursor: u64) {
        // PAIRS: with the acquire load in `Header::submitted_for_observer`.
        self.header()
            .submitted
            .store(cursor, order::submitted_store());
    }

    /// Moves the triggered cursor. The slots that it passes still belong to the submit half, until it triggers each.
    ///
    /// # Safety
    /// * The caller is the submit half, and `cursor` is between the present values of `triggered` and `submitted`.
    #[inline]
    pub(super) unsafe fn publish_triggered(&self, cursor: u64) {
        // PAIRS: with the acquire load in `Header::triggered_for_observer`.
        self.header()
            .triggered
            .store(cursor, order::triggered_store());
    }

    /// Moves the completed cursor, and gives the slots that it passes to the submit half.
    ///
    /// # Safety
    /// * The caller is the work half, and `cursor` is not before the cursor's present value.
    /// * The slots that it passes are done.
    #[inline]
    pub(super) unsafe fn publish_completed(&self, cursor: u64) {
        // PAIRS: with the acquire loads in `completed_for_submitter` and `Header::completed_for_observer`.
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
            header: self.header,
            xu: self.xu,
            slots: self.slots,
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

impl<T> Block<T> {
    /// On the heap, with one handle to be made; `None` when there is no memory for it.
    fn new(buffer: Buffer<T>, home: Option<Claimed>) -> Option<NonNull<Self>> {
        let layout = Layout::new::<Self>();
        // SAFETY: a `Block` is not of size zero.
        let block = NonNull::new(unsafe { alloc(layout) })?.cast::<Self>();
        let own = match home {
            Some(_) => Header::new(),
            None => Header::claimed(buffer.first.cast()),
        };
        // SAFETY: just allocated with the layout of a `Block`, and unshared.
        unsafe {
            block.write(Self {
                own,
                handles: AtomicU64::new(1),
                home,
                buffer,
            })
        };
        Some(block)
    }

    fn header(&self) -> &Header {
        match &self.home {
            Some(home) => home.header(),
            None => &self.own,
        }
    }
}

/// Drops the payloads that are left. The rest goes afterwards, also when a destructor panics: the home, then the slots.
impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        let header = self.header();
        let slots = self.buffer.slots();
        // Relaxed: the handles are gone, and giving them back ordered all that was done through them.
        let completed = header.completed.load(Ordering::Relaxed);
        let submitted = header.submitted.load(Ordering::Relaxed);
        // CAST: a length fits 64 bits.
        let next = index_of(completed, slots.len() as u64);
        let mut remains = Remains {
            next,
            left: submitted - completed,
            // SAFETY: the slots of our `Buffer`, which no handle is left to reach.
            slots: unsafe { &mut *slots.as_ptr() },
        };
        remains.drop_all();
    }
}

/// Payloads that nobody will pop.
struct Remains<'a, T> {
    slots: &'a mut [Slot<T>],
    next: usize,
    left: u64,
}

impl<T> Remains<'_, T> {
    /// Oldest first, each after it has left its slot: a destructor that panics cannot make one run again.
    fn drop_all(&mut self) {
        while self.left > 0 {
            // PANIC: an index of a cursor, or wrapped below.
            let item = take_exclusively(&mut self.slots[self.next].item);
            self.left -= 1;
            self.next += 1;
            if self.next == self.slots.len() {
                self.next = 0;
            }
            drop(item);
        }
    }
}

/// Those behind a destructor that panics.
impl<T> Drop for Remains<'_, T> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

fn take_exclusively<T>(cell: &mut UnsafeCell<Option<T>>) -> Option<T> {
    // SAFETY: the mutable borrow shows that nobody else has the cell.
    cell.with_mut(|cell| unsafe { (*cell).take() })
}

fn index_of(cursor: u64, capacity: u64) -> usize {
    // CAST: less than `capacity`, which `Memory::new` made from a `usize`.
    (cursor % capacity) as usize
}

/// A counter as a [`Cursor`]. Cursors never leave 48 bits, so nothing is cut off.
#[inline]
pub(super) fn as_cursor(cursor: u64) -> Cursor {
    SeqId::from_raw(cursor).cursor()
}

/// Owns the memory of slots, and not what is in them.
struct Buffer<T> {
    /// What was allocated.
    start: NonNull<u8>,
    layout: Layout,
    /// The first slot, at the first pair of lines in it.
    first: NonNull<Slot<T>>,
    count: NonZero<usize>,
}

impl<T> Buffer<T> {
    /// Empty slots; `None` when there is no memory for them.
    ///
    /// Zeroes, which the system need not even touch. It does touch them when it is asked for a large alignment, so this
    /// asks for the usual one and for a little more memory.
    fn new(count: NonZero<usize>) -> Option<Self> {
        let array = Layout::array::<Slot<T>>(count.get()).ok()?;
        let size = array.size().checked_add(LINE_PAIR - array.align())?;
        let layout = Layout::from_size_align(size, array.align()).ok()?;
        // SAFETY: `count` slots are not of size zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let address = start.addr().get();
        // Does not overflow: the end of the allocation is further.
        let skipped = address.next_multiple_of(LINE_PAIR) - address;
        // SAFETY: `address` is a multiple of `array.align()`, so at most the bytes that were added are skipped.
        let first = unsafe { start.add(skipped) }.cast::<Slot<T>>();
        // Elsewhere zero bytes are valid slots: numbers, a null address, and `None`, which the documentation of `Option`
        // promises for a `Box`.
        #[cfg(loom)]
        for index in 0..count.get() {
            // SAFETY: one of `count` slots, which the allocation has room for.
            let slot = unsafe { first.add(index) };
            // SAFETY: as above, and nobody else knows it.
            unsafe { slot.write(Slot::new()) };
        }
        Some(Self {
            start,
            layout,
            first,
            count,
        })
    }

    /// All slots; no reference to them, since the ownership rule says whose they are.
    fn slots(&self) -> NonNull<[Slot<T>]> {
        NonNull::slice_from_raw_parts(self.first, self.count.get())
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // Slots need no destructor once their payloads are gone: `Block` sees to that.
        // SAFETY: allocated in `new` with this layout, and the owner goes.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// What zeroed memory is, for loom, whose atomics and cells no zeroes can become.
#[cfg(loom)]
impl<T> Slot<T> {
    fn new() -> Self {
        Self {
            seq: AtomicU64::new(0),
            status: UnsafeCell::new(core::ptr::null()),
            efd: AtomicU32::new(0),
            from_pool: AtomicU8::new(0),
            stage: AtomicU8::new(stage::FREE),
            _pad_16: [0; 2],
            item: UnsafeCell::new(None),
        }
    }
}
