//! A completion event in a real event loop of mio.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod lane;

use lane::{Unit, taken};
use mio::event::Source;
use mio::{Events, Interest, Poll, Token};
use std::thread;
use std::time::Duration;
use xu_worker::eventfd::CompletionEvent;

const COMPLETIONS: Token = Token(7);

/// Tokens of what is ready, without waiting.
fn ready(poll: &mut Poll) -> Vec<Token> {
    let mut events = Events::with_capacity(8);
    poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
    events.iter().map(mio::event::Event::token).collect()
}

#[test]
fn w1_a_loop_takes_every_completion() {
    const ROUNDS: u64 = 1_000;

    let unit = Unit::new(0);
    let mut poll = Poll::new().unwrap();
    let mut event = CompletionEvent::new().unwrap();
    poll.registry()
        .register(&mut event, COMPLETIONS, Interest::READABLE)
        .unwrap();
    unit.register_unit(&event);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=ROUNDS {
                unit.accept();
                unit.complete(number);
            }
        });
        let mut events = Events::with_capacity(8);
        let mut counted = 0;
        while counted < ROUNDS {
            poll.poll(&mut events, None).unwrap();
            for ready in &events {
                assert_eq!(ready.token(), COMPLETIONS);
                assert!(ready.is_readable());
                counted += taken(&event);
            }
        }
        assert_eq!(counted, ROUNDS);
    });
    assert_eq!(taken(&event), 0);
}

#[test]
fn w3_a_source_that_goes_is_not_reported() {
    let mut poll = Poll::new().unwrap();
    let mut event = CompletionEvent::new().unwrap();
    let written = event.app_event().unwrap();
    let registry = poll.registry().try_clone().unwrap();
    registry
        .register(&mut event, Token(1), Interest::READABLE)
        .unwrap();
    registry
        .reregister(&mut event, COMPLETIONS, Interest::READABLE)
        .unwrap();
    written.notify().unwrap();
    assert_eq!(ready(&mut poll), [COMPLETIONS]);
    event.deregister(&registry).unwrap();
    written.notify().unwrap();
    assert!(ready(&mut poll).is_empty());
    assert_eq!(event.drain().unwrap(), 2);
}
