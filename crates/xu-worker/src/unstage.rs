//! Models that are to be unstaged when a unit has done with them.
//!
//! Unloading a model must not take memory away from an execution that still runs. Who unloads leaves the model here, and
//! the worker lets it go when the requests that were accepted until then are complete. A degraded unit keeps it until the
//! unit goes: nobody knows what the device still reads. Spec `xu.md` sections 2.4 and 4 (step 4).

use crate::sync::{AtomicU32, Ordering};
use crate::wake::drop_foreign;
use core::fmt;
// No model looks at it.
use core::sync::atomic::AtomicU64;
use xu_abi::Cursor;

/// A model, or whatever keeps it staged; dropping it unstages it.
pub type Staged = Box<dyn Send>;

/// Physical cores of a logical one.
pub const SUB_CORES: usize = 2;

/// What a unit's unstage lock covers.
#[derive(Default)]
pub struct Unstage {
    deferred: [Vec<Deferred>; SUB_CORES],
}

/// A model that goes when the requests that were accepted before it was left are complete.
struct Deferred {
    after: Cursor,
    staged: Staged,
}

/// The words of a unit's entry that say what is staged.
pub(crate) struct Words<'a> {
    pub(crate) deferred: &'a [AtomicU64; SUB_CORES],
    pub(crate) last_exec: &'a [AtomicU32; SUB_CORES],
}

impl Unstage {
    /// Leaves a model to be let go once the request of `after` is complete. The caller holds the lock, as for all that
    /// follows.
    pub(crate) fn defer(
        &mut self,
        sub_core: usize,
        after: Cursor,
        staged: Staged,
        words: &Words<'_>,
    ) {
        // PANIC: the caller has checked the number.
        self.deferred[sub_core].push(Deferred { after, staged });
        self.publish(words);
    }

    /// Everything that was left for requests up to `completed`.
    pub(crate) fn take(&mut self, completed: Cursor, words: &Words<'_>) -> Vec<Staged> {
        let mut taken = Vec::new();
        for deferred in &mut self.deferred {
            taken.extend(
                deferred
                    .extract_if(.., |deferred| deferred.after <= completed)
                    .map(|deferred| deferred.staged),
            );
        }
        self.publish(words);
        taken
    }

    fn publish(&self, words: &Words<'_>) {
        for (word, deferred) in words.deferred.iter().zip(&self.deferred) {
            // CAST: a count, where the original has an address; not zero is what matters.
            // Relaxed: who must not miss it looks under the mark_comp lock.
            word.store(deferred.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Words<'_> {
    /// Whether anything waits to be let go.
    #[inline]
    pub(crate) fn is_anything_deferred(&self) -> bool {
        // Relaxed: as in `publish`.
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
pub(crate) fn release(staged: Vec<Staged>) {
    staged.into_iter().for_each(drop_foreign);
}

impl fmt::Debug for Unstage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstage").finish_non_exhaustive()
    }
}
