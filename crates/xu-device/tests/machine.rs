//! The simulated machine, driven through [`Device`] alone by a client that writes its own bytes.
//!
//! Programs are assembled by hand, descriptors are written one by one, and records are read by their phase
//! bit, so that a mistake in the stager or in the harvester cannot hide a mistake in the machine.
#![cfg(feature = "simulated")]
#![expect(
    clippy::unwrap_used,
    reason = "the client's functions are part of the tests"
)]

use proptest::prelude::*;
use std::sync::{Arc, Barrier};
use xu_abi::descriptor::{CopyPair, DESCRIPTOR_SIZE};
use xu_abi::device::ERROR_NQ;
use xu_abi::record::{Custom, ErrorKind, RECORD_SIZE, Subtype, ring_bits};
use xu_abi::{
    DeviceAddr, Engine, ErrorRecord, EventIndex, ExecRequest, RequestBuffer, RingId, SemIndex,
    StatusRecord, TpbIndex,
};
use xu_device::simulated::isa::{Dtype, Instruction, Opcode, Operand};
use xu_device::simulated::{Machine, MachineConfig, host_ns};
use xu_device::{Device, DeviceError, DmaQueue, Place, map};
use zerocopy::little_endian::{F32, U32, U64};
use zerocopy::{IntoBytes, transmute};

const CORE: TpbIndex = TpbIndex::new(0);
const SEMAPHORE: SemIndex = SemIndex::new(20);
const DESCRIPTORS: u32 = 32;
/// Far more than any execution here needs, far less than for ever.
const PATIENCE: u32 = 20_000_000;
const NOWHERE: DeviceAddr = DeviceAddr::new(0x50);

/// The instructions of each engine, in engine order.
type Code = [Vec<Instruction>; 5];

/// A pair of rings as a client fills them.
struct Rings {
    queue: DmaQueue,
    tx: DeviceAddr,
    rx: DeviceAddr,
    index: u32,
    ring_id: RingId,
}

/// A notification queue as a client reads it.
struct Reader {
    nq: u8,
    base: DeviceAddr,
    bytes: u64,
    offset: u64,
    phase: bool,
}

/// A client of one core.
struct Client {
    machine: Arc<Machine>,
    tpb: TpbIndex,
    rings: Rings,
    constants: DeviceAddr,
    status: [Reader; 5],
    errors: Reader,
}

/// What one execution has posted.
#[derive(Debug)]
struct Posted {
    status: [Vec<StatusRecord>; 5],
    errors: Vec<ErrorRecord>,
}

/// The four copies of an execution.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Request,
    Event,
    TxTail,
    RxTail,
}

const WHOLE: [Part; 4] = [Part::Request, Part::Event, Part::TxTail, Part::RxTail];

fn small(tpbs: u16, seed: u64) -> MachineConfig {
    MachineConfig {
        tpbs,
        seed,
        hbm_bytes: 1 << 20,
        host_bytes: 1 << 20,
        ..MachineConfig::default()
    }
}

impl Rings {
    fn open(machine: &Machine, queue: DmaQueue) -> Self {
        let bytes = u64::from(DESCRIPTORS) * DESCRIPTOR_SIZE;
        let tx = machine.allocate(Place::Host, bytes, 256).unwrap();
        let rx = machine.allocate(Place::Host, bytes, 256).unwrap();
        machine.open_dma_queue(queue, tx, rx, DESCRIPTORS).unwrap();
        Self {
            queue,
            tx,
            rx,
            index: 0,
            ring_id: RingId::FIRST,
        }
    }

    fn copy(&mut self, machine: &Machine, from: DeviceAddr, to: DeviceAddr, len: u32) {
        self.push(machine, CopyPair::new(from, to, len, self.ring_id).unwrap());
    }

    fn push(&mut self, machine: &Machine, pair: CopyPair) {
        let offset = u64::from(self.index) * DESCRIPTOR_SIZE;
        machine
            .write(at(self.rx, offset), pair.rx.as_bytes())
            .unwrap();
        machine
            .write(at(self.tx, offset), pair.tx.as_bytes())
            .unwrap();
        self.index += 1;
        if self.index == DESCRIPTORS {
            self.index = 0;
            self.ring_id = self.ring_id.next();
        }
    }
}

impl Reader {
    fn open(machine: &Machine, tpb: TpbIndex, nq: u8, bytes: u64) -> Self {
        Self {
            nq,
            base: machine.open_notification_queue(tpb, nq, bytes).unwrap(),
            bytes,
            offset: 0,
            phase: map::FIRST_PHASE,
        }
    }

    fn next(&mut self, machine: &Machine) -> Option<[u8; 16]> {
        let at = at(self.base, self.offset);
        let word = machine.load_acquire(at).unwrap().to_le_bytes();
        if (word[3] & ring_bits::PHASE != 0) != self.phase {
            return None;
        }
        let mut record = [0; 16];
        machine.read(at, &mut record).unwrap();
        self.offset += RECORD_SIZE;
        if self.offset == self.bytes {
            self.offset = 0;
            self.phase = !self.phase;
        }
        Some(record)
    }
}

impl Client {
    fn start(config: MachineConfig) -> Self {
        Self::open(&Machine::start(config).unwrap(), CORE, 4096)
    }

    fn open(machine: &Arc<Machine>, tpb: TpbIndex, nq_bytes: u64) -> Self {
        let constants = machine.allocate(Place::Host, 8, 8).unwrap();
        machine.write(constants, [1u32, 4].as_bytes()).unwrap();
        Self {
            machine: Arc::clone(machine),
            tpb,
            rings: Rings::open(machine, map::model_exec_queue(tpb)),
            constants,
            status: Engine::ALL
                .map(|engine| Reader::open(machine, tpb, engine.status_nq(), nq_bytes)),
            errors: Reader::open(machine, tpb, ERROR_NQ, 4096),
        }
    }

