//! The DMA queues of the cores: each a queue of an engine, on two rings in chunks of ours.
//!
//! Used by [`super::NeuronDevice`]; which engine a queue is says [`map::engine_of`].
//!
//! The model-exec queue is never started from here: its core's sequencer walks it when the doorbell rings.

use super::memory::Memory;
use crate::device::{DeviceError, DmaQueue};
use crate::map;
use crate::neuron::{Node, Queue, Ring, RingPair};
use parking_lot::RwLock;
use std::sync::Arc;
use xu_abi::driver::{DmaQueueState, QueueState, QueueType};
use xu_abi::{DeviceAddr, TpbIndex};

/// All queues of a device, those of cores that are not ours included: they are never open.
#[derive(Debug)]
pub(super) struct Queues {
    node: Arc<Node>,
    /// By core, and there by index.
    open: Vec<RwLock<Option<RingPair>>>,
}

impl Queues {
    pub(super) fn new(node: &Arc<Node>) -> Self {
        let queues = usize::from(node.identity().cores()) * usize::from(map::DMA_QUEUES);
        Self {
            node: Arc::clone(node),
            open: (0..queues).map(|_| RwLock::new(None)).collect(),
        }
    }

    /// Opens a queue, anew if it was open: then it is parked first.
    pub(super) fn open(
        &self,
        memory: &Memory,
        queue: DmaQueue,
        rings: [DeviceAddr; 2],
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        let place = self.place(queue)?;
        let [tx, rx] = rings;
        let tx = Ring::new(memory.chunk_at(tx)?, descriptors)?;
        let rx = Ring::new(memory.chunk_at(rx)?, descriptors)?;
        let mut open = place.write();
        drop(open.take());
        let (engine, index) = map::engine_of(queue);
        let queue = Queue { engine, index };
        *open = Some(RingPair::open(&self.node, queue, tx, rx)?);
        Ok(())
    }

    pub(super) fn start(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError> {
        let open = self.place(queue)?.read();
        let pair = open.as_ref().ok_or_else(|| closed(queue))?;
        let most = pair.ring(QueueType::Rx).descriptors();
        if descriptors > most {
            return Err(DeviceError::BadArgument {
                what: "number of descriptors to start",
                value: descriptors.into(),
                allowed: "at most those of the ring",
            });
        }
        if queue.index == map::MODEL_EXEC_QUEUE || descriptors == 0 {
            return check(pair, queue);
        }
        Ok(pair.start(descriptors, descriptors)?)
    }

    pub(super) fn check(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        let open = self.place(queue)?.read();
        check(open.as_ref().ok_or_else(|| closed(queue))?, queue)
    }

    /// Whether no open queue of a core has anything left to move. One that has stopped has not.
    pub(super) fn are_at_rest(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        for index in 0..map::DMA_QUEUES {
            let open = self.place(DmaQueue { tpb, index })?.read();
            let Some(pair) = open.as_ref() else { continue };
            let states = pair.state()?;
            if !states.iter().any(has_aborted) && states.iter().any(is_at_work) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn place(&self, queue: DmaQueue) -> Result<&RwLock<Option<RingPair>>, DeviceError> {
        let core = super::core_of(&self.node, queue.tpb)?;
        let queues = usize::from(map::DMA_QUEUES);
        let at = usize::from(core) * queues + usize::from(queue.index);
        match self.open.get(at) {
            Some(place) if queue.index < map::DMA_QUEUES => Ok(place),
            _ => Err(DeviceError::BadArgument {
                what: "dma queue",
                value: queue.index.into(),
                allowed: "those that the core has",
            }),
        }
    }
}

fn check(pair: &RingPair, queue: DmaQueue) -> Result<(), DeviceError> {
    if pair.state()?.iter().any(has_aborted) {
        return Err(DeviceError::DmaAborted {
            tpb: queue.tpb,
            index: queue.index,
        });
    }
    Ok(())
}

fn has_aborted(state: &DmaQueueState) -> bool {
    QueueState::from_raw(state.sw_status) == Some(QueueState::Aborted)
}

fn is_at_work(state: &DmaQueueState) -> bool {
    state.head_pointer != state.tail_pointer
}

fn closed(queue: DmaQueue) -> DeviceError {
    DeviceError::BadArgument {
        what: "dma queue",
        value: queue.index.into(),
        allowed: "one that is open",
    }
}
