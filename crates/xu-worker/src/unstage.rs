//! Models that are to be unstaged when a unit has done with them.
//!
//! Unloading a model must not take memory away from an execution that still runs. Who unloads leaves the model here, and
//! the worker lets it go after the next request is complete. Spec `xu.md` sections 2.4 and 4 (step 4).

use crate::sync::{AtomicU32, Ordering};
use crate::wake::drop_foreign;
use core::fmt;
// No model looks at it.
use core::mem;
use core::sync::atomic::AtomicU64;

/// A model, or whatever keeps it staged; dropping it unstages it.
pub type Staged = Box<dyn Send>;

/// Physical cores of a logical one.
pub const SUB_CORES: usize = 2;

/// What a unit's unstage lock covers.
#[derive(Default)]
pub struct Unstage {
    deferred: [Vec<Staged>; SUB_CORES],
}

/// The words of a unit's entry that say what is staged.
pub(crate) struct Words<'a> {
    pub(crate) deferred: &'a [AtomicU64; SUB_CORES],
    pub(crate) last_exec: &'a [AtomicU32; SUB_CORES],
}

impl Unstage {
    /// Leaves a model to be let go. The caller holds the lock, as for all that follows.
    pub(crate) fn defer(&mut self, sub_core: usize, staged: Staged, words: &Words<'_>) {
        // PANIC: the caller has checked the number.
        self.deferred[sub_core].push(staged);
        // CAST: a count, where the original has an address; not zero is what matters.
        let count = self.deferred[sub_core].len() as u64;
        // Relaxed: seen late, the model goes one request later.
        words.deferred[sub_core].store(count, Ordering::Relaxed);
    }

    /// Everything that was left.
    pub(crate) fn take(&mut self, words: &Words<'_>) -> [Vec<Staged>; SUB_CORES] {
        for word in words.deferred {
            word.store(0, Ordering::Relaxed);
        }
        mem::take(&mut self.deferred)
    }
}

impl Words<'_> {
    /// Whether anything waits to be let go.
    #[inline]
    pub(crate) fn is_anything_deferred(&self) -> bool {
        // Relaxed: as in `defer`.
        self.deferred
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Records the model that ran last.
    #[inline]
    pub(crate) fn record(&self, model: u32) {
        for word in self.last_exec {
            // Written when it changes only: submitters write to the same line.
            if word.load(Ordering::Relaxed) != model {
                word.store(model, Ordering::Relaxed);
            }
        }
    }
}

/// Lets models go. Their destructors are foreign code: no lock is held.
pub(crate) fn release(deferred: [Vec<Staged>; SUB_CORES]) {
    for staged in deferred.into_iter().flatten() {
        drop_foreign(staged);
    }
}

impl fmt::Debug for Unstage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstage").finish_non_exhaustive()
    }
}