    fn place(&self, bytes: &[u8]) -> DeviceAddr {
        let place = Place::Hbm(self.tpb);
        let addr = self
            .machine
            .allocate(place, bytes.len() as u64, 64)
            .unwrap();
        self.machine.write(addr, bytes).unwrap();
        addr
    }

    fn floats(&self, addr: DeviceAddr, count: usize) -> Vec<f32> {
        let mut floats = vec![0.0f32; count];
        self.machine.read(addr, floats.as_mut_bytes()).unwrap();
        floats
    }

    /// Places code and returns a request that loads everything.
    fn request(&self, code: &Code) -> ExecRequest {
        let mut request = ExecRequest {
            do_model_switch: U32::new(1),
            reload_seq_config: U32::new(1),
            load_act_dve_tables: U32::new(1),
            ..ExecRequest::default()
        };
        for engine in Engine::ALL {
            request.set_engine_address(engine, self.place(code[engine.index()].as_bytes()));
        }
        request
    }

    fn arm(&mut self, request: &ExecRequest, parts: &[Part]) {
        let buffer = RequestBuffer {
            body: *request,
            cc_dma_increment: U32::ZERO,
        };
        let buffer = self.place(buffer.as_bytes());
        let increment = at(self.constants, 4);
        for part in parts {
            let (from, to, len) = match part {
                Part::Request => (buffer, map::sequencer_memory(self.tpb), 52),
                Part::Event => {
                    let event = map::event_register(self.tpb, map::REQUEST_LOADED);
                    (self.constants, event, 4)
                }
                Part::TxTail => (increment, map::tx_tail_increment(self.tpb), 4),
                Part::RxTail => (increment, map::rx_tail_increment(self.tpb), 4),
            };
            self.rings.copy(&self.machine, from, to, len);
        }
    }

    fn fire(&self) {
        self.machine
            .increment_semaphore(self.tpb, map::INFERENCE_START)
            .unwrap();
    }

    /// Reads records until every engine has ended, then the error queue.
    fn harvest(&mut self) -> Posted {
        let mut status: [Vec<StatusRecord>; 5] = Default::default();
        let ended = |records: &Vec<StatusRecord>| {
            records
                .last()
                .is_some_and(|record| record.subtype() == Subtype::End)
        };
        for _ in 0..PATIENCE {
            for (reader, records) in self.status.iter_mut().zip(&mut status) {
                while !ended(records)
                    && let Some(record) = reader.next(&self.machine)
                {
                    records.push(transmute!(record));
                    self.machine
                        .acknowledge(self.tpb, reader.nq, reader.offset)
                        .unwrap();
                }
            }
            if status.iter().all(ended) {
                let mut errors = Vec::new();
                while let Some(record) = self.errors.next(&self.machine) {
                    errors.push(transmute!(record));
                    self.machine
                        .acknowledge(self.tpb, ERROR_NQ, self.errors.offset)
                        .unwrap();
                }
                return Posted { status, errors };
            }
            std::thread::yield_now();
        }
        panic!("the execution does not end: {status:?}");
    }

    fn execute(&mut self, request: &ExecRequest) -> Posted {
        self.arm(request, &WHOLE);
        self.fire();
        self.harvest()
    }

    fn run(&mut self, code: &Code) -> Posted {
        let request = self.request(code);
        self.execute(&request)
    }

    /// Runs `instructions` on `engine` while the others halt at once.
    fn run_one(&mut self, engine: Engine, instructions: &[Instruction]) -> Posted {
        self.run(&only(engine, instructions))
    }

    fn assert_still_works(&mut self) {
        self.run(&halting()).assert_clean();
    }

    fn assert_hangs(&self) {
        for _ in 0..PATIENCE {
            // A running core is busy after two seconds; a hung one at once.
            if self.machine.quiesce(self.tpb) == Err(DeviceError::Busy { tpb: self.tpb }) {
                return;
            }
            std::thread::yield_now();
        }
        panic!("the core has come to rest");
    }
}

impl Posted {
    fn subtypes(&self, engine: Engine) -> Vec<Subtype> {
        self.status[engine.index()]
            .iter()
            .map(StatusRecord::subtype)
            .collect()
    }

    fn kinds(&self) -> Vec<ErrorKind> {
        self.errors.iter().map(ErrorRecord::kind).collect()
    }

    fn assert_start_and_end_only(&self) {
        for engine in Engine::ALL {
            assert_eq!(
                self.subtypes(engine),
                [Subtype::Start, Subtype::End],
                "{engine}"
            );
        }
    }

    fn assert_clean(&self) {
        self.assert_start_and_end_only();
        assert_eq!(self.errors, []);
    }

    fn assert_sequencer_error(&self) {
        self.assert_start_and_end_only();
        assert_eq!(self.kinds(), [ErrorKind::SoftwareSequencer]);
        let last_end = self
            .status
            .iter()
            .flatten()
            .map(|record| record.device_ts.get())
            .max();
        assert!(Some(self.errors[0].device_ts.get()) < last_end);
    }

    /// All records of the status queues in the order of their stamps: engine and subtype.
    fn order(&self) -> Vec<(usize, u16)> {
        let mut records: Vec<_> = (0..5)
            .flat_map(|engine| {
                self.status[engine]
                    .iter()
                    .map(move |record| (engine, record))
            })
            .collect();
        records.sort_by_key(|(_, record)| record.device_ts.get());
        records
            .iter()
            .map(|(engine, record)| (*engine, record.subtype.get()))
            .collect()
    }
}

