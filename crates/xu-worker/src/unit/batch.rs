//! Many requests at once: the worker sees them and is woken once.
//!
//! For who has several requests at hand. A [`Batch`] takes them one by one, of whatever kind, and each is accepted or refused
//! for itself; [`Unit::submit_batch`] takes all of them under one lock, so that nobody's requests come between; and
//! [`Unit::post_batch`] asks an iterator, and tells nobody of outcomes.
//!
//! ```text
//!  submit | submit | submit ...       the device knows, the worker does not
//!                          publish    ring trigger, once; wake the worker, once
//! ```
//!
//! A queue that fills half way has accepted what it has accepted; the rest comes back. Spec `xu.md` section 4 (submit funnel).

use super::{Accepted, Unit};
use crate::engine::Stage;
use crate::funnel::{Funnel, Released};
use crate::refusal::{Refusal, Refused, RefusedBatch};
use crate::trace;
use core::fmt;
use std::collections::VecDeque;
use xu_abi::SeqId;

/// Requests that are accepted, and that the worker sees when this is dropped, or published: also when the caller panics,
/// since the device knows them.
///
/// Do not wait for one of them before that, nor for room when they have filled the unit. Others may submit meanwhile, and then
/// the worker sees those that came before theirs sooner; when the unit closes, it sees all of them.
#[must_use = "it is published when it is dropped"]
pub struct Batch<'a, S: Stage> {
    unit: &'a Unit<S>,
    requests: u64,
    last: Option<SeqId>,
}

impl<'a, S: Stage> Batch<'a, S> {
    fn new(unit: &'a Unit<S>) -> Self {
        Self {
            unit,
            requests: 0,
            last: None,
        }
    }

    /// As [`Unit::submit`], without waking the worker.
    ///
    /// # Errors
    /// As [`Unit::submit`]. What the batch has accepted stays accepted.
    pub fn submit(&mut self, item: S::Item) -> Result<Accepted<S::Outcome>, Refused<S::Item>> {
        let (seq, completion) = self.unit.through_funnel(item, |funnel, item, shared| {
            let (notifier, completion) = funnel.completion();
            let seq = funnel.hold(item, Some(notifier), shared)?;
            Ok((seq, completion))
        })?;
        self.add(seq);
        Ok(Accepted { seq, completion })
    }

    /// As [`Unit::post`], without waking the worker.
    ///
    /// # Errors
    /// As [`Batch::submit`].
    pub fn post(&mut self, item: S::Item) -> Result<SeqId, Refused<S::Item>> {
        let seq = self
            .unit
            .through_funnel(item, |funnel, item, shared| funnel.hold(item, None, shared))?;
        self.add(seq);
        Ok(seq)
    }

    /// How many requests it has accepted.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.requests
    }

    /// Whether it has accepted none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// The last request that it has accepted: when it is complete, so are the others.
    #[must_use]
    pub fn last(&self) -> Option<SeqId> {
        self.last
    }

    /// Lets the worker see the requests. Returns the last one.
    pub fn publish(self) -> Option<SeqId> {
        self.last
    }

    fn add(&mut self, seq: SeqId) {
        self.requests += 1;
        self.last = Some(seq);
    }
}

impl<S: Stage> Drop for Batch<'_, S> {
    fn drop(&mut self) {
        if let Some(last) = self.last {
            // Without a funnel the unit has gone with all that it had. None is left where others have released them.
            let requests = self.unit.with_funnel(Funnel::release_all).unwrap_or(0);
            self.unit.wake(Released { last, requests });
            trace::accepted(last, self.requests);
        }
        self.unit.tell_if_degraded();
    }
}

impl<S: Stage> Unit<S> {
    /// Begins a batch. It takes no lock and no room while it lies idle.
    pub fn batch(&self) -> Batch<'_, S> {
        Batch::new(self)
    }

    /// As [`Unit::submit`] for several requests, under one lock: their sequences follow one another, the worker sees them at
    /// once and is woken once.
    ///
    /// Takes requests from the front of `items`, and adds to `accepted` for each, in the same order.
    ///
    /// # Errors
    /// Why a request was refused. It is at the front of `items` now, unless the device may have seen part of it, with those
    /// behind it; those before it are in `accepted`.
    pub fn submit_batch(
        &self,
        items: &mut VecDeque<S::Item>,
        accepted: &mut Vec<Accepted<S::Outcome>>,
    ) -> Result<(), Refusal> {
        let before = accepted.len();
        // Not with the lock held.
        accepted.reserve(items.len());
        let mut released = 0;
        let refusal = self.with_funnel(|funnel, shared| {
            while let Some(item) = items.pop_front() {
                let (notifier, completion) = funnel.completion();
                match funnel.hold(item, Some(notifier), shared) {
                    Ok(seq) => accepted.push(Accepted { seq, completion }),
                    Err(refused) => {
                        // There is room: it was there.
                        refused
                            .item
                            .into_iter()
                            .for_each(|item| items.push_front(item));
                        released = funnel.release_all(shared);
                        return Err((refused.reason, completion));
                    }
                }
            }
            released = funnel.release_all(shared);
            Ok(())
        });
        self.wake(Released {
            last: self.last_submitted(),
            requests: released,
        });
        // CAST: fewer than the unit has slots.
        let requests = (accepted.len() - before) as u64;
        if let Some(last) = accepted.last().filter(|_| requests > 0) {
            trace::accepted(last.seq, requests);
        }
        self.tell_if_degraded();
        refusal?.map_err(|(reason, _completion)| {
            trace::refused(&reason);
            reason
        })
    }

    /// As [`Unit::post`] for several requests: the worker sees them and is woken once, at the end or when `items` panics.
    ///
    /// Others may submit in between, and then the worker sees the beginning of the batch sooner. `items` is asked with no
    /// lock held, and may take its time: what is accepted waits for it.
    ///
    /// Returns the sequence of the last request; `None` when there was none.
    ///
    /// # Errors
    /// [`RefusedBatch`] says how many were accepted, why the next one was not, and has the rest.
    pub fn post_batch<B>(&self, items: B) -> Result<Option<SeqId>, RefusedBatch<B::IntoIter>>
    where
        B: IntoIterator<Item = S::Item>,
    {
        let mut rest = items.into_iter();
        let mut batch = self.batch();
        while let Some(item) = rest.next() {
            if let Err(refused) = batch.post(item) {
                return Err(RefusedBatch::new(batch.last(), refused, rest));
            }
        }
        Ok(batch.publish())
    }
}

impl<S: Stage> fmt::Debug for Batch<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("requests", &self.requests)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}
