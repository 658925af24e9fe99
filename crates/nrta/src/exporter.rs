//! What the queues count, for the `metrics` facade (feature `metrics`).
//!
//! An [`Exporter`] registers its meters with the recorder that the application has installed, and nothing globally; the
//! application calls [`Exporter::update`] at its own pace, such as before each scrape. Nothing is counted twice for it: it copies
//! what the queues know anyway ([`Runtime::snapshots`]), and takes no lock of theirs.
//!
//! Counters get what has come since the last update. So they go on where they were when a runtime is closed and another one is
//! opened, and two runtimes add up; a runtime with two exporters is counted twice. Gauges are those of whoever set them last.
//!
//! | name | kind | labels | meaning |
//! |---|---|---|---|
//! | `nrta_queue_depth` | gauge | queue | requests accepted and not complete |
//! | `nrta_queue_limit` | gauge | queue | most of them |
//! | `nrta_queue_reserved` | gauge | queue | places that are reserved, besides |
//! | `nrta_queue_health` | gauge | queue | 0 healthy, 1 closing, 2 degraded |
//! | `nrta_requests_accepted_total` | counter | queue | requests accepted |
//! | `nrta_requests_completed_total` | counter | queue | requests complete, whatever their status |
//! | `nrta_requests_failed_total` | counter | queue | requests complete without success, but for those that were skipped |
//! | `nrta_requests_skipped_total` | counter | queue | requests that their callers skipped, and are complete |
//! | `nrta_requests_refused_full_total` | counter | queue | requests refused because the queue was full |
//! | `nrta_notifications_lost_total` | counter | queue | notifications that no application got |
//! | `nrta_oldest_request_age_seconds` | gauge | queue | age of the request at the head; 0 when there is none or it is not measured |
//! | `nrta_request_seconds_bucket` | counter | queue, `le` | measured requests that took no longer than `le` seconds; all of them at `+Inf` |
//! | `nrta_request_seconds_count` | counter | queue | measured requests |
//! | `nrta_core_counter` | gauge | `tpb`, `counter` | a counter of the driver's datastore, of a physical core |
//!
//! Labels of a queue are `core`, its logical core, `xu`, what it does (`compute`, `tensor-op`, `collectives`), and `queue`, its
//! number among those of the same kind. Ages and latencies are there for queues that are told to
//! [measure](crate::ComputeQueue::measure). There is no `nrta_request_seconds_sum`, since queues count the requests of each
//! bucket and add no times up. So `histogram_quantile(0.99, sum by (le) (rate(nrta_request_seconds_bucket[5m])))` works, and so
//! does `rate(nrta_request_seconds_count[5m])`; a mean, `rate(.._sum[5m]) / rate(.._count[5m])`, cannot be had. A recorder is foreign code: it is called with no lock of ours held, on the thread
//! that calls `update`.

use crate::runtime::{Inner, Runtime};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use metrics::{Counter, Gauge, Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit};
use std::sync::Arc;
use xu_abi::metric::CoreCounter;
use xu_abi::{TpbIndex, XuId};
use xu_worker::QueueSnapshot;

/// Buckets of latencies: their ends are 2 to these powers nanoseconds, from a microsecond to half a minute.
const POWERS: core::ops::RangeInclusive<u32> = 10..=35;

/// Meters of one runtime. It does not keep the runtime open; what it last exported stays.
///
/// ```
/// use nrta::{Runtime, exporter::Exporter};
///
/// let runtime = Runtime::builder().open()?;
/// // With no recorder installed this is cheap and goes nowhere.
/// let exporter = Exporter::new(&runtime);
/// exporter.update();
/// # Ok::<(), nrta::Error>(())
/// ```
pub struct Exporter {
    runtime: Arc<Inner>,
    queues: Vec<QueueMeters>,
    counters: Vec<(TpbIndex, CoreCounter, Gauge)>,
}

