//! What crosses the ring, and the boxes that it crosses in.
//!
//! The submitting half takes a box from its [`Spares`], fills it and gives it to the ring; the worker half empties it and
//! returns it through [`Returns`]. In a steady state the same boxes go round, and no request allocates. The way back is a
//! queue of its own, since a box that stayed in its slot would cost a box for each slot of a deep ring.
//! Spec `xu.md` sections 2.6 and 4 (step 5: the consumer frees what the producer allocated).

use crate::completion::Notifier;
use core::fmt;
use xu_ring::spsc;

/// Most boxes that wait to be used again. A burst that is deeper than this allocates.
const MOST_SPARES: u64 = 1024;

/// A request on its way through the ring.
pub(crate) enum Request<I, O> {
    /// A caller's request, and who is told of its outcome, if anybody.
    Execute(I, Option<Notifier<O>>),
    /// Bring the device to rest; tells the drain how that went.
    Stop(Notifier<()>),
}

/// A box with a request, or an empty one.
pub(crate) struct WorkItem<I, O>(Option<Request<I, O>>);

impl<I, O> WorkItem<I, O> {
    pub(crate) fn request(&mut self) -> Option<&mut Request<I, O>> {
        self.0.as_mut()
    }

    pub(crate) fn take(&mut self) -> Option<Request<I, O>> {
        self.0.take()
    }
}

/// Both ends of the way back.
pub(crate) type Ends<I, O> = (Spares<I, O>, Returns<I, O>);

/// Two ends of a way for empty boxes, from the worker back to the submitters of a unit with room for `limit` requests.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn recycling<I: Send, O: Send>(limit: u64) -> Result<Ends<I, O>, spsc::CapacityError> {
    // CAST: at most `MOST_SPARES`.
    let capacity = limit.min(MOST_SPARES) as usize;
    let (producer, consumer) = spsc::channel(capacity)?;
    Ok((Spares(consumer), Returns(producer)))
}

/// The submitting half's end: boxes to fill.
pub(crate) struct Spares<I, O>(spsc::Consumer<Box<WorkItem<I, O>>>);

impl<I, O> Spares<I, O> {
    /// A box with this request.
    #[inline]
    pub(crate) fn fill(&mut self, request: Request<I, O>) -> Box<WorkItem<I, O>> {
        match self.0.pop() {
            Some(mut spare) => {
                spare.0 = Some(request);
                spare
            }
            None => Box::new(WorkItem(Some(request))),
        }
    }
}

/// The worker half's end: boxes that are empty.
pub(crate) struct Returns<I, O>(spsc::Producer<Box<WorkItem<I, O>>>);

impl<I, O> Returns<I, O> {
    /// Gives a box back; one too many is freed.
    #[inline]
    pub(crate) fn give_back(&mut self, spare: Box<WorkItem<I, O>>) {
        debug_assert!(spare.0.is_none());
        drop(self.0.push(spare));
    }
}

impl<I, O> fmt::Debug for WorkItem<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(Request::Execute(..)) => "WorkItem(execute)",
            Some(Request::Stop(_)) => "WorkItem(stop)",
            None => "WorkItem(empty)",
        })
    }
}
