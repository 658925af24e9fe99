//! Stager and harvester together on a device, as the worker's engine opens them: what is staged is computed, and what becomes of it is said.
//!
//! Each of them alone is tested on a scripted device, in xu-device; through the facade both run in most tests of this package.

use crate::client::{NOWHERE, at};
use core::time::Duration;
use lane_tests::Rig;
use std::collections::VecDeque;
use std::sync::Arc;
use xu_abi::{DeviceAddr, Engine, SemIndex, Status, TpbIndex};
use xu_device::harvest::{Fault, Harvester, Progress, Report};
use xu_device::memory::DeviceMemory;
use xu_device::program::{Blocks, Membership, Program};
use xu_device::simulated::isa::{INSTRUCTION_SIZE, Instruction, Opcode, Operand};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::{Device, Place, map};
use zerocopy::IntoBytes;

lane_tests::on_both! {
    what_is_staged_is_computed_in_order_and_harvested_with_its_times,
    two_cores_are_one_unit,
    units_whose_models_are_a_group_wait_for_each_other,
    f6_a_program_that_reads_outside_memory_says_so_and_the_unit_goes_on,
    f6_a_result_that_is_no_number_says_so_and_the_unit_goes_on,
    d6_an_engine_that_waits_for_ever_is_late_and_is_named,
}

const CORES: [TpbIndex; 2] = [TpbIndex::new(0), TpbIndex::new(1)];
const DEPTH: u32 = 4;
/// Of an execution.
const LIMIT: Duration = Duration::from_secs(40);
/// Steps until an execution must have ended.
const PATIENCE: u32 = 20_000_000;

/// What is opened on some cores of a device.
struct Lane {
    device: Arc<dyn Device>,
    stager: Stager,
    harvester: Harvester,
}

impl Lane {
    fn open(device: Arc<dyn Device>, tpbs: &[TpbIndex], skip: SkipConfig) -> Self {
        // The stager first: opening it resets what the harvester counts from.
        let stager = Stager::open(&device, tpbs, DEPTH, skip).unwrap();
        let harvester = Harvester::open(&device, tpbs).unwrap();
        Self {
            device,
            stager,
            harvester,
        }
    }

    /// Stages a program on each core, and begins to harvest it.
    fn begin(&mut self, programs: &[Arc<Program>], tensors: &[DeviceAddr]) {
        let prepared = self.stager.prepare(programs, tensors).unwrap();
        let staged = self.stager.commit(programs, tensors, &prepared).unwrap();
        let now = self.device.now_ns();
        self.harvester.begin(now, staged, Some(LIMIT));
    }

    /// Steps until the execution that has begun is over.
    fn end(&mut self) -> Progress {
        let over = (0..PATIENCE).find_map(|_| {
            std::thread::yield_now();
            let now = self.device.now_ns();
            match self.harvester.step(now, &mut ()) {
                Progress::Continue => None,
                over => Some(over),
            }
        });
        over.expect("the execution does not end")
    }

    fn run(&mut self, programs: &[Arc<Program>], tensors: &[DeviceAddr]) -> Report {
        self.begin(programs, tensors);
        match self.end() {
            Progress::Done(report) => report,
            other => panic!("{other:?}"),
        }
    }

    /// Four numbers on a core.
    fn tensor(&self, tpb: TpbIndex, numbers: [f32; 4]) -> DeviceMemory {
        let memory = DeviceMemory::allocate(&self.device, Place::Hbm(tpb), 16, 64).unwrap();
        memory.write(0, numbers.as_bytes()).unwrap();
        memory
    }

    /// A program of two tensors, of which one engine does something and the others end at once.
    fn program(
        &self,
        tpb: TpbIndex,
        working: Engine,
        work: &[Instruction],
        collectives: Option<Membership>,
    ) -> Arc<Program> {
        let body = |engine: Engine| {
            let work = if engine == working { work } else { &[] };
            [work, &[Instruction::halt(engine)]].concat()
        };
        let blocks = Blocks {
            bodies: Engine::ALL.map(|engine| body(engine).as_bytes().to_vec()),
            arena: DeviceMemory::allocate(&self.device, Place::Hbm(tpb), 64, 64).unwrap(),
            bindings: 2,
            entry_bytes: 2 * INSTRUCTION_SIZE,
            entry: |engine, entry| {
                let bind = Instruction::bind(engine, entry.table);
                let jump = Instruction::jump(engine, entry.body);
                [bind, jump].as_bytes().to_vec()
            },
            sequencer_config: [working.index() as u8; 52],
            table_hash: [working.index() as u8; 64],
            collectives,
        };
        Arc::new(Program::load(&self.device, tpb, DEPTH, blocks).unwrap())
    }
}

