//! One execution from the bytes up, on a machine in virtual time, with a fault on purpose: stage, step, harvest.
//!
//! ```sh
//! cargo run -p xu-device --example execution
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use xu_device::harvest::{Harvester, Progress};
use xu_device::memory::DeviceMemory;
use xu_device::program::{Blocks, Program};
use xu_device::simulated::isa::{INSTRUCTION_SIZE, Instruction, Opcode, Operand};
use xu_device::simulated::{Costs, Fault, FaultPlan, Machine, MachineConfig, Rule, Time, When};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::{Device, Engine, Place, TpbIndex};

/// Every execution adds two vectors of this many numbers.
const COLUMNS: u32 = 4;

/// What each engine does: DVE adds tensors 0 and 1 into tensor 2, the others end at once.
fn body(engine: Engine) -> Vec<u8> {
    let tensor = |index| Operand::Bound { index, offset: 0 };
    let add = Instruction::new(engine, Opcode::Add)
        .shape(1, COLUMNS)
        .operands(tensor(0), tensor(1), tensor(2));
    let add = (engine == Engine::Dve).then_some(add);
    let block = add.into_iter().chain([Instruction::halt(engine)]);
    block
        .flat_map(|instruction| instruction.to_bytes())
        .collect()
}

/// Runs three executions, of which one engine hangs in the third.
pub fn main() -> Result<(), Box<dyn Error>> {
    let when = When {
        from: 2,
        ..When::default()
    };
    let fault = Fault::HangEngine {
        engine: Engine::Pool,
    };
    let machine = Machine::start(MachineConfig {
        time: Time::Virtual,
        costs: Costs::nominal(),
        faults: FaultPlan {
            rules: vec![Rule { when, fault }],
        },
        seed: 7,
        ..MachineConfig::default()
    })?;
    let device: Arc<dyn Device> = Arc::clone(&machine) as _;
    let tpb = TpbIndex::new(0);

    // The stager first: opening it resets what the harvester counts from.
    let mut stager = Stager::open(&device, &[tpb], 8, SkipConfig::Never)?;
    let mut harvester = Harvester::open(&device, &[tpb])?;
    let program = Program::load(
        &device,
        tpb,
        8,
        Blocks {
            bodies: Engine::ALL.map(body),
            arena: DeviceMemory::allocate(&device, Place::Hbm(tpb), 64, 64)?,
            bindings: 3,
            // What each slot starts with: bind its table of tensors, then go on in the body that all share.
            entry_bytes: 2 * INSTRUCTION_SIZE,
            entry: |engine, entry| {
                let bind = Instruction::bind(engine, entry.table);
                let jump = Instruction::jump(engine, entry.body);
                [bind.to_bytes(), jump.to_bytes()].concat()
            },
            // Compared between programs only; one program may say anything.
            sequencer_config: [0; 52],
            table_hash: [0; 64],
            collectives: None,
        },
    )?;
    let programs = [Arc::new(program)];
    let place = || DeviceMemory::allocate(&device, Place::Hbm(tpb), 16, 64);
    let (a, b, sum) = (place()?, place()?, place()?);
    for tensor in [&a, &b] {
        tensor.write(0, &[1.5f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat())?;
    }
    let tensors = [a.addr(), b.addr(), sum.addr()];

    for execution in 0..3 {
        let prepared = stager.prepare(&programs, &tensors)?;
        let staged = stager.commit(&programs, &tensors, &prepared)?;
        harvester.begin(machine.now_ns(), staged, Some(Duration::from_millis(1)));
        let ended = loop {
            match harvester.step(machine.now_ns(), &mut ()) {
                // Let the machine do something; when nothing is due now, let time pass.
                Progress::Continue if machine.step() => {}
                Progress::Continue => machine.advance(Duration::from_micros(10)),
                ended => break ended,
            }
        };
        match ended {
            Progress::Fatal(report, fault) => {
                println!("execution {execution}: {}: {fault}", report.status);
                println!("injected: {:?}", machine.injected());
            }
            Progress::Done(report) => {
                let mut first = [0; 4];
                sum.read(0, &mut first)?;
                let first = f32::from_le_bytes(first);
                println!("execution {execution}: {:?}, {first}", report.device_time());
                assert!(first == 3.0 && execution < 2);
            }
            Progress::Continue => {}
        }
    }
    Ok(())
}
