//! What the exporter tells a recorder, against what the queues say.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use core::sync::atomic::{AtomicU64, Ordering};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};
use nrta::exporter::Exporter;
use nrta::simulated::{Fault, FaultPlan, Rule, When};
use nrta::{Model, Runtime};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One meter: the bits of a gauge, or a count.
#[derive(Default)]
struct Meter(AtomicU64);

impl CounterFn for Meter {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl GaugeFn for Meter {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Kept {
    meters: Mutex<BTreeMap<String, Arc<Meter>>>,
    described: Mutex<Vec<String>>,
}

impl Kept {
    fn meter(&self, key: &Key) -> Arc<Meter> {
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let labels: Vec<_> = labels.collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        let mut meters = self.meters.lock().unwrap();
        Arc::clone(meters.entry(name).or_default())
    }

    fn raw(&self, name: &str) -> u64 {
        let meters = self.meters.lock().unwrap();
        let meter = meters.get(name).unwrap_or_else(|| panic!("no {name}"));
        meter.0.load(Ordering::Relaxed)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.raw(name))
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.meter(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.meter(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn meters_say_what_the_queues_say() {
    let when = When {
        times: Some(1),
        ..When::default()
    };
    let fault = Fault::Numerical;
    let plan = FaultPlan {
        rules: vec![Rule { when, fault }],
    };
    let runtime = Runtime::builder()
        .cores(2)
        .simulated_faults(plan)
        .open()
        .unwrap();
    let recorder = Kept::default();
    let exporter = Exporter::with(&runtime, &recorder);
    let core = runtime.core(1).unwrap();
    let model = Model::open("../../examples/digits/model.xum").unwrap();
    let model = core.load(&model, 1).unwrap();
    let image = model.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| model.allocate_output(index).unwrap());
    let compute = core.compute();
    compute.measure(true);
    for _ in 0..3 {
        let pending = compute.execute(&model, &[&image], &[&outputs[0], &outputs[1]]);
        let _ = pending.unwrap().wait();
    }
    // Every place is taken, so a request without one is refused.
    let places: Vec<_> = (0..8).map(|_| compute.try_reserve().unwrap()).collect();
    let refused = compute.execute(&model, &[&image], &[&outputs[0], &outputs[1]]);
    assert!(refused.unwrap_err().is_queue_full());
    exporter.update();
    assert_eq!(
        recorder.gauge("nrta_queue_reserved{core=1,xu=compute,queue=0}"),
        8.0
    );
    drop(places);
    let moves = core.tensor_op(1).unwrap();
    moves.write(&image, 0, vec![0; 64]).unwrap().wait().unwrap();
    exporter.update();

    let of = |name: &str| format!("nrta_{name}{{core=1,xu=compute,queue=0}}");
    assert_eq!(recorder.raw(&of("requests_accepted_total")), 3);
    assert_eq!(recorder.raw(&of("requests_completed_total")), 3);
    assert_eq!(recorder.raw(&of("requests_failed_total")), 1);
    assert_eq!(recorder.raw(&of("requests_skipped_total")), 0);
    assert_eq!(recorder.gauge(&of("queue_reserved")), 0.0);
    assert_eq!(recorder.raw(&of("request_seconds_count")), 3);
    assert_eq!(recorder.raw(&of("requests_refused_full_total")), 1);
    assert_eq!(recorder.raw(&of("notifications_lost_total")), 0);
    assert_eq!(recorder.gauge(&of("queue_limit")), 8.0);
    assert_eq!(recorder.gauge(&of("queue_depth")), 0.0);
    assert_eq!(recorder.gauge(&of("queue_health")), 0.0);
    let wrote = "nrta_requests_completed_total{core=1,xu=tensor-op,queue=1}";
    assert_eq!(recorder.raw(wrote), 1);
    assert_eq!(recorder.raw(&wrote.replace("core=1", "core=0")), 0);
    let counter =
        |name: &str| recorder.gauge(&format!("nrta_core_counter{{tpb=1,counter={name}}}"));
    assert_eq!(counter("infer_completed"), 2.0);

    // Cumulative: each bucket is a part of the next, and all took less than half a minute.
    let latency = compute.snapshot().latency;
    let buckets: Vec<u64> = (10..=35)
        .map(|power| {
            let end = Duration::from_nanos(1 << power).as_secs_f64();
            let labels = format!("{{core=1,xu=compute,queue=0,le={end}}}");
            recorder.raw(&format!("nrta_request_seconds_bucket{labels}"))
        })
        .collect();
    assert!(buckets.is_sorted(), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&3));
    let short = latency.counts()[..20].iter().sum::<u64>();
    assert_eq!(buckets[10], short, "{latency:?}");

    // It keeps nothing open, and says of a closed runtime that it is closed.
    runtime.close();
    exporter.update();
    assert_eq!(recorder.gauge(&of("queue_health")), 1.0);
}

#[test]
fn every_name_is_described_and_in_the_documentation() {
    let runtime = Runtime::builder().open().unwrap();
    let recorder = Kept::default();
    let _exporter = Exporter::with(&runtime, &recorder);
    let described = recorder.described.lock().unwrap();
    let source = include_str!("../src/exporter.rs");
    for name in described.iter() {
        assert!(source.contains(&format!("//! | `{name}` |")), "{name}");
    }
    for meter in recorder.meters.lock().unwrap().keys() {
        let name = meter.split('{').next().unwrap();
        assert!(described.iter().any(|known| known == name), "{name}");
    }
}

/// What was skipped has not failed.
#[test]
fn skipped_requests_have_a_meter_of_their_own() {
    let runtime = Runtime::builder().open().unwrap();
    let recorder = Kept::default();
    let exporter = Exporter::with(&runtime, &recorder);
    let core = runtime.core(0).unwrap();
    let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
    let mut skipped = 0;
    while skipped == 0 {
        let pending: Vec<_> = (0..64)
            .map(|_| moves.write(&tensor, 0, vec![0; 8]).unwrap())
            .collect();
        for pending in pending.iter().rev() {
            let _ = pending.skip();
        }
        let ends = pending.into_iter().map(|pending| pending.wait());
        skipped = ends
            .filter(|end| matches!(end, Err(error) if error.skipped))
            .count();
    }
    exporter.update();
    let labels = "{core=0,xu=tensor-op,queue=0}";
    assert_eq!(
        recorder.raw(&format!("nrta_requests_skipped_total{labels}")),
        skipped as u64
    );
    assert_eq!(
        recorder.raw(&format!("nrta_requests_failed_total{labels}")),
        0
    );
}

/// A service that has lost its device opens another runtime, under the same recorder.
#[test]
fn counts_go_on_when_a_runtime_is_opened_again() {
    let recorder = Kept::default();
    for round in 1..=2 {
        let runtime = Runtime::builder().open().unwrap();
        let exporter = Exporter::with(&runtime, &recorder);
        let core = runtime.core(0).unwrap();
        let (moves, tensor) = (core.tensor_op(0).unwrap(), core.allocate(8).unwrap());
        moves.measure(true);
        for _ in 0..3 {
            moves.write(&tensor, 0, vec![0; 8]).unwrap().wait().unwrap();
            exporter.update();
        }
        exporter.update();
        let labels = "core=0,xu=tensor-op,queue=0";
        for name in [
            format!("nrta_requests_accepted_total{{{labels}}}"),
            format!("nrta_requests_completed_total{{{labels}}}"),
            format!("nrta_request_seconds_count{{{labels}}}"),
            format!("nrta_request_seconds_bucket{{{labels},le=+Inf}}"),
        ] {
            assert_eq!(recorder.raw(&name), 3 * round, "{name}");
        }
    }
}
