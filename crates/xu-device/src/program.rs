//! A compiled model placed in device memory, ready to be staged.
//!
//! Made by the model loader, read by the stager.
//! Everything that an execution needs is reserved here, once: per outstanding execution (a *slot*) one
//! request buffer, one table of bound tensors, and one entry block per engine that binds this table and
//! jumps to the shared body. A submit therefore allocates no device memory.
//!
//! ```text
//!   slot 0: request buffer | binding table | PE entry, ACT entry, ...  --+
//!   slot 1: request buffer | binding table | PE entry, ACT entry, ...  --+--> PE body, ACT body, ...
//!   ...                                                                       weights, intermediates
//! ```
//!
//! Spec `xu.md` section 5: `addr = base_pa + align_offset + block_offset` per engine, where the block offset
//! selects the slot's entry.

mod collectives;

pub(crate) use collectives::CollectivesChain;
pub use collectives::Membership;

use crate::device::{Device, DeviceError, Place};
use crate::memory::DeviceMemory;
use crate::stage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use xu_abi::{DeviceAddr, Engine, RequestBuffer, TpbIndex};

/// Alignment of code and data on the device, bytes.
pub const BLOCK_ALIGN: u64 = 64;
/// Size of one entry of a binding table, bytes.
const BINDING: u64 = 8;
/// Distance between request buffers: 56 bytes, rounded up to a cache line.
const REQUEST_STRIDE: u64 = (size_of::<RequestBuffer>() as u64).next_multiple_of(BLOCK_ALIGN);

/// What the loader hands over: encoded bytes, not yet placed.
#[derive(Debug)]
pub struct Blocks {
    /// The shared body of each engine, in engine order, encoded.
    pub bodies: [Vec<u8>; 5],
    /// Weights and intermediates that the bodies address; kept for as long as the program.
    pub arena: DeviceMemory,
    /// Number of tensors that an execution binds.
    pub bindings: u16,
    /// Length of an entry block, bytes.
    pub entry_bytes: u64,
    /// Encodes the entry block of an engine: bind `table`, continue at `body`.
    pub entry: fn(Engine, Entry) -> Vec<u8>,
    /// Sequencer configuration, compared to decide whether a reload can be skipped.
    pub sequencer_config: [u8; 52],
    /// Hashes of the ACT and DVE tables, compared to decide whether loading can be skipped.
    pub table_hash: [u8; 64],
    /// The model's part in a collective, when it has one.
    pub collectives: Option<Membership>,
}

/// What an entry block needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The slot's binding table.
    pub table: DeviceAddr,
    /// The engine's body.
    pub body: DeviceAddr,
}

/// The id by which the lane tells one loaded model from another (spec: `H_NN`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelHandle(u32);

impl ModelHandle {
    /// The 32-bit id.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        // Relaxed: only uniqueness matters.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A program on one physical core.
#[derive(Debug)]
pub struct Program {
    handle: ModelHandle,
    /// Keeps what the bodies address alive.
    arena: DeviceMemory,
    bodies: DeviceMemory,
    entries: DeviceMemory,
    tables: DeviceMemory,
    requests: DeviceMemory,
    entry_bytes: u64,
    slots: u32,
    bindings: u16,
    sequencer_config: [u8; 52],
    table_hash: [u8; 64],
    collectives: Option<CollectivesChain>,
    staged: AtomicU64,
}

impl Program {
    /// Places `blocks` on `tpb` with room for `slots` outstanding executions.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when there are no slots, when entries and tables do not fit the address space, or when
    /// an entry block is longer than it said; as [`Device::allocate`] and [`Device::write`].
    /// On failure everything is returned.
    pub fn load(
        device: &Arc<dyn Device>,
        tpb: TpbIndex,
        slots: u32,
        blocks: Blocks,
    ) -> Result<Self, DeviceError> {
        if slots == 0 {
            return Err(DeviceError::BadArgument {
                what: "outstanding executions of a program",
                value: 0,
                allowed: "at least 1",
            });
        }
        let (bodies, addrs) = place_bodies(device, tpb, &blocks.bodies)?;
        let for_each_slot = |bytes: u64| match u64::from(slots).checked_mul(bytes) {
            Some(bytes) => DeviceMemory::allocate(device, Place::Hbm(tpb), bytes, BLOCK_ALIGN),
            None => Err(DeviceError::BadArgument {
                what: "bytes of each slot",
                value: bytes,
                allowed: "less than 2^64 bytes in all slots",
            }),
        };
        let entries = for_each_slot(blocks.entry_bytes.saturating_mul(5))?;
        let tables = for_each_slot(u64::from(blocks.bindings.max(1)) * BINDING)?;
        let requests = for_each_slot(REQUEST_STRIDE)?;
        let pairs = stage::PAIRS_PER_EXECUTION + CollectivesChain::PAIRS;
        let chain = |member| CollectivesChain::build(device, tpb, member, pairs);
        let collectives = blocks.collectives.map(chain).transpose()?;
        let program = Self {
            handle: ModelHandle::fresh(),
            arena: blocks.arena,
            bodies,
            entries,
            tables,
            requests,
            entry_bytes: blocks.entry_bytes,
            slots,
            bindings: blocks.bindings,
            sequencer_config: blocks.sequencer_config,
            table_hash: blocks.table_hash,
            collectives,
            staged: AtomicU64::new(0),
        };
        program.write_entries(blocks.entry, addrs)?;
        Ok(program)
    }

