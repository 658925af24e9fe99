//! The DMA queues of a device: their rings, and who initialised each.
//!
//! Spec `driver.md` section 6. Nobody owns a queue: whoever initialises it last has it, and when that process goes, the queue
//! gets a ring of the driver that does no harm.
//!
//! ```text
//!   tx_handle ──> chunk of the Tx ring ─┐
//!                                       ├─ queue ── owner, the last to initialise it
//!   rx_handle ──> chunk of the Rx ring ─┘
//! ```
//!
//! A handle that names nothing is "no ring yet", without an error. Nothing ties a ring to its chunk: one that was freed
//! before its queue starts is trap 14.

mod descriptors;
mod engines;

pub(super) use descriptors::{
    dma_copy_descriptors, dma_copy_descriptors64, dma_descriptor_copyout,
};
pub(super) use engines::{dma_eng_get_state, dma_eng_set_state};

use super::bug::Bug;
use super::call::{Call, Failure, Handled};
use super::device::Device;
use super::memory::{Chunk, ChunkRef};
use crate::chip::RingSpec;
use engines::Engines;
use std::collections::BTreeMap;
use xu_abi::descriptor::{RING_ALIGN, RING_GRANULE, RING_MAX_DESCRIPTORS, RING_MIN_DESCRIPTORS};
use xu_abi::driver::errno::{E2BIG, EACCES, EINVAL, EPERM};
use xu_abi::driver::{
    DMA_ENGINES, DmaAckCompleted, DmaQueueCopyStart, DmaQueueGetState, DmaQueueInit,
    DmaQueueInitBatch, EngineState, FETCH_QUEUE, QUEUES_PER_ENGINE,
};

/// Descriptors of the driver's own ring.
const DUMMY_DESCRIPTORS: u32 = 64;

/// The DMA queues of a device: who initialised each.
#[derive(Debug, Default)]
pub(super) struct Rings {
    queues: BTreeMap<QueueId, Queue>,
    engines: Engines,
}

/// A queue of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueueId {
    engine: u32,
    queue: u32,
}

/// One queue that has been initialised.
#[derive(Clone, Copy, Debug)]
struct Queue {
    tx: Ring,
    rx: Ring,
    /// The process that did it; none for the driver.
    owner: Option<u32>,
}

/// One direction of a queue.
#[derive(Clone, Copy, Debug)]
struct Ring {
    memory: RingMemory,
    descriptors: u32,
}

/// What a ring is made of.
#[derive(Clone, Copy, Debug)]
enum RingMemory {
    /// The handle named nothing.
    Nothing,
    /// A chunk, that may have been freed since, and whether it is one of host memory.
    Chunk(ChunkRef, bool),
    /// The driver's own ring.
    Dummy(u64),
}

impl Ring {
    fn new(chunk: Option<Chunk>, descriptors: u32) -> Self {
        Self {
            memory: chunk.map_or(RingMemory::Nothing, |chunk| {
                RingMemory::Chunk(chunk.reference(), chunk.is_host())
            }),
            descriptors,
        }
    }

    fn spec(&self) -> RingSpec {
        RingSpec {
            base: match self.memory {
                RingMemory::Nothing => 0,
                RingMemory::Chunk(chunk, _) => chunk.pa(),
                RingMemory::Dummy(base) => base,
            },
            descriptors: self.descriptors,
        }
    }

