//! A device that stands between the lane and another device and meddles.
//!
//! [`Meddler`] passes everything through, except what a test tells it to alter: bytes on their way into
//! device memory, the semaphore of a doorbell, or the moment at which doorbells ring.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use xu_abi::{DeviceAddr, SemIndex, TpbIndex};
use xu_device::{
    Clock, Device, DeviceError, DmaQueue, Head, MemoryErrors, MemoryUse, Place, Shape, map,
};

/// Alters the bytes of a write, given its address.
pub type AlterWrite = Box<dyn FnMut(DeviceAddr, &mut Vec<u8>) + Send>;
/// Chooses the semaphore that is really incremented.
pub type AlterDoorbell = Box<dyn FnMut(SemIndex) -> SemIndex + Send>;

/// A device that meddles.
pub struct Meddler {
    inner: Arc<dyn Device>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    alter_write: Option<AlterWrite>,
    alter_doorbell: Option<AlterDoorbell>,
    holding: bool,
    held: VecDeque<(TpbIndex, SemIndex)>,
    fail_doorbells: bool,
    allocated: Vec<(Place, DeviceAddr)>,
    released: Vec<DeviceAddr>,
    written: u64,
    read: u64,
    asked_for_rest: Vec<Duration>,
}

impl Meddler {
    /// Stands in front of `inner` and changes nothing yet.
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            state: Mutex::default(),
        })
    }

    /// From now on `alter` sees every write.
    pub fn alter_writes(&self, alter: AlterWrite) {
        self.with(|state| state.alter_write = Some(alter));
    }

    /// From now on `alter` sees every doorbell.
    pub fn alter_doorbells(&self, alter: AlterDoorbell) {
        self.with(|state| state.alter_doorbell = Some(alter));
    }

    /// From now on doorbells are kept back: executions stay in flight.
    pub fn hold_doorbells(&self) {
        self.with(|state| state.holding = true);
    }

    /// Rings the doorbells that were kept back, and keeps no more.
    pub fn release_doorbells(&self) {
        let held = self.with(|state| {
            state.holding = false;
            std::mem::take(&mut state.held)
        });
        for (tpb, index) in held {
            self.inner
                .increment_semaphore(tpb, index)
                .expect("the machine takes doorbells");
        }
    }

    /// Rings the doorbell that was kept back first; `false` when there is none.
    pub fn ring_one(&self) -> bool {
        let Some((tpb, index)) = self.with(|state| state.held.pop_front()) else {
            return false;
        };
        self.inner
            .increment_semaphore(tpb, index)
            .expect("the machine takes doorbells");
        true
    }

    /// Where memory has been reserved so far.
    pub fn allocated(&self) -> Vec<(Place, DeviceAddr)> {
        self.with(|state| state.allocated.clone())
    }

    /// Reserved and not released yet.
    pub fn in_use(&self) -> usize {
        self.with(|state| state.allocated.len() - state.released.len())
    }

    /// How many bytes the host has written to memory that the device reaches, and read from it, by calls.
    pub fn touched(&self) -> (u64, u64) {
        self.with(|state| (state.written, state.read))
    }

    /// Where memory has been released so far.
    pub fn released(&self) -> Vec<DeviceAddr> {
        self.with(|state| state.released.clone())
    }

    /// How long each call has waited at most for a core to come to rest.
    pub fn asked_for_rest(&self) -> Vec<Duration> {
        self.with(|state| state.asked_for_rest.clone())
    }

    /// From now on every doorbell fails.
    pub fn fail_doorbells(&self) {
        self.with(|state| state.fail_doorbells = true);
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meddler").finish_non_exhaustive()
    }
}

impl Device for Meddler {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn allocate(&self, place: Place, bytes: u64, align: u64) -> Result<DeviceAddr, DeviceError> {
        let addr = self.inner.allocate(place, bytes, align)?;
        self.with(|state| state.allocated.push((place, addr)));
        Ok(addr)
    }

    fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError> {
        self.with(|state| state.released.push(addr));
        self.inner.release(addr)
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut bytes = bytes.to_vec();
        self.with(|state| {
            state.written += bytes.len() as u64;
            if let Some(alter) = &mut state.alter_write {
                alter(to, &mut bytes);
            }
        });
        self.inner.write(to, &bytes)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        self.with(|state| state.read += into.len() as u64);
        self.inner.read(from, into)
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        self.inner.load_acquire(from)
    }

    fn open_dma_queue(
        &self,
        queue: DmaQueue,
        tx_ring: DeviceAddr,
        rx_ring: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        self.inner
            .open_dma_queue(queue, tx_ring, rx_ring, descriptors)
    }

    fn start_dma(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError> {
        self.inner.start_dma(queue, descriptors)
    }

    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        self.inner.check_dma(queue)
    }

    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        let pass = self.with(|state| {
            if index == map::INFERENCE_START && state.fail_doorbells {
                return Err(DeviceError::Lost);
            }
            if state.holding {
                state.held.push_back((tpb, index));
                return Ok(None);
            }
            Ok(Some(
                state
                    .alter_doorbell
                    .as_mut()
                    .map_or(index, |alter| alter(index)),
            ))
        })?;
        pass.map_or(Ok(()), |index| self.inner.increment_semaphore(tpb, index))
    }

    fn read_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError> {
        self.inner.read_semaphore(tpb, index)
    }

    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        self.inner.open_notification_queue(tpb, nq, bytes)
    }

    fn acknowledge(&self, tpb: TpbIndex, heads: &[Head]) -> Result<(), DeviceError> {
        self.inner.acknowledge(tpb, heads)
    }

    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        self.inner.overflow_latched(tpb)
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        self.inner.notification_tail(tpb, nq)
    }

    fn memory_use(&self, place: Place) -> Option<MemoryUse> {
        self.inner.memory_use(place)
    }

    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        self.inner.memory_errors(tpb)
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn quiesce(&self, tpb: TpbIndex, limit: Duration) -> Result<(), DeviceError> {
        self.with(|state| state.asked_for_rest.push(limit));
        self.inner.quiesce(tpb, limit)
    }
}
