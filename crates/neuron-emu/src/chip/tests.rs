//! The chip, driven as the driver drives it: rings, registers and semaphores by hand, an execution staged descriptor by
//! descriptor.

use super::decode::notification_base;
use super::{Chip, CopyFailed, NqBlock, RingSpec};
use crate::config::Config;
use xu_abi::descriptor::CopyPair;
use xu_abi::device::ERROR_NQ;
use xu_abi::driver::notification::nq_register::{NQ_HEAD, NQ_STRIDE};
use xu_abi::driver::unverified::{
    EMULATED_HOST_CHUNKS, NQ_ENABLE, NQ_FULL, NQ_OVERWRITE, NQ_TAIL, NQ_TIMESTAMP_HIGH,
    NQ_TIMESTAMP_LOW,
};
use xu_abi::driver::{Arch, DmaQueueState};
use xu_abi::record::{Subtype, ring_bits};
use xu_abi::{
    DeviceAddr, Engine, ErrorRecord, ExecRequest, RequestBuffer, RingId, SemIndex, StatusRecord,
    TpbIndex,
};
use xu_device::map::{self, AddressMap};
use xu_device::simulated::isa::{Instruction, Opcode, Operand};
use xu_device::simulated::{Fault, FaultPlan, Rule, When};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

const DESCRIPTORS: u32 = 32;
/// One that programs may use.
const SEMAPHORE: u8 = 20;
const RING_BYTES: u32 = 4096;
/// Far more than any execution here needs, far less than for ever.
const PATIENCE: u32 = 20_000_000;

fn config(arch: Arch) -> Config {
    Config {
        arch,
        hbm_bytes: 16 << 20,
        host_bytes: 16 << 20,
        ..Config::default()
    }
}

fn chip(arch: Arch) -> Chip {
    Chip::start(&config(arch), 0).unwrap()
}

/// A driver and a client of one core in one: it hands out memory and never takes it back.
struct Bench {
    chip: Chip,
    arch: Arch,
    core: u8,
    next: u64,
    code: u64,
    tx: u64,
    rx: u64,
    pairs: u32,
    ring_id: RingId,
    constants: u64,
    /// Queue, ring, byte offset of the next record, phase.
    readers: Vec<(u8, u64, u32, bool)>,
}

impl Bench {
    fn new(chip: Chip, arch: Arch, core: u8) -> Self {
        let table = arch.table();
        let channel = table.channel_near(core).unwrap();
        let mut bench = Self {
            chip,
            arch,
            core,
            next: table.host_bit + EMULATED_HOST_CHUNKS,
            code: table.hbm[usize::from(channel)] + 0x10_0000,
            tx: 0,
            rx: 0,
            pairs: 0,
            ring_id: RingId::FIRST,
            constants: 0,
            readers: Vec::new(),
        };
        bench.open();
        bench
    }

    fn open(&mut self) {
        self.tx = self.host(0x1000);
        self.rx = self.host(0x1000);
        (self.pairs, self.ring_id) = (0, RingId::FIRST);
        let ring = |base| RingSpec {
            base,
            descriptors: DESCRIPTORS,
        };
        let (engine, queue) = map::engine_of(map::model_exec_queue(self.tpb()));
        self.chip
            .init_queue(engine, queue, ring(self.tx), ring(self.rx));
        self.constants = self.host(0x1000);
        self.chip
            .write(self.constants, [1u32, 4].as_bytes())
            .unwrap();
        let engines = Engine::ALL.map(Engine::status_nq);
        self.readers.clear();
        for nq in engines.into_iter().chain([ERROR_NQ]) {
            let ring = self.host(RING_BYTES.into());
            self.chip.punch(ring, RING_BYTES.into());
            self.chip
                .program_notification(NqBlock::Core(self.core), nq, ring, RING_BYTES);
            self.readers.push((nq, ring, 0, true));
        }
        self.chip.write_register(self.block() + NQ_ENABLE, 0x3FF);
    }

    fn tpb(&self) -> TpbIndex {
        TpbIndex::new(self.core.into())
    }

    fn block(&self) -> u64 {
        notification_base(self.arch, NqBlock::Core(self.core)).unwrap()
    }

    fn head(&self, nq: u8) -> u64 {
        self.block() + NQ_STRIDE * u64::from(nq) + NQ_HEAD
    }

    fn host(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next += bytes;
        at
    }

    fn place(&mut self, bytes: &[u8]) -> u64 {
        let at = self.code;
        self.code += 0x1000;
        self.chip.write(at, bytes).unwrap();
        at
    }

    fn push(&mut self, from: u64, to: DeviceAddr, bytes: u32) {
        let pair = CopyPair::new(DeviceAddr::new(from), to, bytes, self.ring_id).unwrap();
        let offset = u64::from(self.pairs % DESCRIPTORS) * 16;
        self.chip
            .write(self.rx + offset, pair.rx.as_bytes())
            .unwrap();
        self.chip
            .write(self.tx + offset, pair.tx.as_bytes())
            .unwrap();
        self.pairs += 1;
        if self.pairs.is_multiple_of(DESCRIPTORS) {
            self.ring_id = self.ring_id.next();
        }
    }