    fn write_entries(
        &self,
        encode: fn(Engine, Entry) -> Vec<u8>,
        bodies: [DeviceAddr; 5],
    ) -> Result<(), DeviceError> {
        for slot in 0..self.slots {
            let table = self.table(slot);
            for (engine, body) in Engine::ALL.into_iter().zip(bodies) {
                let block = encode(engine, Entry { table, body });
                // A longer one would lie over the next one.
                if block.len() as u64 > self.entry_bytes {
                    return Err(DeviceError::BadArgument {
                        what: "length of an entry block",
                        value: block.len() as u64,
                        allowed: "at most what the program says",
                    });
                }
                let offset = self.entry_offset(slot, engine);
                self.entries.write(offset, &block)?;
            }
        }
        Ok(())
    }

    /// The model's id.
    #[must_use]
    pub fn handle(&self) -> ModelHandle {
        self.handle
    }

    /// Device memory that it takes, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let parts = [
            &self.arena,
            &self.bodies,
            &self.entries,
            &self.tables,
            &self.requests,
        ];
        parts.into_iter().map(DeviceMemory::bytes).sum()
    }

    /// Number of tensors that an execution binds.
    #[must_use]
    pub fn bindings(&self) -> u16 {
        self.bindings
    }

    /// Number of executions that may be outstanding at once.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Where `engine` starts for `slot`: base + block offset.
    #[must_use]
    pub fn entry(&self, slot: u32, engine: Engine) -> DeviceAddr {
        self.entries.at(self.entry_offset(slot, engine))
    }

    /// Where the request buffer of `slot` lies.
    #[must_use]
    pub fn request(&self, slot: u32) -> DeviceAddr {
        self.requests.at(u64::from(slot) * REQUEST_STRIDE)
    }

    pub(crate) fn sequencer_config(&self) -> &[u8; 52] {
        &self.sequencer_config
    }

    pub(crate) fn table_hash(&self) -> &[u8; 64] {
        &self.table_hash
    }

    pub(crate) fn collectives(&self) -> Option<&CollectivesChain> {
        self.collectives.as_ref()
    }

    /// The slot of the next execution. Slots go round: with at most `slots` outstanding executions that
    /// complete in order, the next one is always free.
    pub(crate) fn next_slot(&self) -> u32 {
        // Relaxed: stagers of one core are serialised by the submit lock.
        // CAST: less than `slots`.
        (self.staged.load(Ordering::Relaxed) % u64::from(self.slots)) as u32
    }

    /// Marks the slot of [`Program::next_slot`] as taken.
    pub(crate) fn take_slot(&self) {
        // Relaxed: as above.
        self.staged.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn write_bindings(
        &self,
        slot: u32,
        tensors: &[DeviceAddr],
    ) -> Result<(), DeviceError> {
        let offset = u64::from(slot) * u64::from(self.bindings.max(1)) * BINDING;
        for (index, tensor) in (0u64..).zip(tensors) {
            self.tables
                .write(offset + index * BINDING, &tensor.get().to_le_bytes())?;
        }
        Ok(())
    }

    pub(crate) fn write_request(
        &self,
        slot: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        self.requests
            .write(u64::from(slot) * REQUEST_STRIDE + offset, bytes)
    }

    fn table(&self, slot: u32) -> DeviceAddr {
        self.tables
            .at(u64::from(slot) * u64::from(self.bindings.max(1)) * BINDING)
    }

    fn entry_offset(&self, slot: u32, engine: Engine) -> u64 {
        (u64::from(slot) * 5 + engine.index() as u64) * self.entry_bytes
    }
}

fn place_bodies(
    device: &Arc<dyn Device>,
    tpb: TpbIndex,
    bodies: &[Vec<u8>; 5],
) -> Result<(DeviceMemory, [DeviceAddr; 5]), DeviceError> {
    let mut offsets = [0; 5];
    let mut total = 0;
    for (offset, body) in offsets.iter_mut().zip(bodies) {
        *offset = total;
        total += (body.len() as u64).next_multiple_of(BLOCK_ALIGN);
    }
    let memory = DeviceMemory::allocate(device, Place::Hbm(tpb), total, BLOCK_ALIGN)?;
    for (offset, body) in offsets.iter().zip(bodies) {
        memory.write(*offset, body)?;
    }
    let addrs = offsets.map(|offset| memory.at(offset));
    Ok((memory, addrs))
}
