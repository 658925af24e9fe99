//! The end of the service: who has sent a request is answered, and who has sent none keeps nobody waiting.
#![allow(clippy::unwrap_used, reason = "tests")]

mod client;

use client::{Client, RAW};
use digits_service::options::Limits;
use digits_service::{Ended, Options, Service};
use nrta::simulated::{Engine, Fault, FaultPlan, Rule, When};
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

const BLANK: [u8; 64] = [0; 64];
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_connection_without_a_whole_request_does_not_hold_the_end() {
    let service = Service::start(patient()).await.unwrap();
    let silent = Client::connect(service.address()).await.unwrap();
    let mut half = Client::connect(service.address()).await.unwrap();
    half.write(b"POST /classify HT").await.unwrap();
    let mut second_half = Client::connect(service.address()).await.unwrap();
    assert_eq!(second_half.classify(&BLANK).await.unwrap().status, 200);
    second_half.write(b"POST /classify HT").await.unwrap();
    timeout(SOON, service.shut_down()).await.unwrap();
    for client in [silent, half, second_half] {
        // It may be reset, having sent what nobody has read.
        assert_eq!(client.rest().await.unwrap_or_default(), b"");
    }
}

#[tokio::test]
async fn requests_of_connections_that_were_not_accepted_yet_are_answered() {
    let options = Options {
        connections: 1,
        faults: vec![first_execution_takes(Duration::from_secs(1))],
        ..patient()
    };
    let service = Service::start(options).await.unwrap();
    let mut clients = Vec::new();
    // The first one has the only connection while the service is told to end.
    for _ in 0..5 {
        let mut client = Client::connect(service.address()).await.unwrap();
        let request = client.send("POST", "/classify", &[RAW], &BLANK);
        request.await.unwrap();
        clients.push(client);
    }
    timeout(SOON, service.shut_down()).await.unwrap();
    for mut client in clients {
        assert_eq!(client.receive().await.unwrap().status, 200);
        assert_eq!(client.rest().await.unwrap(), b"");
    }
}

/// Whose clients have all the time they want.
fn patient() -> Options {
    let limits = Limits {
        headers: 10 * SOON,
        body: 10 * SOON,
        write: 10 * SOON,
        connections_end: 10 * SOON,
        ..Limits::default()
    };
    Options {
        wait: SOON,
        exec_timeout: Some(SOON),
        limits,
        ..Options::default()
    }
}

/// A plan in which the first execution takes so long.
fn first_execution_takes(time: Duration) -> FaultPlan {
    once(Fault::SlowEngine {
        engine: Engine::Dve,
        by_ns: time.as_nanos() as u64,
    })
}

fn once(fault: Fault) -> FaultPlan {
    let when = When {
        times: Some(1),
        ..When::default()
    };
    FaultPlan {
        rules: vec![Rule { when, fault }],
    }
}

/// A core hangs and its execution may take for ever, so no runtime ends: the other core's queue ends the lanes.
#[tokio::test]
async fn f6_a_service_that_has_leaked_three_runtimes_ends_and_says_why() {
    let rule = |core, fault| {
        let when = When {
            core: Some(core),
            times: Some(1),
            ..When::default()
        };
        Rule { when, fault }
    };
    let engine = Engine::Dve;
    let plan = FaultPlan {
        rules: vec![
            rule(0, Fault::HangEngine { engine }),
            rule(1, Fault::DoorbellFails { errno: 5 }),
        ],
    };
    let mut options = Options {
        cores: Some(2),
        depth: Some(1),
        exec_timeout: Some(10 * SOON),
        faults: vec![plan; 4],
        ..patient()
    };
    options.limits.lane_end = Duration::from_millis(50);
    let mut service = Service::start(options).await.unwrap();
    let address = service.address();
    let asking: Vec<_> = (0..4)
        .map(|_| tokio::spawn(ask_for_ever(address)))
        .collect();
    let ended = timeout(SOON, service.ended()).await.unwrap();
    assert!(matches!(ended, Ended::TooManyLeaks { leaked: 3, .. }));
    let text = ended.to_string();
    assert!(text.starts_with("3 runtimes did not close"), "{text}");
    assert!(text.contains("EIO (5)"), "{text}");
    let summary = service.shut_down().await;
    assert_eq!((summary.generations, summary.leaked), (3, 3));
    for client in asking {
        client.await.unwrap();
    }
}

/// Until the service ends the connection.
async fn ask_for_ever(address: SocketAddr) {
    let mut client = Client::connect(address).await.unwrap();
    while client.classify(&BLANK).await.is_ok() {}
}

#[tokio::test]
async fn f6_no_lane_is_opened_once_the_service_is_told_to_end() {
    // The model is away until the service has been told to end.
    let directory = std::env::temp_dir().join(format!("digits-service-end-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let model = directory.join("model.xum");
    fs::copy(Options::default().model, &model).unwrap();
    let mut options = Options {
        model: model.clone(),
        faults: vec![once(Fault::DoorbellFails { errno: 5 })],
        ..patient()
    };
    options.limits.body = Duration::from_secs(2);
    let service = Service::start(options).await.unwrap();
    fs::remove_file(&model).unwrap();
    let mut client = Client::connect(service.address()).await.unwrap();
    assert_eq!(client.classify(&BLANK).await.unwrap().status, 503);
    // A body that does not come keeps the connections from ending, for longer than the pause before a lane is opened.
    let mut dripping = Client::connect(service.address()).await.unwrap();
    let head = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 64\r\n\r\n";
    dripping.write(head).await.unwrap();

    let restore = async { fs::copy(Options::default().model, &model).unwrap() };
    let (summary, _) = tokio::join!(service.shut_down(), restore);
    assert_eq!((summary.generations, summary.leaked), (1, 0));
    assert_eq!(dripping.receive().await.unwrap().status, 408);
    fs::remove_dir_all(&directory).unwrap();
}
