//! Stager, harvester and programs on a machine in virtual time, as the worker's engine opens them.

use crate::plan::Scenario;
use std::sync::Arc;
use xu_abi::{Engine, SemIndex, TpbIndex};
use xu_device::harvest::{Harvester, Progress};
use xu_device::memory::DeviceMemory;
use xu_device::program::{Blocks, Entry, Membership, Program};
use xu_device::simulated::isa::{INSTRUCTION_SIZE, Instruction};
use xu_device::simulated::{Fault, Machine, MachineConfig, Time};
use xu_device::stage::{SkipConfig, Staged, Stager};
use xu_device::transfer::TransferQueue;
use xu_device::{Device, DeviceError, DmaQueue, Place, map};
use zerocopy::IntoBytes;

const CORE: TpbIndex = TpbIndex::new(0);

/// The lane over a machine of its own.
pub(crate) struct Lane {
    pub(crate) machine: Arc<Machine>,
    device: Arc<dyn Device>,
    pub(crate) parts: Parts,
}

/// What is opened on a machine.
pub(crate) struct Parts {
    pub(crate) stager: Stager,
    pub(crate) harvester: Harvester,
    pub(crate) programs: Vec<Arc<Program>>,
}

impl Lane {
    /// A machine as the scenario wants it, with everything opened on it.
    pub(crate) fn open(scenario: &Scenario) -> Result<Self, String> {
        let machine = machine(scenario)?;
        let parts = Parts::open(&machine, scenario)?;
        Ok(Self {
            device: Arc::clone(&machine) as _,
            machine,
            parts,
        })
    }

    /// Opens everything anew on the same machine, when every core has come to rest; `false` when one has not.
    pub(crate) fn reopen(&mut self, scenario: &Scenario) -> Result<bool, String> {
        self.machine.run_until_idle();
        for tpb in tpbs(scenario) {
            match self
                .machine
                .quiesce(tpb, core::time::Duration::from_secs(2))
            {
                Ok(()) => {}
                Err(DeviceError::Busy { .. } | DeviceError::Lost) => return Ok(false),
                Err(other) => return Err(format!("coming to rest: {other:?}")),
            }
        }
        self.parts = Parts::open(&self.machine, scenario)?;
        Ok(true)
    }

    /// Stages an execution.
    pub(crate) fn stage(&mut self) -> Result<Staged, DeviceError> {
        let Parts {
            stager, programs, ..
        } = &mut self.parts;
        let prepared = stager.prepare(programs, &[]).expect("no tensors are bound");
        stager.commit(programs, &[], &prepared)
    }

    pub(crate) fn look(&mut self) -> Progress {
        self.parts.harvester.step(self.machine.now_ns(), &mut ())
    }

    /// Whether the first core has passed the barrier before the first execution, if it has one. A device that is gone
    /// does not say.
    pub(crate) fn barrier_is_passed(&self, scenario: &Scenario) -> bool {
        let passed = self.machine.read_semaphore(CORE, map::COLLECTIVES_BARRIER);
        !scenario.collectives || passed.is_ok_and(|passed| passed > 0)
    }

    /// Whether the device is gone.
    pub(crate) fn lost(&self, scenario: &Scenario) -> bool {
        self.machine
            .injected()
            .iter()
            .any(|injection| scenario.plan.rules[injection.rule].fault == Fault::DeviceLost)
    }

    /// Moves a few bytes to the device and back on one of the transfer queues; what it comes to must be as planned.
    pub(crate) fn transfer(&self, scenario: &Scenario) -> Result<(), String> {
        let before = self.machine.injected().len();
        let said = self.round_trip();
        let injected = self.machine.injected();
        let hit = injected[before..]
            .iter()
            .map(|injection| &scenario.plan.rules[injection.rule].fault);
        let hit: Vec<&Fault> = hit.collect();
        let aborted = Err(DeviceError::DmaAborted {
            tpb: CORE,
            index: map::FIRST_TRANSFER_QUEUE,
        });
        let right = if hit.contains(&&Fault::AllocationFails) {
            matches!(said, Err(DeviceError::OutOfMemory { .. }))
        } else if hit.contains(&&Fault::TransferAborts) {
            said == aborted
        } else if hit.contains(&&Fault::TransferHangs) {
            said == Ok(false)
        } else {
            said == Ok(true)
        };
        if right {
            Ok(())
        } else {
            Err(format!("a transfer hit by {hit:?} said {said:?}"))
        }
    }

