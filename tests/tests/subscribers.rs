//! What an application's `tracing` subscriber is told, and that nothing it does harms the lane. Failure kind F4.
//!
//! Workers have threads of their own, so the subscriber is that of the whole process: one test at a time.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use nrta::simulated::{Fault, FaultPlan, Rule, When};
use nrta::{Builder, Core, Error, Health, LoadedModel, Model, Runtime, Tensor};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One event: its name, its level, its fields as text.
#[derive(Clone, Debug)]
struct Told {
    name: &'static str,
    level: Level,
    fields: BTreeMap<&'static str, String>,
}

impl Told {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

/// Whatever a test wants done at an event.
type Reaction = fn(&Told);

struct Collector {
    told: Mutex<Vec<Told>>,
    reaction: Mutex<Option<Reaction>>,
    spans: AtomicU64,
}

static COLLECTOR: Collector = Collector {
    told: Mutex::new(Vec::new()),
    reaction: Mutex::new(None),
    spans: AtomicU64::new(0),
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Forward;

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("nrta::")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(COLLECTOR.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut told = Told {
            name: event.metadata().name(),
            level: *event.metadata().level(),
            fields: BTreeMap::new(),
        };
        event.record(&mut told);
        lock(&COLLECTOR.told).push(told.clone());
        let reaction = *lock(&COLLECTOR.reaction);
        if let Some(reaction) = reaction {
            reaction(&told);
        }
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Begins a test: nothing has been told yet. The lane of another test is closed by then.
fn alone(reaction: Option<Reaction>) -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    static INSTALLED: OnceLock<()> = OnceLock::new();
    let one = lock(&ONE);
    INSTALLED.get_or_init(|| tracing::subscriber::set_global_default(Forward).unwrap());
    lock(&COLLECTOR.told).clear();
    *lock(&COLLECTOR.reaction) = reaction;
    one
}

fn told(name: &str) -> Vec<Told> {
    let told = lock(&COLLECTOR.told);
    told.iter()
        .filter(|event| event.name == name)
        .cloned()
        .collect()
}

struct Lane {
    runtime: Runtime,
    core: Core,
    model: LoadedModel,
    image: Tensor,
    outputs: [Tensor; 2],
}

impl Lane {
    fn open(builder: Builder) -> Self {
        let runtime = builder.open().unwrap();
        let core = runtime.core(0).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/model.xum");
        let model = core.load(&Model::open(path).unwrap(), 1).unwrap();
        let image = model.allocate_input(0).unwrap();
        let outputs = [0, 1].map(|index| model.allocate_output(index).unwrap());
        Self {
            runtime,
            core,
            model,
            image,
            outputs,
        }
    }

    /// Nothing more is told of the environment.
    fn use_and_close(runtime: Runtime) {
        let core = runtime.core(0).unwrap();
        let tensor = core.allocate(64).unwrap();
        let queue = core.tensor_op(0).unwrap();
        queue
            .write(&tensor, 0, vec![0; 64])
            .unwrap()
            .wait()
            .unwrap();
        runtime.close();
    }

    fn execute(&self) -> Result<nrta::Pending<nrta::Execution>, nrta::Refused<()>> {
        let outputs = [&self.outputs[0], &self.outputs[1]];
        let queue = self.core.compute();
        queue.execute(&self.model, &[&self.image], &outputs)
    }
}

fn with_fault(fault: Fault, times: u64) -> Builder {
    let when = When {
        times: Some(times),
        ..When::default()
    };
    Runtime::builder().simulated_faults(FaultPlan {
        rules: vec![Rule { when, fault }],
    })
}

#[test]
fn a_request_tells_its_life() {
    let _one = alone(None);
    let lane = Lane::open(Runtime::builder());
    let write = lane.core.tensor_op(1).unwrap();
    write
        .write(&lane.image, 0, vec![0; 64])
        .unwrap()
        .wait()
        .unwrap();
    let seq = {
        let pending = lane.execute().unwrap();
        let seq = pending.seq();
        pending.wait().unwrap();
        seq
    };
    lane.runtime.close();
    let accepted = told("nrta.accepted");
    let calls: Vec<_> = accepted.iter().map(|event| event.field("call")).collect();
    assert_eq!(calls, ["tensor_op", "execute"]);
    let bound = &told("nrta.bound")[0];
    assert_eq!(bound.field("model"), lane.model.name());
    let completed = told("nrta.completed");
    assert_eq!(completed.len(), 2, "a stop is no request");
    for (event, call) in completed.iter().zip(["write", "execute"]) {
        assert_eq!((event.level, event.field("call")), (Level::TRACE, call));
        assert_eq!(event.field("status"), "SUCCESS (0)");
        assert_eq!((event.field("core"), event.field("seq")), ("0", "1"));
    }
    assert!(completed[1].field("device_ns").parse::<u64>().is_ok());
    assert_eq!(completed[1].field("xu"), seq.xu().to_string());
    let opened = &told("nrta.opened")[0];
    assert!(opened.field("settings").contains(r#""origin":"default""#));
    let closed = &told("nrta.closed")[0];
    assert_eq!(
        (closed.field("completed"), closed.field("failed")),
        ("2", "0")
    );
}

#[test]
fn a_failure_is_a_warning_with_its_status_by_name() {
    let _one = alone(None);
    let lane = Lane::open(with_fault(Fault::Numerical, 1));
    lane.execute().unwrap().wait().unwrap_err();
    lane.execute().unwrap().wait().unwrap();
    lane.runtime.close();
    let levels: Vec<_> = told("nrta.completed")
        .iter()
        .map(|event| event.level)
        .collect();
    assert_eq!(levels, [Level::WARN, Level::TRACE]);
    let failed = &told("nrta.completed")[0];
    assert!(
        failed
            .field("status")
            .contains("EXEC_COMPLETED_WITH_NUM_ERR")
    );
    assert!(told("nrta.degraded").is_empty());
    assert!(!told("nrta.device_error").is_empty());
}

#[test]
fn p4_one_cause_is_one_error_however_many_requests_it_ends() {
    let _one = alone(None);
    let engine = nrta::simulated::Engine::Act;
    let builder = with_fault(Fault::HangEngine { engine }, 1);
    let lane = Lane::open(builder.exec_timeout(Some(Duration::from_millis(20))));
    let pending: Vec<_> = (0..8).map(|_| lane.execute().unwrap()).collect();
    let full = lane.execute().unwrap_err();
    assert!(full.is_queue_full());
    for request in pending {
        request.wait().unwrap_err();
    }
    assert_eq!(lane.core.compute().health(), Health::Degraded);
    lane.execute().unwrap_err();
    lane.runtime.close();
    let degraded = told("nrta.degraded");
    assert_eq!(degraded.len(), 1);
    assert_eq!(
        (degraded[0].level, degraded[0].field("seq")),
        (Level::ERROR, "1")
    );
    assert!(degraded[0].field("status").contains("TIMEOUT"));
    assert_eq!(degraded[0].field("call"), "execute");
    let levels: Vec<_> = told("nrta.completed")
        .iter()
        .map(|event| event.level)
        .collect();
    assert_eq!(levels[0], Level::WARN);
    assert_eq!(levels[1..], [Level::DEBUG; 7]);
    let full = told("nrta.queue_full");
    assert_eq!(
        (full.len(), full[0].level, full[0].field("limit")),
        (1, Level::DEBUG, "8")
    );
}

#[test]
fn memory_that_is_exhausted_is_told_unless_nobody_wants_it() {
    let _one = alone(None);
    for (on, warnings) in [(true, 1), (false, 1)] {
        let runtime = Runtime::builder().log_out_of_memory(on).open().unwrap();
        let refused = runtime.core(0).unwrap().allocate(1 << 40);
        assert!(matches!(refused, Err(Error::Device(_))));
        let told = told("nrta.out_of_memory");
        assert_eq!(told.len(), warnings);
        assert!(told[0].field("error").contains("free"));
    }
}

/// Of the host as of a core.
#[test]
fn host_memory_that_is_exhausted_is_told_too() {
    let _one = alone(None);
    let runtime = Runtime::builder().open().unwrap();
    let refused = runtime.core(0).unwrap().host_buffer(1 << 40);
    assert!(matches!(refused, Err(Error::Device(_))));
    assert_eq!(told("nrta.out_of_memory").len(), 1);
}

/// Rule P7: one line for a variable, however many cores there are.
#[test]
fn processors_that_nobody_may_use_are_told_once() {
    let _one = alone(None);
    let cpus = nrta::CpuSet::new([1023]).unwrap();
    let runtime = Runtime::builder().cores(3).worker_cpus(cpus).open();
    runtime.unwrap().close();
    assert_eq!(told("nrta.workers_not_bound").len(), 1);
}

/// Rule P7: what is used is said, and not that it is some default.
#[test]
fn an_adjusted_value_is_told() {
    let _one = alone(None);
    for (variable, used) in [
        ("NRTA_POLL_POLICY", "adaptive"),
        ("NEURON_FAIL_ON_NAN", "false"),
        ("NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", "critical"),
        ("NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG", "true"),
        ("NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY", "any"),
    ] {
        lock(&COLLECTOR.told).clear();
        let builder = Builder::from_variables(|name| (name == variable).then(|| "x".into()));
        builder.unwrap().open().unwrap().close();
        let adjusted = told("nrta.adjusted");
        assert_eq!(adjusted.len(), 1, "{variable}");
        assert_eq!(adjusted[0].field("used"), used, "{variable}");
    }
}

/// Rules P7 and P8: once for each opening that finds one, and only then.
#[test]
fn variables_without_effect_and_values_that_are_adjusted_are_told_once() {
    let read = |variables: &[(&str, &str)]| {
        lock(&COLLECTOR.told).clear();
        let given = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.into())
        };
        let runtime = Builder::from_variables(given).unwrap().open().unwrap();
        Lane::use_and_close(runtime);
        ["nrta.removed", "nrta.adjusted", "nrta.no_effect"].map(told)
    };
    let _one = alone(None);
    let removed = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";
    for (value, warnings) in [("0", 0), ("", 0), ("64", 1), ("many", 1)] {
        let [told, adjusted, no_effect] = read(&[(removed, value)]);
        assert_eq!(told.len(), warnings, "{value}");
        assert!(adjusted.is_empty() && no_effect.is_empty());
        if let Some(told) = told.first() {
            assert_eq!((told.level, told.field("variable")), (Level::WARN, removed));
            assert!(told.field("instead").contains("nrta_execute_schedule"));
        }
    }
    let [removed, adjusted, no_effect] = read(&[
        ("NEURON_RT_LOG_LEVEL", "TRACE"),
        ("NEURON_RT_VALIDATE_HASH", "1"),
        ("NEURON_RT_MAP_HBM", "1"),
        ("NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS", "0"),
        ("NEURON_RT_EXEC_TIMEOUT", "30"),
        ("NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY", "x"),
        ("SOMETHING_ELSE", "1"),
    ]);
    assert!(removed.is_empty());
    let names: Vec<_> = adjusted.iter().map(|told| told.field("variable")).collect();
    let expected = [
        "NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS",
        "NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (adjusted[0].field("given"), adjusted[0].field("used")),
        ("0", "8")
    );
    let whys: Vec<_> = no_effect.iter().map(|told| told.field("why")).collect();
    let [always, unknown, log] = [
        "it is always done",
        "it is not implemented",
        "it is for the log of the C interface",
    ];
    assert_eq!(whys, [always, unknown, log]);
    assert!(no_effect.iter().all(|told| told.level == Level::INFO));
}

/// `env.md` 9.5: by each opening, and by nothing else.
#[test]
fn only_an_opening_tells_of_variables() {
    let _one = alone(None);
    let removed = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";
    let given = |name: &str| (name == removed).then(|| "64".into());
    let builder = Builder::from_variables(given).unwrap();
    builder.settings().unwrap();
    assert_eq!(told("nrta.removed").len(), 0);
    for openings in 1..=2 {
        builder.clone().open().unwrap().close();
        assert_eq!(told("nrta.removed").len(), openings);
    }
}

/// Rule P6: one line, with the variable, its value and what is allowed.
#[test]
fn p6_an_opening_that_fails_is_told_once() {
    /// Calls into the crate: no lock of its is held.
    fn reopen(told: &Told) {
        if told.name == "nrta.not_opened" && told.field("variable") == "NEURON_RT_NUM_CORES" {
            Runtime::builder().open().unwrap().close();
        }
    }
    let _one = alone(Some(reopen));
    let variable = "NEURON_RT_NUM_CORES";
    let given = |name: &str| (name == variable).then(|| "9".into());
    let builder = Builder::from_variables(given).unwrap();
    let error = builder.open().unwrap_err();
    let failed = told("nrta.not_opened");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].level, Level::ERROR);
    assert_eq!(failed[0].field("variable"), variable);
    assert_eq!(failed[0].field("value"), "9");
    assert!(failed[0].field("allowed").contains("from 0 to 2"));
    assert_eq!(failed[0].field("error"), error.to_string());
    // It is not always a variable that is to blame.
    Runtime::builder().cores(0).open().unwrap_err();
    let failed = &told("nrta.not_opened")[1];
    assert_eq!(failed.field("variable"), "");
    assert!(failed.field("error").starts_with("cores = 0"));
    let unheard = Builder::from_variables(|name| (name == variable).then(|| "x".into()));
    assert!(unheard.is_err() && told("nrta.not_opened").len() == 2);
}

