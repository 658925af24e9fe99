//! The DMA queues of a core: two rings of descriptors and the walker that executes them.
//!
//! In real time transfer queues are walked inside `Device::start_dma`, on the caller's thread: the doorbell is posted
//! and its work is done when the call returns. In virtual time they only take note, and are walked one pair at a step.
//! The model-exec queue is walked by the sequencer, on the start semaphore.
//! Rules: one Tx and one Rx descriptor make a copy; both carry the ring id of the lap, equal lengths, the
//! plain-copy operation and addresses that exist. Whatever breaks a rule aborts the queue until it is
//! opened again. Spec `xu.md` section 2.10, `driver_emulation.md` section 5.
//! What the rings are: [`rings`](super::rings).

use super::bus::{Bus, Target};
use super::costs::Costs;
use super::rings::{Head, QueueStatus, RingSpec, RingState, Rings};
use super::sequencer::Progress;
use crate::device::{DeviceError, DmaQueue};
use xu_abi::DeviceAddr;
use xu_abi::descriptor::{
    DESCRIPTOR_SIZE, MAX_TRANSFER, META_PLAIN_COPY, META_WRITE_BARRIER, RING_ALIGN, RING_GRANULE,
    RING_MAX_DESCRIPTORS, RING_MIN_DESCRIPTORS,
};

/// One DMA queue. A fresh one has no rings.
#[derive(Debug, Default)]
pub(super) struct Queue {
    rings: Option<Rings>,
    /// Its engine is stopped: nothing moves, though it takes what it is given.
    held: bool,
    /// Bytes on their way from source to destination.
    passing: Vec<u8>,
}

/// What one step of the walker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A copy was executed.
    Moved(Moved),
    /// The descriptors at the head were not written for this lap.
    Stale,
    /// The queue has aborted, now or before, or has no rings.
    Stopped,
}

/// An executed copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// The source.
    pub(super) from: DeviceAddr,
    /// What was written.
    pub(super) to: Target,
    /// Length in bytes.
    pub(super) bytes: u32,
}

/// Why a queue was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartError {
    /// An argument is wrong.
    Argument(DeviceError),
    /// The queue has aborted.
    Aborted,
}

impl StartError {
    /// The error that a caller of `queue` sees.
    pub(super) fn of(self, queue: DmaQueue) -> DeviceError {
        match self {
            Self::Argument(error) => error,
            Self::Aborted => DeviceError::DmaAborted {
                tpb: queue.tpb,
                index: queue.index,
            },
        }
    }
}

impl Queue {
    /// Gives the queue its rings and resets it.
    pub(super) fn open(
        &mut self,
        bus: &Bus,
        tx: DeviceAddr,
        rx: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        let allowed = RING_MIN_DESCRIPTORS..=RING_MAX_DESCRIPTORS;
        if !allowed.contains(&descriptors) || !descriptors.is_multiple_of(RING_GRANULE) {
            return Err(DeviceError::BadArgument {
                what: "descriptors of a ring",
                value: u64::from(descriptors),
                allowed: "a multiple of 16 from 32 to 16777200",
            });
        }
        let bytes = u64::from(descriptors) * DESCRIPTOR_SIZE;
        for base in [tx, rx] {
            bus.memory.check(base, bytes)?;
            if !base.get().is_multiple_of(RING_ALIGN) {
                return Err(DeviceError::BadAddress { addr: base, bytes });
            }
        }
        let ring = |base| RingSpec { base, descriptors };
        self.program(ring(tx), ring(rx));
        Ok(())
    }

    /// Gives the queue these rings and resets it, as registers do: unasked. What is wrong with them shows when they are
    /// walked.
    pub(super) fn program(&mut self, tx: RingSpec, rx: RingSpec) {
        self.rings = Some(Rings::new(tx, rx));
    }

    /// Takes the rings away.
    pub(super) fn close(&mut self) {
        self.rings = None;
    }

    /// How the queue stands, and what the registers of its rings say: Tx, then Rx. `published` are the tails of the
    /// queue that brings requests.
    pub(super) fn registers(&self, published: Option<[u64; 2]>) -> (QueueStatus, [RingState; 2]) {
        self.rings.as_ref().map_or_else(Default::default, |rings| {
            (rings.status, rings.state(published))
        })
    }

    /// Whether `descriptors` may be added to the tails now.
    pub(super) fn check_start(&self, descriptors: u32) -> Result<(), StartError> {
        let Some(rings) = &self.rings else {
            return Err(StartError::Argument(DeviceError::BadArgument {
                what: "descriptors to start",
                value: u64::from(descriptors),
                allowed: "none: the queue is not open",
            }));
        };
        if rings.status == QueueStatus::Aborted {
            return Err(StartError::Aborted);
        }
        if u64::from(descriptors) > rings.room() {
            return Err(StartError::Argument(DeviceError::BadArgument {
                what: "descriptors to start",
                value: u64::from(descriptors),
                allowed: "at most what is free of the ring",
            }));
        }
        Ok(())
    }

