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

fn with_fault(fault: Fault) -> Bench {
    let rule = Rule {
        when: When::default(),
        fault,
    };
    let config = Config {
        faults: FaultPlan { rules: vec![rule] },
        ..config(Arch::V2)
    };
    Bench::new(Chip::start(&config, 0).unwrap(), Arch::V2, 0)
}

fn bench() -> Bench {
    Bench::new(chip(Arch::V2), Arch::V2, 0)
}

/// A queue of an engine with rings of its own, one pair from `from` to `to` in it.
fn one_pair(bench: &mut Bench, engine: u32, queue: u32, bytes: [u32; 2]) -> [DmaQueueState; 2] {
    let [from, to, tx, rx] = [(); 4].map(|()| bench.host(0x1000));
    bench.chip.write(from, b"abcdefgh").unwrap();
    let ring = |base| RingSpec {
        base,
        descriptors: DESCRIPTORS,
    };
    bench.chip.init_queue(engine, queue, ring(tx), ring(rx));
    let pair = |bytes| {
        CopyPair::new(
            DeviceAddr::new(from),
            DeviceAddr::new(to),
            bytes,
            RingId::FIRST,
        )
    };
    let [source, destination] = bytes.map(|bytes| pair(bytes).unwrap());
    bench.chip.write(tx, source.tx.as_bytes()).unwrap();
    bench.chip.write(rx, destination.rx.as_bytes()).unwrap();
    bench.chip.start_queue(engine, queue, 1, 1);
    let mut moved = [0; 8];
    bench.chip.read(to, &mut moved).unwrap();
    let expected = if bytes == [8, 8] {
        b"abcdefgh"
    } else {
        &[0; 8]
    };
    assert_eq!(&moved, expected);
    bench.chip.queue_state(engine, queue)
}

#[test]
fn every_kind_of_queue_is_walked_by_the_same_rules() {
    for (engine, queue) in [(1, 0), (17, 0), (1, 1), (31, 13), (33, 0)] {
        let mut bench = bench();
        for state in one_pair(&mut bench, engine, queue, [8, 8]) {
            assert_eq!(
                (state.sw_status, state.head_pointer, state.tail_pointer),
                (2, 1, 1)
            );
            assert_eq!(state.length, DESCRIPTORS);
            assert_ne!(state.base_addr, 0);
        }
        for state in one_pair(&mut bench, engine, queue, [8, 4]) {
            assert_eq!(
                (state.sw_status, state.head_pointer, state.tail_pointer),
                (3, 0, 1)
            );
        }
    }
    let fresh = bench().chip.queue_state(9, 9);
    assert_eq!(
        fresh.map(|state| (state.sw_status, state.base_addr)),
        [(1, 0); 2]
    );
}

#[test]
fn queue_registers_say_what_the_queue_does() {
    let mut bench = bench();
    let block = 0x3000_0000 + 5 * 0x4_0000 + 0x1000 + 2 * 0x1000;
    assert_eq!(bench.chip.read_register(block + 0x20), 0);
    let [tx, rx] = one_pair(&mut bench, 5, 2, [8, 8]);
    for (block, state) in [(block, tx), (block + 0x2_0000, rx)] {
        let read = |register: u64| bench.chip.read_register(block + register);
        let base = u64::from(read(0x2C)) << 32 | u64::from(read(0x28));
        assert_eq!((base, read(0x30)), (state.base_addr, DESCRIPTORS));
        // Index 1 of the first lap.
        assert_eq!([read(0x34), read(0x3C)], [1 << 30 | 1; 2]);
        assert_eq!((read(0x20), read(0x24)), (0x3_0000, 2));
        // They cannot be written.
        bench.chip.write_register(block + 0x30, 7);
        assert_eq!(read(0x30), DESCRIPTORS);
    }
}

#[test]
fn a_head_that_cannot_be_is_reported_and_not_taken() {
    let mut bench = bench();
    bench.run(&halting());
    assert_eq!(bench.chip.client_bugs(), Vec::<String>::new());
    let nq = Engine::Pe.status_nq();
    let head = bench.head(nq);
    for wrong in [8, RING_BYTES, 48, u32::MAX] {
        bench.chip.write_register(head, wrong);
        assert_eq!(bench.chip.read_register(head), 32);
        let bugs = bench.chip.client_bugs();
        assert_eq!(bugs.len(), 1);
        assert!(bugs[0].contains(&format!("queue {nq}")), "{bugs:?}");
        assert!(bugs[0].contains(&wrong.to_string()), "{bugs:?}");
    }
    let topsp = notification_base(Arch::V2, NqBlock::Topsp(2)).unwrap();
    bench
        .chip
        .program_notification(NqBlock::Topsp(2), 0, bench.next, 4096);
    bench.chip.write_register(topsp + NQ_HEAD, 0);
    assert_eq!(bench.chip.client_bugs(), Vec::<String>::new());
    bench.chip.write_register(topsp + NQ_HEAD, 16);
    assert_eq!(bench.chip.client_bugs().len(), 1);
}

