//! The table of units as the original lays it out in memory: 576 bytes for each virtual core.
//!
//! Units live in it, so that a tool which reads the process or its core dump finds them where it expects them, and so that
//! who has a core or an id finds the unit. Layout: spec `xu.md` sections 2.3 and 2.4, `xu_abi::unit`.
//!
//! ```text
//!  UnitTable ── 256 × Entry ──┬ 0x000 who it is, health, eventfd
//!      │                      ├ 0x040 header of the ring, whose slots are elsewhere
//!      │                      ├ 0x140 submit_work_lock (P)   0x168 mark_comp_lock (W)
//!      │                      └ 0x1C0 state of the harvest   0x1F0 unstage_lock (U)
//!      └ holders of each entry
//! ```
//!
//! # The life of an entry
//!
//! ```text
//!   free ── claim ──▶ claimed ── publish ──▶ found by lookups ── Claim dropped ──▶ held ── last EntryRef dropped ──▶ free
//! ```
//!
//! One [`Claim`] owns an entry; any number of [`EntryRef`] hold it. What a lock covers is put in by the owner, and taken out
//! when the claim is dropped: it may have ends of the ring, and a ring keeps the table, so nothing would go otherwise.
//! An entry is free for another unit when nobody holds it and its header has no ring, so no reference ever comes to show
//! another unit than the one that it was made for.

mod entry;

use crate::sync::{AtomicU32, Ordering};
use core::fmt;
use std::ops::Deref;
use std::sync::Arc;
use xu_abi::unit::UNIT_TABLE_ENTRIES;
use xu_abi::{XuId, XuType};
use xu_ring::queue::{Ends, RingError};

pub use entry::{Entry, LockArea};

/// The table or an entry of it is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A table has between 1 and 256 entries.
    #[error("a table of {entries} units, allowed: 1 to {UNIT_TABLE_ENTRIES}")]
    Size {
        /// The number asked for.
        entries: usize,
    },
    /// There is no memory for the table.
    #[error("no memory for a table of {entries} units")]
    NoMemory {
        /// The number asked for.
        entries: usize,
    },
    /// The table ends before this entry.
    #[error("no entry {index} in a table of {entries} units")]
    NoEntry {
        /// The entry asked for.
        index: u8,
        /// How many there are.
        entries: usize,
    },
    /// There is a unit in the entry, or somebody still holds the last one, or an end of its ring.
    #[error("entry {index} is in use by {xu}")]
    InUse {
        /// The entry asked for.
        index: u8,
        /// The unit that it is or was last.
        xu: XuId,
    },
}

/// Entries one after the other, and how many hold each.
pub struct UnitTable<P, W, U> {
    entries: Box<[Entry<P, W, U>]>,
    /// 0: free. Beside the entries, whose padding nobody writes.
    holders: Box<[AtomicU32]>,
}

impl<P, W, U> UnitTable<P, W, U> {
    /// A table of so many free entries.
    ///
    /// # Errors
    /// [`TableError::Size`] unless it is 1 to 256; [`TableError::NoMemory`].
    pub fn new(entries: usize) -> Result<Self, TableError> {
        if !(1..=UNIT_TABLE_ENTRIES).contains(&entries) {
            return Err(TableError::Size { entries });
        }
        let no_memory = TableError::NoMemory { entries };
        Ok(Self {
            entries: boxed(entries, Entry::new).ok_or(no_memory)?,
            holders: boxed(entries, || AtomicU32::new(0)).ok_or(no_memory)?,
        })
    }

    /// A table with an entry for every virtual core: 0x24000 bytes.
    ///
    /// # Errors
    /// [`TableError::NoMemory`].
    pub fn full() -> Result<Self, TableError> {
        Self::new(UNIT_TABLE_ENTRIES)
    }

    /// All entries, free ones too.
    #[must_use]
    pub fn entries(&self) -> &[Entry<P, W, U>] {
        &self.entries
    }