fn at(addr: DeviceAddr, offset: u64) -> DeviceAddr {
    addr.checked_add(offset).unwrap()
}

fn halting() -> Code {
    Engine::ALL.map(|engine| vec![Instruction::halt(engine)])
}

fn only(engine: Engine, instructions: &[Instruction]) -> Code {
    let mut code = halting();
    code[engine.index()] = instructions.to_vec();
    code
}

fn fixed(addr: DeviceAddr) -> Operand {
    Operand::Address(addr)
}

/// `out = opcode(a, b)` on `rows` by `cols`.
fn instruction(
    engine: Engine,
    opcode: Opcode,
    (rows, cols): (u32, u32),
    [a, b, out]: [DeviceAddr; 3],
) -> Instruction {
    Instruction::new(engine, opcode)
        .shape(rows, cols)
        .operands(fixed(a), fixed(b), fixed(out))
}

#[test]
fn a_network_runs_from_bytes_to_records() {
    let mut client = Client::start(MachineConfig::default());
    let x = client.place([1.0f32, 2.0, -1.0, 0.5].as_bytes());
    let w = client.place([1.0f32, 0.0, 2.0, 0.0, 1.0, -1.0].as_bytes());
    let bias = client.place([0.0f32, -3.0, 1.0].as_bytes());
    let hidden = client.place(&[0; 24]);
    let y = client.place(&[0; 24]);
    let best = client.place(&[0; 8]);
    let (ready, done) = (SemIndex::new(16), SemIndex::new(255));
    let mut product = instruction(Engine::Pe, Opcode::MatMul, (2, 3), [x, w, hidden]);
    product.inner = U32::new(2);
    let act = Engine::Act;
    let mut code = halting();
    code[0] = vec![
        product,
        Instruction::signal(Engine::Pe, ready),
        Instruction::halt(Engine::Pe),
    ];
    code[1] = vec![
        Instruction::wait(act, ready),
        instruction(act, Opcode::Bias, (2, 3), [hidden, bias, hidden]),
        instruction(act, Opcode::Relu, (2, 3), [hidden, NOWHERE, hidden]),
        instruction(act, Opcode::Softmax, (2, 3), [hidden, NOWHERE, y]),
        Instruction::signal(act, done),
        Instruction::halt(act),
    ];
    code[2] = vec![
        Instruction::wait(Engine::Pool, done),
        instruction(Engine::Pool, Opcode::ArgMax, (2, 3), [y, NOWHERE, best]),
        Instruction::halt(Engine::Pool),
    ];
    let before = host_ns();
    let posted = client.run(&code);
    let after = host_ns();
    posted.assert_clean();

    // x w = [1 2 0; -1 0.5 -2.5]; with the bias [1 -1 1; -1 -2.5 -1.5]; after relu [1 0 1; 0 0 0].
    assert_eq!(client.floats(hidden, 6), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    let e = core::f32::consts::E;
    let (large, little) = (e / (2.0 * e + 1.0), 1.0 / (2.0 * e + 1.0));
    let third = 1.0 / 3.0;
    for (got, expected) in client
        .floats(y, 6)
        .iter()
        .zip([large, little, large, third, third, third])
    {
        assert!((got - expected).abs() < 1e-6, "{got} {expected}");
    }
    let mut indices = [9u32; 2];
    client.machine.read(best, indices.as_mut_bytes()).unwrap();
    assert_eq!(indices, [0, 0]);

    let clock = client.machine.clock();
    for (engine, records) in Engine::ALL.iter().zip(&posted.status) {
        for record in records {
            assert_eq!(
                (record.nq_id_tag(), record.debug_hint()),
                (engine.status_nq(), 0)
            );
            let ns = clock.to_host_ns(record.device_ts.get());
            // Rounding may cost a tick or two.
            assert!(before <= ns + 2 && ns <= after + 2, "{before} {ns} {after}");
        }
        assert!(records[0].device_ts.get() < records[1].device_ts.get());
    }
    assert_eq!(client.machine.quiesce(CORE), Ok(()));
    assert_eq!(client.machine.read_semaphore(CORE, ready), Ok(0));
}

#[test]
fn elementwise_and_reductions() {
    let mut client = Client::start(small(1, 3));
    let a = client.place([1.0f32, -2.0, 3.0, 4.0, 5.0, -6.0].as_bytes());
    let b = client.place([2.0f32, 2.0, 0.5, 1.0, 0.0, 1.0].as_bytes());
    let pixels = client.place(&[0, 255, 51]);
    let [sum, product, scaled, sums, maxima] =
        [24, 24, 12, 8, 8].map(|n| client.place(&vec![0; n]));
    let shape = (2, 3);
    let mut scale = instruction(
        Engine::Dve,
        Opcode::Scale,
        (1, 3),
        [pixels, NOWHERE, scaled],
    );
    scale.dtype = Dtype::U8 as u8;
    scale.immediate = F32::new(1.0 / 255.0);
    let mut code = halting();
    code[3] = vec![
        instruction(Engine::Dve, Opcode::Add, shape, [a, b, sum]),
        instruction(Engine::Dve, Opcode::Mul, shape, [a, b, product]),
        scale,
        Instruction::halt(Engine::Dve),
    ];
    code[2] = vec![
        instruction(Engine::Pool, Opcode::Sum, shape, [a, NOWHERE, sums]),
        instruction(Engine::Pool, Opcode::Max, shape, [a, NOWHERE, maxima]),
        Instruction::halt(Engine::Pool),
    ];
    client.run(&code).assert_clean();
    assert_eq!(client.floats(sum, 6), [3.0, 0.0, 3.5, 5.0, 5.0, -5.0]);
    assert_eq!(client.floats(product, 6), [2.0, -4.0, 1.5, 4.0, 0.0, -6.0]);
    assert_eq!(client.floats(sums, 2), [2.0, 3.0]);
    assert_eq!(client.floats(maxima, 2), [3.0, 5.0]);
    for (got, expected) in client.floats(scaled, 3).iter().zip([0.0, 1.0, 0.2]) {
        assert!((got - expected).abs() < 1e-6, "{got}");
    }
}

#[test]
fn one_program_serves_two_tables() {
    let mut client = Client::start(small(1, 1));
    let bound = |index, offset| Operand::Bound { index, offset };
    let body = client.place(
        [
            Instruction::new(Engine::Act, Opcode::Relu)
                .shape(1, 2)
                .operands(bound(0, 4), fixed(NOWHERE), bound(1, 0)),
            Instruction::halt(Engine::Act),
        ]
        .as_bytes(),
    );
    for expected in [[1.0f32, 0.0], [0.0, 7.0]] {
        let input = [
            9.0,
            expected[0],
            expected[1] - 2.0 * f32::from(u8::from(expected[0] > 0.0)),
        ];
        let input = client.place(input.as_bytes());
        let out = client.machine.allocate(Place::Host, 8, 4).unwrap();
        let table = client.place([input.get(), out.get()].as_bytes());
        let entry = [
            Instruction::bind(Engine::Act, table),
            Instruction::jump(Engine::Act, body),
        ];
        client.run_one(Engine::Act, &entry).assert_clean();
        assert_eq!(client.floats(out, 2), expected);
    }
}

#[test]
fn an_incomplete_publish_is_an_error_and_the_next_one_is_not() {
    use Part::{Event, Request, RxTail, TxTail};
    let orders: [&[Part]; 10] = [
        &[],
        &[Event, TxTail, RxTail],
        &[Request, TxTail, RxTail],
        &[Request, Event, RxTail],
        &[Request, Event, TxTail],
        &[Request, Event],
        &[TxTail, RxTail, Request, Event],
        &[Event, Request, TxTail, RxTail],
        // Five copies, of which four are published.
        &[Request, Request, Event, TxTail, RxTail],
        &[Request, Event, TxTail, TxTail],
    ];
    let mut client = Client::start(small(1, 2));
    let request = client.request(&halting());
    for order in orders {
        client.arm(&request, order);
        client.fire();
        client.harvest().assert_sequencer_error();
        client.assert_still_works();
    }
}

#[test]
fn a_request_that_does_not_arrive_whole_is_an_error() {
    let mut client = Client::start(small(1, 2));
    let request = client.request(&halting());
    // The trailer was never written: poison stands in its place.
    let body = client.machine.allocate(Place::Hbm(CORE), 56, 64).unwrap();
    client.machine.write(body, request.as_bytes()).unwrap();
    let (increment, tpb) = (at(client.constants, 4), client.tpb);
    for (from, to, len) in [
        (body, map::sequencer_memory(tpb), 52),
        (
            client.constants,
            map::event_register(tpb, map::REQUEST_LOADED),
            4,
        ),
        (increment, map::tx_tail_increment(tpb), 4),
        (increment, map::rx_tail_increment(tpb), 4),
    ] {
        client.rings.copy(&client.machine, from, to, len);
    }
    client.fire();
    client.harvest().assert_sequencer_error();
    client.assert_still_works();
}

#[test]
fn an_aborted_model_exec_queue_fails_every_doorbell_until_it_is_opened_again() {
    let mut client = Client::start(small(1, 2));
    let queue = client.rings.queue;
    client
        .rings
        .copy(&client.machine, NOWHERE, map::sequencer_memory(CORE), 52);
    client.fire();
    client.harvest().assert_sequencer_error();
    let aborted = Err(DeviceError::DmaAborted {
        tpb: CORE,
        index: queue.index,
    });
    assert_eq!(client.machine.start_dma(queue, 4), aborted);
    client.run(&halting()).assert_sequencer_error();
    client.rings = Rings::open(&client.machine, queue);
    assert_eq!(client.machine.start_dma(queue, 4), Ok(()));
    client.assert_still_works();
}

#[test]
fn skipping_what_was_never_loaded_is_an_error() {
    let mut client = Client::start(small(1, 2));
    let whole = client.request(&halting());
    let skipping = [
        ExecRequest {
            reload_seq_config: U32::ZERO,
            ..whole
        },
        ExecRequest {
            load_act_dve_tables: U32::ZERO,
            ..whole
        },
    ];
    for request in &skipping {
        client.execute(request).assert_sequencer_error();
    }
    client.execute(&whole).assert_clean();
    for request in &skipping {
        client.execute(request).assert_clean();
    }
    client.rings = Rings::open(&client.machine, client.rings.queue);
    client.execute(&skipping[0]).assert_sequencer_error();
}

#[test]
fn instructions_that_cannot_be_executed_end_the_execution_with_an_error() {
    let mut client = Client::start(small(1, 4));
    let data = client.place(&[0; 1024]);
    let relu = instruction(Engine::Act, Opcode::Relu, (2, 2), [data, NOWHERE, data]);
    let wrong = |alter: fn(&mut Instruction)| {
        let mut instruction = relu;
        alter(&mut instruction);
        instruction
    };
    let unbound = Operand::Bound {
        index: 0,
        offset: 0,
    };
    let cases = [
        Instruction::default(),
        wrong(|relu| relu.opcode = 0xFF),
        wrong(|relu| relu.engine = Engine::Dve.index() as u8),
        wrong(|relu| relu.engine = 5),
        wrong(|relu| relu.opcode = Opcode::MatMul as u8),
        wrong(|relu| relu.dtype = 3),
        wrong(|relu| relu.dtype = Dtype::U8 as u8),
        wrong(|relu| relu.rows = U32::ZERO),
        wrong(|relu| (relu.rows, relu.cols) = (U32::new(u32::MAX), U32::new(u32::MAX))),
        Instruction::wait(Engine::Act, map::INFERENCE_START),
        Instruction::signal(Engine::Act, map::INFERENCE_START),
        relu.operands(unbound, unbound, unbound),
        Instruction {
            a: U64::new(unbound.to_raw()),
            ..Instruction::jump(Engine::Act, data)
        },
    ];
    for case in cases {
        let mut code = only(Engine::Act, &[relu, case]);
        // Engines that wait for the one that fails are ended too, and what they would take is gone.
        code[4] = vec![
            Instruction::signal(Engine::Sp, SEMAPHORE),
            Instruction::wait(Engine::Sp, SemIndex::new(21)),
        ];
        let posted = client.run(&code);
        posted.assert_sequencer_error();
        assert_eq!(posted.errors[0].mask.get(), 1 << Engine::Act.index());
        assert_eq!(client.machine.read_semaphore(CORE, SEMAPHORE), Ok(0));
        client.assert_still_works();
    }
}

#[test]
fn an_address_outside_memory_is_reported_with_its_line() {
    let mut client = Client::start(small(1, 5));
    let data = client.place(&[0; 64]);
    let end = DeviceAddr::new(map::HBM_RESERVED + (1 << 20) - 4);
    let nop = instruction(Engine::Pool, Opcode::Sum, (1, 1), [data, NOWHERE, data]);
    let reach = |a, out| instruction(Engine::Pool, Opcode::Sum, (2, 2), [a, NOWHERE, out]);
    let table = Instruction::bind(Engine::Pool, NOWHERE);
    let bound = Operand::Bound {
        index: 1,
        offset: 0,
    };
    let body = client.place([nop, nop, nop, reach(NOWHERE, data)].as_bytes());
    let host = client.machine.allocate(Place::Host, 64, 64).unwrap();
    let jump = |to| Instruction::jump(Engine::Pool, to);
    let cases = [
        (vec![reach(NOWHERE, data)], 0),
        (vec![nop, reach(end, data)], 1),
        (vec![nop, nop, reach(data, end)], 2),
        (vec![nop, reach(data, map::sequencer_memory(CORE))], 1),
        (vec![table, nop.operands(bound, bound, bound)], 1),
        // After a jump, lines count from where it went.
        (vec![nop, jump(body)], 3),
        (vec![nop, jump(NOWHERE)], 0),
        // Operands may lie in host memory, instructions may not.
        (vec![jump(host)], 0),
        (vec![jump(end)], 0),
    ];
    for (instructions, line) in cases {
        let posted = client.run_one(Engine::Pool, &instructions);
        let expected = [Subtype::Start, Subtype::Custom, Subtype::End];
        assert_eq!(posted.subtypes(Engine::Pool), expected);
        let custom = &posted.status[Engine::Pool.index()][1];
        assert_eq!(
            (custom.custom(), custom.isa_line()),
            (Custom::OutOfBounds(0), line)
        );
        assert_eq!(posted.errors, []);
        client.assert_still_works();
    }
}

#[test]
fn nan_is_reported_once_per_engine_and_the_result_stands() {
    let mut client = Client::start(small(1, 6));
    let input = client.place([f32::NAN, 1.0, 2.0, 2.0].as_bytes());
    let out = client.place(&[0; 16]);
    let softmax = instruction(Engine::Act, Opcode::Softmax, (2, 2), [input, NOWHERE, out]);
    let halt = Instruction::halt(Engine::Act);
    let posted = client.run_one(Engine::Act, &[softmax, softmax, halt]);
    posted.assert_start_and_end_only();
    assert_eq!(posted.kinds(), [ErrorKind::Numerical]);
    let end = posted.status[Engine::Act.index()][1].device_ts.get();
    assert!(posted.errors[0].device_ts.get() < end);
    let result = client.floats(out, 4);
    assert!(result[0].is_nan() && result[1].is_nan());
    assert_eq!(result[2..], [0.5, 0.5]);
}

#[test]
fn executions_queue_behind_each_other() {
    let mut client = Client::start(small(1, 7));
    let request = client.request(&halting());
    // More than two laps of the descriptor rings, never more than a ring's worth at once.
    for _ in 0..6 {
        for _ in 0..4 {
            client.arm(&request, &WHOLE);
        }
        for _ in 0..4 {
            client.fire();
        }
        for _ in 0..4 {
            client.harvest().assert_clean();
        }
    }
    assert_eq!(client.machine.quiesce(CORE), Ok(()));
    assert_eq!(
        client.machine.read_semaphore(CORE, map::INFERENCE_START),
        Ok(0)
    );
}

#[test]
fn notification_rings_wrap_for_five_laps() {
    let machine = Machine::start(small(1, 8)).unwrap();
    let mut client = Client::open(&machine, CORE, 64);
    let request = client.request(&halting());
    for _ in 0..10 {
        client.execute(&request).assert_clean();
    }
    assert_eq!(client.status[0].offset, 0);
    assert_eq!(machine.overflow_latched(CORE), Ok(false));
}

#[test]
fn a_full_notification_ring_drops_latches_and_says_so() {
    let machine = Machine::start(small(1, 9)).unwrap();
    let mut client = Client::open(&machine, CORE, 64);
    let request = client.request(&halting());
    for _ in 0..2 {
        client.arm(&request, &WHOLE);
        client.fire();
    }
    assert_eq!(machine.quiesce(CORE), Ok(()));
    // Three of four records fit: the second END of each engine is lost.
    assert_eq!(machine.overflow_latched(CORE), Ok(true));
    client.harvest().assert_clean();
    let reader = &mut client.status[0];
    assert!(reader.next(&machine).is_some());
    assert!(reader.next(&machine).is_none());
    machine.acknowledge(CORE, reader.nq, reader.offset).unwrap();
    client.arm(&request, &WHOLE);
    client.fire();
    assert_eq!(machine.quiesce(CORE), Ok(()));
    let record: StatusRecord = transmute!(client.status[0].next(&machine).unwrap());
    assert_eq!(record.subtype(), Subtype::Start);
    assert_ne!(record.ring_and_tag & ring_bits::RING_OVERFLOW, 0);
    let record: StatusRecord = transmute!(client.status[0].next(&machine).unwrap());
    assert_eq!(record.ring_and_tag & ring_bits::RING_OVERFLOW, 0);
    for engine in Engine::ALL {
        machine
            .open_notification_queue(CORE, engine.status_nq(), 64)
            .unwrap();
    }
    assert_eq!(machine.overflow_latched(CORE), Ok(false));
}

#[test]
fn a_semaphore_that_nobody_raises_hangs_the_core_until_it_is_dropped() {
    let mut client = Client::start(small(1, 10));
    let halt = Instruction::halt(Engine::Sp);
    let request = client.request(&only(
        Engine::Sp,
        &[Instruction::wait(Engine::Sp, SEMAPHORE), halt],
    ));
    client.arm(&request, &WHOLE);
    client.fire();
    client.assert_hangs();
    client.fire();
    client.fire();
    assert_eq!(
        client.machine.read_semaphore(CORE, map::INFERENCE_START),
        Ok(2)
    );
    client.assert_hangs();
    let sp = &mut client.status[Engine::Sp.index()];
    let start: StatusRecord = transmute!(sp.next(&client.machine).unwrap());
    assert_eq!(start.subtype(), Subtype::Start);
    assert!(sp.next(&client.machine).is_none());
}

#[test]
fn a_hung_core_goes_on_when_the_semaphore_is_raised_from_outside() {
    let mut client = Client::start(small(1, 10));
    let code = [
        Instruction::wait(Engine::Sp, SEMAPHORE),
        Instruction::halt(Engine::Sp),
    ];
    let request = client.request(&only(Engine::Sp, &code));
    client.arm(&request, &WHOLE);
    client.fire();
    client.assert_hangs();
    client.machine.increment_semaphore(CORE, SEMAPHORE).unwrap();
    client.harvest().assert_clean();
    assert_eq!(client.machine.quiesce(CORE), Ok(()));
}

#[test]
fn an_endless_program_holds_up_neither_other_engines_nor_the_drop() {
    let mut client = Client::start(small(1, 11));
    let body = client.machine.allocate(Place::Hbm(CORE), 64, 64).unwrap();
    let jump = Instruction::jump(Engine::Dve, body);
    client.machine.write(body, jump.as_bytes()).unwrap();
    let mut code = only(Engine::Dve, &[jump]);
    // SP stalls long before PE has done its work.
    let data = client.place(&[0; 4]);
    code[0] = vec![instruction(Engine::Pe, Opcode::MatMul, (1, 1), [data; 3]); 64];
    code[0]
        .iter_mut()
        .for_each(|product| product.inner = U32::new(1));
    code[0].push(Instruction::signal(Engine::Pe, SEMAPHORE));
    code[0].push(Instruction::halt(Engine::Pe));
    code[4] = vec![
        Instruction::wait(Engine::Sp, SEMAPHORE),
        Instruction::halt(Engine::Sp),
    ];
    let request = client.request(&code);
    client.arm(&request, &WHOLE);
    client.fire();
    for engine in [Engine::Dve, Engine::Sp, Engine::Sp] {
        let reader = &mut client.status[engine.index()];
        let found = (0..PATIENCE).any(|_| {
            std::thread::yield_now();
            reader.next(&client.machine).is_some()
        });
        assert!(found, "{engine}");
    }
}

#[test]
fn two_cores_run_at_the_same_time() {
    let machine = Machine::start(small(2, 12)).unwrap();
    let mut clients = [0, 1].map(|tpb| Client::open(&machine, TpbIndex::new(tpb), 4096));
    // Each core is under way before the other can go on: both run at once.
    let both_wait = Barrier::new(2);
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let both_wait = &both_wait;
            scope.spawn(move || {
                let out = client.place(&[0; 4]);
                let input = client.place([number as f32 + 1.0].as_bytes());
                let code = [
                    Instruction::wait(Engine::Act, SEMAPHORE),
                    instruction(Engine::Act, Opcode::Relu, (1, 1), [input, NOWHERE, out]),
                    Instruction::halt(Engine::Act),
                ];
                let request = client.request(&only(Engine::Act, &code));
                client.arm(&request, &WHOLE);
                client.fire();
                client.assert_hangs();
                both_wait.wait();
                let other = TpbIndex::new(1 - number as u16);
                client
                    .machine
                    .increment_semaphore(other, SEMAPHORE)
                    .unwrap();
                client.harvest().assert_clean();
                assert_eq!(client.floats(out, 1), [number as f32 + 1.0]);
            });
        }
    });
}

