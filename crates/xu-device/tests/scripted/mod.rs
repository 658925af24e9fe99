//! A device that does nothing by itself: memory, rings, semaphores and a log of every call.
//!
//! The tests of harvester, stager, notification reader and transfer queue say through it what the hardware does,
//! and read from its log what was asked of it, in order.
//! Memory that was not allocated does not exist; allocated memory holds [`CANARY`] until it is written.
#![allow(
    dead_code,
    reason = "every test crate includes this file and uses a part of it"
)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{DeviceAddr, SemIndex, TpbIndex};
use xu_device::{Clock, Device, DeviceError, DmaQueue, Head, MemoryErrors, Place, Shape, map};

/// What fresh memory holds.
pub(crate) const CANARY: u8 = 0xC5;

/// The clock: 1.5 nanoseconds a tick, from tick 1,000 at 5,000 ns.
pub(crate) const CLOCK: Clock = Clock {
    ticks: 1_000,
    host_ns: 5_000,
    expected_increment: 3.0,
    actual_increment: 2.0,
};

/// The heads of one call: five rings of status and one of errors. Without the heap, since calls are counted that allocate.
pub(crate) type Heads = [Option<Head>; 6];

/// These heads in one call.
pub(crate) fn together(heads: &[Head]) -> Heads {
    core::array::from_fn(|index| heads.get(index).copied())
}

/// One call through the seam.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Allocate(Place, u64),
    Release(DeviceAddr),
    Write(DeviceAddr, Vec<u8>),
    Read(DeviceAddr, usize),
    Load(DeviceAddr),
    OpenDma(DmaQueue, DeviceAddr, DeviceAddr, u32),
    StartDma(DmaQueue, u32),
    CheckDma(DmaQueue),
    Increment(TpbIndex, SemIndex),
    ReadSemaphore(TpbIndex, SemIndex),
    OpenNq(TpbIndex, u8, u64),
    Acknowledge(TpbIndex, Heads),
    Tail(TpbIndex, u8),
    ProbeOverflow(TpbIndex),
    MemoryErrors(TpbIndex),
    Quiesce(TpbIndex),
}

/// Says which calls fail, and with what.
type Script = Box<dyn FnMut(&Call) -> Option<DeviceError> + Send>;

/// What happens on the device just before a call.
type Interruption = (Call, Box<dyn FnOnce() + Send>);

/// The scripted device.
pub(crate) struct Scripted {
    arch: u8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: BTreeMap<u64, Vec<u8>>,
    /// Bytes handed out so far, over all places.
    reserved: u64,
    semaphores: HashMap<(TpbIndex, SemIndex), i32>,
    overflowed: HashSet<TpbIndex>,
    memory_errors: HashMap<TpbIndex, MemoryErrors>,
    clock: Option<Clock>,
    /// What the tail registers say, where it is not the truth.
    tails: HashMap<(TpbIndex, u8), u64>,
    rings: HashMap<(TpbIndex, u8), Ring>,
    dma: HashMap<DmaQueue, (DeviceAddr, DeviceAddr)>,
    endless: Option<(TpbIndex, u8)>,
    next_ring: Option<u64>,
    script: Option<Script>,
    interruption: Option<Interruption>,
    log: Vec<Call>,
    is_quiet: bool,
}

/// The device's end of a notification ring.
struct Ring {
    base: DeviceAddr,
    bytes: u64,
    written: u64,
    /// Records that the reader has given back.
    freed: u64,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted")
            .field("arch", &self.arch)
            .finish_non_exhaustive()
    }
}

