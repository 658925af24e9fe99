//! Clients that are slow, on purpose or not: they hold a connection for so long, and then another client has it.
//!
//! The service has one connection for all clients, so whoever holds it keeps the others out.
#![allow(clippy::unwrap_used, reason = "tests")]

mod client;

use client::Client;
use digits_service::options::Limits;
use digits_service::{Options, Service};
use std::time::Duration;
use tokio::time::timeout;

const BLANK: [u8; 64] = [0; 64];
/// Less than any limit that a test does not shorten.
const SOON: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);
const HEAD: &[u8] = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 64\r\n\r\n";

#[tokio::test]
async fn half_a_header_holds_a_connection_for_the_header_limit_only() {
    let service = service(|limits| limits.headers = SHORT).await;
    let mut half = Client::connect(service.address()).await.unwrap();
    half.write(&HEAD[..30]).await.unwrap();
    another_is_served(&service).await;
    assert_eq!(half.rest().await.unwrap(), b"");
    service.shut_down().await;
}

#[tokio::test]
async fn an_idle_connection_makes_room_for_another() {
    let service = service(|limits| limits.headers = SHORT).await;
    let mut idle = Client::connect(service.address()).await.unwrap();
    assert_eq!(idle.classify(&BLANK).await.unwrap().status, 200);
    another_is_served(&service).await;
    assert_eq!(idle.rest().await.unwrap(), b"");
    service.shut_down().await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_answered_408_and_its_connection_ends() {
    let service = service(|limits| limits.body = SHORT).await;
    let mut dripping = Client::connect(service.address()).await.unwrap();
    dripping.write(HEAD).await.unwrap();
    dripping.write(b"drip").await.unwrap();
    let response = timeout(SOON, dripping.receive()).await.unwrap().unwrap();
    assert_eq!(response.status, 408);
    assert_eq!(response.error(), "the body did not arrive within 100 ms");
    another_is_served(&service).await;
    service.shut_down().await;
}

#[tokio::test]
async fn a_client_that_never_reads_holds_a_connection_for_the_write_limit_only() {
    let service = service(|limits| limits.write = SHORT).await;
    let mut deaf = Client::connect(service.address()).await.unwrap();
    let requests = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    // Until the service has ended the connection: its buffers are full long before.
    let sending = async { while deaf.write(&requests).await.is_ok() {} };
    timeout(SOON, sending).await.unwrap();
    another_is_served(&service).await;
    service.shut_down().await;
}

/// One with a single connection, and limits that no test waits for but those that it changes.
async fn service(change: impl FnOnce(&mut Limits)) -> Service {
    let mut limits = Limits {
        headers: 10 * SOON,
        body: 10 * SOON,
        write: 10 * SOON,
        ..Limits::default()
    };
    change(&mut limits);
    let options = Options {
        connections: 1,
        wait: SOON,
        exec_timeout: Some(SOON),
        limits,
        ..Options::default()
    };
    Service::start(options).await.unwrap()
}

async fn another_is_served(service: &Service) {
    let mut client = Client::connect(service.address()).await.unwrap();
    let response = timeout(SOON, client.classify(&BLANK)).await;
    assert_eq!(response.unwrap().unwrap().status, 200);
}
