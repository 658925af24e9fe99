//! What each request is answered with: refusals, back-pressure, health, clients that go away, and the end of the service.
#![allow(clippy::unwrap_used, reason = "tests")]

mod client;

use client::{Client, JSON, RAW, Response};
use digits_service::{Options, Service};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nrta::simulated::{Engine, Fault, FaultPlan, Rule, When};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// A zero that a person has drawn.
const ZERO: [u8; 64] = [
    0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0, 0, 3, 15, 2, 0, 11, 8, 0, 0, 4, 12, 0, 0,
    8, 8, 0, 0, 5, 8, 0, 0, 9, 8, 0, 0, 4, 11, 0, 1, 12, 7, 0, 0, 2, 14, 5, 10, 12, 0, 0, 0, 0, 6,
    13, 10, 0, 0, 0,
];
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn an_image_is_answered_in_either_form() {
    let service = Service::start(Options::default()).await.unwrap();
    let mut client = Client::connect(service.address()).await.unwrap();
    let raw = client.classify(&ZERO).await.unwrap();
    let text = json!(ZERO.to_vec()).to_string();
    let json = post(&mut client, JSON, text.as_bytes()).await;
    // A client that says nothing of its content sends JSON.
    let request = client.request("POST", "/classify", &[], text.as_bytes());
    let silent = request.await.unwrap();
    for response in [&raw, &json, &silent] {
        assert_eq!((response.status, &response.body["label"]), (200, &json!(0)));
        assert_eq!(response.body["core"], 0);
        assert_eq!(response.body["scores"].as_array().unwrap().len(), 10);
        assert_eq!(response.body, raw.body);
    }
    service.shut_down().await;
}

#[tokio::test]
async fn what_is_no_image_is_refused_with_the_value() {
    let service = Service::start(Options::default()).await.unwrap();
    let mut client = Client::connect(service.address()).await.unwrap();
    let mut pixels = ZERO;
    pixels[63] = 17;
    let with = |index: usize, value: serde_json::Value| {
        let mut pixels = json!(ZERO.to_vec());
        pixels[index] = value;
        pixels.to_string().into_bytes()
    };
    let cases = [
        (RAW, vec![0; 63], "63 pixels, not 64"),
        (RAW, vec![], "0 pixels, not 64"),
        (
            RAW,
            pixels.to_vec(),
            "pixel 63 is 17, not an integer from 0 to 16",
        ),
        (JSON, with(5, json!(-1)), "pixel 5 is -1, not an integer"),
        (JSON, with(0, json!(2.5)), "pixel 0 is 2.5, not an integer"),
        (
            JSON,
            with(7, json!("ink")),
            "pixel 7 is \"ink\", not an integer",
        ),
        (
            JSON,
            with(9, json!(1_u64 << 40)),
            "pixel 9 is 1099511627776, not",
        ),
        (JSON, b"[1, 2]".to_vec(), "2 pixels, not 64"),
        (
            JSON,
            b"{}".to_vec(),
            "the body is an object, not an array of 64 pixels",
        ),
        (
            JSON,
            b"[1,".to_vec(),
            "the body is not JSON: EOF while parsing",
        ),
        (JSON, b"\xFF".to_vec(), "the body is not JSON"),
        (
            JSON,
            vec![b'['; 4000],
            "the body is not JSON: recursion limit",
        ),
    ];
    for (content_type, body, error) in cases {
        let response = post(&mut client, content_type, &body).await;
        assert_eq!(response.status, 400, "{response:?}");
        assert!(
            response.error().starts_with(error),
            "{response:?}, not {error}"
        );
    }
    // The connection is as good as before.
    assert_eq!(client.classify(&ZERO).await.unwrap().status, 200);
    service.shut_down().await;
}