#[test]
fn an_unknown_variable_of_ours_is_told_with_the_closest_that_there_is() {
    const ROLE: &str = "LANE_TESTS_MISTYPES";
    if std::env::var_os(ROLE).is_none() {
        // In a process of its own, since it is told by its environment.
        let name = "an_unknown_variable_of_ours_is_told_with_the_closest_that_there_is";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", name]).env(ROLE, "1");
        alone.env("NRTA_SIM_CORE", "4").env("NRTA_SIM_CORES", "3");
        assert!(alone.status().unwrap().success());
        return;
    }
    let _one = alone(None);
    let runtime = Runtime::from_env().unwrap();
    assert_eq!(runtime.cores(), 3);
    runtime.close();
    let unknown = told("nrta.unknown");
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0].level, Level::WARN);
    assert_eq!(unknown[0].field("variable"), "NRTA_SIM_CORE");
    assert_eq!(unknown[0].field("closest"), "NRTA_SIM_CORES");
}

#[test]
fn closing_says_what_it_waits_for_as_often_as_it_was_told_to() {
    static WAITS: AtomicBool = AtomicBool::new(false);
    /// A slow log: the worker is in it until closing has said what it waits for.
    fn hold_the_worker(told: &Told) {
        match told.name {
            "nrta.close_waits" => WAITS.store(true, Ordering::Release),
            "nrta.completed" => {
                while !WAITS.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
            _ => {}
        }
    }
    let _one = alone(Some(hold_the_worker));
    let lane = Lane::open(Runtime::builder().close_warn_every(Duration::from_millis(1)));
    let queue = lane.core.tensor_op(0).unwrap();
    let write = || queue.write(&lane.image, 0, vec![0; 64]).unwrap();
    let (first, second) = (write(), write());
    second.detach();
    // The worker tells its log of the first one, and stays there: the second one is what closing finds.
    first.wait().unwrap();
    lane.runtime.close();
    let waits = &told("nrta.close_waits")[0];
    assert_eq!(waits.level, Level::WARN);
    // Said before the first request was complete, or after.
    assert!(["1", "2"].contains(&waits.field("depth")));
    assert_eq!(waits.field("xu"), queue.xu().to_string());
}

#[test]
fn f4_a_subscriber_that_panics_wedges_nothing() {
    let _one = alone(Some(|told| {
        // What opening says is said on the caller's thread, and is the caller's to catch.
        assert!(
            told.name.starts_with("nrta.open"),
            "a subscriber's own trouble"
        );
    }));
    std::panic::set_hook(Box::new(|_| {}));
    let lane = Lane::open(with_fault(Fault::Numerical, 1));
    lane.execute().unwrap().wait().unwrap_err();
    for _ in 0..20 {
        lane.execute().unwrap().wait().unwrap();
    }
    assert_eq!(lane.core.compute().health(), Health::Healthy);
    let write = lane.core.tensor_op(0).unwrap();
    write
        .write(&lane.image, 0, vec![0; 64])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(lane.runtime.close_within(Duration::from_secs(60)), Ok(()));
    let _ = std::panic::take_hook();
}

#[test]
fn f4_a_subscriber_may_call_any_entry_point() {
    static LANE: Mutex<Option<(nrta::TensorOpQueue, Tensor)>> = Mutex::new(None);
    static LEFT: AtomicU64 = AtomicU64::new(50);
    /// Schedules one more for each that completes, from inside the log of the worker, and asks everything of the queue.
    fn resubmit(told: &Told) {
        let Some((queue, tensor)) = lock(&LANE).clone() else {
            return;
        };
        let _ = (
            queue.snapshot(),
            queue.health(),
            queue.cause(),
            queue.depth(),
        );
        let _ = queue.wait(queue.last_issued(), Some(std::time::Instant::now()));
        let has_more = |left: u64| left.checked_sub(1);
        if told.name == "nrta.completed"
            && LEFT
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_more)
                .is_ok()
        {
            queue.write(&tensor, 0, vec![0; 64]).unwrap().detach();
        }
    }
    let _one = alone(Some(resubmit));
    let lane = Lane::open(Runtime::builder());
    let queue = lane.core.tensor_op(0).unwrap();
    *lock(&LANE) = Some((queue.clone(), lane.image.clone()));
    queue.write(&lane.image, 0, vec![0; 64]).unwrap().detach();
    // One after the other: the first fifty each bring the next.
    while queue.last_completed().cursor().get() < 51 {
        let seq = queue.last_issued();
        queue.wait(seq, None).unwrap();
    }
    *lock(&LANE) = None;
    lane.runtime.close();
    assert_eq!(LEFT.load(Ordering::Relaxed), 0);
    let failed: Vec<_> = told("nrta.completed")
        .into_iter()
        .filter(|event| event.field("status") != "SUCCESS (0)")
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}