    /// Whether the bytes came back.
    fn round_trip(&self) -> Result<bool, DeviceError> {
        let queue = DmaQueue {
            tpb: CORE,
            index: map::FIRST_TRANSFER_QUEUE,
        };
        let mut queue = TransferQueue::open(&self.device, queue)?;
        let tensor = DeviceMemory::allocate(&self.device, Place::Hbm(CORE), 64, 64)?;
        queue.begin_write(tensor.addr(), b"tensor")?;
        self.machine.run_until_idle();
        if !queue.poll()? {
            return Ok(false);
        }
        queue.begin_read(tensor.addr(), 6)?;
        self.machine.run_until_idle();
        if !queue.poll()? {
            return Ok(false);
        }
        let mut back = [0; 6];
        queue.collect(&mut back)?;
        assert_eq!(&back, b"tensor");
        Ok(true)
    }
}

fn tpbs(scenario: &Scenario) -> impl Iterator<Item = TpbIndex> {
    (0..scenario.tpbs).map(TpbIndex::new)
}

/// The machine of a scenario.
fn machine(scenario: &Scenario) -> Result<Arc<Machine>, String> {
    Machine::start(MachineConfig {
        arch: scenario.arch,
        tpbs: scenario.tpbs,
        hbm_bytes: 1 << 20,
        host_bytes: 1 << 20,
        seed: scenario.seed,
        clock_drift: scenario.clock_drift,
        time: Time::Virtual,
        costs: scenario.costs,
        faults: scenario.plan.clone(),
    })
    .map_err(|error| format!("the machine: {error}"))
}

impl Parts {
    /// Opens everything. Reservations that fail by plan, and no others, are tried again.
    fn open(machine: &Arc<Machine>, scenario: &Scenario) -> Result<Self, String> {
        let device: Arc<dyn Device> = Arc::clone(machine) as _;
        for _ in 0..=scenario.plan.rules.len() {
            let before = machine.injected().len();
            let opened = Self::try_open(&device, scenario);
            let injected = machine.injected().len() - before;
            match (opened, injected) {
                (Ok(parts), 0) => return Ok(parts),
                (Err(DeviceError::OutOfMemory { .. }), 1..) => {}
                (opened, injected) => {
                    let why = opened.err();
                    return Err(format!("opening: {injected} injections, {why:?}"));
                }
            }
        }
        Err("opening: memory stays exhausted".to_owned())
    }

    fn try_open(device: &Arc<dyn Device>, scenario: &Scenario) -> Result<Self, DeviceError> {
        let tpbs: Vec<TpbIndex> = tpbs(scenario).collect();
        let stager = Stager::open(device, &tpbs, scenario.depth, SkipConfig::Never)?;
        let harvester = Harvester::open_in(scenario.mode, device, &tpbs)?;
        let load = |tpb: &TpbIndex| program(device, *tpb, scenario).map(Arc::new);
        let programs = tpbs.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self {
            stager,
            harvester,
            programs,
        })
    }
}

/// A program that computes nothing: its engines end at once, or one after the other.
fn program(
    device: &Arc<dyn Device>,
    tpb: TpbIndex,
    scenario: &Scenario,
) -> Result<Program, DeviceError> {
    let body = |engine: Engine| {
        // CAST: five engines.
        let position = engine.index() as u8;
        let semaphore = |position: u8| SemIndex::new(map::FIRST_PROGRAM_SEMAPHORE + position);
        let wait = (scenario.chained && position > 0)
            .then(|| Instruction::wait(engine, semaphore(position)));
        let signal = (scenario.chained && position < 4)
            .then(|| Instruction::signal(engine, semaphore(position + 1)));
        let body = [wait, signal, Some(Instruction::halt(engine))];
        body.iter()
            .flatten()
            .flat_map(|one| one.as_bytes().to_vec())
            .collect()
    };
    let blocks = Blocks {
        bodies: Engine::ALL.map(body),
        arena: DeviceMemory::allocate(device, Place::Hbm(tpb), 64, 64)?,
        bindings: 0,
        entry_bytes: 2 * INSTRUCTION_SIZE,
        entry,
        sequencer_config: [1; 52],
        table_hash: [2; 64],
        // Alone in its group, so that the barrier is passed as soon as it is reached.
        collectives: scenario.collectives.then_some(Membership {
            group: u32::from(tpb.get()),
            rank: 0,
            ranks: 1,
        }),
    };
    Program::load(device, tpb, scenario.depth, blocks)
}

fn entry(engine: Engine, Entry { table, body }: Entry) -> Vec<u8> {
    let block = [
        Instruction::bind(engine, table),
        Instruction::jump(engine, body),
    ];
    block.as_bytes().to_vec()
}