#[tokio::test]
async fn other_requests_are_refused_with_what_is_allowed() {
    let service = Service::start(Options::default()).await.unwrap();
    let mut client = Client::connect(service.address()).await.unwrap();
    for (method, path, status, allowed) in [
        ("GET", "/", 404, None),
        ("POST", "/classify/", 404, None),
        ("GET", "/classify", 405, Some("POST")),
        ("POST", "/health", 405, Some("GET")),
        ("BREW", "/health", 405, Some("GET")),
    ] {
        let response = client.request(method, path, &[], b"").await.unwrap();
        assert_eq!(
            (response.status, response.header("allow")),
            (status, allowed)
        );
        assert!(!response.error().is_empty());
    }
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let response = post(&mut client, form, &ZERO).await;
    assert_eq!(response.status, 415);
    assert!(response.error().contains("x-www-form-urlencoded"));
    service.shut_down().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_is_not_read() {
    let service = Service::start(Options::default()).await.unwrap();
    let mut client = Client::connect(service.address()).await.unwrap();
    let response = post(&mut client, JSON, &[b' '; 4097]).await;
    assert_eq!(response.status, 413);
    // One that does not say how long it is.
    let mut client = Client::connect(service.address()).await.unwrap();
    let head = b"POST /classify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write(head).await.unwrap();
    let chunk = [b"1001\r\n".as_slice(), &[b' '; 4097], b"\r\n"].concat();
    client.write(&chunk).await.unwrap();
    assert_eq!(client.receive().await.unwrap().status, 413);
    service.shut_down().await;
}

#[tokio::test]
async fn what_finds_no_room_is_told_when_to_try_again() {
    let options = Options {
        depth: Some(1),
        wait: Duration::from_millis(20),
        exec_timeout: Some(SOON),
        faults: vec![first_execution_takes(Duration::from_secs(2))],
        ..Options::default()
    };
    let service = Service::start(options).await.unwrap();
    let mut slow = Client::connect(service.address()).await.unwrap();
    slow.send("POST", "/classify", &[RAW], &ZERO).await.unwrap();
    let mut client = Client::connect(service.address()).await.unwrap();
    until_executing(&mut client, 1).await;

    let response = client.classify(&ZERO).await.unwrap();
    assert_eq!(response.status, 503);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(response.body["status"], "QUEUE_FULL (7)");
    assert_eq!(response.error(), "no slot was free within 20 ms");
    // What has room is answered, and then there is room again.
    assert_eq!(slow.receive().await.unwrap().status, 200);
    assert_eq!(client.classify(&ZERO).await.unwrap().status, 200);
    service.shut_down().await;
}

#[tokio::test]
async fn a_client_that_goes_away_takes_nothing_with_it() {
    let options = Options {
        depth: Some(1),
        wait: SOON,
        exec_timeout: Some(SOON),
        faults: vec![first_execution_takes(Duration::from_secs(1))],
        ..Options::default()
    };
    let service = Service::start(options).await.unwrap();
    let mut client = Client::connect(service.address()).await.unwrap();
    // One goes while it is computed for, one while it waits for a place, one in the middle of its request.
    let mut computed = Client::connect(service.address()).await.unwrap();
    let request = computed.send("POST", "/classify", &[RAW], &ZERO);
    request.await.unwrap();
    until_executing(&mut client, 1).await;
    let mut waiting = Client::connect(service.address()).await.unwrap();
    let request = waiting.send("POST", "/classify", &[RAW], &ZERO);
    request.await.unwrap();
    let mut sending = Client::connect(service.address()).await.unwrap();
    let head = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 64\r\n\r\nhalf";
    sending.write(head).await.unwrap();
    drop((computed, waiting, sending));

    // The only slot there is serves on, and the answer is the one that was asked for.
    for image in client::images().iter().take(50) {
        assert_eq!(client.classify(image).await.unwrap().status, 200);
    }
    let answer = client.classify(&ZERO).await.unwrap();
    assert_eq!(answer.body["label"], 0);
    assert_eq!(service.shut_down().await.leaked, 0);
}

#[tokio::test]
async fn f6_a_service_without_a_device_says_why_and_recovers() {
    // The model is gone when the device is to be opened again, so that the time between is as long as we want it.
    let directory = std::env::temp_dir().join(format!("digits-service-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let model = directory.join("model.xum");
    fs::copy(Options::default().model, &model).unwrap();
    let when = When {
        times: Some(1),
        ..When::default()
    };
    let fault = Fault::DoorbellFails { errno: 5 };
    let options = Options {
        model: model.clone(),
        faults: vec![FaultPlan {
            rules: vec![Rule { when, fault }],
        }],
        ..Options::default()
    };
    let service = Service::start(options).await.unwrap();
    fs::remove_file(&model).unwrap();

    let mut client = Client::connect(service.address()).await.unwrap();
    let failed = client.classify(&ZERO).await.unwrap();
    assert_eq!(failed.status, 503);
    assert_eq!(failed.header("retry-after"), Some("1"));
    assert_eq!(failed.body["status"], "HW_ERROR (6)");
    assert!(failed.error().contains("EIO (5)"), "{failed:?}");
    let health = until_health(&mut client, 503).await;
    assert_eq!(health.body["state"], "reopening");
    assert_eq!(health.body["generation"], 1);
    // Why the lane has ended is still known when opening has failed again and again.
    let health = timeout(SOON, async {
        loop {
            let health = client.health().await.unwrap();
            if health.body["last_open_error"]["attempts"].as_u64() >= Some(2) {
                break health;
            }
        }
    });
    let body = health.await.unwrap().body;
    let (end, open) = (&body["last_end"], &body["last_open_error"]);
    assert!(end["cause"].as_str().unwrap().contains("EIO (5)"));
    assert_eq!(end["status"], "HW_ERROR (6)");
    assert!(open["cause"].as_str().unwrap().contains("model.xum"));
    assert!(open["status"].is_string());
    let refused = client.classify(&ZERO).await.unwrap();
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("1"))
    );
    assert!(
        refused
            .error()
            .starts_with("the device is being opened again; it was lost: SEMAPHORE_INCREMENT")
    );

    fs::copy(Options::default().model, &model).unwrap();
    assert_eq!(service.progress().serving().await, Some(2));
    assert_eq!(client.classify(&ZERO).await.unwrap().status, 200);
    let health = client.health().await.unwrap();
    assert_eq!(
        (health.status, &health.body["generation"]),
        (200, &json!(2))
    );
    let end = &health.body["last_end"]["cause"];
    assert!(end.as_str().unwrap().contains("EIO (5)"));
    assert!(health.body["last_open_error"].is_null());
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(service.shut_down().await.generations, 2);
}

#[tokio::test]
async fn f6_a_request_that_waits_when_the_device_is_lost_is_told_so() {
    let when = When {
        times: Some(1),
        ..When::default()
    };
    let engine = Engine::Dve;
    let fault = Fault::HangEngine { engine };
    let options = Options {
        depth: Some(1),
        wait: SOON,
        exec_timeout: Some(Duration::from_millis(300)),
        faults: vec![FaultPlan {
            rules: vec![Rule { when, fault }],
        }],
        ..Options::default()
    };
    let service = Service::start(options).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(service.address()).await.unwrap();
        client
            .send("POST", "/classify", &[RAW], &ZERO)
            .await
            .unwrap();
        clients.push(client);
    }
    // One hangs, the others wait for its slot: each is told, or is served by the lane that comes after.
    let mut refused = 0;
    for client in &mut clients {
        let response = timeout(SOON, client.receive()).await.unwrap().unwrap();
        if response.status == 503 {
            assert!(!response.body["status"].as_str().unwrap().is_empty());
            refused += 1;
        }
    }
    assert!(refused >= 1);
    assert!(service.progress().serving().await >= Some(2));
    assert_eq!(clients[0].classify(&ZERO).await.unwrap().status, 200);
    service.shut_down().await;
}

