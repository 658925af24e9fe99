//! The notification queues of the cores: a ring in host memory each, and the registers of the core's block.
//!
//! Used by [`super::NeuronDevice`]. Spec `driver.md` section 5; the registers that the driver does not touch are those of
//! [`xu_abi::driver::unverified`].
//!
//! ```text
//!   open:  disable ─ ring, mapped and zeroed ─ neither back-pressure nor overwriting ─ head 0 ─ enable
//!   read:  through the mapping, no call        acknowledge: head, one BAR_WRITE
//!   close: disable, unmap; the driver keeps the ring until the core is reset
//! ```

use super::ended::OpenQueue;
use super::memory::Memory;
use crate::device::{DeviceError, Head};
use crate::map;
use crate::neuron::{DriverError, Node, NqRing, NqSpec};
use core::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::driver::nq_register::{NQ_HEAD, NQ_STRIDE};
use xu_abi::driver::unverified::{NQ_BACK_PRESSURE, NQ_ENABLE, NQ_FULL, NQ_OVERWRITE, NQ_TAIL};
use xu_abi::driver::{NQ_MIN_MAPPED, NqDevice};
use xu_abi::{DeviceAddr, Engine, TpbIndex};

/// All queues of a device, those of cores that are not ours included: they are never open.
#[derive(Debug)]
pub(super) struct Notifications {
    node: Arc<Node>,
    /// By core. The lock is held while the masks of a block are changed.
    cores: Vec<Mutex<Open>>,
    /// Doorbells that each core was rung, since its device was opened.
    doorbells: Vec<AtomicU64>,
}

/// The open queues of a core, by number.
type Open = [Option<OpenQueue>; map::NOTIFICATION_QUEUES as usize];

