//! DMA queues: two rings each, that live as long as the queue can be started.
//!
//! ```text
//!  RingPair::open ── DMA_QUEUE_INIT onto the two chunks
//!       |            start, copy_descriptors, state
//!     drop ───────── DMA_QUEUE_INIT onto the parking ring, then the chunks may go
//! ```
//!
//! The driver does not tie a ring's memory to its queue: a queue that is started after its chunk was freed makes the
//! kernel use freed memory. So the queue holds the chunks, and is parked on a small ring of its own device before it
//! lets them go, as the driver itself does when a process ends.

use super::{inside, refuse, within};
use crate::neuron::call::Buffer;
use crate::neuron::error::DriverError;
use crate::neuron::memory::{Chunk, ChunkSpec, Handle, Location};
use crate::neuron::node::Node;
use std::collections::BTreeSet;
use std::sync::Arc;
use xu_abi::descriptor::{
    DESCRIPTOR_SIZE, Descriptor, RING_GRANULE, RING_MAX_DESCRIPTORS, RING_MIN_DESCRIPTORS,
};
use xu_abi::driver::{
    COLLECTIVES_QUEUE, DmaCopyDescriptors, DmaCopyDescriptors64, DmaDescriptorCopyout,
    DmaQueueCopyStart, DmaQueueGetState, DmaQueueInit, DmaQueueState, FETCH_QUEUE, Features, Ioctl,
    MemType, QUEUES_PER_ENGINE, QueueType, ioctl,
};
use zerocopy::IntoBytes;

/// Descriptors of the parking ring.
const PARKING: u32 = 64;

/// A queue of a DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue {
    /// The engine, counted over the device.
    pub engine: u32,
    /// The queue of that engine.
    pub index: u32,
}

/// What of the hardware this process has in use on one device.
#[derive(Debug, Default)]
pub(in crate::neuron) struct Rings {
    open: BTreeSet<Queue>,
    /// Memory that closed queues point at. The driver frees it with everything of the process.
    parking: Option<Handle>,
    pub(super) notification: BTreeSet<super::notification::HardwareQueue>,
}

/// Memory for one ring.
#[derive(Clone, Debug)]
pub struct Ring {
    chunk: Arc<Chunk>,
    descriptors: u32,
}

impl Ring {
    /// A ring of `descriptors` at the beginning of a chunk.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] unless the count is a multiple of 16 from 32 to 16,777,200 that fits the chunk: the
    /// driver does not compare it with the chunk.
    pub fn new(chunk: Arc<Chunk>, descriptors: u32) -> Result<Self, DriverError> {
        let ioctl = &ioctl::DMA_QUEUE_INIT;
        let what = "number of descriptors of a ring";
        let fitting = chunk.bytes() / DESCRIPTOR_SIZE;
        let (least, most) = (RING_MIN_DESCRIPTORS.into(), RING_MAX_DESCRIPTORS.into());
        within(ioctl, what, descriptors, least..=fitting.min(most))?;
        if !descriptors.is_multiple_of(RING_GRANULE) {
            return Err(refuse(ioctl, what, descriptors.into(), "multiples of 16"));
        }
        Ok(Self { chunk, descriptors })
    }

    /// Its memory.
    #[must_use]
    pub fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    /// How many descriptors it has.
    #[must_use]
    pub fn descriptors(&self) -> u32 {
        self.descriptors
    }
}

/// A DMA queue that this process has initialised, with its rings.
#[derive(Debug)]
pub struct RingPair {
    node: Arc<Node>,
    queue: Queue,
    /// Tx, then Rx.
    rings: [Ring; 2],
}