#[test]
fn the_seed_decides_the_order_between_queues() {
    let order = |seed| Client::start(small(1, seed)).run(&halting()).order();
    let orders: std::collections::HashSet<_> = (0..16).map(order).collect();
    assert!(orders.len() > 8, "{} orders", orders.len());
    assert_eq!(order(5), order(5));
}

#[test]
fn transfers_move_bytes_for_five_laps() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let mut rings = Rings::open(&machine, map::transfer_queue(CORE, 1));
    let from = machine.allocate(Place::Host, 0x1_0000, 64).unwrap();
    let to = machine.allocate(Place::Hbm(CORE), 0x1_0000, 64).unwrap();
    for lap in 0..5 * DESCRIPTORS / 2 {
        let bytes: Vec<u8> = (0..0x1_0000u32).map(|byte| (byte ^ lap) as u8).collect();
        machine.write(from, &bytes).unwrap();
        machine.write(at(to, 0xFFFF), &[0]).unwrap();
        let mut marker = [0; 4];
        rings.copy(&machine, from, to, 0x1_0000);
        rings.copy(&machine, to, at(from, 0xFFFC), 4);
        machine.start_dma(rings.queue, 2).unwrap();
        let mut back = vec![0; 0x1_0000];
        machine.read(to, &mut back).unwrap();
        assert_eq!(back, bytes);
        machine.read(at(from, 0xFFFC), &mut marker).unwrap();
        assert_eq!(marker, bytes[..4]);
    }
    assert_eq!(machine.start_dma(rings.queue, 0), Ok(()));
}