impl Exporter {
    /// Registers with the recorder of this thread, or else of the process.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        metrics::with_recorder(|recorder| Self::with(runtime, recorder))
    }

    /// Registers with this recorder.
    #[must_use]
    pub fn with(runtime: &Runtime, recorder: &dyn Recorder) -> Self {
        describe(recorder);
        let queues = runtime.snapshots();
        let queues = queues.map(|queue| QueueMeters::register(queue.xu, recorder));
        Self {
            queues: queues.collect(),
            counters: core_counters(runtime, recorder),
            runtime: Arc::clone(runtime.inner()),
        }
    }

    /// Sets every meter to what is so now.
    pub fn update(&self) {
        for (meters, queue) in self.queues.iter().zip(self.runtime.snapshots()) {
            meters.set(&queue);
        }
        for (tpb, counter, gauge) in &self.counters {
            // The store was made for every core of the device.
            let value = self.runtime.metrics().counter(*tpb, *counter);
            gauge.set(float(value.unwrap_or_default()));
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("queues", &self.queues.len())
            .finish_non_exhaustive()
    }
}

/// Declares each meter of a queue once: its field, its name, its unit and what it means.
macro_rules! meters {
    ($($kind:ident $field:ident: $name:literal, $unit:expr, $text:literal;)*) => {
        /// The meters of one queue.
        struct QueueMeters {
            $($field: meters!(@type $kind),)*
            /// For each bucket how many requests took no longer.
            buckets: Vec<Total>,
            /// The last bucket, which has no end.
            all: Total,
        }

        impl QueueMeters {
            fn register(xu: XuId, recorder: &dyn Recorder) -> Self {
                Self {
                    $($field: {
                        let key = Key::from_parts($name, labels(xu));
                        meters!(@register $kind recorder, &key)
                    },)*
                    buckets: POWERS.map(|power| bucket(xu, &end_of(power), recorder)).collect(),
                    all: bucket(xu, "+Inf", recorder),
                }
            }
        }

        fn describe(recorder: &dyn Recorder) {
            $(meters!(@describe $kind recorder, $name, $unit, $text);)*
            let text = "measured requests that took no longer";
            meters!(@describe counter recorder, BUCKET, Unit::Count, text);
            let text = "a counter of the driver's datastore";
            meters!(@describe gauge recorder, CORE_COUNTER, Unit::Count, text);
        }
    };
    (@type counter) => { Total };
    (@type gauge) => { Gauge };
    (@register counter $recorder:ident, $key:expr) => { Total::new($recorder.register_counter($key, &METADATA)) };
    (@register gauge $recorder:ident, $key:expr) => { $recorder.register_gauge($key, &METADATA) };
    (@describe counter $recorder:ident, $name:expr, $unit:expr, $text:expr) => {
        $recorder.describe_counter(KeyName::from($name), Some($unit), SharedString::from($text));
    };
    (@describe gauge $recorder:ident, $name:expr, $unit:expr, $text:expr) => {
        $recorder.describe_gauge(KeyName::from($name), Some($unit), SharedString::from($text));
    };
}

meters! {
    gauge depth: "nrta_queue_depth", Unit::Count, "requests accepted and not complete";
    gauge limit: "nrta_queue_limit", Unit::Count, "most requests accepted and not complete";
    gauge reserved: "nrta_queue_reserved", Unit::Count, "places that are reserved";
    gauge health: "nrta_queue_health", Unit::Count, "0 healthy, 1 closing, 2 degraded";
    counter accepted: "nrta_requests_accepted_total", Unit::Count, "requests accepted";
    counter completed: "nrta_requests_completed_total", Unit::Count, "requests complete";
    counter failed: "nrta_requests_failed_total", Unit::Count, "requests complete without success, and not skipped";
    counter skipped: "nrta_requests_skipped_total", Unit::Count, "requests that were skipped";
    counter refused: "nrta_requests_refused_full_total", Unit::Count, "requests refused by a full queue";
    counter lost: "nrta_notifications_lost_total", Unit::Count, "notifications that no application got";
    gauge oldest: "nrta_oldest_request_age_seconds", Unit::Seconds, "age of the request at the head";
    counter measured: "nrta_request_seconds_count", Unit::Count, "measured requests";
}

