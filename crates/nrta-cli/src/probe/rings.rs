//! DMA: copies with a completion marker, the ring ids over several laps, and a copy to an event.
//!
//! Through a queue of the core that nothing reserves and the lane does not use, on rings and buffers in host memory.

use super::Experiment;
use super::report::Report;
use super::semaphores::EVENT;
use super::subject::Subject;
use nrta::device::DeviceAddr;
use nrta::neuron::abi::{DmaQueueState, MemType, QueueType};
use nrta::neuron::descriptor::{CopyPair, Descriptor, RING_MIN_DESCRIPTORS, RingId, len_ctrl};
use nrta::neuron::map::{AddressMap, COMPLETION_MARKER, ENGINES_PER_CORE};
use nrta::neuron::{Chunk, ChunkSpec, DriverError, Location, Mapping, Queue, Ring, RingPair};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const EXPERIMENT: Experiment = Experiment {
    facts: &[
        "DMA_ROUND_TRIP",
        "COMPLETION_MARKER",
        "ENGINES_PER_CORE",
        "RING_IDS",
        "QUEUE_STATE_IS_INDICES",
        "EVENT_BY_DMA",
    ],
    run,
};

/// Of the core's 16 engines one that fetches no instructions on either architecture, and a queue of it that is not reserved.
pub(super) const ENGINE: u32 = 12;
const QUEUE: u32 = 9;
/// Laps of the smallest ring: each id once, and the first again.
const LAPS: u32 = 6;
/// What a copy may take; the device does it in microseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of one copy.
const BYTES: u32 = 4096;

fn run(subject: &mut Subject, report: &mut Report) -> Result<(), DriverError> {
    let mut copier = Copier::open(subject)?;
    let per_lap = RING_MIN_DESCRIPTORS / 2;
    for copy in 0..LAPS * per_lap {
        // Of this copy, before it goes to the next.
        let (lap, id) = (copy / per_lap, u64::from(copier.id.get()));
        let arrived = copier.copy(copy, 0)?;
        let states = copier.pair.state()?;
        if copy == 0 {
            first(subject, &copier, arrived, &states, report);
        }
        if !arrived.is_whole() {
            let seen = format!("lap {lap} with id {id}: {arrived:?}");
            let [tx, rx] = states.map(|state| (state.hw_status.into(), state.head_pointer.into()));
            report.judge("RING_IDS", false, seen, &[id, tx.0, rx.0, tx.1, rx.1]);
            return Ok(());
        }
    }
    let seen = format!("{LAPS} laps with ids 1, 2, 3, 0, 1, 2");
    report.judge("RING_IDS", true, seen, &[]);
    event(subject, &mut copier, report)
}

/// What the first copy says.
fn first(
    subject: &Subject,
    copier: &Copier,
    arrived: Arrived,
    states: &[DmaQueueState; 2],
    report: &mut Report,
) {
    let raw = states.map(|state| u64::from(state.head_pointer));
    let seen = format!("{BYTES} bytes and a marker: {arrived:?}");
    report.judge("DMA_ROUND_TRIP", arrived.is_whole(), seen.clone(), &raw);
    report.judge("COMPLETION_MARKER", arrived.is_whole(), seen, &raw);
    let engine = copier.pair.queue().engine;
    let seen = format!(
        "engine {engine} copies for core {}: {arrived:?}",
        subject.core
    );
    report.judge(
        "ENGINES_PER_CORE",
        arrived.is_whole(),
        seen,
        &[engine.into()],
    );
    let [tx, rx] = states.map(|state| [state.head_pointer, state.tail_pointer]);
    let seen = format!("head and tail of Tx are {tx:x?}, of Rx {rx:x?}, after two descriptors");
    let are_indices = [tx, rx] == [[2, 2]; 2];
    report.judge("QUEUE_STATE_IS_INDICES", are_indices, seen, &raw);
}

/// Sets an event by a copy of 4 bytes, as staging does.
fn event(subject: &Subject, copier: &mut Copier, report: &mut Report) -> Result<(), DriverError> {
    let map = AddressMap::Chip(subject.node.identity().arch);
    let register = map.event_register(nrta::TpbIndex::new(subject.core.into()), EVENT);
    let node = &subject.node;
    node.set_event(subject.core, EVENT, false)?;
    let has_arrived = copier.poke(register, 1)?;
    let is_set = node.is_event_set(subject.core, EVENT)?;
    node.set_event(subject.core, EVENT, false)?;
    let seen = format!("1 copied to the event: set is {is_set}, marker behind it is {has_arrived}");
    report.judge(
        "EVENT_BY_DMA",
        is_set && has_arrived,
        seen,
        &[register.get()],
    );
    Ok(())
}

/// What of a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Everything.
    Whole,
    /// The marker, and other bytes than were sent.
    Changed,
    /// Nothing, for as long as anybody waits.
    Nothing,
}

impl Arrived {
    pub(super) fn is_whole(self) -> bool {
        self == Self::Whole
    }
}

/// A queue with its rings and buffers.
pub(super) struct Copier {
    pub(super) pair: RingPair,
    /// Source: the bytes, then the marker.
    from: Chunk,
    to: Chunk,
    /// Where the next descriptors go.
    index: u32,
    /// Their ring id.
    id: RingId,
}