impl RingPair {
    /// Initialises a queue onto two rings.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for a queue that does not exist, is reserved for the driver, for instructions or for
    /// collectives, or is open already, and for a ring on another device; what the driver answers.
    pub fn open(node: &Arc<Node>, queue: Queue, tx: Ring, rx: Ring) -> Result<Self, DriverError> {
        let ioctl = &ioctl::DMA_QUEUE_INIT;
        check_queue(node, queue)?;
        for ring in [&tx, &rx] {
            if !Arc::ptr_eq(node, ring.chunk.node()) {
                let device = ring.chunk.node().index().into();
                let own = node.index().to_string();
                return Err(refuse(ioctl, "device of a ring", device, own));
            }
        }
        // Memory to park on, before there is anything to park.
        park_ring(node)?;
        if !node.rings().lock().open.insert(queue) {
            let what = "queue of an engine";
            return Err(refuse(
                ioctl,
                what,
                queue.index.into(),
                "one that is not open",
            ));
        }
        let sides = [
            (tx.chunk.handle(), tx.descriptors),
            (rx.chunk.handle(), rx.descriptors),
        ];
        // From here on the rings may be known to the queue, so they go the way of `drop`.
        let pair = Self {
            node: Arc::clone(node),
            queue,
            rings: [tx, rx],
        };
        initialise(node, queue, sides)?;
        Ok(pair)
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> Queue {
        self.queue
    }

    /// One of its rings.
    #[must_use]
    pub fn ring(&self, side: QueueType) -> &Ring {
        let [tx, rx] = &self.rings;
        match side {
            QueueType::Tx => tx,
            QueueType::Rx => rx,
        }
    }

    /// Adds to the tails: the queue walks that many descriptors. `tx` may be 0, which only prefetches the Rx side.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for no Rx descriptor, which would crash the kernel, and for more than a ring has.
    pub fn start(&self, tx: u32, rx: u32) -> Result<(), DriverError> {
        let ioctl = &ioctl::DMA_QUEUE_COPY_START;
        let most = |side| u64::from(self.ring(side).descriptors);
        within(
            ioctl,
            "number of Tx descriptors",
            tx,
            0..=most(QueueType::Tx),
        )?;
        within(
            ioctl,
            "number of Rx descriptors",
            rx,
            1..=most(QueueType::Rx),
        )?;
        let mut argument = DmaQueueCopyStart {
            eng_id: self.queue.engine,
            qid: self.queue.index,
            tx_desc_count: tx,
            rx_desc_count: rx,
        };
        self.node.ask(ioctl, &mut argument)
    }

    /// Puts descriptors into a ring from `index` on. The driver checks that they name host memory that is ours.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for none, and for a run that leaves the ring.
    pub fn copy_descriptors(
        &self,
        side: QueueType,
        index: u32,
        descriptors: &[Descriptor],
    ) -> Result<(), DriverError> {
        let ring = self.ring(side);
        let wide = self.node.identity().features.has(Features::MEM_ALLOC64);
        let ioctl = match wide {
            true => &ioctl::DMA_COPY_DESCRIPTORS64,
            false => &ioctl::DMA_COPY_DESCRIPTORS,
        };
        // CAST: a length fits 64 bits.
        let count = descriptors.len() as u64;
        check_run(ioctl, index, count, ring)?;
        let offset = u64::from(index) * DESCRIPTOR_SIZE;
        let mut buffers = [Buffer::Read(descriptors.as_bytes())];
        let mem_handle = ring.chunk.handle().get();
        // CAST: both are below the size of a ring, 2^28 bytes.
        let (num_descs, short_offset) = (count as u32, offset as u32);
        let queue_type = side.raw();
        if wide {
            let mut argument = DmaCopyDescriptors64 {
                mem_handle,
                num_descs,
                offset,
                queue_type,
                ..DmaCopyDescriptors64::ZEROED
            };
            self.node.call(ioctl, &mut argument, &mut buffers)
        } else {
            let mut argument = DmaCopyDescriptors {
                mem_handle,
                num_descs,
                offset: short_offset,
                queue_type,
                ..DmaCopyDescriptors::ZEROED
            };
            self.node.call(ioctl, &mut argument, &mut buffers)
        }
    }

    /// Reads descriptors of a ring from `index` on; of a ring in device memory from 0 on only.
    ///
    /// # Errors
    /// As [`RingPair::copy_descriptors`].
    pub fn read_descriptors(
        &self,
        side: QueueType,
        index: u32,
        into: &mut [Descriptor],
    ) -> Result<(), DriverError> {
        let ioctl = &ioctl::DMA_DESCRIPTOR_COPYOUT;
        let ring = self.ring(side);
        // CAST: a length fits 64 bits.
        let count = into.len() as u64;
        check_run(ioctl, index, count, ring)?;
        if ring.chunk.location() != Location::Host {
            // The driver ignores the index then.
            within(ioctl, "first descriptor", index, 0..=0)?;
        }
        let mut argument = DmaDescriptorCopyout {
            eng_id: self.queue.engine,
            qid: self.queue.index,
            queue_type: side.raw(),
            start_index: index,
            // CAST: at most the length of a ring.
            count: count as u32,
            ..DmaDescriptorCopyout::ZEROED
        };
        let mut buffers = [Buffer::Written(into.as_mut_bytes())];
        self.node.call(ioctl, &mut argument, &mut buffers)
    }

    /// What the driver says of both rings, Tx first. Outstanding is tail minus head.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn state(&self) -> Result<[DmaQueueState; 2], DriverError> {
        let mut states = [DmaQueueState::ZEROED; 2];
        let [tx, rx] = &mut states;
        let mut argument = DmaQueueGetState {
            eng_id: self.queue.engine,
            qid: self.queue.index,
            ..DmaQueueGetState::ZEROED
        };
        let mut buffers = [
            Buffer::Written(tx.as_mut_bytes()),
            Buffer::Written(rx.as_mut_bytes()),
        ];
        self.node
            .call(&ioctl::DMA_QUEUE_GET_STATE, &mut argument, &mut buffers)?;
        Ok(states)
    }
}

