//! The memory ordering of every access to the state of a slot and to the list of ends.
//!
//! One function per place of use, so that a model can weaken each alone; outside models they are constants.
//! The argument for each pair is in the module's documentation, and at each place of use.
#![forbid(unsafe_code)]

use crate::mutant::{Mutant, unless};
use crate::sync::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

/// *full*, by the producer.
#[inline(always)]
pub(crate) fn publish_store() -> Ordering {
    unless(Mutant::SpscPublishStore, Release)
}

/// The state, looked at by the consumer.
#[inline(always)]
pub(crate) fn value_load() -> Ordering {
    unless(Mutant::SpscValueLoad, Acquire)
}

/// *empty*, by the consumer.
#[inline(always)]
pub(crate) fn free_store() -> Ordering {
    unless(Mutant::SpscFreeStore, Release)
}

/// The state, looked at by the producer.
#[inline(always)]
pub(crate) fn room_load() -> Ordering {
    unless(Mutant::SpscRoomLoad, Acquire)
}

/// Whether the other end may still push or pop.
#[inline(always)]
pub(crate) fn open_load() -> Ordering {
    unless(Mutant::SpscOpenLoad, Acquire)
}

/// An end will neither push nor pop any more.
#[inline(always)]
pub(crate) fn close() -> Ordering {
    if Mutant::SpscLeaveRelease.is_seeded() {
        Relaxed
    } else {
        unless(Mutant::SpscCloseStore, Release)
    }
}

/// A new pair of ends takes over from the last.
#[inline(always)]
pub(crate) fn claim() -> Ordering {
    unless(Mutant::SpscClaim, Acquire)
}

/// An end no longer uses the memory: release for what this end did, acquire of what the other did, for the last one frees it.
///
/// The release is that of [`close`] again, for the ringing of the bell between the two. Loom does not see a bell being freed,
/// so the mutant takes both away.
#[inline(always)]
pub(crate) fn leave() -> Ordering {
    if Mutant::SpscLeaveRelease.is_seeded() {
        Acquire
    } else if Mutant::SpscLeaveAcquire.is_seeded() {
        Release
    } else {
        AcqRel
    }
}

/// *full* or *empty*, by an end that looks for a sleeper: release for the value, acquire of the sleeper's waker.
#[cfg(feature = "async")]
#[inline(always)]
pub(crate) fn swap() -> Ordering {
    unless(Mutant::SpscSwap, AcqRel)
}

/// A sleeper's mark, and its refusal. Loom's wakers are under a lock of loom's, which orders more than these do: no model can
/// kill a weaker mark.
#[cfg(feature = "async")]
pub(crate) fn mark() -> (Ordering, Ordering) {
    (Release, Relaxed)
}
