//! Close units and stop their workers: refuse, drain, stop, join.
//!
//! The runtime keeps its worker threads in [`Workers`] and closes through it. Spec `xu.md` section 4, shutdown; failure
//! kinds F7 and W7.
//!
//! ```text
//!   1 every unit refuses new requests              from now on
//!   2 wait until every accepted request is complete
//!   3 send a stop through every unit: its device comes to rest
//!   4 wait for the stops
//!   5 stop the worker threads, and join them
//!   6 registrations go, and whoever follows a unit sees its end
//! ```
//!
//! Both waits are woken by completions, so an idle runtime closes at once. While one lasts, [`CloseOptions::warn`] is told
//! every [`CloseOptions::warn_every`] what is in flight. Without a deadline they last for as long as the device takes:
//! memory that it may still write must not be freed. With one, nothing is freed either: what is in flight goes on, the
//! workers with it, and the caller gets a [`Report`] and has to keep everything that the device may still touch.

use crate::engine::Stage;
use crate::fork::Owner;
use crate::refusal::Refusal;
use crate::runner::Runner;
use crate::sync::{Condvar, Mutex};
use crate::trace::guarded;
use crate::unit::{Accepted, InFlight, Unit};
use crate::worker::WorkerThread;
use core::fmt;
use std::time::{Duration, Instant};
use xu_abi::{Status, XuId};

/// How often to say what is being waited for: as often as the original does.
pub const WARN_EVERY: Duration = Duration::from_secs(120);

/// The least that [`CloseOptions::warn_every`] counts as.
const LEAST_WARN_EVERY: Duration = Duration::from_millis(1);

/// What stops get, however near the deadline is: a device without work comes to rest at once.
const LEAST_TIME_TO_STOP: Duration = Duration::from_millis(100);

/// A unit, whatever its stage, as the shutdown sees it.
pub trait Closing: Sync {
    /// Refuses new requests from now on.
    fn close(&self);

    /// Waits until every accepted request is complete; `false` when `deadline` has passed.
    fn wait_drained(&self, deadline: Option<Instant>) -> bool;

    /// Sends a stop through the unit.
    ///
    /// # Errors
    /// [`Refusal`]: the ring takes no more requests.
    fn send_stop(&self) -> Result<Accepted<()>, Refusal>;

    /// Says that the worker has ended, and nothing will complete any more.
    fn finish(&self);

    /// What is not complete; `None` when nothing is.
    fn in_flight(&self) -> Option<InFlight>;
}

impl<S: Stage> Closing for Unit<S> {
    fn close(&self) {
        Self::close(self);
    }

    fn wait_drained(&self, deadline: Option<Instant>) -> bool {
        match deadline {
            None => {
                self.drain();
                true
            }
            Some(deadline) => self.drain_until(deadline).is_ok(),
        }
    }

    fn send_stop(&self) -> Result<Accepted<()>, Refusal> {
        self.schedule_stop()
    }

    fn finish(&self) {
        Self::finish(self);
    }

    fn in_flight(&self) -> Option<InFlight> {
        Self::in_flight(self)
    }
}

/// How to close.
#[derive(Clone, Copy, Debug)]
pub struct CloseOptions {
    /// When to give up; `None`, which is the default: never. Units that are empty by then get a tenth of a second for their
    /// stops in any case.
    pub deadline: Option<Instant>,
    /// How often to warn while waiting, at least a millisecond; default [`WARN_EVERY`].
    pub warn_every: Duration,
    /// Who is told, on the closing thread and with no lock held, what is being waited for; default: the log.
    pub warn: fn(&[InFlight]),
}

impl Default for CloseOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            warn_every: WARN_EVERY,
            warn: warn_in_log,
        }
    }
}

/// Writes one warning for each unit that is being waited for.
pub fn warn_in_log(waiting_for: &[InFlight]) {
    for unit in waiting_for {
        guarded(|| {
            tracing::warn!(
                name: "nrta.close_waits", target: "nrta::runtime",
                xu = %unit.xu, depth = unit.depth, oldest = %unit.oldest, "closing waits for {unit}"
            );
        });
    }
}

/// How closing went.
#[derive(Debug, Default)]
#[must_use = "it keeps what a degraded unit's device may still touch: drop it when the device is quiet"]
pub struct Closed {
    /// The worker halves of the units: they keep what a degraded unit's device may still touch. Empty when somebody else
    /// has closed.
    pub retired: Vec<Box<dyn Runner>>,
    /// Units whose device did not come to rest, and how their stop ended.
    pub not_at_rest: Vec<(XuId, Status)>,
}

/// What was still in flight at the deadline. Everything goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// By unit.
    pub in_flight: Vec<InFlight>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not closed in time")?;
        for unit in &self.in_flight {
            write!(f, "; {unit}")?;
        }
        Ok(())
    }
}

/// Nothing was closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The calling thread is one of the workers, which would wait for itself. Close from another thread.
    #[error("a worker thread cannot wait for itself to end")]
    OnWorkerThread,
    /// This process is a child of the one that started the threads.
    #[error("the workers belong to the process that this one was forked from")]
    Forked,
    /// The deadline has passed. New requests are refused, the accepted ones go on. Whoever still has the `Workers` may
    /// close again; a call that has consumed its runtime has let go of them.
    #[error("{0}")]
    Overdue(Report),
}

/// The worker threads of a runtime, and how far closing them is.
#[derive(Debug)]
pub struct Workers {
    owner: Owner,
    threads: Mutex<Threads>,
    changed: Condvar,
}

