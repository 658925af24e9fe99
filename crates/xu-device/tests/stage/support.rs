//! A stager, its programs, and a reading of the log.

use crate::scripted::{Call, Scripted};
use std::sync::Arc;
use xu_abi::descriptor::{DESCRIPTOR_SIZE, Descriptor};
use xu_abi::{DeviceAddr, Engine, ExecRequest, TpbIndex};
use xu_device::memory::DeviceMemory;
use xu_device::program::{Blocks, Entry, Membership, Program};
use xu_device::stage::{SkipConfig, Staged, Stager};
use xu_device::{Device, DeviceError, Place, map};
use zerocopy::transmute;

pub(crate) const FIRST: TpbIndex = TpbIndex::new(0);
pub(crate) const SECOND: TpbIndex = TpbIndex::new(1);
pub(crate) const ENTRY_BYTES: u64 = 64;
/// Descriptors of the rings of a stager with a depth of up to 7.
pub(crate) const DESCRIPTORS: u64 = 32;
pub(crate) const TENSORS: [DeviceAddr; 2] = [DeviceAddr::new(0x1234_5678_9ABC), DeviceAddr::new(7)];

pub(crate) struct Bench {
    pub(crate) scripted: Arc<Scripted>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) stager: Stager,
}

/// What tells one program from another.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) config: [u8; 52],
    pub(crate) tables: [u8; 64],
    pub(crate) collectives: Option<Membership>,
}

impl Model {
    /// Configuration and tables filled with these bytes.
    pub(crate) fn filled(config: u8, tables: u8) -> Self {
        Self {
            config: [config; 52],
            tables: [tables; 64],
            collectives: None,
        }
    }

    /// One that takes part in a collective.
    pub(crate) fn collective(group: u32) -> Self {
        let membership = Membership {
            group,
            rank: 1,
            ranks: 2,
        };
        Self {
            collectives: Some(membership),
            ..Self::filled(1, 1)
        }
    }

    /// Bodies of a hundred bytes and less, two bindings, and the arena that comes with them.
    pub(crate) fn blocks(self, device: &Arc<dyn Device>, tpb: TpbIndex) -> Blocks {
        let arena = DeviceMemory::allocate(device, Place::Hbm(tpb), 64, 64).unwrap();
        Blocks {
            bodies: [100, 1, 64, 65, 7].map(|bytes| vec![0xB0; bytes]),
            arena,
            bindings: 2,
            entry_bytes: ENTRY_BYTES,
            entry: |engine, Entry { table, body }| {
                let words = [engine.index() as u64, table.get(), body.get()];
                words.iter().flat_map(|word| word.to_le_bytes()).collect()
            },
            sequencer_config: self.config,
            table_hash: self.tables,
            collectives: self.collectives,
        }
    }
}

/// One copy that a ring asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Copy {
    pub(crate) from: DeviceAddr,
    pub(crate) to: DeviceAddr,
    pub(crate) len: u32,
}

impl Bench {
    pub(crate) fn open(tpbs: &[TpbIndex], skip: SkipConfig) -> Self {
        let (scripted, device) = Scripted::new(2);
        let stager = Stager::open(&device, tpbs, 4, skip).unwrap();
        Self {
            scripted,
            device,
            stager,
        }
    }

    /// A program with two bindings, its configuration and tables filled with these bytes.
    pub(crate) fn program(
        &self,
        tpb: TpbIndex,
        slots: u32,
        config: u8,
        tables: u8,
    ) -> Arc<Program> {
        self.load(tpb, slots, Model::filled(config, tables))
    }

    /// Places a program and forgets how.
    pub(crate) fn load(&self, tpb: TpbIndex, slots: u32, model: Model) -> Arc<Program> {
        let blocks = model.blocks(&self.device, tpb);
        let program = Program::load(&self.device, tpb, slots, blocks).unwrap();
        self.scripted.forget();
        Arc::new(program)
    }

    /// Prepares and commits; the log holds what commit did.
    pub(crate) fn stage(&mut self, programs: &[Arc<Program>]) -> Result<Staged, DeviceError> {
        let prepared = self.stager.prepare(programs, &TENSORS).unwrap();
        self.scripted.forget();
        self.stager.commit(programs, &TENSORS, &prepared)
    }

    /// As [`Bench::stage`]; returns the index of the execution.
    pub(crate) fn execute(&mut self, programs: &[Arc<Program>]) -> Result<u64, DeviceError> {
        self.stage(programs).map(|staged| staged.compute_idx)
    }

    /// The binding table to which the entry block of `slot` refers.
    pub(crate) fn table(&self, program: &Program, slot: u32) -> DeviceAddr {
        let entry = at(program.entry(slot, Engine::Pe), 8);
        let bytes = self.scripted.peek(entry, 8);
        DeviceAddr::new(u64::from_le_bytes(bytes.try_into().unwrap()))
    }

    /// The request of `slot` as it lies in memory.
    pub(crate) fn request(&self, program: &Program, slot: u32) -> ExecRequest {
        let bytes = self.scripted.peek(program.request(slot), 52);
        let bytes: [u8; 52] = bytes.try_into().unwrap();
        transmute!(bytes)
    }

    /// The pair at `index` of the model-exec rings, and its ring id.
    pub(crate) fn pair(&self, tpb: TpbIndex, index: u64) -> (Copy, u8) {
        let (tx, rx) = self.scripted.dma_rings(map::model_exec_queue(tpb));
        let [tx, rx] = [tx, rx].map(|ring| -> Descriptor {
            let bytes = self.scripted.peek(at(ring, index * DESCRIPTOR_SIZE), 16);
            let bytes: [u8; 16] = bytes.try_into().unwrap();
            transmute!(bytes)
        });
        assert_eq!(tx.transfer_len(), rx.transfer_len());
        assert_eq!(tx.ring_id(), rx.ring_id());
        let copy = Copy {
            from: tx.addr(),
            to: rx.addr(),
            len: tx.transfer_len(),
        };
        (copy, tx.ring_id().get())
    }

    pub(crate) fn doorbells(&self) -> Vec<TpbIndex> {
        let log = self.scripted.log().into_iter();
        log.filter_map(|call| match call {
            Call::Increment(tpb, map::INFERENCE_START) => Some(tpb),
            _ => None,
        })
        .collect()
    }
}

pub(crate) fn at(addr: DeviceAddr, offset: u64) -> DeviceAddr {
    addr.checked_add(offset).unwrap()
}
