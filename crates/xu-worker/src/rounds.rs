//! What a worker does all day: step its units in turn, and sleep when there is nothing to look at.
//!
//! Run by [`WorkerThread`](crate::WorkerThread), which sleeps in epoll. Whoever has a loop of their own, or a model of one,
//! brings another [`Waiter`]. Spec `xu.md` sections 4 (worker loop), 8.1 and 8.2.
//!
//! ```text
//!             ┌──────────────── something completed ───────────────┐
//!             ▼                                                    │
//!   stop? ─▶ step every unit ─▶ nothing completed: how long? ──────┤
//!                                 look again at once ──────────────┤
//!                                 sleep: announce it, look once more, wait, say that we are awake
//! ```
//!
//! With counted wakes, [`Reference`](PollPolicy::Reference), there is no such cycle: each unit that epoll names is stepped
//! once, and its count keeps epoll from sleeping.

use crate::eventfd::StopLatch;
use crate::fork::Owner;
use crate::health::Cause;
use crate::mutant::Mutant;
pub use crate::need_wake::look_once_more;
use crate::on_worker::OnWorker;
use crate::pace::{Pace, Pause};
use crate::policy::PollPolicy;
use crate::runner::{Runner, Step};
use crate::spin::Spin;
use crate::wake::discard;
use core::time::Duration;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use xu_abi::Status;

/// Most requests of one unit that complete before the next unit's turn.
const BUDGET: usize = 32;

/// How often a worker that has given its units up looks whether it is to stop, should waiting for that end early.
const SERVE_OUT: Duration = Duration::from_secs(3600);

/// Where a worker sleeps.
pub trait Waiter {
    /// Waits until something is ready, at most for `timeout` (`None`: as long as it takes). It may return early.
    ///
    /// # Errors
    /// Waiting is impossible, now and later.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Ready>;
}

/// What was ready.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready {
    /// The stop latch is set.
    pub stop: bool,
    /// Bit per unit, the first in the lowest: its bell has rung.
    pub units: u8,
}

/// The loop's state. The waiter goes before the units, whose descriptors it watches.
#[derive(Debug)]
pub struct Rounds<W> {
    waiter: W,
    units: Vec<Served>,
    policy: PollPolicy,
    stop: Arc<StopLatch>,
    /// Whose turn it is.
    first: usize,
    /// How long there has been nothing to do.
    spin: Spin,
}

/// A unit, and what is known of the request at its head.
#[derive(Debug)]
struct Served {
    runner: Box<dyn Runner>,
    pace: Pace,
    /// Since when the request at the head was seen running.
    running_since: Option<Instant>,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Round,
    Stop,
}

impl<W: Waiter> Rounds<W> {
    /// A loop over at most eight `units`, all made for `policy`; `waiter` hears their bells and `stop`.
    #[must_use]
    pub fn new(
        units: Vec<Box<dyn Runner>>,
        waiter: W,
        policy: PollPolicy,
        stop: Arc<StopLatch>,
    ) -> Self {
        let units = units.into_iter().map(Served::new).collect();
        Self {
            waiter,
            units,
            policy,
            stop,
            first: 0,
            spin: Spin::new(),
        }
    }

    /// Until the stop latch is set. An error of waiting cannot be repaired here, nor can a panic that no unit is to
    /// blame for: the units are given up.
    ///
    /// In a child that was forked on this thread, by a waker say, it ends at once: the units are the parent's.
    pub fn run(mut self) -> Vec<Box<dyn Runner>> {
        let _on_worker = OnWorker::begin();
        self.stay_awake();
        let owner = Owner::here();
        while owner.is_here() {
            let round = catch_unwind(AssertUnwindSafe(|| self.round()));
            let text = match round {
                Ok(Ok(Next::Round)) => continue,
                Ok(Ok(Next::Stop)) => break,
                Ok(Err(error)) => format!("the worker cannot wait: {error}"),
                Err(panic) => {
                    discard(panic);
                    "the worker panicked".to_owned()
                }
            };
            self.serve_out(&text);
            break;
        }
        for unit in &mut self.units {
            // Completes what a unit has whose bell could not be rung. In a forked child it does nothing.
            unit.step();
        }
        self.units.into_iter().map(|unit| unit.runner).collect()
    }

    /// Gives the units up, which completes what they have and refuses what comes, then waits until it is time to stop.
    fn serve_out(&mut self, text: &str) {
        for unit in &mut self.units {
            unit.give_up(text);
        }
        while !self.stop.is_set_within(SERVE_OUT) {}
    }

    fn round(&mut self) -> io::Result<Next> {
        if self.policy.pairs_wakes() {
            return self.counted_round();
        }
        if self.stop.is_set() {
            return Ok(Next::Stop);
        }
        if self.step_all() {
            return Ok(Next::Round);
        }
        match self.pause() {
            None => Ok(Next::Round),
            Some(timeout) => self.sleep(timeout),
        }
    }