#[test]
fn a_bad_descriptor_aborts_its_queue_until_it_is_opened_again() {
    let machine = Machine::start(small(1, 0)).unwrap();
    let queue = map::transfer_queue(CORE, 0);
    let memory = machine.allocate(Place::Host, 256, 64).unwrap();
    let pair = |from, to, ring_id| CopyPair::new(from, to, 64, ring_id).unwrap();
    let good = pair(memory, at(memory, 64), RingId::FIRST);
    let altered = |alter: fn(&mut CopyPair)| {
        let mut pair = good;
        alter(&mut pair);
        pair
    };
    let event = map::event_register(CORE, EventIndex::new(3));
    let bad = [
        pair(memory, at(memory, 64), RingId::FIRST.next()),
        altered(|pair| pair.rx.len_ctrl = U32::new(pair.rx.len_ctrl.get() + 1)),
        altered(|pair| pair.rx.len_ctrl = U32::new(pair.rx.len_ctrl.get() ^ 1 << 24)),
        altered(|pair| pair.tx.meta_ctrl = U32::ZERO),
        altered(|pair| pair.rx.meta_ctrl = pair.tx.meta_ctrl),
        pair(NOWHERE, memory, RingId::FIRST),
        pair(memory, NOWHERE, RingId::FIRST),
        pair(memory, event, RingId::FIRST),
        pair(memory, DeviceAddr::new(u64::MAX - 8), RingId::FIRST),
    ];
    for pair in bad {
        let mut rings = Rings::open(&machine, queue);
        machine.write(memory, &[7; 64]).unwrap();
        machine.write(at(memory, 64), &[0; 64]).unwrap();
        rings.push(&machine, good);
        rings.push(&machine, pair);
        // The doorbell is posted: the abort shows afterwards.
        assert_eq!(machine.start_dma(queue, 2), Ok(()));
        let mut moved = [0; 64];
        machine.read(at(memory, 64), &mut moved).unwrap();
        assert_eq!(moved, [7; 64]);
        let aborted = Err(DeviceError::DmaAborted {
            tpb: CORE,
            index: queue.index,
        });
        assert_eq!(machine.start_dma(queue, 0), aborted, "{pair:?}");
        assert_eq!(machine.start_dma(queue, 1), aborted);
        // Its neighbour is not affected.
        let neighbour = Rings::open(&machine, map::transfer_queue(CORE, 1));
        assert_eq!(machine.start_dma(neighbour.queue, 0), Ok(()));
        for ring in [rings.tx, rings.rx, neighbour.tx, neighbour.rx] {
            machine.release(ring).unwrap();
        }
    }
}