    /// That its memory has not been freed.
    fn check_memory(&self, call: &Call<'_>, id: QueueId) -> Handled {
        match self.memory {
            RingMemory::Chunk(chunk, _) if !call.device.chunks.lock().is_there(chunk) => {
                let ring = chunk.pa();
                Err(bug(
                    14,
                    call,
                    id,
                    &format!("its ring at {ring:#x} was freed"),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Gives the queues of a process that has gone a ring that does no harm.
pub(super) fn park(device: &Device, pid: u32) {
    let base = device.chunks.lock().dummy_ring();
    let dummy = Ring {
        memory: RingMemory::Dummy(base),
        descriptors: DUMMY_DESCRIPTORS,
    };
    let parked = Queue {
        tx: dummy,
        rx: dummy,
        owner: None,
    };
    let mut rings = device.rings.lock();
    for (id, queue) in &mut rings.queues {
        if queue.owner == Some(pid) && !is_reserved(device, *id) {
            *queue = parked;
            program(device, *id, &parked);
        }
    }
}

/// Queues of each process that are parked when it goes.
pub(super) fn owners(device: &Device) -> BTreeMap<u32, usize> {
    let mut owners = BTreeMap::new();
    for (id, queue) in &device.rings.lock().queues {
        if let Some(owner) = queue.owner.filter(|_| !is_reserved(device, *id)) {
            *owners.entry(owner).or_default() += 1;
        }
    }
    owners
}

/// Whether an engine moves what it is given.
pub(super) fn runs(device: &Device, engine: u32) -> bool {
    device.rings.lock().engines.runs(engine)
}

/// A core is reset: the queues of its engines have no rings.
pub(super) fn reset(device: &Device, core: u8) {
    let table = device.table();
    let engines_of_core = table.core_engines / u32::from(table.cores);
    let mut rings = device.rings.lock();
    rings
        .queues
        .retain(|id, _| id.engine / engines_of_core != u32::from(core));
    let first = engines_of_core * u32::from(core);
    for engine in rings.engines.reset(first..first + engines_of_core) {
        // What waited there is not moved.
        device.chip.set_engine(engine, EngineState::Abort);
        device.chip.set_engine(engine, EngineState::Normal);
    }
}

/// DMA_QUEUE_INIT. A bad pointer is EACCES.
pub(super) fn dma_queue_init(call: &Call<'_>) -> Handled {
    let argument: DmaQueueInit = call.argument().map_err(|_| Failure::Errno(EACCES))?;
    init(call, &argument)
}

/// DMA_QUEUE_INIT_BATCH: stops at the first that fails; those before it stay initialised. A bad pointer is EACCES.
pub(super) fn dma_queue_init_batch(call: &Call<'_>) -> Handled {
    let argument: DmaQueueInitBatch = call.argument().map_err(|_| Failure::Errno(EACCES))?;
    if argument.count > DmaQueueInitBatch::MAX_COUNT {
        return Err(Failure::Errno(E2BIG));
    }
    // CAST: widening.
    let entries = argument.entries.iter().take(argument.count as usize);
    entries.into_iter().try_for_each(|entry| init(call, entry))
}

/// DMA_QUEUE_COPY_START: adds to the tails.
pub(super) fn dma_queue_copy_start(call: &Call<'_>) -> Handled {
    let argument: DmaQueueCopyStart = call.argument()?;
    let id = queue_id(call, argument.eng_id, argument.qid).ok_or(Failure::Errno(EINVAL))?;
    let (tx, rx) = (argument.tx_desc_count, argument.rx_desc_count);
    // Held until the machine is done, so that nobody frees or replaces a ring under it.
    let rings = call.device.rings.lock();
    let queue = rings.queues.get(&id).copied();
    let queue = queue.filter(|queue| !matches!(queue.rx.memory, RingMemory::Nothing));
    let queue = queue.ok_or_else(|| bug(16, call, id, "it has no Rx ring"))?;
    if rx == 0 {
        return Err(bug(16, call, id, "rx_desc_count is 0"));
    }
    if tx > queue.tx.descriptors || rx > queue.rx.descriptors {
        return Err(Failure::Errno(EPERM));
    }
    queue.tx.check_memory(call, id)?;
    queue.rx.check_memory(call, id)?;
    call.device.chip.start_queue(id.engine, id.queue, tx, rx);
    Ok(())
}

/// DMA_ACK_COMPLETED: moves the driver's bookkeeping, which nothing of this depends on.
pub(super) fn dma_ack_completed(call: &Call<'_>) -> Handled {
    let argument: DmaAckCompleted = call.argument()?;
    let id = queue_id(call, argument.eng_id, argument.qid).ok_or(Failure::Errno(EINVAL))?;
    let rings = call.device.rings.lock();
    let sizes = rings
        .queues
        .get(&id)
        .map_or([0; 2], |queue| [queue.tx.descriptors, queue.rx.descriptors]);
    match sizes.iter().find(|size| !size.is_power_of_two()) {
        Some(size) => Err(bug(
            17,
            call,
            id,
            &format!("its ring has {size} descriptors"),
        )),
        None => Ok(()),
    }
}

/// DMA_QUEUE_GET_STATE: nothing is checked.
pub(super) fn dma_queue_get_state(call: &Call<'_>) -> Handled {
    let argument: DmaQueueGetState = call.argument()?;
    let (engine, queue) = (argument.eng_id, argument.qid);
    let id = queue_id(call, engine, queue).ok_or_else(|| {
        let what = "it does not exist";
        bug(18, call, QueueId { engine, queue }, what)
    })?;
    let [tx, rx] = call.device.chip.queue_state(id.engine, id.queue);
    call.store(argument.tx, &tx)?;
    Ok(call.store(argument.rx, &rx)?)
}

fn init(call: &Call<'_>, asked: &DmaQueueInit) -> Handled {
    let id = queue_id(call, asked.eng_id, asked.qid).ok_or(Failure::Errno(EINVAL))?;
    let mut rings = call.device.rings.lock();
    let chunks = call.device.chunks.lock();
    let queue = Queue {
        tx: Ring::new(chunks.named(asked.tx_handle), asked.tx_desc_count),
        rx: Ring::new(chunks.named(asked.rx_handle), asked.rx_desc_count),
        owner: Some(call.pid()),
    };
    drop(chunks);
    check_size(&queue.tx).map_err(Failure::Errno)?;
    check_size(&queue.rx).map_err(Failure::Errno)?;
    if asked.rxc_handle != 0 {
        return Err(Failure::Errno(EPERM));
    }
    rings.queues.insert(id, queue);
    program(call.device, id, &queue);
    Ok(())
}

fn check_size(ring: &Ring) -> Result<(), i32> {
    let RingSpec { base, descriptors } = ring.spec();
    if !(RING_MIN_DESCRIPTORS..=RING_MAX_DESCRIPTORS).contains(&descriptors) {
        return Err(EINVAL);
    }
    if !descriptors.is_multiple_of(RING_GRANULE) || !base.is_multiple_of(RING_ALIGN) {
        return Err(EPERM);
    }
    Ok(())
}

fn program(device: &Device, id: QueueId, queue: &Queue) {
    let (tx, rx) = (queue.tx.spec(), queue.rx.spec());
    device.chip.init_queue(id.engine, id.queue, tx, rx);
}

/// The driver's own copy queues, and those through which instructions are fetched.
fn is_reserved(device: &Device, id: QueueId) -> bool {
    let table = device.table();
    let is_h2t = id.engine >= table.first_h2t;
    is_h2t || (id.queue == FETCH_QUEUE && table.fetches_instructions(id.engine))
}

/// The queue, if the device has it.
fn queue_id(call: &Call<'_>, engine: u32, queue: u32) -> Option<QueueId> {
    let exists = is_engine(call.device, engine) && queue < QUEUES_PER_ENGINE;
    exists.then_some(QueueId { engine, queue })
}

/// Whether the device has this engine: the driver has room for more than v2 has.
fn is_engine(device: &Device, engine: u32) -> bool {
    engine < device.table().engines().min(DMA_ENGINES)
}

fn bug(trap: u8, call: &Call<'_>, id: QueueId, why: &str) -> Failure {
    let QueueId { engine, queue } = id;
    let name = call.ioctl.name;
    let what = format!("{name} of queue {queue} of engine {engine}: {why}");
    Failure::Bug(Bug { trap, what })
}
