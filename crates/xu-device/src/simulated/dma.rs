//! The DMA queues of a core: two rings of descriptors and the walker that executes them.
//!
//! In real time transfer queues are walked inside `Device::start_dma`, on the caller's thread: the doorbell is posted
//! and its work is done when the call returns. In virtual time they only take note, and are walked one pair at a step.
//! The model-exec queue is walked by the sequencer, on the start semaphore.
//! Rules: one Tx and one Rx descriptor make a copy; both carry the ring id of the lap, equal lengths, the
//! plain-copy operation and addresses that exist. Whatever breaks a rule aborts the queue until it is
//! opened again. Spec `xu.md` section 2.10, `driver_emulation.md` section 5.
//!
//! ```text
//!   Tx ring  | walked | source      | source      | stale ring id ...
//!   Rx ring  | walked | destination | destination | stale ring id ...
//!                     ^ index, the same in both rings; ring id + 1 at each wrap
//! ```

use super::bus::{Bus, Target};
use super::costs::Costs;
use super::sequencer::Progress;
use crate::device::{DeviceError, DmaQueue};
use xu_abi::descriptor::{DESCRIPTOR_SIZE, MAX_TRANSFER, META_PLAIN_COPY, META_WRITE_BARRIER};
use xu_abi::{Descriptor, DeviceAddr, RingId};
use zerocopy::IntoBytes;

const RING_ALIGN: u64 = 256;
const MIN_DESCRIPTORS: u32 = 32;
const MAX_DESCRIPTORS: u32 = 16_777_200;
const GRANULE: u32 = 16;

/// One DMA queue. A fresh one has no rings.
#[derive(Debug, Default)]
pub(super) struct Queue {
    rings: Option<Rings>,
    /// Bytes on their way from source to destination.
    passing: Vec<u8>,
}

#[derive(Debug)]
struct Rings {
    tx: DeviceAddr,
    rx: DeviceAddr,
    descriptors: u32,
    index: u32,
    ring_id: RingId,
    walked: u64,
    /// Pairs that were started and are not walked yet.
    outstanding: u32,
    /// Nothing is walked before this moment, nanoseconds.
    not_before: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Moves nothing, and does not say so.
    Hung,
    Aborted,
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
        let allowed = MIN_DESCRIPTORS..=MAX_DESCRIPTORS;
        if !allowed.contains(&descriptors) || !descriptors.is_multiple_of(GRANULE) {
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
        self.rings = Some(Rings {
            tx,
            rx,
            descriptors,
            index: 0,
            ring_id: RingId::FIRST,
            walked: 0,
            outstanding: 0,
            not_before: 0,
            state: State::Running,
        });
        Ok(())
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
        if rings.state == State::Aborted {
            return Err(StartError::Aborted);
        }
        if descriptors > rings.descriptors - rings.outstanding {
            return Err(StartError::Argument(DeviceError::BadArgument {
                what: "descriptors to start",
                value: u64::from(descriptors),
                allowed: "at most what is free of the ring",
            }));
        }
        Ok(())
    }

    /// Adds `descriptors`, which [`Queue::check_start`] has allowed, to the tails; they are walked by
    /// [`Queue::advance`], from `not_before` on.
    pub(super) fn start(&mut self, descriptors: u32, not_before: u64) {
        let Some(rings) = self.rings.as_mut() else {
            return;
        };
        if rings.state == State::Running {
            if rings.outstanding == 0 {
                rings.not_before = not_before;
            }
            rings.outstanding += descriptors;
        }
    }

    /// Walks `descriptors` pairs at once. A stale descriptor on the way aborts.
    pub(super) fn walk(&mut self, bus: &Bus, descriptors: u32) {
        self.start(descriptors, 0);
        while self.advance(bus, Costs::FREE, u64::MAX) == Progress::Again {}
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
                    rings.outstanding -= 1;
                    rings.not_before = now.saturating_add(takes);
                }
            }
            Step::Stale | Step::Stopped => self.abort(),
        }
        Progress::Again
    }

    /// Whether nothing that was started is still to be walked. Nobody knows what a hung queue does.
    pub(super) fn is_at_rest(&self) -> bool {
        self.rings.as_ref().is_none_or(|rings| match rings.state {
            State::Running => rings.outstanding == 0,
            State::Hung => false,
            State::Aborted => true,
        })
    }

    /// When the next pair that was started can be walked; `None` when there is none.
    pub(super) fn due(&self) -> Option<u64> {
        let rings = self.rings.as_ref()?;
        let walks = rings.outstanding > 0 && rings.state == State::Running;
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
            while rings.walked < position && matches!(rings.head(bus), Head::Fresh(..)) {
                rings.advance();
            }
        }
    }

    /// Descriptors walked since the queue was opened.
    pub(super) fn walked(&self) -> u64 {
        self.rings.as_ref().map_or(0, |rings| rings.walked)
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
        if let Some(rings) = self.rings.as_mut() {
            rings.state = State::Aborted;
            rings.outstanding = 0;
        }
    }

    /// Has the queue move nothing until it is opened again, though it takes what it is given.
    pub(super) fn hang(&mut self) {
        if let Some(rings) = self.rings.as_mut() {
            rings.state = State::Hung;
            rings.outstanding = 0;
        }
    }
}

/// What is at the head of the rings.
enum Head {
    Fresh(Descriptor, Descriptor),
    Stale,
    Unreadable,
    Aborted,
}

impl Rings {
    fn head(&self, bus: &Bus) -> Head {
        if self.state != State::Running {
            return Head::Aborted;
        }
        let read = |ring: DeviceAddr| {
            let at = ring.checked_add(u64::from(self.index) * DESCRIPTOR_SIZE)?;
            let mut descriptor = Descriptor::default();
            bus.memory.read(at, descriptor.as_mut_bytes()).ok()?;
            Some(descriptor)
        };
        match (read(self.tx), read(self.rx)) {
            (Some(tx), Some(rx)) => {
                if tx.ring_id() == self.ring_id && rx.ring_id() == self.ring_id {
                    Head::Fresh(tx, rx)
                } else {
                    Head::Stale
                }
            }
            _ => Head::Unreadable,
        }
    }

    fn advance(&mut self) {
        self.walked += 1;
        self.index += 1;
        if self.index == self.descriptors {
            self.index = 0;
            self.ring_id = self.ring_id.next();
        }
    }
}