    /// Takes a free entry for unit `xu`, bound to the logical core at address `vcore`. No lookup finds it yet.
    ///
    /// # Errors
    /// [`TableError::NoEntry`], and [`TableError::InUse`] while the entry is not free.
    pub fn claim(
        self: &Arc<Self>,
        index: u8,
        xu: XuId,
        vcore: u64,
    ) -> Result<Claim<P, W, U>, TableError> {
        let at = usize::from(index);
        let (Some(entry), Some(holders)) = (self.entries.get(at), self.holders.get(at)) else {
            let entries = self.entries.len();
            return Err(TableError::NoEntry { index, entries });
        };
        let xu_there = entry.xu();
        let in_use = TableError::InUse {
            index,
            xu: xu_there,
        };
        // PAIRS: with the release of every `EntryRef` that was dropped; orders their use of the entry before ours.
        //   Relaxed where it fails: nothing follows from that.
        holders
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| in_use)?;
        let claim = EntryRef {
            table: Arc::clone(self),
            index: at,
        };
        if entry.work_queue.is_in_use() {
            return Err(in_use);
        }
        entry.begin(xu, vcore);
        Ok(Claim { entry: claim })
    }

    /// The unit of a virtual core, if there is one: the original's `tpb_xu_get_by_vcore`.
    #[must_use]
    pub fn by_core(&self, vnc: u8) -> Option<&Entry<P, W, U>> {
        self.entries
            .get(usize::from(vnc))
            .filter(|entry| entry.is_published())
    }

    /// The compute unit with this id, if there is one: the original's `tpb_xu_get`.
    ///
    /// `None` for other types, where the original asserts, and when the core's entry has another id.
    #[must_use]
    pub fn by_xu(&self, xu: XuId) -> Option<&Entry<P, W, U>> {
        if xu.xu_type() != Some(XuType::Compute) {
            return None;
        }
        self.by_core(xu.vnc()).filter(|entry| entry.xu() == xu)
    }
}

impl<P, W, U> fmt::Debug for UnitTable<P, W, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let published = self.entries.iter().filter(|entry| entry.is_published());
        f.debug_struct("UnitTable")
            .field("entries", &self.entries.len())
            .field("published", &published.count())
            .finish_non_exhaustive()
    }
}

/// `count` values; `None` when there is no memory for them.
fn boxed<T>(count: usize, value: impl FnMut() -> T) -> Option<Box<[T]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    values.resize_with(count, value);
    // As much as was reserved, so this does not allocate.
    Some(values.into_boxed_slice())
}

/// An entry, the table that it is in, and the promise that it stays with its unit: hold it as long as you like.
pub struct EntryRef<P, W, U> {
    table: Arc<UnitTable<P, W, U>>,
    index: usize,
}

impl<P, W, U> EntryRef<P, W, U> {
    fn holders(&self) -> &AtomicU32 {
        // PANIC: `claim` found it there.
        &self.table.holders[self.index]
    }
}

impl<P, W, U> Deref for EntryRef<P, W, U> {
    type Target = Entry<P, W, U>;

    fn deref(&self) -> &Self::Target {
        // PANIC: as in `holders`.
        &self.table.entries[self.index]
    }
}

impl<P, W, U> Clone for EntryRef<P, W, U> {
    fn clone(&self) -> Self {
        // Relaxed: the new reference comes from one that exists. Wrapping takes 2^32 references of 16 bytes.
        self.holders().fetch_add(1, Ordering::Relaxed);
        Self {
            table: Arc::clone(&self.table),
            index: self.index,
        }
    }
}

impl<P, W, U> Drop for EntryRef<P, W, U> {
    fn drop(&mut self) {
        // PAIRS: with the acquire of the next `UnitTable::claim`.
        self.holders().fetch_sub(1, Ordering::Release);
    }
}

impl<P, W, U> fmt::Debug for EntryRef<P, W, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Owns an entry: what lookups find is there as long as this is.
///
/// Dropped, it hides the entry from lookups and lets go what the locks cover. It waits for whoever has one of the locks, so
/// it must neither be dropped with one of them held nor be put under one of them. The words of the entry stay as they
/// were until the next claim, for those who still hold it.
#[must_use = "the entry goes with it"]
pub struct Claim<P, W, U> {
    entry: EntryRef<P, W, U>,
}