impl Scripted {
    /// A device of generation `arch`, and the same device as the lane holds it.
    pub(crate) fn new(arch: u8) -> (Arc<Self>, Arc<dyn Device>) {
        let scripted = Arc::new(Self {
            arch,
            state: Mutex::default(),
        });
        let device: Arc<dyn Device> = Arc::clone(&scripted) as _;
        (scripted, device)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Writes `record` where the device would: behind the last one, with the phase bit of the lap.
    ///
    /// A record without room is a mistake of the reader or of the test.
    pub(crate) fn post(&self, tpb: TpbIndex, nq: u8, record: [u8; 16]) {
        let mut state = self.state();
        let ring = state.rings.get_mut(&(tpb, nq)).unwrap();
        let entries = ring.bytes / RECORD_SIZE;
        assert!(
            ring.written - ring.freed < entries - 1,
            "queue {nq} of core {tpb} is full"
        );
        let mut record = record;
        record[3] &= !ring_bits::PHASE;
        if (ring.written / entries).is_multiple_of(2) == map::FIRST_PHASE {
            record[3] |= ring_bits::PHASE;
        }
        let at = ring.base.get() + ring.written % entries * RECORD_SIZE;
        ring.written += 1;
        state.store(at, &record).unwrap();
    }

    /// Where the ring of a notification queue lies.
    pub(crate) fn ring(&self, tpb: TpbIndex, nq: u8) -> DeviceAddr {
        self.state().rings[&(tpb, nq)].base
    }

    /// Where the Tx and Rx rings of a DMA queue lie.
    pub(crate) fn dma_rings(&self, queue: DmaQueue) -> (DeviceAddr, DeviceAddr) {
        self.state().dma[&queue]
    }

    /// Changes memory without a call.
    pub(crate) fn poke(&self, to: DeviceAddr, bytes: &[u8]) {
        self.state().store(to.get(), bytes).unwrap();
    }

    /// Looks at memory without a call.
    pub(crate) fn peek(&self, from: DeviceAddr, bytes: usize) -> Vec<u8> {
        self.state().bytes(from.get(), bytes).unwrap().to_vec()
    }

    /// Gives a semaphore a value.
    pub(crate) fn set_semaphore(&self, tpb: TpbIndex, index: SemIndex, value: i32) {
        self.state().semaphores.insert((tpb, index), value);
    }

    /// Sets the overflow bit of a core's error-trigger cause.
    pub(crate) fn latch_overflow(&self, tpb: TpbIndex) {
        self.state().overflowed.insert(tpb);
    }

    /// Gives a core's counters of memory errors their values.
    pub(crate) fn set_memory_errors(&self, tpb: TpbIndex, errors: MemoryErrors) {
        self.state().memory_errors.insert(tpb, errors);
    }

    /// Has the clocks read `clock` from now on.
    pub(crate) fn set_clock(&self, clock: Clock) {
        self.state().clock = Some(clock);
    }

    /// Has a tail register say `tail`, whatever was written.
    pub(crate) fn set_tail(&self, tpb: TpbIndex, nq: u8, tail: u64) {
        self.state().tails.insert((tpb, nq), tail);
    }

    /// Whether a notification queue has room for one more record.
    pub(crate) fn has_room(&self, tpb: TpbIndex, nq: u8) -> bool {
        let state = self.state();
        let ring = &state.rings[&(tpb, nq)];
        ring.written - ring.freed < ring.bytes / RECORD_SIZE - 1
    }

    /// Writes no log from now on: then no call of a reader allocates memory here.
    pub(crate) fn be_quiet(&self) {
        self.state().is_quiet = true;
    }

    /// From now on every record that is read from this queue is at once a fresh one of the next lap.
    pub(crate) fn write_without_end(&self, tpb: TpbIndex, nq: u8) {
        self.state().endless = Some((tpb, nq));
    }

    /// Puts the next notification ring at `base`, backed by what is left of the address space.
    pub(crate) fn place_next_ring(&self, base: u64) {
        self.state().next_ring = Some(base);
    }

    /// Leaves so much of the address space unused before the next block.
    pub(crate) fn skip_addresses(&self, bytes: u64) {
        self.state().reserved += bytes;
    }

    /// From now on calls fail as `script` says; a call that fails has no effect.
    pub(crate) fn fail(&self, script: impl FnMut(&Call) -> Option<DeviceError> + Send + 'static) {
        self.state().script = Some(Box::new(script));
    }

    /// Has `happen` happen once, just before `call`.
    pub(crate) fn interrupt(&self, call: Call, happen: impl FnOnce() + Send + 'static) {
        self.state().interruption = Some((call, Box::new(happen)));
    }

    /// Forgets the log.
    pub(crate) fn forget(&self) {
        self.state().log.clear();
    }

    /// The calls since the last [`Scripted::forget`], failed ones included.
    pub(crate) fn log(&self) -> Vec<Call> {
        self.state().log.clone()
    }

    /// How many calls of the log `wanted` is true for.
    pub(crate) fn count(&self, wanted: impl Fn(&Call) -> bool) -> usize {
        self.state().log.iter().filter(|call| wanted(call)).count()
    }

    /// How often the overflow bit was looked at.
    pub(crate) fn probes(&self) -> usize {
        self.count(|call| matches!(call, Call::ProbeOverflow(_)))
    }

    fn enter(&self, call: Call) -> Result<MutexGuard<'_, State>, DeviceError> {
        let mut state = self.state();
        if let Some((_, happen)) = state.interruption.take_if(|(before, _)| *before == call) {
            // It has calls to make.
            drop(state);
            happen();
            state = self.state();
        }
        let failure = state.script.as_mut().and_then(|script| script(&call));
        if !state.is_quiet {
            state.log.push(call);
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }
}

impl State {
    fn block(&mut self, at: u64, bytes: usize) -> Result<&mut [u8], DeviceError> {
        let bad = DeviceError::BadAddress {
            addr: DeviceAddr::new(at),
            bytes: bytes as u64,
        };
        let Some((base, block)) = self.memory.range_mut(..=at).next_back() else {
            return Err(bad);
        };
        let start = (at - base) as usize;
        block.get_mut(start..start + bytes).ok_or(bad)
    }

