//! From a doorbell to a decoded request: the sequencer's walk over the model-exec rings.
//!
//! Called by the sequencer for each doorbell.
//! Rules: the request is decoded from the sequencer's own memory, never from the client's; nothing counts
//! before both tails are published; a doorbell without a complete publish is an error, not a silence.
//!
//! ```text
//!   request copy     52 bytes -> sequencer memory
//!   event poke        4 bytes -> REQUEST_LOADED
//!   (other copies)                                        a collectives chain
//!   tail increments   4 bytes -> Tx, 4 bytes -> Rx        then: published tails = descriptors walked
//! ```
//!
//! A stale descriptor where a fresh one belongs stops the queue for good, as it stops the hardware.
//! After any other incomplete publish the fresh descriptors up to the larger published tail are passed over and
//! both tails are moved to where the walk stopped, so that the next doorbell is judged by itself.

use super::bus::{Bus, Registers, Side, Target};
use super::dma::{Moved, Queue, Step};
use super::tpb::{Loaded, Tpb};
use crate::map;
use xu_abi::{DeviceAddr, ExecRequest, RequestBuffer, TpbIndex};
use zerocopy::IntoBytes;

const REQUEST_BYTES: usize = size_of::<ExecRequest>();

/// The doorbell cannot be followed by an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadPublish;

/// What the walk has seen so far.
#[derive(Debug, Default)]
struct Seen {
    /// Source of the request copy.
    request: Option<DeviceAddr>,
    event: bool,
    tx: bool,
    rx: bool,
}

/// Walks the rings up to the end of one execution and returns its request.
pub(super) fn receive(bus: &Bus, tpb: &Tpb) -> Result<ExecRequest, BadPublish> {
    let registers = bus.registers(tpb.index).ok_or(BadPublish)?;
    let mut queue = tpb.dma[usize::from(map::MODEL_EXEC_QUEUE)].lock();
    let source = walk(bus, tpb.index, registers, &mut queue);
    if source.is_err() {
        let published = registers.tail(Side::Tx).max(registers.tail(Side::Rx));
        queue.discard_to(bus, published);
        registers.set_tails(queue.walked());
    }
    drop(queue);
    registers.set_event(map::REQUEST_LOADED, false);
    let source = source?;

    let mut request = ExecRequest::default();
    registers.load_request_bytes(0, request.as_mut_bytes());
    check_trailer(bus, source)?;
    accept(&mut tpb.loaded.lock(), &request)?;
    Ok(request)
}

/// Executes descriptors until both tails are published; returns where the request came from.
fn walk(
    bus: &Bus,
    tpb: TpbIndex,
    registers: &Registers,
    queue: &mut Queue,
) -> Result<DeviceAddr, BadPublish> {
    let mut seen = Seen::default();
    while !(seen.tx && seen.rx) {
        match queue.step(bus) {
            Step::Moved(moved) => seen.take(tpb, moved),
            Step::Stopped => return Err(BadPublish),
            Step::Stale => {
                queue.abort();
                return Err(BadPublish);
            }
        }
    }
    let walked = queue.walked();
    let published = registers.tail(Side::Tx) == walked && registers.tail(Side::Rx) == walked;
    match seen.request {
        Some(source) if published && seen.event && registers.event(map::REQUEST_LOADED) => {
            Ok(source)
        }
        _ => Err(BadPublish),
    }
}

impl Seen {
    fn take(&mut self, tpb: TpbIndex, moved: Moved) {
        match moved.to {
            Target::SequencerMemory(at, 0)
                if at == tpb && moved.bytes as usize == REQUEST_BYTES =>
            {
                self.request = Some(moved.from);
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
}

/// The trailer lies behind the body in the client's buffer. It must add nothing: the machine has no
/// collectives rings to which anything could be added. Poison in its place is a trailer that was not written.
fn check_trailer(bus: &Bus, source: DeviceAddr) -> Result<(), BadPublish> {
    let at = source
        .checked_add(RequestBuffer::TRAILER_OFFSET)
        .ok_or(BadPublish)?;
    let mut cc_dma_increment = [0; 4];
    bus.memory
        .read(at, &mut cc_dma_increment)
        .map_err(|_| BadPublish)?;
    if cc_dma_increment == [0; 4] {
        Ok(())
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