#[test]
fn notification_registers_are_live() {
    let mut bench = bench();
    let (block, nq) = (bench.block(), Engine::Act.status_nq());
    let register = |bench: &Bench, register| bench.chip.read_register(block + register);
    let of_queue = NQ_STRIDE * u64::from(nq);
    assert_eq!(register(&bench, NQ_ENABLE), 0x3FF);
    bench.run(&halting());
    assert_eq!(register(&bench, of_queue + NQ_TAIL), 32);
    assert_eq!(register(&bench, of_queue + 0x108), RING_BYTES);
    // A ring of two records: one slot stays free, so that END is dropped.
    let ring = bench.host(4096);
    bench
        .chip
        .program_notification(NqBlock::Core(0), nq, ring, 32);
    assert_eq!(register(&bench, of_queue + NQ_TAIL), 0);
    let request = bench.request(&halting());
    bench.arm(&request);
    bench.ring().unwrap();
    for _ in 0..PATIENCE {
        if register(&bench, NQ_FULL) == 1 << nq {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(register(&bench, NQ_FULL), 1 << nq);
    bench.chip.write_register(block + NQ_OVERWRITE, 1 << nq);
    assert_eq!(register(&bench, NQ_OVERWRITE), 1 << nq);
    let stamps = || [NQ_TIMESTAMP_HIGH, NQ_TIMESTAMP_LOW].map(|half| register(&bench, half));
    let [before, after] = [stamps(), stamps()];
    assert!(before != [0, 0] && before <= after);
    // The base can be programmed by hand too: the size does it.
    bench.chip.write_register(block + of_queue + 0x108, 0);
    assert_eq!(register(&bench, of_queue + NQ_TAIL), 0);
    assert_eq!(bench.chip.client_bugs(), Vec::<String>::new());
}

#[test]
fn a_queue_that_is_not_enabled_drops() {
    let mut bench = bench();
    let (block, nq) = (bench.block(), Engine::Sp.status_nq());
    bench
        .chip
        .write_register(block + NQ_ENABLE, 0x3FF & !(1 << nq));
    let request = bench.request(&halting());
    bench.arm(&request);
    bench.ring().unwrap();
    for engine in 0..4 {
        for _ in 0..2 {
            while bench.next(engine).is_none() {
                std::thread::yield_now();
            }
        }
    }
    let tail = block + NQ_STRIDE * u64::from(nq) + NQ_TAIL;
    assert_eq!(bench.chip.read_register(tail), 0);
    assert_eq!(bench.chip.read_register(block + NQ_FULL), 0);
}

#[test]
fn semaphores_and_events_are_reached_by_call_and_by_register() {
    for (arch, bar0) in [(Arch::V2, 0x400_0000), (Arch::V3, 0xD400_0000)] {
        let chip = chip(arch);
        chip.set_semaphore(1, 255, 5);
        assert_eq!(chip.add_to_semaphore(1, 255, -7), Ok(()));
        assert_eq!(chip.semaphore(1, 255), -2);
        let at = |window: u64| bar0 + window + 4 * 255;
        chip.write_register(at(0x270_1800), 12);
        chip.write_register(at(0x270_1C00), 3);
        assert_eq!(chip.read_register(at(0x270_1000)), 7);
        chip.write_register(at(0x270_1400), -1i32 as u32);
        assert_eq!((chip.semaphore(1, 255), chip.semaphore(0, 255)), (-1, 0));
        // What cannot be written, and what cannot be read.
        chip.write_register(at(0x270_1000), 9);
        assert_eq!(chip.read_register(at(0x270_1000)), u32::MAX);
        assert_eq!(chip.read_register(at(0x270_1800)), 0);
        chip.set_event(1, 255, true);
        assert_eq!(chip.read_register(at(0x270_0000)), 1);
        chip.write_register(at(0x270_0000), 2);
        assert!(!chip.event(1, 255));
        chip.write_register(0x30FA_0010, 77);
        assert_eq!(chip.read_register(0x30FA_0010), 77);
        assert_eq!(chip.read_register(0x30FA_0014), 0);
    }
}

#[test]
fn a_core_that_is_reset_while_it_runs_posts_nothing_more() {
    let mut bench = bench();
    for _ in 0..20 {
        let request = bench.request(&waiting(Engine::Pe));
        bench.arm(&request);
        bench.ring().unwrap();
        bench.chip.reset_core(0);
        let block = bench.block();
        assert_eq!(bench.chip.read_register(block + NQ_ENABLE), 0);
        assert_eq!(bench.chip.read_register(block + 0x108), 0);
        assert_eq!(bench.chip.queue_state(0, 0)[0].sw_status, 1);
        bench.open();
        // What was dropped waited for this.
        bench.chip.set_semaphore(0, SEMAPHORE, 1);
        bench.run(&halting());
    }
}

#[test]
fn a_copy_moves_any_number_of_bytes_and_reaches_registers() {
    let mut bench = bench();
    let [from, to] = [bench.host(0x4_0000), bench.code + 0x8_0000];
    let bytes: Vec<u8> = (0..0x4_0000u32).map(|byte| (byte * 7) as u8).collect();
    bench.chip.write(from, &bytes).unwrap();
    for count in [0, 1, 65_535, 65_536, 65_537] {
        bench.chip.punch(to, 0x4_0000);
        assert_eq!(bench.chip.copy(from, to, count), Ok(()));
        let mut back = vec![0; count as usize + 1];
        bench.chip.read(to, &mut back).unwrap();
        assert_eq!(back.pop(), Some(0));
        assert_eq!(back, bytes[..count as usize]);
    }
    let semaphore = AddressMap::Chip(Arch::V2).core_block(bench.tpb()) + 0x270_1800;
    bench.chip.write(from, 9u32.as_bytes()).unwrap();
    assert_eq!(
        bench
            .chip
            .copy(from, semaphore + 4 * u64::from(SEMAPHORE), 4),
        Ok(())
    );
    assert_eq!(bench.chip.semaphore(0, SEMAPHORE), 9);
    for nowhere in [16 << 20, 0x8_0000_0000, 1 << 47, u64::MAX - 3] {
        assert_eq!(bench.chip.copy(from, nowhere, 4), Err(CopyFailed));
        assert_eq!(bench.chip.copy(nowhere, to, 4), Err(CopyFailed));
    }
}

#[test]
fn faults_of_the_plan_happen() {
    let bench = with_fault(Fault::DoorbellFails { errno: 11 });
    assert_eq!(bench.ring(), Err(11));
    let mut bench = with_fault(Fault::TransferAborts);
    let queue = map::engine_of(map::transfer_queue(bench.tpb(), 0));
    // Asked when the queue is started: the bytes stay where they are.
    let state = one_pair(&mut bench, queue.0, 1, [8, 8]);
    assert_eq!(state[0].sw_status, 2, "queue 1 of that engine is nobody's");
    let ring = RingSpec {
        base: bench.tx,
        descriptors: DESCRIPTORS,
    };
    bench.chip.init_queue(queue.0, queue.1, ring, ring);
    bench.chip.start_queue(queue.0, queue.1, 1, 1);
    assert_eq!(bench.chip.queue_state(queue.0, queue.1)[0].sw_status, 3);
    let bench = with_fault(Fault::AllocationFails);
    assert!(bench.chip.allocation_fails(None) && bench.chip.allocation_fails(Some(1)));
    let mut bench = with_fault(Fault::DeviceLost);
    let request = bench.request(&halting());
    bench.arm(&request);
    bench.ring().unwrap();
    while !bench.chip.is_lost() {
        std::thread::yield_now();
    }
    assert_eq!(bench.ring(), Err(5));
    assert_eq!(bench.chip.copy(bench.tx, bench.rx, 4), Err(CopyFailed));
}

#[test]
fn a_device_that_is_killed_stops_and_keeps_its_memory() {
    let bench = bench();
    bench.chip.write(bench.tx, b"kept").unwrap();
    bench.chip.kill();
    assert!(bench.chip.is_lost());
    assert_eq!(bench.ring(), Err(5));
    bench.chip.reset_core(0);
    let mut kept = [0; 4];
    bench.chip.read(bench.tx, &mut kept).unwrap();
    assert_eq!(&kept, b"kept");
}