    fn bytes(&mut self, at: u64, bytes: usize) -> Result<&[u8], DeviceError> {
        self.block(at, bytes).map(|block| &*block)
    }

    fn store(&mut self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.block(at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn reserve(&mut self, place: Place, bytes: u64, fill: u8) -> DeviceAddr {
        let base = match place {
            Place::Hbm(tpb) => 0x1_0000_0000 + map::HBM_STRIDE * u64::from(tpb.get()),
            Place::Host => map::HOST_BASE,
        };
        // A gap of a page lies between blocks.
        let at = base + self.reserved;
        self.reserved += (bytes + 4096).next_multiple_of(4096);
        self.memory.insert(at, vec![fill; bytes as usize]);
        DeviceAddr::new(at)
    }

    fn renew(&mut self, from: u64) {
        let Some(ring) = self.endless.and_then(|queue| self.rings.get(&queue)) else {
            return;
        };
        let base = ring.base.get();
        if (base..base + ring.bytes).contains(&from) {
            self.block(from, 16).unwrap()[3] ^= ring_bits::PHASE;
        }
    }
}

impl Device for Scripted {
    fn shape(&self) -> Shape {
        Shape {
            arch: self.arch,
            tpbs: 2,
            hbm_bytes: 1 << 30,
            addresses: map::AddressMap::Simulated,
        }
    }

    fn allocate(&self, place: Place, bytes: u64, _align: u64) -> Result<DeviceAddr, DeviceError> {
        let mut state = self.enter(Call::Allocate(place, bytes))?;
        Ok(state.reserve(place, bytes, CANARY))
    }

    fn release(&self, addr: DeviceAddr) -> Result<(), DeviceError> {
        let mut state = self.enter(Call::Release(addr))?;
        match state.memory.remove(&addr.get()) {
            Some(_) => Ok(()),
            None => Err(DeviceError::BadAddress { addr, bytes: 0 }),
        }
    }

    fn write(&self, to: DeviceAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        self.enter(Call::Write(to, bytes.to_vec()))?
            .store(to.get(), bytes)
    }

    fn read(&self, from: DeviceAddr, into: &mut [u8]) -> Result<(), DeviceError> {
        let mut state = self.enter(Call::Read(from, into.len()))?;
        into.copy_from_slice(state.bytes(from.get(), into.len())?);
        state.renew(from.get());
        Ok(())
    }

    fn load_acquire(&self, from: DeviceAddr) -> Result<u32, DeviceError> {
        let mut state = self.enter(Call::Load(from))?;
        let mut word = [0; 4];
        word.copy_from_slice(state.bytes(from.get(), 4)?);
        Ok(u32::from_le_bytes(word))
    }

    fn open_dma_queue(
        &self,
        queue: DmaQueue,
        tx_ring: DeviceAddr,
        rx_ring: DeviceAddr,
        descriptors: u32,
    ) -> Result<(), DeviceError> {
        self.enter(Call::OpenDma(queue, tx_ring, rx_ring, descriptors))?
            .dma
            .insert(queue, (tx_ring, rx_ring));
        Ok(())
    }

    fn start_dma(&self, queue: DmaQueue, descriptors: u32) -> Result<(), DeviceError> {
        self.enter(Call::StartDma(queue, descriptors)).map(drop)
    }

    fn check_dma(&self, queue: DmaQueue) -> Result<(), DeviceError> {
        self.enter(Call::CheckDma(queue)).map(drop)
    }

    fn increment_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<(), DeviceError> {
        let mut state = self.enter(Call::Increment(tpb, index))?;
        *state.semaphores.entry((tpb, index)).or_default() += 1;
        Ok(())
    }

    fn read_semaphore(&self, tpb: TpbIndex, index: SemIndex) -> Result<i32, DeviceError> {
        let state = self.enter(Call::ReadSemaphore(tpb, index))?;
        Ok(state.semaphores.get(&(tpb, index)).copied().unwrap_or(0))
    }

    fn open_notification_queue(
        &self,
        tpb: TpbIndex,
        nq: u8,
        bytes: u64,
    ) -> Result<DeviceAddr, DeviceError> {
        let mut state = self.enter(Call::OpenNq(tpb, nq, bytes))?;
        let base = match state.next_ring.take() {
            None => state.reserve(Place::Host, bytes, 0),
            Some(base) => {
                let left = vec![0; (u64::MAX - base) as usize + 1];
                state.memory.insert(base, left);
                DeviceAddr::new(base)
            }
        };
        let ring = Ring {
            base,
            bytes,
            written: 0,
            freed: 0,
        };
        state.rings.insert((tpb, nq), ring);
        Ok(base)
    }

    fn acknowledge(&self, tpb: TpbIndex, heads: &[Head]) -> Result<(), DeviceError> {
        let mut state = self.enter(Call::Acknowledge(tpb, together(heads)))?;
        for head in heads {
            let ring = state.rings.get_mut(&(tpb, head.nq)).unwrap();
            assert!(head.offset < ring.bytes && head.offset.is_multiple_of(RECORD_SIZE));
            // The head moves on by less than a lap, never beyond what was written.
            let entries = ring.bytes / RECORD_SIZE;
            let moved = (head.offset / RECORD_SIZE + entries - ring.freed % entries) % entries;
            ring.freed += moved;
        }
        Ok(())
    }

    fn notification_tail(&self, tpb: TpbIndex, nq: u8) -> Result<u64, DeviceError> {
        let state = self.enter(Call::Tail(tpb, nq))?;
        if let Some(tail) = state.tails.get(&(tpb, nq)) {
            return Ok(*tail);
        }
        let ring = &state.rings[&(tpb, nq)];
        Ok(ring.written * RECORD_SIZE % ring.bytes)
    }

    fn memory_errors(&self, tpb: TpbIndex) -> Result<MemoryErrors, DeviceError> {
        let state = self.enter(Call::MemoryErrors(tpb))?;
        Ok(state.memory_errors.get(&tpb).copied().unwrap_or_default())
    }

    fn now_ns(&self) -> u64 {
        CLOCK.host_ns
    }

    fn overflow_latched(&self, tpb: TpbIndex) -> Result<bool, DeviceError> {
        let state = self.enter(Call::ProbeOverflow(tpb))?;
        Ok(state.overflowed.contains(&tpb))
    }

    fn clock(&self) -> Clock {
        self.state().clock.unwrap_or(CLOCK)
    }

    fn quiesce(&self, tpb: TpbIndex, _: core::time::Duration) -> Result<(), DeviceError> {
        self.enter(Call::Quiesce(tpb)).map(drop)
    }
}
