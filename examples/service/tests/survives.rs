//! Ten thousand requests while one device after the other is lost: each one gets one answer, and it is its own.
//!
//! Every lane's simulated machine has a plan: something that ends the lane, at an execution that the seed decides, and now
//! and then something that only one request suffers from. The images differ from each other, and so do their scores, so that
//! an answer that went to the wrong client would be seen.
#![allow(clippy::unwrap_used, reason = "tests")]

mod client;

use client::{Client, RAW};
use digits_service::options::Limits;
use digits_service::{Options, Progress, Service, Summary};
use nrta::simulated::{Engine, Fault, FaultPlan, Mark, Rule, When};
use nrta::{Model, Runtime};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const REQUESTS: usize = 10_000;
const CLIENTS: usize = 16;
const CORES: u32 = 2;
/// While one core hangs the other serves, and so must not get through all requests.
const EXEC_TIMEOUT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });

#[test]
fn ten_thousand_requests_get_one_answer_each_while_devices_are_lost() {
    let images = Arc::new(images());
    let expected = Arc::new(reference(&images));
    // The first reactor of a process leaves a pair of sockets for signals, which all others use.
    drop(tokio_runtime());
    let (descriptors, threads) = (descriptors(), threads());

    let plans = plans();
    let lost = plans.len() as u32;
    let options = Options {
        cores: Some(CORES),
        depth: Some(4),
        wait: Duration::from_secs(20),
        exec_timeout: Some(EXEC_TIMEOUT),
        faults: plans,
        // Clients wait for the next lane with their connections idle.
        limits: Limits {
            headers: Duration::from_secs(600),
            ..Limits::default()
        },
        ..Options::default()
    };
    let tokio = tokio_runtime();
    let begun = Instant::now();
    let (tally, summary) = tokio.block_on(survive(options, images, expected));
    println!(
        "{REQUESTS} requests in {:?}: {tally:?}, {summary:?}",
        begun.elapsed()
    );
    drop(tokio);

    assert_eq!(tally.values().sum::<usize>(), REQUESTS);
    assert!(
        summary.generations > lost,
        "{summary:?}, {lost} were to end"
    );
    assert_eq!(summary.leaked, 0);
    // A thread that was waited for leaves the list a moment later.
    until(|| self::threads() <= threads, "threads remain");
    assert_eq!(self::descriptors(), descriptors, "descriptors remain");
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// How many requests were answered with what: `200`, or `503` and its status.
type Tally = BTreeMap<String, usize>;

async fn survive(
    options: Options,
    images: Arc<Vec<Image>>,
    expected: Arc<Vec<Expected>>,
) -> (Tally, Summary) {
    let service = Service::start(options).await.unwrap();
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (images, expected) = (Arc::clone(&images), Arc::clone(&expected));
            let (address, progress) = (service.address(), service.progress());
            let next = Arc::clone(&next);
            tokio::spawn(ask(address, progress, next, images, expected))
        })
        .collect();
    let mut tally = Tally::new();
    for client in clients {
        for (answer, count) in client.await.unwrap() {
            *tally.entry(answer).or_default() += count;
        }
    }
    // The plans are used up: every core answers again.
    let mut client = Client::connect(service.address()).await.unwrap();
    let mut cores = [false; CORES as usize];
    let mut progress = service.progress();
    while cores != [true; CORES as usize] {
        progress.serving().await.unwrap();
        let response = client.classify(&images[0]).await.unwrap();
        if response.status == 503 {
            continue; // A machine that is overloaded may take longer than its limit, and lose a lane.
        }
        assert_eq!(response.status, 200, "{response:?}");
        cores[response.body["core"].as_u64().unwrap() as usize] = true;
    }
    let health = client.health().await.unwrap();
    assert_eq!(health.status, 200);
    assert_eq!(health.body["state"], "serving");
    assert!(health.body["last_end"]["cause"].is_string(), "{health:?}");
    assert_eq!(client.end().await.unwrap(), b"");
    (tally, service.shut_down().await)
}

/// One client: takes the next image as long as there are any, and checks that the answer is that image's.
async fn ask(
    address: SocketAddr,
    mut progress: Progress,
    next: Arc<AtomicUsize>,
    images: Arc<Vec<Image>>,
    expected: Arc<Vec<Expected>>,
) -> Tally {
    let mut tally = Tally::new();
    let mut client = Client::connect(address).await.unwrap();
    let mut refused_before = false;
    loop {
        let id = next.fetch_add(1, Ordering::Relaxed);
        let Some(image) = images.get(id) else {
            break;
        };
        let sent_id = id.to_string();
        let headers = [RAW, ("X-Request-Id", &sent_id)];
        let response = client
            .request("POST", "/classify", &headers, image)
            .await
            .unwrap();
        assert_eq!(response.header("x-request-id"), Some(sent_id.as_str()));
        let answer = match response.status {
            200 => {
                expected[id].check(&response.body);
                "200".to_owned()
            }
            503 => {
                let status = response.body["status"].as_str().unwrap();
                assert!(!response.error().is_empty() && !status.is_empty());
                assert!(response.header("retry-after").is_some());
                format!("503 {status}")
            }
            _ => panic!("{response:?}"),
        };
        *tally.entry(answer).or_default() += 1;
        // A client tries again at once, and learns that the device is away; then it waits.
        let refused = response.status == 503;
        if refused && refused_before {
            progress.serving().await.unwrap();
        }
        refused_before = refused;
    }
    // Nothing came twice.
    assert_eq!(client.end().await.unwrap(), b"");
    tally
}