#[tokio::test]
async fn closing_while_busy_answers_what_is_under_way() {
    let options = Options {
        depth: Some(2),
        wait: SOON,
        exec_timeout: Some(SOON),
        faults: vec![first_execution_takes(Duration::from_secs(2))],
        ..Options::default()
    };
    let service = Service::start(options).await.unwrap();
    let address = service.address();
    let mut idle = Client::connect(address).await.unwrap();
    let mut busy = Vec::new();
    for number in 1..=2 {
        let mut client = Client::connect(address).await.unwrap();
        client
            .send("POST", "/classify", &[RAW], &ZERO)
            .await
            .unwrap();
        until_executing(&mut idle, number).await;
        busy.push(client);
    }
    let summary = service.shut_down().await;
    assert_eq!((summary.generations, summary.leaked), (1, 0));
    // Every answer was written before the service had closed.
    for mut client in busy {
        let response = client.receive().await.unwrap();
        assert_eq!((response.status, &response.body["label"]), (200, &json!(0)));
        assert_eq!(client.rest().await.unwrap(), b"");
    }
    assert_eq!(idle.rest().await.unwrap(), b"");
    assert!(Client::connect(address).await.is_err());
}

#[tokio::test]
async fn a_model_of_another_kind_is_refused_at_the_start() {
    let options = Options {
        model: "no/such/model.xum".into(),
        ..Options::default()
    };
    let error = Service::start(options).await.unwrap_err();
    assert!(error.to_string().contains("no/such/model.xum"), "{error}");
}

