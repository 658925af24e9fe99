//! Somebody else resets the core of a runtime: what is in flight gets its error, and the device works afterwards.
//!
//! Spec `driver.md` section 11, trap 30: nothing prevents it; `driver_emulation.md` section 9. The other is this program, in a
//! role.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::DIGITS;
use lane_tests::role;
use neuron_emu::seccomp::{SpawnError, run_in};
use neuron_emu::{Config, Emulator, Supervised};
use nrta::simulated::{Engine, Fault, FaultPlan, Rule, When};
use nrta::{Backend, Health, Model, Runtime, Status};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Duration;
use xu_device::neuron::{Node, System};

const ROLE: &str = "LANE_TESTS_RESETTER";
/// The core of the runtime.
const CORE: u32 = 0;
/// The first execution takes so long by itself, and longer where nobody came in time to reset its core.
const WORK: Duration = Duration::from_millis(300);
const MORE_WORK: Duration = Duration::from_millis(2400);
/// Far more.
const LIMIT: Duration = Duration::from_secs(3);
/// In flight or queued.
const REQUESTS: usize = 3;

/// Not a test: resets the core whenever it is told a line. Without the role nothing.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let node = Node::open(Arc::new(System), Path::new("/dev"), 0).unwrap();
    say("there");
    for line in std::io::stdin().lines() {
        line.unwrap();
        node.reset_cores(1 << CORE).unwrap();
        say("reset");
    }
}

fn say(text: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "\n> {text}").unwrap();
    output.flush().unwrap();
}

/// The other process.
struct Resetter {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Resetter {
    fn reset(&mut self) {
        writeln!(self.input, "reset").unwrap();
        self.hear("> reset");
    }

    fn hear(&mut self, text: &str) {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        assert!(lines.any(|line| line == text), "{text:?} does not come");
    }
}

/// With the other process there, runs a test under the same driver. The first execution takes so long.
fn beside<T: Send>(
    directory: &str,
    work: Duration,
    test: impl FnOnce(&Path, &mut Resetter) -> T + Send,
) -> Option<T> {
    let rule = Rule {
        when: When {
            times: Some(1),
            ..When::default()
        },
        fault: Fault::SlowEngine {
            engine: Engine::Act,
            // CAST: some seconds.
            by_ns: work.as_nanos() as u64,
        },
    };
    let emulator = Emulator::start(Config {
        faults: FaultPlan { rules: vec![rule] },
        ..Config::default()
    })
    .unwrap();
    let mut command = role::program(ROLE, "1");
    command.stdin(Stdio::piped());
    let mut process = match Supervised::spawn(&emulator, &mut command) {
        Ok(process) => process,
        Err(SpawnError::Unavailable(why)) => {
            println!("skipped: {why}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let child = process.child();
    let mut resetter = Resetter {
        input: child.stdin.take().unwrap(),
        lines: BufReader::new(child.stdout.take().unwrap()).lines(),
    };
    resetter.hear("> there");
    let directory = Path::new(directory);
    let value = run_in(&emulator, directory, || test(directory, &mut resetter)).unwrap();
    let Resetter { input, lines } = resetter;
    drop(input);
    // Until it has ended, so that it always has somebody to talk to.
    lines.for_each(drop);
    assert!(process.wait().unwrap().success());
    assert_eq!(emulator.bugs(), [], "the driver would have crashed");
    let remains = emulator.remains();
    assert!(remains.is_empty(), "{remains}");
    Some(value)
}

/// Opens a runtime, submits, lets something happen, and closes: what the requests came to, and how the queue is.
fn live(directory: &Path, meanwhile: impl FnOnce()) -> (Vec<Result<(), Status>>, Health) {
    let runtime = Runtime::builder()
        .backend(Backend::RealDriver)
        .neuron_device_directory(directory)
        .first_core(CORE)
        .exec_timeout(Some(LIMIT))
        .open()
        .unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, 1).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let compute = core.compute();
    let pending: Vec<_> = (0..REQUESTS)
        .map(|_| {
            let outputs = [&outputs[0], &outputs[1]];
            compute.execute(&loaded, &[&image], &outputs).unwrap()
        })
        .collect();
    meanwhile();
    let outcomes = pending.into_iter().map(|pending| {
        let outcome = pending.wait();
        outcome.map(drop).map_err(|error| error.status)
    });
    let outcomes = outcomes.collect();
    let health = compute.health();
    runtime.close();
    (outcomes, health)
}

#[test]
fn d7_a_core_that_is_reset_while_it_runs_ends_what_is_in_flight_and_works_afterwards() {
    let came_in_time = |directory: &Path, resetter: &mut Resetter| {
        let (outcomes, health) = live(directory, || resetter.reset());
        if outcomes[0].is_ok() {
            return false;
        }
        let mut expected = vec![Err(Status::EXEC_UNIT_UNRECOVERABLE); REQUESTS];
        expected[0] = Err(Status::TIMEOUT);
        assert_eq!(outcomes, expected);
        assert_ne!(health, Health::Healthy);
        for _ in 0..2 {
            let again = live(directory, || ());
            assert_eq!(again, (vec![Ok(()); REQUESTS], Health::Healthy));
        }
        true
    };
    if beside("/dev/reset-meanwhile", WORK, came_in_time) == Some(false) {
        let late = beside("/dev/reset-meanwhile-longer", MORE_WORK, came_in_time);
        assert_eq!(
            late,
            Some(true),
            "the reset does nothing, or comes too late"
        );
    }
}

/// What the test above would see if the reset did nothing.
#[test]
fn an_execution_that_takes_its_time_succeeds_when_nobody_resets() {
    beside("/dev/reset-by-nobody", WORK, |directory, _| {
        let (outcomes, health) = live(directory, || ());
        assert_eq!(
            (outcomes, health),
            (vec![Ok(()); REQUESTS], Health::Healthy)
        );
    });
}
