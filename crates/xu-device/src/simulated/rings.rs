//! The two rings of a DMA queue: how far each is walked, what is at their heads, what their registers say.
//!
//! Owned by a DMA queue, which executes what it finds here.
//! Rules: descriptors go in pairs, one of each ring, so that both heads have come equally far; the rings need not be equally
//! long, so that each has an index and a ring id of its own. Tails are counted for themselves: Rx may be ahead.
//!
//! ```text
//!   Tx ring  | walked | source      | stale ring id ...
//!   Rx ring  | walked | destination | destination (prefetched) | stale ring id ...
//!                     ^ head        ^ tail of Tx               ^ tail of Rx       ring id + 1 at each wrap
//! ```

use super::bus::Bus;
use xu_abi::descriptor::DESCRIPTOR_SIZE;
use xu_abi::{Descriptor, DeviceAddr, RingId};
use zerocopy::IntoBytes;

/// Where the descriptors of one direction of a DMA queue are, and how many. None: there is no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSpec {
    /// The first one.
    pub base: DeviceAddr,
    /// How many.
    pub descriptors: u32,
}

impl Default for RingSpec {
    /// No ring.
    fn default() -> Self {
        Self {
            base: DeviceAddr::new(0),
            descriptors: 0,
        }
    }
}

/// How a DMA queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueStatus {
    /// It was never given rings.
    #[default]
    Closed,
    /// It moves what it is given.
    Running,
    /// It moves nothing, and does not say so.
    Hung,
    /// It has stopped on a descriptor that it could not execute.
    Aborted,
}

/// What the registers of one ring say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingState {
    /// The ring.
    pub ring: RingSpec,
    /// Index of the descriptor that is walked next.
    pub head: u32,
    /// Ring id that it must have.
    pub head_id: u8,
    /// Index behind the last descriptor that was handed over.
    pub tail: u32,
    /// Ring id of what is handed over next.
    pub tail_id: u8,
}

/// Both rings of a queue that is open.
#[derive(Debug)]
pub(super) struct Rings {
    tx: Ring,
    rx: Ring,
    /// Pairs that are walked.
    walked: u64,
    /// Nothing is walked before this moment, nanoseconds.
    pub(super) not_before: u64,
    pub(super) status: QueueStatus,
}

#[derive(Debug)]
struct Ring {
    spec: RingSpec,
    index: u32,
    ring_id: RingId,
    /// Descriptors that were handed over.
    started: u64,
}

/// What is at the heads of the rings.
pub(super) enum Head {
    Fresh(Descriptor, Descriptor),
    Stale,
    Unreadable,
    Aborted,
}

impl Rings {
    pub(super) fn new(tx: RingSpec, rx: RingSpec) -> Self {
        Self {
            tx: Ring::new(tx),
            rx: Ring::new(rx),
            walked: 0,
            not_before: 0,
            status: QueueStatus::Running,
        }
    }

    pub(super) fn head(&self, bus: &Bus) -> Head {
        if self.status != QueueStatus::Running {
            return Head::Aborted;
        }
        match (self.tx.head(bus), self.rx.head(bus)) {
            (Some(tx), Some(rx)) => {
                if tx.ring_id() == self.tx.ring_id && rx.ring_id() == self.rx.ring_id {
                    Head::Fresh(tx, rx)
                } else {
                    Head::Stale
                }
            }
            _ => Head::Unreadable,
        }
    }

    /// The pair at the heads is done with.
    pub(super) fn advance(&mut self) {
        self.walked += 1;
        self.tx.advance();
        self.rx.advance();
    }

    /// Pairs that are walked.
    pub(super) fn walked(&self) -> u64 {
        self.walked
    }

    /// Hands descriptors over.
    pub(super) fn start(&mut self, tx: u32, rx: u32) {
        self.rx.started += u64::from(rx);
        self.tx.started += u64::from(tx);
    }

    /// Pairs that were handed over and are not walked yet.
    pub(super) fn pairs(&self) -> u64 {
        let started = self.tx.started.min(self.rx.started);
        started.saturating_sub(self.walked)
    }

    /// Whether there are sources without destinations.
    pub(super) fn tx_is_ahead(&self) -> bool {
        self.tx.started > self.rx.started
    }

    /// How many descriptors can be handed over on both rings. A hung queue takes what it is given.
    pub(super) fn room(&self) -> u64 {
        let hangs = self.status == QueueStatus::Hung;
        let room = |ring: &Ring| {
            let outstanding = match hangs {
                true => 0,
                false => ring.started.saturating_sub(self.walked),
            };
            u64::from(ring.spec.descriptors).saturating_sub(outstanding)
        };
        room(&self.tx).min(room(&self.rx))
    }

    /// What the registers say: Tx, then Rx. `published` are the tails of a queue that is handed its descriptors by its
    /// tail-increment registers.
    pub(super) fn state(&self, published: Option<[u64; 2]>) -> [RingState; 2] {
        let [tx, rx] = published.unwrap_or([self.tx.started, self.rx.started]);
        [self.tx.state(tx), self.rx.state(rx)]
    }
}

impl Ring {
    fn new(spec: RingSpec) -> Self {
        Self {
            spec,
            index: 0,
            ring_id: RingId::FIRST,
            started: 0,
        }
    }

    fn head(&self, bus: &Bus) -> Option<Descriptor> {
        if self.spec.descriptors == 0 {
            return None;
        }
        let offset = u64::from(self.index) * DESCRIPTOR_SIZE;
        let mut descriptor = Descriptor::default();
        let at = self.spec.base.checked_add(offset)?;
        bus.memory.read(at, descriptor.as_mut_bytes()).ok()?;
        Some(descriptor)
    }

    fn advance(&mut self) {
        self.index += 1;
        if self.index == self.spec.descriptors {
            self.index = 0;
            self.ring_id = self.ring_id.next();
        }
    }

    fn state(&self, tail: u64) -> RingState {
        let descriptors = u64::from(self.spec.descriptors).max(1);
        RingState {
            ring: self.spec,
            head: self.index,
            head_id: self.ring_id.get(),
            // CAST: below the number of descriptors.
            tail: (tail % descriptors) as u32,
            tail_id: id_of_lap(tail / descriptors),
        }
    }
}

/// The ring id of a lap, counted from 0.
fn id_of_lap(lap: u64) -> u8 {
    // CAST: two bits.
    (lap.wrapping_add(u64::from(RingId::FIRST.get())) & 3) as u8
}