#[test]
fn arguments_out_of_range_are_refused() {
    let bad = |result: Result<(), DeviceError>| {
        assert!(
            matches!(result, Err(DeviceError::BadArgument { .. })),
            "{result:?}"
        );
    };
    let base = small(1, 0);
    for config in [
        MachineConfig { arch: 1, ..base },
        MachineConfig { tpbs: 0, ..base },
        MachineConfig { tpbs: 257, ..base },
        MachineConfig {
            hbm_bytes: 4096,
            ..base
        },
        MachineConfig {
            host_bytes: 1 << 40,
            ..base
        },
        MachineConfig {
            clock_drift: f64::NAN,
            ..base
        },
    ] {
        bad(Machine::start(config).map(drop));
    }
    let machine = Machine::start(base).unwrap();
    let absent = TpbIndex::new(1);
    bad(machine.increment_semaphore(absent, SEMAPHORE));
    bad(machine.read_semaphore(absent, SEMAPHORE).map(drop));
    bad(machine.quiesce(absent));
    bad(machine.overflow_latched(absent).map(drop));
    bad(machine.allocate(Place::Hbm(absent), 1, 1).map(drop));
    bad(machine.allocate(Place::Host, 0, 1).map(drop));
    bad(machine.allocate(Place::Host, 1, 3).map(drop));
    bad(machine.open_notification_queue(CORE, 10, 64).map(drop));
    for bytes in [0, 16, 32, 96] {
        bad(machine.open_notification_queue(CORE, 4, bytes).map(drop));
    }
    bad(machine.start_dma(map::model_exec_queue(CORE), 1));
    bad(machine.start_dma(
        DmaQueue {
            tpb: CORE,
            index: 3,
        },
        1,
    ));

    let ring = machine.allocate(Place::Host, 4096, 256).unwrap();
    let queue = map::transfer_queue(CORE, 0);
    for descriptors in [0, 16, 33, 16_777_216] {
        bad(machine.open_dma_queue(queue, ring, ring, descriptors));
    }
    for base in [NOWHERE, at(ring, 64)] {
        let opened = machine.open_dma_queue(queue, ring, base, 32);
        assert!(matches!(opened, Err(DeviceError::BadAddress { .. })));
    }
    machine.open_dma_queue(queue, ring, ring, 32).unwrap();
    bad(machine.start_dma(queue, 33));

    // The machine's own memory is not the client's to release.
    let nq = machine.open_notification_queue(CORE, 4, 64).unwrap();
    for addr in [nq, at(ring, 1), NOWHERE] {
        assert!(matches!(
            machine.release(addr),
            Err(DeviceError::BadAddress { .. })
        ));
    }
    let error = machine.allocate(Place::Host, 2 << 20, 1).unwrap_err();
    assert!(matches!(
        error,
        DeviceError::OutOfMemory {
            asked: 0x20_0000,
            ..
        }
    ));
}