    /// Adds to the tails; what is complete is walked by [`Queue::advance`], from `not_before` on.
    pub(super) fn start(&mut self, tx: u32, rx: u32, not_before: u64) {
        let Some(rings) = self.rings.as_mut() else {
            return;
        };
        // One that hangs takes what it is given, too: its tails say so.
        if matches!(rings.status, QueueStatus::Running | QueueStatus::Hung) {
            if rings.pairs() == 0 {
                rings.not_before = not_before;
            }
            rings.start(tx, rx);
        }
    }

    /// Adds to the tails and walks all pairs that are complete at once. Sources that are left without a destination
    /// abort, and so does a stale descriptor on the way. One whose engine is stopped walks when that runs again.
    pub(super) fn walk(&mut self, bus: &Bus, tx: u32, rx: u32) {
        self.start(tx, rx, 0);
        while self.advance(bus, Costs::FREE, u64::MAX) == Progress::Again {}
        if !self.held && self.rings.as_ref().is_some_and(Rings::tx_is_ahead) {
            self.abort();
        }
    }

    /// Walks one of the pairs that were started. A stale descriptor on the way aborts.
    pub(super) fn advance(&mut self, bus: &Bus, costs: Costs, now: u64) -> Progress {
        let Some(due) = self.due() else {
            return Progress::Asleep;
        };
        if due > now {
            return Progress::NotBefore(due);
        }
        match self.step(bus) {
            Step::Moved(moved) => {
                let takes = costs
                    .of_bytes(moved.bytes)
                    .saturating_add(costs.per_descriptor_ns);
                if let Some(rings) = self.rings.as_mut() {
                    rings.not_before = now.saturating_add(takes);
                }
            }
            Step::Stale | Step::Stopped => self.abort(),
        }
        Progress::Again
    }

    /// Whether nothing that was started is still to be walked. Nobody knows what a hung queue does.
    pub(super) fn is_at_rest(&self) -> bool {
        self.rings.as_ref().is_none_or(|rings| match rings.status {
            QueueStatus::Running => rings.pairs() == 0,
            QueueStatus::Hung => false,
            QueueStatus::Aborted | QueueStatus::Closed => true,
        })
    }

    /// Has its engine stop, or run again: then what was started meanwhile is still to be walked.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether it would walk if its engine ran.
    pub(super) fn is_held(&self) -> bool {
        let runs = |rings: &Rings| rings.status == QueueStatus::Running;
        self.held && self.rings.as_ref().is_some_and(runs)
    }

    /// When the next pair that was started can be walked; `None` when there is none.
    pub(super) fn due(&self) -> Option<u64> {
        let rings = self.rings.as_ref()?;
        let walks = !self.held && rings.status == QueueStatus::Running && rings.pairs() > 0;
        walks.then_some(rings.not_before)
    }

    /// Executes the pair of descriptors at the head.
    pub(super) fn step(&mut self, bus: &Bus) -> Step {
        let (tx, rx) = match self.rings.as_ref().map(|rings| rings.head(bus)) {
            Some(Head::Fresh(tx, rx)) => (tx, rx),
            Some(Head::Stale) => return Step::Stale,
            Some(Head::Unreadable) => {
                self.abort();
                return Step::Stopped;
            }
            Some(Head::Aborted) | None => return Step::Stopped,
        };
        let bytes = tx.transfer_len();
        let well_formed = bytes == rx.transfer_len()
            && tx.meta_ctrl.get() & !META_WRITE_BARRIER == META_PLAIN_COPY
            && rx.meta_ctrl.get() == 0;
        // Both ends are resolved before anything moves.
        let moved = well_formed
            .then(|| bus.resolve(rx.addr(), u64::from(bytes)))
            .flatten()
            .and_then(|_| self.carry(bus, tx.addr(), rx.addr(), bytes));
        match (moved, self.rings.as_mut()) {
            (Some(to), Some(rings)) => {
                rings.advance();
                Step::Moved(Moved {
                    from: tx.addr(),
                    to,
                    bytes,
                })
            }
            _ => {
                self.abort();
                Step::Stopped
            }
        }
    }

    /// Passes over fresh descriptors until `position` of them have been walked since the queue was opened.
    pub(super) fn discard_to(&mut self, bus: &Bus, position: u64) {
        if let Some(rings) = self.rings.as_mut() {
            while rings.walked() < position && matches!(rings.head(bus), Head::Fresh(..)) {
                rings.advance();
            }
        }
    }

    /// Descriptors walked since the queue was opened.
    pub(super) fn walked(&self) -> u64 {
        self.rings.as_ref().map_or(0, Rings::walked)
    }

    fn carry(&mut self, bus: &Bus, from: DeviceAddr, to: DeviceAddr, bytes: u32) -> Option<Target> {
        self.passing.resize(MAX_TRANSFER as usize, 0);
        // PANIC: a descriptor moves at most `MAX_TRANSFER` bytes.
        let passing = &mut self.passing[..bytes as usize];
        bus.load(from, passing)?;
        bus.store(to, passing)
    }

    /// Stops the queue until it is opened again.
    pub(super) fn abort(&mut self) {
        self.stop(QueueStatus::Aborted);
    }

    /// Has the queue move nothing until it is opened again, though it takes what it is given.
    pub(super) fn hang(&mut self) {
        self.stop(QueueStatus::Hung);
    }

    fn stop(&mut self, status: QueueStatus) {
        if let Some(rings) = self.rings.as_mut() {
            rings.status = status;
        }
    }
}
