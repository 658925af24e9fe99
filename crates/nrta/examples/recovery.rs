//! A core that hangs: its queue degrades, what waited behind it fails, and opening again recovers.
//!
//! A degraded queue stays degraded, because nobody knows what the device still does. So a service that wants to go on closes
//! its runtime and opens another one, and makes its tensors and models again.
//!
//! ```sh
//! cargo run -p nrta --example recovery
//! ```

use nrta::simulated::{Engine, Fault, FaultPlan, Rule, When};
use nrta::{Builder, Health, Model, Runtime, Status};
use std::error::Error;
use std::time::Duration;

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/digits/model.xum"
);

/// Executes `times` times and says how each ended.
fn execute(runtime: &Runtime, times: usize) -> Result<Vec<Status>, Box<dyn Error>> {
    let core = runtime.core(0)?;
    let model = core.load(&Model::open(MODEL)?, 1)?;
    let image = model.allocate_input(0)?;
    let outputs = [model.allocate_output(0)?, model.allocate_output(1)?];
    core.tensor_op(0)?.write(&image, 0, vec![0u8; 64])?.wait()?;
    // All of them are scheduled before the first one is looked at.
    let queue = core.compute();
    let mut pending = Vec::new();
    for _ in 0..times {
        pending.push(queue.execute(&model, &[&image], &[&outputs[0], &outputs[1]])?);
    }
    let ended = pending.into_iter().map(|request| match request.wait() {
        Ok(_) => Status::SUCCESS,
        Err(error) => error.status,
    });
    let ended = ended.collect();
    if queue.health() == Health::Degraded {
        let cause = queue.cause().map(|cause| cause.text).unwrap_or_default();
        println!("the queue is degraded: {cause}");
    }
    Ok(ended)
}

fn builder() -> Builder {
    Runtime::builder().exec_timeout(Some(Duration::from_millis(50)))
}

/// Degrades a queue on purpose, and goes on with another runtime.
pub fn main() -> Result<(), Box<dyn Error>> {
    // In the second execution one engine stops.
    let fault = Fault::HangEngine {
        engine: Engine::Dve,
    };
    let when = When {
        from: 1,
        times: Some(1),
        ..When::default()
    };
    let plan = FaultPlan {
        rules: vec![Rule { when, fault }],
    };
    let runtime = builder().simulated_faults(plan).open()?;
    let ended = execute(&runtime, 4)?;
    let behind = Status::EXEC_UNIT_UNRECOVERABLE;
    assert_eq!(ended, [Status::SUCCESS, Status::TIMEOUT, behind, behind]);
    runtime.close_within(Duration::from_secs(5))?;

    let runtime = builder().open()?;
    assert_eq!(execute(&runtime, 4)?, [Status::SUCCESS; 4]);
    println!("opened again: four executions, four successes");
    Ok(())
}