/// Instructions that are close to good ones: most run, some loop, stall or fault.
fn any_instruction(engine: Engine, data: DeviceAddr) -> impl Strategy<Value = Instruction> {
    let opcodes: Vec<Opcode> = Opcode::ALL
        .iter()
        .copied()
        .filter(|opcode| opcode.runs_on(engine))
        .collect();
    let operand = prop_oneof![
        6 => (0u64..2048).prop_map(move |offset| data.get() + offset),
        2 => (0u16..4, 0u64..64).prop_map(|(index, offset)| {
            Operand::Bound { index, offset }.to_raw()
        }),
        1 => any::<u64>(),
    ];
    let dimension = prop_oneof![8 => 1u32..20, 1 => any::<u32>()];
    (
        prop_oneof![12 => proptest::sample::select(opcodes).prop_map(|opcode| opcode as u8), 1 => any::<u8>()],
        prop_oneof![12 => Just(0u8), 1 => any::<u8>()],
        prop_oneof![8 => 16u8..20, 1 => any::<u8>()],
        [dimension.clone(), dimension.clone(), dimension],
        [operand.clone(), operand.clone(), operand],
    )
        .prop_map(move |(opcode, dtype, semaphore, dimensions, operands)| Instruction {
            opcode,
            engine: engine.index() as u8,
            dtype,
            semaphore,
            rows: U32::new(dimensions[0]),
            cols: U32::new(dimensions[1]),
            inner: U32::new(dimensions[2]),
            a: U64::new(operands[0]),
            b: U64::new(operands[1]),
            out: U64::new(operands[2]),
            ..Instruction::default()
        })
}

