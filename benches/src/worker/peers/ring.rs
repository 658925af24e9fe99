//! Our ring without the worker around it, both sides awake: from submission to the completion seen.
//!
//! The caller sees a completion in the slot of its oldest request, or in the cursor of all; both are measured.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use xu_abi::{SeqId, XuId, XuType};
use xu_ring::queue::{Observer, Submitter, Worker};

use super::{answer, join};
use crate::candidates::Wait;
use crate::pin::Pair;
use crate::worker::service::{Caller, Service};

/// As for the peers.
const CAPACITY: u64 = 64;

/// Completions are seen in the slots.
pub(crate) struct BySlot<W>(PhantomData<W>);

/// Completions are seen in the cursor.
pub(crate) struct ByCursor<W>(PhantomData<W>);

/// A ring, and the thread that completes what is in it.
struct Running {
    submitter: Submitter<()>,
    observer: Observer<()>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start<W: Wait>(processor: usize) -> Option<Self> {
        let xu = XuId::new(XuType::Compute, 0, 0)?;
        let (submitter, worker, observer) = xu_ring::queue::ring::<()>(xu, CAPACITY).ok()?;
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = answer(processor, move || complete::<W>(worker, &until))?;
        Some(Self {
            submitter,
            observer,
            over,
            thread,
        })
    }

    #[inline]
    fn submit(&mut self) -> SeqId {
        // A box of nothing takes no memory.
        let submitted = self.submitter.submit(Box::new(()));
        match (submitted, self.submitter.trigger_next()) {
            (Ok(seq), Ok(_)) => seq,
            _ => panic!("the ring is full"),
        }
    }

    fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        join(self.thread);
    }
}

fn complete<W: Wait>(mut worker: Worker<()>, until: &AtomicBool) {
    loop {
        while worker.pop().is_ok() {}
        if until.load(Ordering::Relaxed) {
            return;
        }
        W::once();
    }
}

pub(crate) struct InSlots<W> {
    running: Running,
    waiting: VecDeque<SeqId>,
    waits: PhantomData<W>,
}

pub(crate) struct InCursor<W> {
    running: Running,
    seen: u64,
    waits: PhantomData<W>,
}

impl<W: Wait> Service for BySlot<W> {
    type Caller = InSlots<W>;

    fn start(processors: Pair) -> Option<InSlots<W>> {
        Some(InSlots {
            running: Running::start::<W>(processors[1])?,
            // CAST: small.
            waiting: VecDeque::with_capacity(CAPACITY as usize),
            waits: PhantomData,
        })
    }
}

impl<W: Wait> Service for ByCursor<W> {
    type Caller = InCursor<W>;

    fn start(processors: Pair) -> Option<InCursor<W>> {
        let running = Running::start::<W>(processors[1])?;
        let seen = running.observer.last_completed().cursor().get();
        Some(InCursor {
            running,
            seen,
            waits: PhantomData,
        })
    }
}

impl<W: Wait> Caller for InSlots<W> {
    #[inline]
    fn submit(&mut self) {
        let seq = self.running.submit();
        self.waiting.push_back(seq);
    }

    #[inline]
    fn wait(&mut self) -> usize {
        let Some(oldest) = self.waiting.pop_front() else {
            return 0;
        };
        while self.running.submitter.is_completed(oldest) != Ok(true) {
            W::once();
        }
        1
    }

    fn stop(self) {
        self.running.stop();
    }
}

impl<W: Wait> Caller for InCursor<W> {
    #[inline]
    fn submit(&mut self) {
        self.running.submit();
    }

    #[inline]
    fn wait(&mut self) -> usize {
        loop {
            let completed = self.running.observer.last_completed().cursor().get();
            if completed > self.seen {
                let new = completed - self.seen;
                self.seen = completed;
                // CAST: no more than are outstanding.
                return new as usize;
            }
            W::once();
        }
    }

    fn stop(self) {
        self.running.stop();
    }
}
