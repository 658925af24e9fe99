//! What crosses the ring, and the boxes that it crosses in.
//!
//! The submitting half takes a box from its [`Spares`], fills it and gives it to the ring; the worker half empties it and
//! returns it through [`Returns`]. In a steady state the same boxes go round, and no request allocates. The way back is a
//! queue of its own, since a box that stayed in its slot would cost a box for each slot of a deep ring.
//! Only the submitter writes to a box, and only the worker reads it, so that its lines travel one way.
//! Spec `xu.md` sections 2.6 and 4 (step 5: the consumer frees what the producer allocated).

#![allow(unsafe_code, reason = "a value leaves its box, and the box stays")]

use crate::completion::Notifier;
use crate::statistics::Stamp;
use core::fmt;
use core::mem::MaybeUninit;
use xu_ring::spsc;

/// Most boxes that wait to be used again. A burst that is deeper than this allocates.
const MOST_SPARES: u64 = 1024;

/// A request on its way through the ring.
pub(crate) enum WorkItem<I, O> {
    /// A caller's request, who is told of its outcome, if anybody, and when it was accepted, if that is measured.
    Execute(I, Option<Notifier<O>>, Option<Stamp>),
    /// Bring the device to rest; tells the drain how that went.
    Stop(Notifier<()>),
}

/// A box without a request.
type Spare<I, O> = Box<MaybeUninit<WorkItem<I, O>>>;

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
pub(crate) struct Spares<I, O>(spsc::Consumer<Spare<I, O>>);

impl<I, O> Spares<I, O> {
    /// A box with this request.
    #[inline]
    pub(crate) fn fill(&mut self, item: WorkItem<I, O>) -> Box<WorkItem<I, O>> {
        match self.0.pop() {
            Some(spare) => Box::write(spare, item),
            None => Box::new(item),
        }
    }
}

/// The worker half's end: boxes that are empty.
pub(crate) struct Returns<I, O>(spsc::Producer<Spare<I, O>>);

impl<I, O> Returns<I, O> {
    /// Takes a request out of its box, and gives the box back; one too many is freed.
    #[inline]
    pub(crate) fn unpack(&mut self, item: Box<WorkItem<I, O>>) -> WorkItem<I, O> {
        let place = Box::into_raw(item);
        // SAFETY: it comes from a box, which had a value. The value is moved out here, and nowhere else: below the box is
        //   one of memory that is not initialised.
        let item = unsafe { place.read() };
        // SAFETY: it comes from a box of the same layout, and is given up by nobody else.
        let spare = unsafe { Box::from_raw(place.cast::<MaybeUninit<WorkItem<I, O>>>()) };
        drop(self.0.push(spare));
        item
    }
}

impl<I, O> fmt::Debug for WorkItem<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Execute(..) => "WorkItem::Execute",
            Self::Stop(_) => "WorkItem::Stop",
        })
    }
}