proptest! {
    // A case that fails is shrunk and belongs here as a named test, not in a file of seeds.
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the engines are given, the machine answers or hangs, and can be dropped.
    #[test]
    fn no_program_panics_the_machine_or_keeps_it_from_being_dropped(
        seed in any::<u64>(),
        // The first block of a fresh core lies at the start of its HBM.
        blocks in Engine::ALL.map(|engine| {
            let data = DeviceAddr::new(map::HBM_RESERVED);
            prop::collection::vec(any_instruction(engine, data), 1..12)
        }),
        noise in prop::collection::vec(any::<u8>(), 0..256),
        noisy_engine in 0usize..10,
    ) {
        let mut client = Client::start(small(1, seed));
        client.place(&[0; 8192]);
        let mut request = client.request(&blocks);
        if let Some(engine) = Engine::from_index(noisy_engine) && !noise.is_empty() {
            request.set_engine_address(engine, client.place(&noise));
        }
        client.arm(&request, &WHOLE);
        client.fire();
        for _ in 0..50 {
            std::thread::yield_now();
        }
        // A core whose thread had panicked would be lost.
        prop_assert!(client.machine.read_semaphore(CORE, SEMAPHORE).is_ok());
    }

    /// Every doorbell whose request names no endless program is answered by five ENDs.
    #[test]
    fn no_request_and_no_descriptor_goes_without_an_answer(
        seed in any::<u64>(),
        request in any::<[u32; 13]>(),
        descriptors in prop::collection::vec((any::<[u32; 8]>(), 0usize..64, any::<bool>()), 0..24),
    ) {
        let mut client = Client::start(small(1, seed));
        let request: ExecRequest = transmute!(request);
        client.arm(&request, &WHOLE);
        for (words, near, exec) in &descriptors {
            let mut pair: CopyPair = {
                let words: [[u8; 16]; 2] = transmute!(*words);
                CopyPair { tx: transmute!(words[0]), rx: transmute!(words[1]) }
            };
            if *exec {
                // Fresh, well formed, and pointing at something.
                let from = at(client.constants, 0);
                let to = at(map::sequencer_memory(CORE), *near as u64);
                pair = CopyPair::new(from, to, 4, client.rings.ring_id).unwrap();
            }
            client.rings.push(&client.machine, pair);
        }
        client.fire();
        let first = client.harvest();
        for engine in Engine::ALL {
            let subtypes = first.subtypes(engine);
            prop_assert_eq!(subtypes.first(), Some(&Subtype::Start));
        }
        client.fire();
        client.harvest();
        let rings = Rings::open(&client.machine, map::transfer_queue(CORE, 0));
        for (slot, (words, ..)) in (0u64..).zip(&descriptors) {
            let bytes: [u8; 32] = transmute!(*words);
            client.machine.write(at(rings.tx, slot * DESCRIPTOR_SIZE), &bytes[..16]).unwrap();
            client.machine.write(at(rings.rx, slot * DESCRIPTOR_SIZE), &bytes[16..]).unwrap();
        }
        let started = descriptors.len() as u32;
        prop_assert!(client.machine.start_dma(rings.queue, started).is_ok());
        prop_assert!(client.machine.quiesce(CORE).is_ok());
    }
}
