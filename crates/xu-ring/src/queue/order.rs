//! The memory ordering of every access that two ends meet at: cursors, stages, waiters, the count of handles,
//! and the header that goes from ring to ring.
//!
//! One function per place of use, so that a model can weaken each alone; outside models they are constants.
//! The argument for each pair is in the documentation of [`queue`](super), and at each place of use.
#![forbid(unsafe_code)]

use crate::mutant::{Mutant, unless};
use crate::sync::Ordering::{self, AcqRel, Acquire, Release};

#[inline(always)]
pub(super) fn submitted_store() -> Ordering {
    unless(Mutant::SubmittedStore, Release)
}

#[inline(always)]
pub(super) fn submitted_load() -> Ordering {
    unless(Mutant::SubmittedLoad, Acquire)
}

#[inline(always)]
pub(super) fn triggered_store() -> Ordering {
    unless(Mutant::TriggeredStore, Release)
}

#[inline(always)]
pub(super) fn triggered_load() -> Ordering {
    unless(Mutant::TriggeredLoad, Acquire)
}

#[inline(always)]
pub(super) fn completed_store() -> Ordering {
    unless(Mutant::CompletedStore, Release)
}

#[inline(always)]
pub(super) fn completed_load_by_submitter() -> Ordering {
    unless(Mutant::CompletedLoadBySubmitter, Acquire)
}

#[inline(always)]
pub(super) fn completed_load_by_observer() -> Ordering {
    unless(Mutant::CompletedLoadByObserver, Acquire)
}

#[inline(always)]
pub(super) fn stage_store_by_trigger() -> Ordering {
    unless(Mutant::StageStoreByTrigger, Release)
}

#[inline(always)]
pub(super) fn stage_load_by_worker() -> Ordering {
    unless(Mutant::StageLoadByWorker, Acquire)
}

#[inline(always)]
pub(super) fn stage_store_by_pop() -> Ordering {
    unless(Mutant::StageStoreByPop, Release)
}

#[inline(always)]
pub(super) fn stage_load_by_submitter() -> Ordering {
    unless(Mutant::StageLoadBySubmitter, Acquire)
}

#[inline(always)]
pub(super) fn waiter_store() -> Ordering {
    unless(Mutant::WaiterStore, Release)
}

#[inline(always)]
pub(super) fn waiter_load() -> Ordering {
    unless(Mutant::WaiterLoad, Acquire)
}

/// Release for what this end did, acquire of what the others did: the last one frees the memory.
#[inline(always)]
pub(super) fn share_return() -> Ordering {
    if Mutant::ShareRelease.is_seeded() {
        Acquire
    } else if Mutant::ShareAcquire.is_seeded() {
        Release
    } else {
        AcqRel
    }
}

#[inline(always)]
pub(super) fn header_claim() -> Ordering {
    unless(Mutant::HeaderClaim, Acquire)
}

#[inline(always)]
pub(super) fn header_clear() -> Ordering {
    unless(Mutant::HeaderClear, Release)
}
