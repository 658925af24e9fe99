//! What the two ends share besides slots: which of them are left, and where they stood when they went.

use super::order;
use crate::sync::{AtomicU8, AtomicUsize, Ordering};

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The end that pushes.
    Producer,
    /// The end that pops.
    Consumer,
}

/// The end may still push or pop.
const PRODUCER_OPEN: u8 = 1;
const CONSUMER_OPEN: u8 = 2;
/// The end still uses the memory.
const PRODUCER_HOLDS: u8 = 4;
const CONSUMER_HOLDS: u8 = 8;
const BOTH_HOLD: u8 = PRODUCER_HOLDS | CONSUMER_HOLDS;
const BOTH: u8 = PRODUCER_OPEN | CONSUMER_OPEN | BOTH_HOLD;

impl End {
    const fn open(self) -> u8 {
        match self {
            Self::Producer => PRODUCER_OPEN,
            Self::Consumer => CONSUMER_OPEN,
        }
    }

    const fn holds(self) -> u8 {
        match self {
            Self::Producer => PRODUCER_HOLDS,
            Self::Consumer => CONSUMER_HOLDS,
        }
    }

    /// The end at the other side.
    #[cfg(feature = "async")]
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Producer => Self::Consumer,
            Self::Consumer => Self::Producer,
        }
    }
}

/// The shared words of a queue. None of them is touched by a push or a pop.
#[derive(Debug)]
pub struct Control {
    ends: AtomicU8,
    /// Where an end stood when it went: the other may have to go on from there.
    producer_at: AtomicUsize,
    consumer_at: AtomicUsize,
    /// Rung when there is room, and when there is a value, for the end that waits.
    #[cfg(feature = "async")]
    producer_bell: crate::sync::AtomicWaker,
    #[cfg(feature = "async")]
    consumer_bell: crate::sync::AtomicWaker,
}

macro_rules! control {
    ($ends:expr) => {
        Self {
            ends: AtomicU8::new($ends),
            producer_at: AtomicUsize::new(0),
            consumer_at: AtomicUsize::new(0),
            #[cfg(feature = "async")]
            producer_bell: crate::sync::AtomicWaker::new(),
            #[cfg(feature = "async")]
            consumer_bell: crate::sync::AtomicWaker::new(),
        }
    };
}

impl Control {
    /// Of a queue whose two ends are about to be made.
    #[cfg(feature = "alloc")]
    pub(crate) fn claimed() -> Self {
        control!(BOTH)
    }

    /// Of a queue that has no ends.
    #[cfg(not(loom))]
    pub(crate) const fn unclaimed() -> Self {
        control!(0)
    }

    /// Of a queue that has no ends.
    #[cfg(loom)]
    pub(crate) fn unclaimed() -> Self {
        control!(0)
    }

    /// Lets the caller make the two ends, unless there are any.
    pub(crate) fn claim(&self) -> bool {
        // PAIRS: with the `fetch_and` in `let_go`; orders all that earlier ends did before what the new ones do.
        self.ends
            .compare_exchange(0, BOTH, order::claim(), Ordering::Relaxed)
            .is_ok()
    }

    /// Where the end stood when it went, or 0. Of use to whoever holds all that is left of the queue.
    pub(crate) fn left_at(&self, end: End) -> usize {
        // Relaxed: whoever may ask has acquired the going of that end.
        self.at(end).load(Ordering::Relaxed)
    }

    /// Whether the end has not gone. What it did before it went is visible to the caller.
    #[inline]
    pub(crate) fn is_open(&self, end: End) -> bool {
        // PAIRS: with the `fetch_and` in `close`; orders the last push before the news that there is no producer.
        self.ends.load(order::open_load()) & end.open() != 0
    }

    /// The end, which stood at `at`, will neither push nor pop any more. It still holds the memory: [`let_go`] follows.
    pub(crate) fn close(&self, end: End, at: usize) {
        self.at(end).store(at, Ordering::Relaxed);
        // A waker of our own that is left is for a wait that nobody waits any more.
        #[cfg(feature = "async")]
        let _stale = self.bell(end).take();
        // PAIRS: with the load in `is_open`.
        self.ends.fetch_and(!end.open(), order::close());
        // The other end may free the memory as soon as we no longer hold it, so tell it before.
        #[cfg(feature = "async")]
        if !crate::mutant::Mutant::SpscSilentLeave.is_seeded() {
            self.bell(end.other()).wake();
        }
    }

    /// What [`let_go`] is called with.
    pub(crate) fn ends(&self) -> &AtomicU8 {
        &self.ends
    }

    /// Leaves a waker for the end that is about to sleep, in place of the one that is there.
    #[cfg(feature = "async")]
    pub(crate) fn wait(&self, end: End, waker: &core::task::Waker) {
        // Cloned first: foreign code that panics must not do so inside the bell, which would then never ring again.
        let waker = waker.clone();
        self.bell(end).register(&waker);
    }

    /// What rings for the end.
    #[cfg(feature = "async")]
    pub(crate) fn bell(&self, end: End) -> &crate::sync::AtomicWaker {
        match end {
            End::Producer => &self.producer_bell,
            End::Consumer => &self.consumer_bell,
        }
    }

    fn at(&self, end: End) -> &AtomicUsize {
        match end {
            End::Producer => &self.producer_at,
            End::Consumer => &self.consumer_at,
        }
    }
}

/// The end, which has closed, no longer uses the memory. `true`: it was the last, and the caller has the memory to itself.
///
/// Not a method of [`Control`]: the other end may free all of it while this function returns, which an argument that is a
/// reference to it would forbid, as there are bytes of padding in it. A reference to an atomic alone does not.
#[must_use]
pub(crate) fn let_go(ends: &AtomicU8, end: End) -> bool {
    // PAIRS: with itself, at the other end; the last to go acquires all that the other did to the memory.
    let before = ends.fetch_and(!end.holds(), order::leave());
    before & BOTH_HOLD == end.holds()
}