impl Copier {
    pub(super) fn open(subject: &Subject) -> Result<Self, DriverError> {
        let ring = || {
            let spec = ChunkSpec {
                bytes: 4096,
                align: 0,
                location: Location::Host,
                core: subject.core,
                mem_type: MemType::DmaRingsHost,
            };
            let chunk = Arc::new(Chunk::allocate(&subject.node, spec)?);
            Ring::new(chunk, RING_MIN_DESCRIPTORS)
        };
        let queue = Queue {
            engine: ENGINES_PER_CORE * u32::from(subject.core) + ENGINE,
            index: QUEUE,
        };
        Ok(Self {
            pair: RingPair::open(&subject.node, queue, ring()?, ring()?)?,
            from: subject.host_chunk(2 * u64::from(BYTES))?,
            to: subject.host_chunk(2 * u64::from(BYTES))?,
            index: 0,
            id: RingId::FIRST,
        })
    }

    /// Copies bytes that depend on `number`, and a marker behind them; `flags` go into every descriptor.
    pub(super) fn copy(&mut self, number: u32, flags: u32) -> Result<Arrived, DriverError> {
        let (from, to) = (self.from.map()?, self.to.map()?);
        let pattern = |offset: u32| number.wrapping_mul(0x9E37_79B9) ^ offset;
        for offset in (0..BYTES).step_by(4) {
            store(from, offset, pattern(offset));
            store(to, offset, 0);
        }
        store(from, BYTES, COMPLETION_MARKER);
        store(to, BYTES, 0);
        let data = (self.from.addr(), self.to.addr(), BYTES);
        if !self.submit(data, flags)? {
            return Ok(Arrived::Nothing);
        }
        let to = self.to.map()?;
        let is_equal = (0..BYTES)
            .step_by(4)
            .all(|offset| load(to, offset) == Some(pattern(offset)));
        Ok(match is_equal {
            true => Arrived::Whole,
            false => Arrived::Changed,
        })
    }

    /// Copies a word to a register of the device, and a marker behind it. Whether the marker came.
    fn poke(&mut self, register: DeviceAddr, value: u32) -> Result<bool, DriverError> {
        let (from, to) = (self.from.map()?, self.to.map()?);
        store(from, 0, value);
        store(from, BYTES, COMPLETION_MARKER);
        store(to, BYTES, 0);
        self.submit((self.from.addr(), register, 4), 0)
    }

    /// Starts one copy and the marker behind it, and waits for the marker.
    fn submit(
        &mut self,
        (from, to, bytes): (DeviceAddr, DeviceAddr, u32),
        flags: u32,
    ) -> Result<bool, DriverError> {
        let behind = |addr: DeviceAddr| DeviceAddr::new(addr.get() + u64::from(BYTES));
        let marker = (behind(self.from.addr()), behind(self.to.addr()));
        let pairs = [
            CopyPair::new(from, to, bytes, self.id).map(CopyPair::with_write_barrier),
            CopyPair::new(marker.0, marker.1, 4, self.id),
        ];
        // Both lengths are 1 to 65,536.
        let [Some(data), Some(marker)] = pairs else {
            return Ok(false);
        };
        let flagged = |mut descriptor: Descriptor| {
            descriptor.len_ctrl = (descriptor.len_ctrl.get() | flags).into();
            descriptor
        };
        for (side, descriptors) in [
            (QueueType::Tx, [data.tx, marker.tx]),
            (QueueType::Rx, [data.rx, marker.rx]),
        ] {
            let descriptors = descriptors.map(flagged);
            self.pair.copy_descriptors(side, self.index, &descriptors)?;
        }
        // The ring has a multiple of 2 descriptors, so a copy and its marker have one id.
        self.index += 2;
        if self.index == RING_MIN_DESCRIPTORS {
            self.index = 0;
            self.id = self.id.next();
        }
        self.pair.start(2, 2)?;
        self.wait()
    }

    fn wait(&self) -> Result<bool, DriverError> {
        let to = self.to.map()?;
        let began = Instant::now();
        while load(to, BYTES) != Some(COMPLETION_MARKER) {
            if began.elapsed() > PATIENCE {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(true)
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let outstanding =
            |state: nrta::neuron::abi::DmaQueueState| state.head_pointer != state.tail_pointer;
        // A queue that has not come to its end may still write: the memory stays until the device is closed.
        if self
            .pair
            .state()
            .is_ok_and(|states| states.map(outstanding).contains(&true))
        {
            self.from.leak();
            self.to.leak();
        }
    }
}

/// Interrupt when done: the one thing of a copy that may make the engine say something.
pub(super) const INTERRUPT: u32 = len_ctrl::INTERRUPT;

fn store(mapping: &Mapping, offset: u32, value: u32) {
    // CAST: widening, here and below.
    if let Some(word) = mapping.word(offset as usize) {
        // Relaxed: the start of the queue is a system call.
        word.store(value, Ordering::Relaxed);
    }
}

/// Acquire: what was copied before the marker is read after it.
fn load(mapping: &Mapping, offset: u32) -> Option<u32> {
    // PAIRS: with the device, which writes the marker behind the bytes.
    Some(mapping.word(offset as usize)?.load(Ordering::Acquire))
}