impl<P, W, U> Claim<P, W, U> {
    /// Another holder of the entry.
    #[must_use]
    pub fn entry(&self) -> EntryRef<P, W, U> {
        self.entry.clone()
    }

    /// Lets lookups find the entry. Call it when everything else is in place.
    pub fn publish(&self) {
        self.entry.show();
    }

    /// Makes the ring of the unit, with its header in the entry. It keeps the table until its last end is gone.
    ///
    /// # Errors
    /// Those of [`xu_ring::queue::ring_in`]: above all, there is only one ring at a time.
    pub fn ring<T: Send>(&self, capacity: u64) -> Result<Ends<T>, RingError>
    where
        P: Send + 'static,
        W: Send + 'static,
        U: Send + 'static,
    {
        let EntryRef { table, index } = &self.entry;
        xu_ring::queue::ring_in(self.xu(), capacity, Arc::clone(table), |table| {
            // PANIC: as in `EntryRef::holders`.
            &table.entries[*index].work_queue
        })
    }
}

impl<P, W, U> Deref for Claim<P, W, U> {
    type Target = Entry<P, W, U>;

    fn deref(&self) -> &Self::Target {
        &self.entry
    }
}

impl<P, W, U> Drop for Claim<P, W, U> {
    fn drop(&mut self) {
        self.entry.hide();
        self.entry.submit_work_lock.empty();
        self.entry.mark_comp_lock.empty();
        self.entry.unstage_lock.empty();
    }
}

