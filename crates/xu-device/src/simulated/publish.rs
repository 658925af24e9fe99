//! From a doorbell to a decoded request: the sequencer's walk over the model-exec rings.
//!
//! Begun by the sequencer for each doorbell, stepped by it one pair of descriptors at a time.
//! Rules: the request is decoded from the sequencer's own memory, never from the client's; nothing counts
//! before both tails are published; a doorbell without a complete publish is an error, not a silence.
//!
//! ```text
//!   request copy         52 bytes -> sequencer memory
//!   event poke            4 bytes -> REQUEST_LOADED
//!   collectives context  64 bytes -> sequencer memory + 0x100     only if the trailer says that one pair more follows
//!   tail increments       4 bytes -> Tx, 4 bytes -> Rx            then: published tails = descriptors walked
//! ```
//!
//! A stale descriptor where a fresh one belongs stops the queue for good, as it stops the hardware.
//! After any other incomplete publish the fresh descriptors up to the larger published tail are passed over and
//! both tails are moved to where the walk stopped, so that the next doorbell is judged by itself.

use super::bus::{Bus, Registers, Side, Target};
use super::dma::{Moved, Step};
use super::tpb::{Loaded, Tpb};
use crate::map;
use crate::program::Membership;
use xu_abi::{DeviceAddr, ExecRequest, RequestBuffer, TpbIndex};
use zerocopy::IntoBytes;

const REQUEST_BYTES: usize = size_of::<ExecRequest>();
/// Request, event, two tails.
const PLAIN_PAIRS: u32 = 4;
/// Where the context lies in the sequencer's memory.
const CONTEXT: usize = map::COLLECTIVES_CONTEXT as usize;

/// The doorbell cannot be followed by an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadPublish;

/// What a complete publish asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// The request.
    pub(super) request: ExecRequest,
    /// The collective whose barrier comes first.
    pub(super) membership: Option<Membership>,
}

/// A walk under way: what it has seen so far.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Which opening of the queue it belongs to.
    opening: u64,
    /// Source of the request copy.
    request: Option<DeviceAddr>,
    event: bool,
    context: bool,
    tx: bool,
    rx: bool,
    pairs: u32,
}

impl Walk {
    /// A walk over what a doorbell of `tpb` announces.
    pub(super) fn begin(tpb: &Tpb) -> Self {
        Self {
            opening: tpb.openings(),
            ..Self::default()
        }
    }

    /// Whether the queue was opened since: then nobody waits for this request any more.
    pub(super) fn is_orphaned(&self, tpb: &Tpb) -> bool {
        self.opening != tpb.openings()
    }

    /// Executes the next pair; returns how many bytes it moved, or `None` when the walk is orphaned.
    pub(super) fn step(&mut self, bus: &Bus, tpb: &Tpb) -> Result<Option<u32>, BadPublish> {
        let mut queue = tpb.dma[usize::from(map::MODEL_EXEC_QUEUE)].lock();
        if self.is_orphaned(tpb) {
            return Ok(None);
        }
        match queue.step(bus) {
            Step::Moved(moved) => {
                self.take(tpb.index, moved);
                return Ok(Some(moved.bytes));
            }
            Step::Stopped => {}
            Step::Stale => queue.abort(),
        }
        drop(queue);
        self.give_up(bus, tpb);
        Err(BadPublish)
    }

    /// Whether both tails have been published, so that [`Walk::finish`] can judge.
    pub(super) fn is_complete(&self) -> bool {
        self.tx && self.rx
    }