    /// The original's round: wait, then step what is ready, once.
    fn counted_round(&mut self) -> io::Result<Next> {
        let ready = self.waiter.wait(None)?;
        if ready.stop {
            return Ok(Next::Stop);
        }
        for (index, unit) in self.units.iter_mut().enumerate() {
            if ready.units & 1 << index != 0 {
                unit.step();
            }
        }
        Ok(Next::Round)
    }

    /// Steps every unit in turn, each until it has nothing more or its budget is used up. Whether anything completed.
    fn step_all(&mut self) -> bool {
        let (mut completed, mut begun) = (false, false);
        let (later, sooner) = self.units.split_at_mut(self.first);
        for unit in sooner.iter_mut().chain(later) {
            let ran = unit.running_since.is_some();
            for _ in 0..BUDGET {
                if unit.step() != Step::Completed {
                    break;
                }
                completed = true;
            }
            begun |= !ran && unit.running_since.is_some();
        }
        if completed || begun {
            // There was something to do just now.
            self.spin = Spin::new();
        }
        self.first += 1;
        if self.first >= self.units.len() {
            self.first = 0;
        }
        completed
    }

    /// What to do until the next look: `None` is to look again now, after a moment; else how long to sleep, where
    /// `None` is until there is work.
    fn pause(&mut self) -> Option<Option<Duration>> {
        let mut in_flight = self
            .units
            .iter_mut()
            .filter(|unit| unit.running_since.is_some())
            .peekable();
        if in_flight.peek().is_none() {
            return if self.spin.again() { None } else { Some(None) };
        }
        if self.policy == PollPolicy::Adaptive {
            let now = Instant::now();
            // Every unit is asked, since each remembers what it was told.
            let shortest = in_flight
                .filter_map(|unit| unit.pause(now))
                .min_by_key(|pause| pause.unwrap_or_default());
            if let Some(Some(sleep)) = shortest {
                return Some(Some(sleep));
            }
        }
        self.spin.moment();
        None
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<Next> {
        let is_idle = |unit: &&mut Served| unit.running_since.is_none();
        for unit in self.units.iter_mut().filter(is_idle) {
            unit.runner.announce_sleep();
        }
        look_once_more();
        let has_work = self
            .units
            .iter_mut()
            .filter(is_idle)
            .any(|unit| unit.runner.has_work());
        if has_work && !Mutant::SleepWithoutLook.is_seeded() {
            self.stay_awake();
            return Ok(Next::Round);
        }
        let ready = self.waiter.wait(timeout)?;
        self.stay_awake();
        if ready.stop {
            return Ok(Next::Stop);
        }
        for (index, unit) in self.units.iter_mut().enumerate() {
            if ready.units & 1 << index != 0 {
                unit.runner.answer_bell();
            }
        }
        self.spin = Spin::new();
        Ok(Next::Round)
    }

    fn stay_awake(&self) {
        for unit in &self.units {
            unit.runner.stay_awake();
        }
    }
}

impl Served {
    fn new(runner: Box<dyn Runner>) -> Self {
        Self {
            runner,
            pace: Pace::default(),
            running_since: None,
        }
    }

    fn step(&mut self) -> Step {
        // Engines are caught where they are called; this catches everything else, so that one unit's fault
        // does not take the others of this thread with it.
        let step =
            catch_unwind(AssertUnwindSafe(|| self.runner.step())).unwrap_or_else(|payload| {
                discard(payload);
                self.give_up("the worker panicked in this unit's step");
                Step::Idle
            });
        match step {
            Step::InFlight => {
                if self.running_since.is_none() {
                    self.running_since = Some(Instant::now());
                    self.pace.begin();
                }
            }
            Step::Completed => {
                if let Some(since) = self.running_since.take() {
                    self.pace.complete(since.elapsed());
                }
            }
            Step::Idle => self.running_since = None,
        }
        step
    }

    /// For a unit with a request in flight: `Some(None)` is to look again at once.
    fn pause(&mut self, now: Instant) -> Option<Option<Duration>> {
        let since = self.running_since?;
        Some(match self.pace.running(now.duration_since(since)) {
            Pause::Look => None,
            Pause::Sleep(sleep) => Some(sleep),
        })
    }

    /// Gives the unit up; a panic on the way, in the destructor of a payload, ends here.
    fn give_up(&mut self, text: &str) {
        let cause = Cause {
            status: Status::FAILURE,
            seq: None,
            text: text.into(),
        };
        let give_up = AssertUnwindSafe(|| self.runner.give_up(cause));
        if let Err(payload) = catch_unwind(give_up) {
            discard(payload);
        }
    }
}