/// The program, the line of the README, and the signal that ends it.
#[tokio::test]
async fn the_program_serves_what_its_readme_sends_and_ends_by_sigterm() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_digits-service"))
        .args(["--cores", "2", "--depth", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    let address = line
        .trim_end()
        .strip_prefix("listening at http://")
        .unwrap();
    let mut client = Client::connect(address.parse().unwrap()).await.unwrap();

    let body = body_of_readme();
    let headers = [JSON, ("X-Request-Id", "seven")];
    let request = client.request("POST", "/classify", &headers, body.as_bytes());
    let response = request.await.unwrap();
    assert_eq!((response.status, &response.body["label"]), (200, &json!(0)));
    assert_eq!(response.header("x-request-id"), Some("seven"));
    assert_eq!(client.health().await.unwrap().body["state"], "serving");

    let pid = i32::try_from(program.id().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    let status = timeout(SOON, program.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "closed: 1 lane, 0 leaked\n");
    let mut log = String::new();
    let mut stderr = program.stderr.take().unwrap();
    stderr.read_to_string(&mut log).await.unwrap();
    assert_eq!(log, "lane 1 serves\n");
}

/// Pauses are a lower limit, which a slow machine does not break.
#[tokio::test]
async fn f6_a_device_that_fails_at_once_is_opened_more_and_more_slowly() {
    let when = When {
        times: Some(1),
        ..When::default()
    };
    let fault = Fault::DoorbellFails { errno: 5 };
    let plan = FaultPlan {
        rules: vec![Rule { when, fault }],
    };
    let options = Options {
        faults: vec![plan; 4],
        ..Options::default()
    };
    let service = Service::start(options).await.unwrap();
    let begun = Instant::now();
    let mut client = Client::connect(service.address()).await.unwrap();
    let recovered = async { while client.classify(&ZERO).await.unwrap().status != 200 {} };
    timeout(SOON, recovered).await.unwrap();
    let least = Duration::from_millis(100 + 200 + 400);
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    assert_eq!(service.shut_down().await.generations, 5);
}

/// Nobody reads what the service says on standard error: it loses a device, and goes on with the next one.
#[tokio::test]
async fn f6_a_log_that_nobody_takes_does_not_keep_the_service_from_recovering() {
    let plan = format!("digits-service-plan-{}.json", std::process::id());
    let plan = std::env::temp_dir().join(plan);
    let rule = r#"{ "when": { "times": 1 }, "fault": { "doorbell_fails": { "errno": 5 } } }"#;
    fs::write(&plan, format!(r#"{{ "rules": [ {rule} ] }}"#)).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_digits-service"))
        .arg("--faults")
        .arg(&plan)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    drop(program.stderr.take());
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    fs::remove_file(&plan).unwrap();
    let address = line.trim_end().strip_prefix("listening at http://");
    let mut client = Client::connect(address.unwrap().parse().unwrap())
        .await
        .unwrap();
    assert_eq!(client.classify(&ZERO).await.unwrap().status, 503);
    let recovered = async {
        while client.classify(&ZERO).await.unwrap().status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, recovered).await.unwrap();
}

#[test]
fn the_command_line_is_checked_value_by_value() {
    let parse = |arguments: &[&str]| {
        let arguments = arguments.iter().map(Into::into);
        Options::parse(arguments).map_err(|error| error.to_string())
    };
    let options = parse(&["--cores", "2", "--listen=[::1]:80"])
        .unwrap()
        .unwrap();
    assert_eq!((options.cores, options.listen.port()), (Some(2), 80));
    assert!(parse(&["--help"]).unwrap().is_none());
    for (arguments, error) in [
        (["--depth", "64"], "--depth 64 is not allowed: 1 to 63"),
        (
            ["--timeout", "0"],
            "--timeout 0 is not allowed: 1 to 3600000",
        ),
        (
            ["--cores", "two"],
            "--cores \"two\" is not allowed: invalid digit",
        ),
        (
            ["--listen", "here"],
            "--listen \"here\" is not allowed: invalid",
        ),
        (
            ["--faults", "no/such.json"],
            "--faults no/such.json: No such file",
        ),
        (
            ["--color", "red"],
            "invalid option '--color': --help says what there is",
        ),
        (
            ["--depth=2", "red"],
            "unexpected argument \"red\": --help says what there is",
        ),
        (
            ["--depth=2", "--wait"],
            "missing argument for option '--wait': --help says what there is",
        ),
        (
            ["--depth=2", "--wait=-1"],
            "--wait \"-1\" is not allowed: invalid digit",
        ),
    ] {
        let refused = parse(&arguments).unwrap_err();
        assert!(refused.starts_with(error), "{refused}");
    }
}

/// What the README's `curl` sends with `-d`.
fn body_of_readme() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(readme).unwrap();
    let after = text.split_once("-d '").unwrap().1;
    after.split_once('\'').unwrap().0.to_owned()
}

async fn post(client: &mut Client, content_type: (&str, &str), body: &[u8]) -> Response {
    let headers = [content_type];
    let request = client.request("POST", "/classify", &headers, body);
    request.await.unwrap()
}

/// A plan in which the first execution takes so long.
fn first_execution_takes(time: Duration) -> FaultPlan {
    let when = When {
        times: Some(1),
        ..When::default()
    };
    let fault = Fault::SlowEngine {
        engine: Engine::Dve,
        by_ns: time.as_nanos() as u64,
    };
    FaultPlan {
        rules: vec![Rule { when, fault }],
    }
}

/// Asks until so many requests are in the compute queue.
async fn until_executing(client: &mut Client, requests: u64) {
    let depth = async {
        loop {
            let health = client.health().await.unwrap();
            if health.body["cores"][0]["queues"][1]["depth"] == requests {
                break;
            }
        }
    };
    timeout(SOON, depth).await.unwrap();
}

/// Asks until health is answered with `status`.
async fn until_health(client: &mut Client, status: u16) -> Response {
    let answered = async {
        loop {
            let health = client.health().await.unwrap();
            if health.status == status {
                return health;
            }
        }
    };
    timeout(SOON, answered).await.unwrap()
}