    /// Judges what was walked.
    pub(super) fn finish(&self, bus: &Bus, tpb: &Tpb) -> Result<Received, BadPublish> {
        let registers = bus.registers(tpb.index).ok_or(BadPublish)?;
        let walked = tpb.dma[usize::from(map::MODEL_EXEC_QUEUE)].lock().walked();
        let published = registers.tail(Side::Tx) == walked && registers.tail(Side::Rx) == walked;
        let loaded = self.event && registers.event(map::REQUEST_LOADED);
        let source = match self.request {
            Some(source) if published && loaded => source,
            _ => {
                self.give_up(bus, tpb);
                return Err(BadPublish);
            }
        };
        registers.set_event(map::REQUEST_LOADED, false);
        let mut request = ExecRequest::default();
        registers.load_request_bytes(0, request.as_mut_bytes());
        let membership = self.membership(bus, registers, source)?;
        accept(&mut tpb.loaded.lock(), &request)?;
        Ok(Received {
            request,
            membership,
        })
    }

    /// Passes over what was published, so that the next doorbell is judged by itself.
    fn give_up(&self, bus: &Bus, tpb: &Tpb) {
        if let Some(registers) = bus.registers(tpb.index) {
            let published = registers.tail(Side::Tx).max(registers.tail(Side::Rx));
            let mut queue = tpb.dma[usize::from(map::MODEL_EXEC_QUEUE)].lock();
            queue.discard_to(bus, published);
            registers.set_tails(queue.walked());
            registers.set_event(map::REQUEST_LOADED, false);
        }
    }

    fn take(&mut self, tpb: TpbIndex, moved: Moved) {
        self.pairs += 1;
        match moved.to {
            Target::SequencerMemory(at, 0)
                if at == tpb && moved.bytes as usize == REQUEST_BYTES =>
            {
                self.request = Some(moved.from);
            }
            // What follows the request and its event belongs to that request.
            Target::SequencerMemory(at, CONTEXT)
                if at == tpb && moved.bytes == Membership::CONTEXT_BYTES =>
            {
                self.context = self.event;
            }
            // An event before the request would announce bytes that are not there.
            Target::Event(at, map::REQUEST_LOADED) if at == tpb => {
                self.event = self.request.is_some();
            }
            Target::TailIncrement(at, Side::Tx) if at == tpb => self.tx = true,
            Target::TailIncrement(at, Side::Rx) if at == tpb => self.rx = true,
            _ => {}
        }
    }

    /// The context that came along. The trailer lies behind the body in the client's buffer and says how many pairs
    /// there are beside the plain ones; poison in its place is a trailer that was not written.
    fn membership(
        &self,
        bus: &Bus,
        registers: &Registers,
        source: DeviceAddr,
    ) -> Result<Option<Membership>, BadPublish> {
        let at = source
            .checked_add(RequestBuffer::TRAILER_OFFSET)
            .ok_or(BadPublish)?;
        let mut trailer = [0; 4];
        bus.memory.read(at, &mut trailer).map_err(|_| BadPublish)?;
        // All four plain ones have been seen.
        let extra = self.pairs.saturating_sub(PLAIN_PAIRS);
        match (u32::from_le_bytes(trailer) == extra, extra, self.context) {
            (true, 0, false) => Ok(None),
            (true, 1, true) => read_context(registers).map(Some),
            _ => Err(BadPublish),
        }
    }
}

/// Group, rank and number of ranks, from the sequencer's memory.
fn read_context(registers: &Registers) -> Result<Membership, BadPublish> {
    let mut words = [0; 12];
    registers.load_request_bytes(CONTEXT, &mut words);
    // PANIC: three words of four bytes.
    let word =
        |at: usize| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
    let membership = Membership {
        group: word(0),
        rank: word(4),
        ranks: word(8),
    };
    // No rank is below a number of ranks that is zero.
    if membership.rank < membership.ranks {
        Ok(membership)
    } else {
        Err(BadPublish)
    }
}

/// What a request asks to keep must have been loaded before.
fn accept(loaded: &mut Loaded, request: &ExecRequest) -> Result<(), BadPublish> {
    let config = request.reload_seq_config.get() != 0 || loaded.config;
    let tables = request.load_act_dve_tables.get() != 0 || loaded.tables;
    if !(config && tables) {
        return Err(BadPublish);
    }
    *loaded = Loaded { config, tables };
    Ok(())
}