fn numbers(memory: &DeviceMemory) -> [f32; 4] {
    let mut numbers = [0.0f32; 4];
    memory.read(0, numbers.as_mut_bytes()).unwrap();
    numbers
}

/// `b = a op b`, both of them bound.
fn combine(engine: Engine, opcode: Opcode) -> Instruction {
    let [a, b] = [0, 1].map(|index| Operand::Bound { index, offset: 0 });
    Instruction::new(engine, opcode)
        .shape(1, 4)
        .operands(a, b, b)
}

/// Two programs that depend on each other's results, one after the other and then in turn, always with others behind the one that
/// is harvested.
fn what_is_staged_is_computed_in_order_and_harvested_with_its_times(rig: &Rig) {
    let device = rig.device();
    for skip in [SkipConfig::Never, SkipConfig::WhenEqual] {
        let mut lane = Lane::open(Arc::clone(&device), &CORES[..1], skip);
        let dve = Engine::Dve;
        let programs = [Opcode::Add, Opcode::Mul]
            .map(|opcode| [lane.program(CORES[0], dve, &[combine(dve, opcode)], None)]);
        let (a, b) = (
            lane.tensor(CORES[0], [2.0, 1.0, 0.5, 0.0]),
            lane.tensor(CORES[0], [1.0; 4]),
        );
        let tensors = [a.addr(), b.addr()];
        let mut expected = [1.0f32; 4];
        let mut staged = VecDeque::new();
        let opened = device.now_ns();
        // More than three laps of the rings of requests.
        for execution in 0..30usize {
            while staged.len() < DEPTH as usize - 1 && execution + staged.len() < 30 {
                let turn = execution + staged.len();
                let program = &programs[if turn < 10 { 0 } else { turn % 2 }];
                let prepared = lane.stager.prepare(program, &tensors).unwrap();
                staged.push_back(lane.stager.commit(program, &tensors, &prepared).unwrap());
            }
            let now = device.now_ns();
            lane.harvester
                .begin(now, staged.pop_front().unwrap(), Some(LIMIT));
            let Progress::Done(report) = lane.end() else {
                panic!("execution {execution} is fatal");
            };
            assert_eq!(report.status, Status::SUCCESS);
            let believed = report.within(opened, device.now_ns());
            assert_eq!(believed, report, "a time that cannot be");
            assert!(report.device_time().is_some());
            for (sum, number) in expected.iter_mut().zip([2.0, 1.0, 0.5, 0.0]) {
                *sum = if execution < 10 || execution % 2 == 0 {
                    number + *sum
                } else {
                    number * *sum
                };
            }
        }
        assert_eq!(numbers(&b), expected);
    }
}

/// Each has a program and a result of its own, and they have their inputs in common.
fn two_cores_are_one_unit(rig: &Rig) {
    let mut lane = Lane::open(rig.device(), &CORES, SkipConfig::WhenEqual);
    let inputs = [[1.0; 4], [2.0; 4]].map(|numbers| lane.tensor(CORES[0], numbers));
    let results = CORES.map(|tpb| lane.tensor(tpb, [0.0; 4]));
    let program = |core: usize, opcode| {
        let [a, b] = [0, 1].map(|index| Operand::Bound { index, offset: 0 });
        let result = Operand::Address(results[core].addr());
        let work = combine(Engine::Dve, opcode).operands(a, b, result);
        lane.program(CORES[core], Engine::Dve, &[work], None)
    };
    let programs = [program(0, Opcode::Add), program(1, Opcode::Mul)];
    let tensors = inputs.each_ref().map(DeviceMemory::addr);
    for _ in 0..20 {
        for result in &results {
            result.write(0, &[0; 16]).unwrap();
        }
        assert_eq!(lane.run(&programs, &tensors).status, Status::SUCCESS);
        assert_eq!(
            results.each_ref().map(numbers),
            [[1.0 + 2.0; 4], [1.0 * 2.0; 4]]
        );
    }
}