const BUCKET: &str = "nrta_request_seconds_bucket";
const CORE_COUNTER: &str = "nrta_core_counter";
const METADATA: Metadata<'static> =
    Metadata::new("nrta::exporter", Level::INFO, Some(module_path!()));

impl QueueMeters {
    fn set(&self, queue: &QueueSnapshot) {
        self.depth.set(float(queue.depth));
        self.limit.set(float(queue.limit));
        self.reserved.set(float(queue.reserved));
        self.health.set(f64::from(queue.health as u32));
        self.accepted.reach(queue.issued);
        self.completed.reach(queue.completed);
        self.failed.reach(queue.failed);
        self.skipped.reach(queue.skipped);
        self.refused.reach(queue.queue_full);
        self.lost.reach(queue.lost_notifications);
        let age = queue.oldest_age.unwrap_or_default();
        self.oldest.set(age.as_secs_f64());
        self.measured.reach(queue.latency.total());
        // Bucket i of the snapshot ends at 2^(i+1) nanoseconds.
        let mut counts = queue.latency.counts().iter();
        let mut below = 0;
        let mut ends = 0;
        for (counter, power) in self.buckets.iter().zip(POWERS) {
            while ends < power {
                below += counts.next().copied().unwrap_or_default();
                ends += 1;
            }
            counter.reach(below);
        }
        self.all.reach(queue.latency.total());
    }
}

/// A counter that follows a number which only grows.
///
/// Other runtimes may count on it too, before and beside this one, so it is given what is new, and never the number itself.
struct Total {
    counter: Counter,
    /// What it has been given.
    given: AtomicU64,
}

impl Total {
    fn new(counter: Counter) -> Self {
        Self {
            counter,
            given: AtomicU64::new(0),
        }
    }

    fn reach(&self, number: u64) {
        // Relaxed: the number stands for itself. Two updates at once share what is new.
        let given = self.given.fetch_max(number, Ordering::Relaxed);
        if number > given {
            self.counter.increment(number - given);
        }
    }
}

/// The end of a bucket, seconds.
fn end_of(power: u32) -> String {
    let end = Duration::from_nanos(1 << power).as_secs_f64();
    end.to_string()
}

fn bucket(xu: XuId, end: &str, recorder: &dyn Recorder) -> Total {
    let mut labels = labels(xu);
    labels.push(Label::new("le", end.to_owned()));
    Total::new(recorder.register_counter(&Key::from_parts(BUCKET, labels), &METADATA))
}

fn core_counters(
    runtime: &Runtime,
    recorder: &dyn Recorder,
) -> Vec<(TpbIndex, CoreCounter, Gauge)> {
    let inner = runtime.inner();
    let tpbs = (0..runtime.cores()).flat_map(|core| inner.tpbs(core).iter().copied());
    let mut counters = Vec::new();
    for tpb in tpbs {
        for counter in CoreCounter::NAMED {
            let name = counter.name().unwrap_or_default();
            let labels = vec![
                Label::new("tpb", tpb.get().to_string()),
                Label::new("counter", name.to_lowercase()),
            ];
            let key = Key::from_parts(CORE_COUNTER, labels);
            let gauge = recorder.register_gauge(&key, &METADATA);
            counters.push((tpb, *counter, gauge));
        }
    }
    counters
}

fn labels(xu: XuId) -> Vec<Label> {
    let kind = xu.xu_type().map_or("unknown", xu_abi::XuType::name);
    vec![
        Label::new("core", xu.vnc().to_string()),
        Label::new("xu", kind),
        Label::new("queue", xu.queue().to_string()),
    ]
}

/// What the facade takes: exact up to 2^53.
fn float(count: u64) -> f64 {
    // CAST: rounded beyond that.
    count as f64
}
