//! The worker thread: starts, is stopped, and is joined.
//!
//! One per logical core, owned by the runtime. What it does is in [`rounds`](crate::rounds), where it sleeps in
//! `poller`. Spec `xu.md` section 4, worker loop.

use crate::eventfd::StopLatch;
use crate::here_only::HereOnly;
use crate::limits;
use crate::policy::PollPolicy;
use crate::poller::Poller;
use crate::rounds::Rounds;
use crate::runner::Runner;
use core::fmt;
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};

/// Most units that one worker owns.
pub const MAX_UNITS: usize = 8;

/// How much later than asked the system may end a sleep, in nanoseconds; by default it takes 50 microseconds to
/// save energy.
const TIMER_SLACK: u64 = 1_000;

/// A running worker thread. Dropping it stops and joins; in a forked child it does nothing.
pub struct WorkerThread {
    running: HereOnly<Running>,
}

struct Running {
    stop: Arc<StopLatch>,
    handle: Option<JoinHandle<Vec<Box<dyn Runner>>>>,
}

/// A worker could not be started. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// More units than one worker can own.
    #[error("{units} units for one worker, at most {MAX_UNITS}")]
    TooManyUnits {
        /// How many were given.
        units: usize,
    },
    /// Units that were made for different policies.
    #[error("a unit made for {found:?} beside one made for {expected:?}: a worker has one policy")]
    MixedPolicies {
        /// That of the first unit.
        expected: PollPolicy,
        /// That of another.
        found: PollPolicy,
    },
    /// A unit that was made by the process that this one was forked from.
    #[error("a unit belongs to the process that this one was forked from")]
    Forked,
    /// A thread's name cannot have a zero byte.
    #[error("a worker cannot be named {name:?}")]
    Name {
        /// What was given.
        name: String,
    },
    /// The operating system refused a descriptor or a thread.
    #[error("no thread or descriptor for a worker: {}", limits::no_thread(.0))]
    System(#[from] io::Error),
}

impl WorkerThread {
    /// Starts a thread named `name` (the first 15 bytes show in `top -H`) that serves `units`, by the policy that they
    /// were made for.
    ///
    /// The thread has every signal blocked from its first instruction.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn spawn(name: &str, units: Vec<Box<dyn Runner>>) -> Result<Self, WorkerError> {
        if units.len() > MAX_UNITS {
            return Err(WorkerError::TooManyUnits { units: units.len() });
        }
        if name.contains('\0') {
            return Err(WorkerError::Name { name: name.into() });
        }
        if !units.iter().all(|unit| unit.is_here()) {
            return Err(WorkerError::Forked);
        }
        let policy = common_policy(&units)?;
        let stop = Arc::new(StopLatch::new()?);
        let poller = Poller::new(&stop, &units)?;
        let rounds = Rounds::new(units, poller, policy, Arc::clone(&stop));
        let handle = with_signals_blocked(|| {
            thread::Builder::new().name(name.into()).spawn(move || {
                // Refused, sleeps are a little longer.
                let _ = set_timerslack(TIMER_SLACK);
                rounds.run()
            })
        })??;
        Ok(Self {
            running: HereOnly::new(Running {
                stop,
                handle: Some(handle),
            }),
        })
    }

    /// Stops the thread and waits for it. Requests that are still queued stay queued until the returned runners are dropped,
    /// which completes them with `EXEC_UNIT_UNRECOVERABLE`.
    ///
    /// Must not be called from the worker thread itself; called there, it returns at once. In a forked child there is no
    /// thread, and nothing happens.
    #[must_use = "runners keep what a degraded unit's device may still touch: drop them when the device is quiet"]
    pub fn stop(mut self) -> Vec<Box<dyn Runner>> {
        if self.running.is_here() {
            self.running.join()
        } else {
            Vec::new()
        }
    }

    /// Lets the thread run on for ever, with its units and all that they hold: for requests that nobody can wait for.
    pub fn leak(self) {
        core::mem::forget(self);
    }

    /// Whether the calling thread is this worker.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.id() == Some(thread::current().id())
    }

    /// The thread; `None` once it was stopped.
    #[must_use]
    pub fn id(&self) -> Option<ThreadId> {
        Some(self.running.handle.as_ref()?.thread().id())
    }
}

fn common_policy(units: &[Box<dyn Runner>]) -> Result<PollPolicy, WorkerError> {
    let mut policies = units.iter().map(|unit| unit.policy());
    let expected = policies.next().unwrap_or_default();
    match policies.find(|found| *found != expected) {
        None => Ok(expected),
        Some(found) => Err(WorkerError::MixedPolicies { expected, found }),
    }
}

impl Running {
    fn join(&mut self) -> Vec<Box<dyn Runner>> {
        let Some(handle) = self.handle.take() else {
            return Vec::new();
        };
        // A fresh latch cannot fail, and a set one stays set.
        let _ = self.stop.set();
        if handle.thread().id() == thread::current().id() {
            return Vec::new();
        }
        handle.join().unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.join();
    }
}

impl fmt::Debug for WorkerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self
            .running
            .handle
            .as_ref()
            .and_then(|handle| handle.thread().name());
        f.debug_struct("WorkerThread")
            .field("name", &name)
            .finish_non_exhaustive()
    }
}

/// Runs `spawn` with every signal blocked in this thread, so that threads which it starts inherit the mask.
///
/// # Errors
/// What the operating system says; masks of one's own thread cannot be refused.
pub fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> io::Result<T> {
    let before = Mask(SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?);
    let result = spawn();
    before.restore()?;
    Ok(result)
}

/// The mask that a thread had, which it gets back however `spawn` ends.
struct Mask(SigSet);

impl Mask {
    fn restore(&self) -> io::Result<()> {
        Ok(self.0.thread_set_mask()?)
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // Masks of one's own thread cannot be refused.
        let _ = self.restore();
    }
}