/// They meet whenever they are switched to, and nowhere else.
fn units_whose_models_are_a_group_wait_for_each_other(rig: &Rig) {
    let device = rig.device();
    let mut lanes = CORES.map(|tpb| Lane::open(Arc::clone(&device), &[tpb], SkipConfig::WhenEqual));
    let programs = [0, 1].map(|rank: usize| {
        let membership = Membership {
            group: 7,
            rank: rank as u32,
            ranks: 2,
        };
        [None, Some(membership)]
            .map(|group| [lanes[rank].program(CORES[rank], Engine::Act, &[], group)])
    });
    let passed = || {
        CORES.map(|tpb| {
            device
                .read_semaphore(tpb, map::COLLECTIVES_BARRIER)
                .unwrap()
        })
    };
    let nothing = [NOWHERE; 2];
    for round in 0..5 {
        for (lane, [alone, _]) in lanes.iter_mut().zip(&programs) {
            assert_eq!(lane.run(alone, &nothing).status, Status::SUCCESS);
        }
        let early = round as usize % 2;
        let [first, second] = [early, 1 - early];
        lanes[first].begin(&programs[first][1], &nothing);
        for _ in 0..1_000 {
            // However late: there is no limit to this wait.
            let late = device.now_ns() + 2 * LIMIT.as_nanos() as u64;
            let waiting = lanes[first].harvester.step(late, &mut ());
            assert_eq!(waiting, Progress::Continue);
        }
        assert_eq!(passed(), [round; 2]);
        lanes[second].begin(&programs[second][1], &nothing);
        for lane in &mut lanes {
            assert!(
                matches!(lane.end(), Progress::Done(report) if report.status == Status::SUCCESS)
            );
        }
        // Where they are already they do not meet again.
        for (lane, [_, together]) in lanes.iter_mut().zip(&programs) {
            assert_eq!(lane.run(together, &nothing).status, Status::SUCCESS);
        }
        assert_eq!(passed(), [round + 1; 2]);
    }
}

fn f6_a_program_that_reads_outside_memory_says_so_and_the_unit_goes_on(rig: &Rig) {
    let mut lane = Lane::open(rig.device(), &CORES[..1], SkipConfig::WhenEqual);
    let pool = Engine::Pool;
    let good = [lane.program(CORES[0], pool, &[], None)];
    let outside = Operand::Address(at(NOWHERE, 64));
    let sum = combine(pool, Opcode::Sum).operands(outside, outside, outside);
    let bad = [lane.program(CORES[0], pool, &[sum], None)];
    let a = lane.tensor(CORES[0], [1.0; 4]);
    let tensors = [a.addr(); 2];
    for _ in 0..3 {
        assert_eq!(lane.run(&good, &tensors).status, Status::SUCCESS);
        assert_eq!(lane.run(&bad, &tensors).status, Status::EXEC_OOB);
    }
    assert_eq!(lane.run(&good, &tensors).status, Status::SUCCESS);
}

fn f6_a_result_that_is_no_number_says_so_and_the_unit_goes_on(rig: &Rig) {
    let mut lane = Lane::open(rig.device(), &CORES[..1], SkipConfig::WhenEqual);
    let dve = Engine::Dve;
    let program = [lane.program(CORES[0], dve, &[combine(dve, Opcode::Add)], None)];
    let nan = lane.tensor(CORES[0], [1.0, f32::NAN, 1.0, 1.0]);
    let fine = lane.tensor(CORES[0], [1.0; 4]);
    for (a, status) in [
        (&fine, Status::SUCCESS),
        (&nan, Status::EXEC_COMPLETED_WITH_NUM_ERR),
        (&fine, Status::SUCCESS),
    ] {
        let b = lane.tensor(CORES[0], [2.0; 4]);
        let report = lane.run(&program, &[a.addr(), b.addr()]);
        assert_eq!(report.status, status);
        // The result stands all the same.
        assert_eq!(numbers(&b)[0], 3.0);
    }
}

fn d6_an_engine_that_waits_for_ever_is_late_and_is_named(rig: &Rig) {
    let mut lane = Lane::open(rig.device(), &CORES[..1], SkipConfig::Never);
    let waiting = Instruction::wait(Engine::Sp, SemIndex::new(20));
    let program = [lane.program(CORES[0], Engine::Sp, &[waiting], None)];
    lane.begin(&program, &[NOWHERE; 2]);
    let now = lane.device.now_ns();
    // Until everything has been said that will be said: START and END of each engine, but of one.
    let posted = |engine: Engine| {
        let records = if engine == Engine::Sp { 1 } else { 2 };
        let tail = lane.device.notification_tail(CORES[0], engine.status_nq());
        tail == Ok(records * 16)
    };
    let all = (0..PATIENCE).any(|_| {
        std::thread::yield_now();
        Engine::ALL.into_iter().all(posted)
    });
    assert!(all);
    assert_eq!(lane.harvester.step(now, &mut ()), Progress::Continue);
    // Time is an argument: nobody waits for it.
    let later = now + LIMIT.as_nanos() as u64;
    let late = (0..1_000).find_map(|_| match lane.harvester.step(later, &mut ()) {
        Progress::Continue => None,
        over => Some(over),
    });
    let Some(Progress::Fatal(report, fault)) = late else {
        panic!("{late:?}");
    };
    assert_eq!(report.status, Status::TIMEOUT);
    let timeout = Fault::Timeout {
        tpb: CORES[0],
        limit: LIMIT,
        started: vec![Engine::Sp],
        not_started: vec![],
    };
    assert_eq!(fault, timeout);
}