#[derive(Debug)]
enum Threads {
    Running(Vec<WorkerThread>),
    /// Somebody closes, and has the threads.
    Closing(Vec<std::thread::ThreadId>),
    Closed,
}

impl Workers {
    /// Running threads.
    #[must_use]
    pub fn new(threads: Vec<WorkerThread>) -> Self {
        Self {
            owner: Owner::here(),
            threads: Mutex::new(Threads::Running(threads)),
            changed: Condvar::default(),
        }
    }

    /// Whether the calling thread is one of them.
    #[must_use]
    pub fn is_current(&self) -> bool {
        if !self.owner.is_here() {
            return false;
        }
        let current = std::thread::current().id();
        match &*self.threads.lock() {
            Threads::Running(threads) => threads.iter().any(WorkerThread::is_current),
            Threads::Closing(ids) => ids.contains(&current),
            Threads::Closed => false,
        }
    }

    /// Closes `units`, which must be all units of these threads, and stops the threads.
    ///
    /// May be called again, and from several threads at once: all of them return when it is done.
    ///
    /// # Errors
    /// [`CloseError`]; then everything is as it was, but that the units refuse new requests.
    pub fn close(
        &self,
        units: &[&dyn Closing],
        options: &CloseOptions,
    ) -> Result<Closed, CloseError> {
        if !self.owner.is_here() {
            return Err(CloseError::Forked);
        }
        let Some(threads) = self.begin(units, options)? else {
            return Ok(Closed::default());
        };
        let mut unfinished = Unfinished {
            workers: self,
            threads: Some(threads),
        };
        let not_at_rest = bring_to_rest(units, options)?;
        let threads = unfinished.threads.take().unwrap_or_default();
        let retired = threads.into_iter().flat_map(WorkerThread::stop).collect();
        self.become_(Threads::Closed);
        // Wakes tasks, which may ask us for anything: everything is as it will stay.
        units.iter().for_each(|unit| unit.finish());
        Ok(Closed {
            retired,
            not_at_rest,
        })
    }

    /// The threads, for who is first; `None` when somebody else has closed, for which this waits.
    fn begin(
        &self,
        units: &[&dyn Closing],
        options: &CloseOptions,
    ) -> Result<Option<Vec<WorkerThread>>, CloseError> {
        if self.is_current() {
            return Err(CloseError::OnWorkerThread);
        }
        let mut threads = self.threads.lock();
        loop {
            match &mut *threads {
                Threads::Closed => return Ok(None),
                Threads::Running(running) => {
                    let ids = running.iter().filter_map(WorkerThread::id).collect();
                    let running = core::mem::take(running);
                    *threads = Threads::Closing(ids);
                    return Ok(Some(running));
                }
                Threads::Closing(_) => {}
            }
            threads = match options.deadline {
                None => self.changed.wait(threads),
                Some(deadline) => match self.changed.wait_until(threads, deadline) {
                    (_, true) => return Err(overdue(units)),
                    (threads, false) => threads,
                },
            };
        }
    }

    fn become_(&self, state: Threads) {
        *self.threads.lock() = state;
        self.changed.notify_all();
    }
}

/// A close that did not come to its end, whatever the reason: the next one may try.
struct Unfinished<'a> {
    workers: &'a Workers,
    threads: Option<Vec<WorkerThread>>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            self.workers.become_(Threads::Running(threads));
        }
    }
}

/// Steps 1 to 4. Returns the units whose device did not come to rest.
fn bring_to_rest(
    units: &[&dyn Closing],
    options: &CloseOptions,
) -> Result<Vec<(XuId, Status)>, CloseError> {
    for unit in units {
        unit.close();
    }
    drain(units, options)?;
    let stops: Vec<_> = units.iter().map(|unit| unit.send_stop()).collect();
    let deadline = options.deadline.map(|deadline| {
        let least = Instant::now() + LEAST_TIME_TO_STOP;
        deadline.max(least)
    });
    drain(
        units,
        &CloseOptions {
            deadline,
            ..*options
        },
    )?;
    Ok(stops.into_iter().filter_map(not_at_rest).collect())
}

/// The unit of a stop that did not bring its device to rest. One that was given up does not even answer.
fn not_at_rest(stop: Result<Accepted<()>, Refusal>) -> Option<(XuId, Status)> {
    let (xu, status) = match stop {
        Ok(stop) => (stop.seq.xu(), stop.completion.status()),
        Err(refusal) => (refusal.xu(), Some(refusal.status())),
    };
    let status = status.unwrap_or(Status::EXEC_UNIT_UNRECOVERABLE);
    (!status.is_success()).then_some((xu, status))
}

fn drain(units: &[&dyn Closing], options: &CloseOptions) -> Result<(), CloseError> {
    let warn_every = options.warn_every.max(LEAST_WARN_EVERY);
    let warn_after = |now: Instant| now.checked_add(warn_every);
    let mut next_warning = warn_after(Instant::now());
    for unit in units {
        loop {
            let wake_at = [options.deadline, next_warning].into_iter().flatten().min();
            if unit.wait_drained(wake_at) {
                break;
            }
            let now = Instant::now();
            if options.deadline.is_some_and(|deadline| now >= deadline) {
                return Err(overdue(units));
            }
            if next_warning.is_some_and(|at| now >= at) {
                next_warning = warn_after(now);
                (options.warn)(&in_flight(units));
            }
        }
    }
    Ok(())
}

fn in_flight(units: &[&dyn Closing]) -> Vec<InFlight> {
    units.iter().filter_map(|unit| unit.in_flight()).collect()
}

fn overdue(units: &[&dyn Closing]) -> CloseError {
    CloseError::Overdue(Report {
        in_flight: in_flight(units),
    })
}
