//! The memory ordering of every access to a cursor and to the share count.
//!
//! One function per place of use, so that a model can weaken each alone; outside models they are constants.
//! The argument for each pair is in the crate's documentation, and at each place of use.
#![forbid(unsafe_code)]

use crate::mutant::Mutant;
use crate::sync::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

#[inline(always)]
fn unless(mutant: Mutant, ordering: Ordering) -> Ordering {
    if mutant.is_seeded() {
        Relaxed
    } else {
        ordering
    }
}

#[inline(always)]
pub(crate) fn submitted_store() -> Ordering {
    unless(Mutant::SubmittedStore, Release)
}

#[inline(always)]
pub(crate) fn submitted_load() -> Ordering {
    unless(Mutant::SubmittedLoad, Acquire)
}

#[inline(always)]
pub(crate) fn triggered_store() -> Ordering {
    unless(Mutant::TriggeredStore, Release)
}

#[inline(always)]
pub(crate) fn triggered_load_by_worker() -> Ordering {
    unless(Mutant::TriggeredLoadByWorker, Acquire)
}

#[inline(always)]
pub(crate) fn triggered_load_by_observer() -> Ordering {
    unless(Mutant::TriggeredLoadByObserver, Acquire)
}

#[inline(always)]
pub(crate) fn completed_store() -> Ordering {
    unless(Mutant::CompletedStore, Release)
}

#[inline(always)]
pub(crate) fn completed_load_by_submitter() -> Ordering {
    unless(Mutant::CompletedLoadBySubmitter, Acquire)
}

#[inline(always)]
pub(crate) fn completed_load_by_observer() -> Ordering {
    unless(Mutant::CompletedLoadByObserver, Acquire)
}

/// Release for what this end did, acquire of what the others did: the last one frees the memory.
#[inline(always)]
pub(crate) fn share_return() -> Ordering {
    if Mutant::ShareRelease.is_seeded() {
        Acquire
    } else if Mutant::ShareAcquire.is_seeded() {
        Release
    } else {
        AcqRel
    }
}