    fn request(&mut self, code: &[Vec<Instruction>; 5]) -> ExecRequest {
        let mut request = ExecRequest {
            do_model_switch: U32::new(1),
            reload_seq_config: U32::new(1),
            load_act_dve_tables: U32::new(1),
            ..ExecRequest::default()
        };
        for engine in Engine::ALL {
            let block = self.place(code[engine.index()].as_bytes());
            request.set_engine_address(engine, DeviceAddr::new(block));
        }
        request
    }

    /// Stages an execution: request, event, both tails.
    fn arm(&mut self, request: &ExecRequest) {
        let buffer = RequestBuffer {
            body: *request,
            cc_dma_increment: U32::ZERO,
        };
        let buffer = self.place(buffer.as_bytes());
        let (addresses, tpb) = (AddressMap::Chip(self.arch), self.tpb());
        self.push(buffer, addresses.sequencer_memory(tpb), 52);
        self.push(
            self.constants,
            addresses.event_register(tpb, map::REQUEST_LOADED),
            4,
        );
        self.push(self.constants + 4, addresses.tx_tail_increment(tpb), 4);
        self.push(self.constants + 4, addresses.rx_tail_increment(tpb), 4);
    }

    fn ring(&self) -> Result<(), i32> {
        self.chip
            .add_to_semaphore(self.core, map::INFERENCE_START.get(), 1)
    }

    /// The next record of a reader, and its space given back.
    fn next(&mut self, reader: usize) -> Option<[u8; 16]> {
        let (nq, ring, offset, phase) = self.readers[reader];
        let mut record = [0; 16];
        self.chip
            .read(ring + u64::from(offset), &mut record)
            .unwrap();
        if (record[3] & ring_bits::PHASE != 0) != phase {
            return None;
        }
        let next = (offset + 16) % RING_BYTES;
        self.readers[reader] = (nq, ring, next, phase ^ (next == 0));
        self.chip.write_register(self.head(nq), next);
        Some(record)
    }

    /// Subtypes of each engine until each has ended, then the number of errors.
    fn harvest(&mut self) -> ([Vec<Subtype>; 5], usize) {
        let mut seen: [Vec<Subtype>; 5] = Default::default();
        for _ in 0..PATIENCE {
            for (engine, subtypes) in seen.iter_mut().enumerate() {
                if subtypes.last() != Some(&Subtype::End)
                    && let Some(record) = self.next(engine)
                {
                    subtypes.push(StatusRecord::read_from_bytes(&record).unwrap().subtype());
                }
            }
            if seen
                .iter()
                .all(|subtypes| subtypes.last() == Some(&Subtype::End))
            {
                let mut errors = 0;
                while let Some(record) = self.next(5) {
                    ErrorRecord::read_from_bytes(&record).unwrap();
                    errors += 1;
                }
                return (seen, errors);
            }
            std::thread::yield_now();
        }
        panic!("the execution does not end: {seen:?}");
    }

    fn run(&mut self, code: &[Vec<Instruction>; 5]) {
        let request = self.request(code);
        self.arm(&request);
        self.ring().unwrap();
        let both = vec![Subtype::Start, Subtype::End];
        assert_eq!(self.harvest(), (std::array::from_fn(|_| both.clone()), 0));
    }
}

fn halting() -> [Vec<Instruction>; 5] {
    Engine::ALL.map(|engine| vec![Instruction::halt(engine)])
}

fn waiting(engine: Engine) -> [Vec<Instruction>; 5] {
    let mut code = halting();
    code[engine.index()].insert(0, Instruction::wait(engine, SemIndex::new(SEMAPHORE)));
    code
}

#[test]
fn an_execution_runs_on_the_first_and_the_last_core_of_each_architecture() {
    for (arch, core) in [(Arch::V2, 0), (Arch::V2, 1), (Arch::V3, 0), (Arch::V3, 7)] {
        let mut bench = Bench::new(chip(arch), arch, core);
        let [a, b, out] = [1.0f32, 2.5, 0.0].map(|value| bench.place(value.as_bytes()));
        let at = |addr| Operand::Address(DeviceAddr::new(addr));
        let add = Instruction::new(Engine::Dve, Opcode::Add)
            .shape(1, 1)
            .operands(at(a), at(b), at(out));
        let mut code = halting();
        code[Engine::Dve.index()].insert(0, add);
        // Far more than one lap of the rings.
        for _ in 0..50 {
            bench.run(&code);
        }
        let mut sum = [0; 4];
        bench.chip.read(out, &mut sum).unwrap();
        assert_eq!(f32::from_le_bytes(sum), 3.5);
        assert_eq!(bench.chip.client_bugs(), Vec::<String>::new());
    }
}