impl<P, W, U> fmt::Debug for Claim<P, W, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.entry).finish()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use core::ptr;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use xu_abi::unit::Unit;
    use xu_ring::queue::Submitter;

    type Table = UnitTable<Submitter<u32>, u8, [u64; 26]>;

    const XU: XuId = XuId::from_raw(0x0301);

    fn table(entries: usize) -> Arc<Table> {
        Arc::new(Table::new(entries).unwrap())
    }

    /// The bytes of an entry, read as a tool reads those of a process: without the program's help.
    fn dump<P, W, U>(entry: &Entry<P, W, U>) -> Unit {
        let mut bytes = [0; 576];
        let address = ptr::from_ref(entry).addr() as u64;
        let memory = File::open("/proc/self/mem").unwrap();
        memory.read_exact_at(&mut bytes, address).unwrap();
        Unit::from_bytes(bytes)
    }

    #[test]
    fn sizes_outside_one_to_256_are_errors() {
        for entries in [0, 257, usize::MAX] {
            let refused = Table::new(entries).unwrap_err();
            assert_eq!(refused, TableError::Size { entries });
        }
        let refused = TableError::Size { entries: 257 };
        assert_eq!(
            refused.to_string(),
            "a table of 257 units, allowed: 1 to 256"
        );
        assert_eq!(Table::new(1).unwrap().entries().len(), 1);
        let full = Table::full().unwrap();
        assert_eq!(size_of_val(full.entries()), 0x24000);
        assert!((0..=255).all(|vnc| full.by_core(vnc).is_none()));
    }

    #[cfg_attr(miri, ignore = "reads the memory of the process")]
    #[test]
    fn memory_reads_as_the_abi_says() {
        let table = table(4);
        let claim = table.claim(3, XU, 0x1122_3344_5566_7788).unwrap();
        let (mut submitter, mut worker, _observer) = claim.ring::<u32>(5).unwrap();
        for number in 0..3 {
            submitter.submit(Box::new(number)).unwrap();
        }
        submitter.trigger_next().unwrap();
        submitter.trigger_next().unwrap();
        assert!(worker.pop().is_ok());
        claim.has_work_efd.store(0x0A0B_0C0D, Ordering::Relaxed);
        claim.health_status.store(2, Ordering::Relaxed);
        claim.current_exec_initialized.store(1, Ordering::Relaxed);
        claim.current_exec_state.store(0x1000, Ordering::Relaxed);
        claim.last_posted_model.store(0x2000, Ordering::Relaxed);
        for sub_core in [0, 1] {
            let value = 0x3000 + sub_core as u32;
            claim.last_exec_model[sub_core].store(value, Ordering::Relaxed);
            let deferred = &claim.deferred_unstage_ref[sub_core];
            deferred.store(0x4000 + sub_core as u64, Ordering::Relaxed);
        }
        assert_eq!(dump(&claim).base.initialized, 0);
        claim.publish();

        let unit = dump(&claim);
        let base = unit.base;
        assert_eq!((base.xu_id, base.initialized), (0x0301, 1));
        assert_eq!(base.vcore, 0x1122_3344_5566_7788);
        assert_eq!(base.has_work_efd, 0x0A0B_0C0D);
        assert_eq!(base.health(), Ok(xu_abi::unit::Health::Degraded));
        let queue = base.work_queue;
        assert_eq!((queue.xu_id, queue.capacity), (0x0301, 5));
        assert_ne!(queue.buffer, 0);
        let cursors = [queue.exec_head, queue.scheduled_head, queue.scheduled_tail];
        assert_eq!(cursors, [2, 3, 4]);
        assert_eq!(unit.current_exec_initialized, 1);
        assert_eq!(unit.current_exec_state, 0x1000);
        assert_eq!(unit.last_posted_model, 0x2000);
        assert_eq!(unit.last_exec_model, [0x3000, 0x3001]);
        assert_eq!(unit.deferred_unstage_ref, [0x4000, 0x4001]);
        assert_eq!((base.pad_03, base.pad_18), ([0; 5], [0; 40]));
        assert_eq!((base.pad_190, unit.pad_218), ([0; 48], [0; 40]));
    }

    #[cfg_attr(miri, ignore = "reads the memory of the process")]
    #[test]
    fn slots_are_found_from_the_header() {
        let table = table(1);
        let claim = table.claim(0, XU, 0).unwrap();
        let (mut submitter, _worker, _observer) = claim.ring::<u32>(2).unwrap();
        submitter.submit(Box::new(7)).unwrap();
        let queue = dump(&claim).base.work_queue;
        let mut bytes = [0; 32];
        let slot = queue.buffer + queue.exec_head % queue.capacity * 32;
        let memory = File::open("/proc/self/mem").unwrap();
        memory.read_exact_at(&mut bytes, slot).unwrap();
        assert_eq!(
            xu_abi::Slot::from_bytes(bytes).seq_id,
            0x0301_0000_0000_0001
        );
    }

    #[cfg_attr(miri, ignore = "reads the memory of the process")]
    #[test]
    fn locks_are_in_their_areas() {
        let table = table(1);
        let claim = table.claim(0, XU, 0).unwrap();
        let areas = || {
            let unit = dump(&claim);
            [
                unit.base.submit_work_lock,
                unit.base.mark_comp_lock,
                unit.unstage_lock,
            ]
        };
        let before = areas();
        let changed = || {
            let now = areas();
            [0, 1, 2].map(|area| now[area] != before[area])
        };
        let guard = claim.submit_work_lock.lock();
        assert_eq!(changed(), [true, false, false]);
        drop(guard);
        let guard = claim.mark_comp_lock.lock();
        assert_eq!(changed(), [false, true, false]);
        drop(guard);
        let guard = claim.unstage_lock.lock();
        assert_eq!(changed(), [false, false, true]);
        drop(guard);
        *claim.unstage_lock.lock() = Some(Box::new([9; 26]));
        assert_eq!(changed(), [false, false, true], "the address of the box");
        assert_eq!(claim.unstage_lock.lock().as_deref(), Some(&[9; 26]));
    }

    #[test]
    fn lookups_find_what_is_published() {
        let table = table(4);
        let claim = table.claim(3, XU, 0).unwrap();
        assert!(table.by_core(3).is_none() && table.by_xu(XU).is_none());
        claim.publish();
        for found in [table.by_core(3), table.by_xu(XU)] {
            assert!(found.is_some_and(|entry| ptr::eq(entry, &*claim)));
        }
        // Free, behind the end, of another type, of an unknown one, and no queue that exists.
        assert!(table.by_core(2).is_none() && table.by_core(4).is_none());
        for raw in [0x0201, 0x0401, 0x0300, 0x0302, 0x0307, 0x0311] {
            assert!(table.by_xu(XuId::from_raw(raw)).is_none(), "{raw:#06x}");
        }
        drop(claim);
        assert!(table.by_core(3).is_none() && table.by_xu(XU).is_none());
    }

    #[test]
    fn entry_with_the_id_of_another_core_is_found_by_its_place_only() {
        let table = table(4);
        let claim = table.claim(2, XU, 0).unwrap();
        claim.publish();
        assert!(table.by_core(2).is_some());
        assert!(table.by_xu(XU).is_none());
        assert!(table.by_xu(XuId::from_raw(0x0201)).is_none());
    }

    #[test]
    fn entry_is_claimed_once_until_nobody_holds_it() {
        let table = table(2);
        let in_use = TableError::InUse { index: 1, xu: XU };
        let claim = table.claim(1, XU, 5).unwrap();
        assert_eq!(table.claim(1, XU, 6).unwrap_err(), in_use);
        assert_eq!(in_use.to_string(), "entry 1 is in use by core 3 compute");
        let no_entry = TableError::NoEntry {
            index: 2,
            entries: 2,
        };
        assert_eq!(table.claim(2, XU, 0).unwrap_err(), no_entry);
        claim.publish();
        let held = claim.entry();
        let again = held.clone();
        drop(claim);
        drop(held);
        assert!(!again.is_published());
        assert_eq!(table.claim(1, XU, 6).unwrap_err(), in_use);
        assert_eq!((again.xu(), again.vcore()), (XU, 5), "it keeps its words");
        drop(again);
        let other = XuId::from_raw(0x0101);
        let claim = table.claim(1, other, 7).unwrap();
        assert_eq!((claim.xu(), claim.vcore()), (other, 7));
        assert_eq!(claim.has_work_efd(), -1);
        assert!(!claim.is_published());
    }

    #[test]
    fn entry_keeps_its_table() {
        let table = table(1);
        let claim = table.claim(0, XU, 0).unwrap();
        let watched = Arc::downgrade(&table);
        drop(table);
        let held = claim.entry();
        drop(claim);
        assert_eq!(held.xu(), XU);
        drop(held);
        assert!(watched.upgrade().is_none());
    }

    #[test]
    fn ring_that_is_left_keeps_its_entry_from_the_next_unit() {
        let table = table(1);
        let claim = table.claim(0, XU, 0).unwrap();
        let (submitter, worker, observer) = claim.ring::<u32>(1).unwrap();
        assert_eq!(
            claim.ring::<u32>(1).unwrap_err(),
            RingError::HeaderInUse { xu: XU }
        );
        drop((submitter, worker, claim));
        let in_use = TableError::InUse { index: 0, xu: XU };
        assert_eq!(table.claim(0, XU, 0).unwrap_err(), in_use);
        drop(observer);
        assert!(table.claim(0, XU, 0).is_ok());
    }

    #[test]
    fn end_of_a_ring_under_a_lock_of_its_entry_does_not_keep_everything() {
        let table = table(1);
        let claim = table.claim(0, XU, 0).unwrap();
        let (submitter, worker, observer) = claim.ring(1).unwrap();
        *claim.submit_work_lock.lock() = Some(Box::new(submitter));
        drop((worker, observer));
        let watched = Arc::downgrade(&table);
        drop(table);
        assert!(claim.work_queue().is_in_use());
        drop(claim);
        assert!(
            watched.upgrade().is_none(),
            "claim, ring and table are gone"
        );
    }

    #[test]
    fn claims_race_for_one_entry() {
        let table = table(1);
        let won = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| table.claim(0, XU, 0).ok()));
            // Nobody lets go before all have tried.
            let claims = threads.map(|thread| thread.join().unwrap());
            claims.iter().flatten().count()
        });
        assert_eq!(won, 1);
    }
}