impl Notifications {
    pub(super) fn new(node: &Arc<Node>) -> Self {
        let cores = 0..node.identity().cores();
        Self {
            node: Arc::clone(node),
            doorbells: cores.clone().map(|_| AtomicU64::new(0)).collect(),
            cores: cores.map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn open(
        &self,
        memory: &Memory,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let (core, mut open) = self.core(tpb)?;
        let place = open.get_mut(usize::from(nq)).ok_or_else(|| no_queue(nq))?;
        let bytes = match u32::try_from(bytes) {
            Ok(fitting) if bytes.is_power_of_two() && fitting >= NQ_MIN_MAPPED => fitting,
            _ => {
                return Err(DeviceError::BadArgument {
                    what: "bytes of a notification queue",
                    value: bytes,
                    allowed: "powers of two from 4096 to 2147483648",
                });
            }
        };
        self.enable(core, 1 << nq, false)?;
        if let Some(old) = place.take() {
            memory.remove_ring(old.ring());
        }
        let ring = Arc::new(NqRing::open(
            &self.node,
            NqSpec {
                device: NqDevice::Core,
                id: core,
                nq_type: map::nq_type(nq),
                engine_index: nq,
                bytes,
            },
        )?);
        self.enable(core, 1 << nq, true)?;
        memory.insert_ring(&ring);
        let addr = ring.addr();
        *place = Some(OpenQueue::new(ring, self.doorbells(core)));
        Ok(addr)
    }

    /// The core is about to be told to run something.
    pub(super) fn count_doorbell(&self, core: u8) {
        if let Some(count) = self.doorbells.get(usize::from(core)) {
            // Relaxed: whoever asks has synchronised with who rang.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn doorbells(&self, core: u8) -> u64 {
        let count = self.doorbells.get(usize::from(core));
        // Relaxed: as above.
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Whether every engine whose queue is open has ended what the core was told to run since.
    pub(super) fn have_all_ended(&self, core: u8) -> Result<bool, DeviceError> {
        let rung = self.doorbells(core);
        for engine in Engine::ALL {
            let nq = engine.status_nq();
            let (core, open) = self.core(TpbIndex::new(core.into()))?;
            let is_open = open.get(usize::from(nq)).is_some_and(Option::is_some);
            drop(open);
            if !is_open {
                continue;
            }
            let tail = self.read_tail(core, nq)?;
            let (_, open) = self.core(TpbIndex::new(core.into()))?;
            let queue = open.get(usize::from(nq)).and_then(Option::as_ref);
            if queue.is_some_and(|queue| queue.ended_before(tail) < queue.rung_since(rung)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_tail(&self, core: u8, nq: u8) -> Result<u32, DriverError> {
        let register = block(&self.node, core) + NQ_STRIDE * u64::from(nq) + NQ_TAIL;
        let mut tail = [0];
        self.node.read_registers(&[register], &mut tail)?;
        Ok(tail[0])
    }

    /// Disables a queue, or lets it drop what does not fit, empties it and enables it.
    fn enable(&self, core: u8, queue: u32, on: bool) -> Result<(), DriverError> {
        let block = block(&self.node, core);
        let [policy, overwriting, enabled] =
            [NQ_BACK_PRESSURE, NQ_OVERWRITE, NQ_ENABLE].map(|register| block + register);
        let mut masks = [0; 3];
        self.node
            .read_registers(&[policy, overwriting, enabled], &mut masks)?;
        let [stalls, overwrites, enables] = masks;
        if !on {
            return self.node.write_registers(&[(enabled, enables & !queue)]);
        }
        let head = block + NQ_STRIDE * u64::from(queue.trailing_zeros()) + NQ_HEAD;
        self.node.write_registers(&[
            (policy, stalls & !queue),
            (overwriting, overwrites & !queue),
            (head, 0),
            (enabled, enables | queue),
        ])
    }

    /// One call for all of them, and none if one cannot be.
    pub(super) fn acknowledge(&self, tpb: TpbIndex, heads: &[Head]) -> Result<(), DeviceError> {
        let mut writes = [(0, 0); map::NOTIFICATION_QUEUES as usize];
        // A queue has one head, so a longer list repeats itself.
        for heads in heads.chunks(writes.len()) {
            let (core, mut open) = self.core(tpb)?;
            for (write, head) in writes.iter_mut().zip(heads) {
                let queue = opened(&open, head.nq)?;
                let register = block(&self.node, core) + NQ_STRIDE * u64::from(head.nq) + NQ_HEAD;
                *write = (register, queue.checked_head(head.offset)?);
            }
            // What a queue says is counted before its space is returned.
            for (head, (_, offset)) in heads.iter().zip(writes) {
                if let Some(Some(queue)) = open.get_mut(usize::from(head.nq)) {
                    queue.advance(offset);
                }
            }
            drop(open);
            // PANIC: a chunk is not longer.
            self.node.write_registers(&writes[..heads.len()])?;
        }
        Ok(())
    }

    pub(super) fn tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        let (core, open) = self.core(tpb)?;
        opened(&open, nq)?;
        drop(open);
        Ok(self.read_tail(core, nq)?.into())
    }

    /// Whether a queue of ours is full, or was.
    pub(super) fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        let (core, open) = self.core(tpb)?;
        let ours = mask(&open);
        drop(open);
        let mut full = [0];
        self.node
            .read_registers(&[block(&self.node, core) + NQ_FULL], &mut full)?;
        Ok(full[0] & ours != 0)
    }

    /// Disables what is open, so that the hardware writes nothing any more, and unmaps it.
    pub(super) fn close(&self, memory: &Memory) {
        for (core, open) in (0..).zip(&self.cores) {
            let mut open = open.lock();
            let ours = mask(&open);
            if ours != 0 {
                let enabled = block(&self.node, core) + NQ_ENABLE;
                let mut mask = [0];
                // Refused on a device that is lost: then nobody writes.
                let _ = self
                    .node
                    .read_registers(&[enabled], &mut mask)
                    .and_then(|()| self.node.write_registers(&[(enabled, mask[0] & !ours)]));
            }
            for queue in open.iter_mut().filter_map(Option::take) {
                memory.remove_ring(queue.ring());
            }
        }
    }

    fn core(&self, tpb: TpbIndex) -> Result<(u8, parking_lot::MutexGuard<'_, Open>), DeviceError> {
        let core = super::core_of(&self.node, tpb)?;
        // PANIC: `core_of` knows the cores of the device, and each has a place.
        Ok((core, self.cores[usize::from(core)].lock()))
    }
}

fn opened(open: &Open, nq: u8) -> Result<&OpenQueue, DeviceError> {
    let queue = open.get(usize::from(nq)).and_then(Option::as_ref);
    queue.ok_or_else(|| no_queue(nq))
}

/// Where the notification block of a core begins in BAR0.
pub(super) fn block(node: &Node, core: u8) -> u64 {
    let runs = node.identity().table().core_nq;
    // Every core has one. Beyond BAR0 no register is read or written.
    xu_abi::driver::arch::at(runs, core.into()).unwrap_or(u64::MAX >> 1)
}

/// A bit for each queue that is open.
fn mask(open: &Open) -> u32 {
    (0..)
        .zip(open)
        .filter(|(_, ring)| ring.is_some())
        .map(|(nq, _)| 1_u32 << nq)
        .sum()
}

fn no_queue(nq: u8) -> DeviceError {
    DeviceError::BadArgument {
        what: "notification queue",
        value: nq.into(),
        allowed: "0 to 9, and one that is open",
    }
}
