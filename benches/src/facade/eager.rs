//! A caller whose task looks again for a while before it sleeps.
//!
//! Neither side's futures do that: a task that awaits has its executor's thread sleep when there is nothing else, and waking
//! it costs more than a short execution. This wrapper of either side asks to be polled again at once, so that other tasks have
//! their turns in between, and gives up after some microseconds. It shows how much of a round trip is that sleep.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::service::Service;
use crate::pin::Pair;

/// As a thread that waits for a request of the facade.
const BUDGET: Duration = Duration::from_micros(20);
/// Looks between two readings of the clock.
const UNTIMED: u32 = 8;

/// The service with eager answers.
pub(crate) struct Eager<S>(S);

/// An answer that is looked at again.
pub(crate) struct Eagerly<S: Service> {
    answer: S::Answer,
    looks: u32,
    since: Option<Instant>,
}

impl<S: Service> Service for Eager<S> {
    type Answer = Eagerly<S>;

    fn start(processors: Pair, depth: usize) -> Option<Self> {
        S::start(processors, depth).map(Self)
    }

    #[inline]
    fn request(&mut self) -> Eagerly<S> {
        Eagerly {
            answer: self.0.request(),
            looks: 0,
            since: None,
        }
    }

    #[inline]
    fn is_done(answer: &Eagerly<S>) -> bool {
        S::is_done(&answer.answer)
    }
}

impl<S: Service> Eagerly<S> {
    fn looks_again(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        !self.looks.is_multiple_of(UNTIMED)
            || self.since.get_or_insert_with(Instant::now).elapsed() < BUDGET
    }
}

impl<S: Service> Future for Eagerly<S> {
    type Output = bool;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        if !S::is_done(&self.answer) && self.looks_again() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.answer).poll(cx)
    }
}