impl Drop for RingPair {
    fn drop(&mut self) {
        // A child of a fork does not even look at the lock.
        if !self.node.owner().is_here() {
            return;
        }
        let parking = self.node.rings().lock().parking;
        let parked = parking.is_some_and(|handle| {
            initialise(&self.node, self.queue, [(handle, PARKING); 2]).is_ok()
        });
        if parked {
            self.node.rings().lock().open.remove(&self.queue);
            return;
        }
        // The queue may still point at the rings: until the device is closed their memory stays, and so does the mark that
        // the queue is open.
        for ring in &self.rings {
            ring.chunk.leak();
        }
    }
}

fn initialise(node: &Node, queue: Queue, sides: [(Handle, u32); 2]) -> Result<(), DriverError> {
    let [(tx_handle, tx_desc_count), (rx_handle, rx_desc_count)] = sides;
    let mut argument = DmaQueueInit {
        eng_id: queue.engine,
        qid: queue.index,
        tx_desc_count,
        rx_desc_count,
        tx_handle: tx_handle.get(),
        rx_handle: rx_handle.get(),
        ..DmaQueueInit::ZEROED
    };
    node.ask(&ioctl::DMA_QUEUE_INIT, &mut argument)
}

/// Makes the ring that closed queues are parked on, once for each device.
fn park_ring(node: &Arc<Node>) -> Result<(), DriverError> {
    if node.rings().lock().parking.is_some() {
        return Ok(());
    }
    let chunk = Chunk::allocate(
        node,
        ChunkSpec {
            bytes: u64::from(PARKING) * DESCRIPTOR_SIZE,
            align: 0,
            location: Location::Host,
            core: 0,
            mem_type: MemType::DmaRingsHost,
        },
    )?;
    let mut rings = node.rings().lock();
    if rings.parking.is_none() {
        rings.parking = Some(chunk.abandon());
    }
    Ok(())
}

fn check_queue(node: &Node, queue: Queue) -> Result<(), DriverError> {
    let ioctl = &ioctl::DMA_QUEUE_INIT;
    let table = node.identity().table();
    let engines = u64::from(table.core_engines) - 1;
    // Beyond are the driver's own, for its copies.
    within(ioctl, "DMA engine", queue.engine, 0..=engines)?;
    let queues = u64::from(QUEUES_PER_ENGINE) - 1;
    within(ioctl, "queue of an engine", queue.index, 0..=queues)?;
    let fetches = table.fetches_instructions(queue.engine);
    if queue.index == COLLECTIVES_QUEUE || (queue.index == FETCH_QUEUE && fetches) {
        let allowed = "queues that are not reserved";
        return Err(refuse(
            ioctl,
            "queue of an engine",
            queue.index.into(),
            allowed,
        ));
    }
    Ok(())
}

fn check_run(ioctl: &Ioctl, index: u32, count: u64, ring: &Ring) -> Result<(), DriverError> {
    let most = u64::from(ring.descriptors);
    within(ioctl, "number of descriptors", count, 1..=most)?;
    within(ioctl, "first descriptor", index, 0..=most - count)?;
    let bytes = count * DESCRIPTOR_SIZE;
    inside(
        ioctl,
        u64::from(index) * DESCRIPTOR_SIZE,
        bytes,
        ring.chunk.bytes(),
    )
}