type Image = [u8; 64];

/// As many images as requests, no two of them the same: the corners of the held-out ones say which one it is.
fn images() -> Vec<Image> {
    let held_out = client::images();
    let image = |id: usize| {
        let mut image = held_out[id % held_out.len()];
        let mut rest = id / held_out.len();
        for corner in [0, 7, 56, 63] {
            image[corner] = (rest % 17) as u8;
            rest /= 17;
        }
        image
    };
    (0..REQUESTS).map(image).collect()
}

/// What the network says of an image when nothing goes wrong.
struct Expected {
    label: u32,
    scores: Vec<f32>,
}

impl Expected {
    fn check(&self, answer: &Value) {
        assert_eq!(answer["label"], self.label);
        let scores = answer["scores"].as_array().unwrap();
        assert_eq!(scores.len(), self.scores.len());
        for (score, expected) in scores.iter().zip(&self.scores) {
            let difference = score.as_f64().unwrap() - f64::from(*expected);
            assert!(difference.abs() < 1e-6, "{answer}, not {:?}", self.scores);
        }
    }
}

/// All images in large batches on a machine without faults.
fn reference(images: &[Image]) -> Vec<Expected> {
    const BATCH: usize = 500;
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(Options::default().model).unwrap();
    let model = core.load(&model, BATCH as u32).unwrap();
    let image = model.input::<u8>("image").unwrap();
    let scores = model.output::<f32>("scores").unwrap();
    let label = model.output::<u32>("label").unwrap();
    let bound = model.bind(&[&image], &[&scores, &label]).unwrap();
    let (moves, compute) = (core.tensor_op(0).unwrap(), core.compute());
    let mut expected = Vec::new();
    for batch in images.chunks_exact(BATCH) {
        let write = moves.write_all(&image, batch.concat());
        write.unwrap().wait().unwrap();
        compute.execute_bound(&bound).unwrap().wait().unwrap();
        let scores = moves.read_all(&scores).unwrap().wait().unwrap();
        let labels = moves.read_all(&label).unwrap().wait().unwrap();
        let answers = labels.into_iter().zip(scores.chunks_exact(10));
        expected.extend(answers.map(|(label, scores)| Expected {
            label,
            scores: scores.to_vec(),
        }));
    }
    assert_eq!(expected.len(), images.len());
    expected
}

/// For each lane what ends it, and what else goes wrong.
fn plans() -> Vec<FaultPlan> {
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut draw = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let plan = |fatal: Fault| {
        let when = When {
            core: Some(draw(CORES.into()) as u16),
            from: 10 + draw(90),
            times: Some(1),
            probability: None,
        };
        let mut rules = vec![Rule { when, fault: fatal }];
        let mut now_and_then = |fault, probability| {
            let when = When {
                probability: Some(probability),
                ..When::default()
            };
            rules.push(Rule { when, fault });
        };
        let engine = Engine::Act;
        now_and_then(Fault::Transient, 0.01);
        now_and_then(Fault::Numerical, 0.01);
        now_and_then(Fault::Custom { engine, sub_id: 2 }, 0.01);
        now_and_then(Fault::EccCorrectable, 0.01);
        let by_ns = 2_000_000;
        now_and_then(Fault::SlowEngine { engine, by_ns }, 0.01);
        now_and_then(Fault::LateEnd { engine, by_ns }, 0.01);
        FaultPlan { rules }
    };
    fatal_faults().into_iter().map(plan).collect()
}

/// Faults after which a queue takes nothing any more.
fn fatal_faults() -> Vec<Fault> {
    use Engine::{Act, Dve, Pe, Pool, Sp};
    let lost = |engine, record| Fault::DropRecord { engine, record };
    let twice = |engine, record| Fault::DuplicateRecord { engine, record };
    vec![
        Fault::HangEngine { engine: Dve },
        Fault::DoorbellFails { errno: 5 },
        lost(Pe, Mark::End),
        lost(Act, Mark::Start),
        Fault::DeviceLost,
        Fault::TransferAborts,
        Fault::HangEngine { engine: Pe },
        Fault::EccUncorrectable,
        twice(Pool, Mark::Start),
        twice(Dve, Mark::End),
        Fault::DmaAbort,
        Fault::TransferHangs,
        Fault::ReorderRecords { engine: Sp },
        Fault::UnknownError { id: 99 },
        Fault::HangEngine { engine: Sp },
        Fault::DoorbellFails { errno: 22 },
        Fault::HbmUncorrectable {
            engine: Pe,
            repairable: true,
        },
        Fault::Overflow {
            engine: Act,
            latched: true,
        },
        Fault::UnknownSubtype {
            engine: Pool,
            subtype: 99,
        },
        Fault::BadDebugHint {
            engine: Act,
            hint: 7,
        },
    ]
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn until(condition: impl Fn() -> bool, otherwise: &str) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < limit, "{otherwise}");
        thread::yield_now();
    }
}
