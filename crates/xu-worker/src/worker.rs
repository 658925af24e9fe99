//! The worker thread: epoll over a stop latch and the work counts of its units.
//!
//! One per logical core, started and joined by the runtime. Spec `xu.md` section 4, worker loop.
//!
//! epoll is level-triggered on purpose: a work count stays readable while its request is in flight, so
//! nothing is lost when a wake is missed. What would make the loop spin for a whole execution is the same
//! property; [`PollPolicy::Adaptive`] therefore disarms a busy unit's descriptor while it sleeps.

use crate::eventfd::StopLatch;
use crate::health::Cause;
use crate::policy::{FIRST_SLEEP, LONGEST_SLEEP, PollPolicy, SPIN};
use crate::runner::{Runner, Step};
use crate::wake::discard;
use core::fmt;
use core::time::Duration;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use xu_abi::Status;

/// Most units that one worker owns.
pub const MAX_UNITS: usize = 8;

/// How often a worker without epoll looks at its units.
const SERVE_OUT: Duration = Duration::from_millis(100);

/// Token of the stop latch; units have their index.
const STOP: u64 = u64::MAX;

/// A running worker thread. Dropping it stops and joins.
pub struct WorkerThread {
    stop: Arc<StopLatch>,
    handle: Option<JoinHandle<Vec<Box<dyn Runner>>>>,
}

impl WorkerThread {
    /// Starts a thread named `name` (the first 15 bytes show in `top -H`) that serves `units`.
    ///
    /// The thread has every signal blocked from its first instruction.
    ///
    /// # Errors
    /// `InvalidInput` for more than [`MAX_UNITS`] units; what the operating system says when it refuses a
    /// descriptor or a thread. Nothing is left behind.
    pub fn spawn(name: &str, units: Vec<Box<dyn Runner>>, policy: PollPolicy) -> io::Result<Self> {
        if units.len() > MAX_UNITS {
            let text = format!("{} units for one worker, at most {MAX_UNITS}", units.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let stop = Arc::new(StopLatch::new()?);
        let poller = Poller::new(&stop, &units)?;
        let rounds = Rounds::new(units, poller, policy, Arc::clone(&stop));
        let handle = with_signals_blocked(|| {
            thread::Builder::new()
                .name(name.into())
                .spawn(move || rounds.run())
        })??;
        Ok(Self {
            stop,
            handle: Some(handle),
        })
    }

    /// Stops the thread and waits for it. Requests that are still queued stay queued; dropping the returned
    /// runners drops them.
    ///
    /// Must not be called from the worker thread itself; called there, it returns at once.
    pub fn stop(mut self) -> Vec<Box<dyn Runner>> {
        self.join()
    }

    /// Whether the calling thread is this worker.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.handle
            .as_ref()
            .is_some_and(|handle| handle.thread().id() == thread::current().id())
    }

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

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.join();
    }
}

impl fmt::Debug for WorkerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self
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
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let result = spawn();
    before.thread_set_mask()?;
    Ok(result)
}

/// What the operating system says is ready.
#[derive(Debug)]
struct Poller {
    epoll: Epoll,
}

#[derive(Debug, Default)]
struct Ready {
    stop: bool,
    /// Bit per unit.
    units: u8,
}

impl Poller {
    fn new(stop: &StopLatch, units: &[Box<dyn Runner>]) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let stop_flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
        epoll.add(stop, EpollEvent::new(stop_flags, STOP))?;
        for (index, unit) in (0u64..).zip(units) {
            epoll.add(unit.work(), EpollEvent::new(EpollFlags::EPOLLIN, index))?;
        }
        Ok(Self { epoll })
    }

    /// What is ready now, or after waiting for `timeout` (`None`: as long as it takes).
    fn wait(&self, timeout: Option<Duration>) -> Result<Ready, Errno> {
        let timeout = match timeout {
            None => EpollTimeout::NONE,
            Some(Duration::ZERO) => EpollTimeout::ZERO,
            Some(timeout) => {
                // epoll counts milliseconds; the epoll descriptor itself can be polled with nanoseconds.
                let mut fds = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
                match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
                    Ok(_) | Err(Errno::EINTR) => EpollTimeout::ZERO,
                    Err(errno) => return Err(errno),
                }
            }
        };
        let mut events = [EpollEvent::empty(); MAX_UNITS + 1];
        let count = match self.epoll.wait(&mut events, timeout) {
            Err(Errno::EINTR) => 0,
            other => other?,
        };
        let mut ready = Ready::default();
        for event in &events[..count] {
            match event.data() {
                STOP => ready.stop = true,
                index => ready.units |= 1 << index,
            }
        }
        Ok(ready)
    }

    /// Lets a unit's descriptor wake this thread.
    fn arm(&self, index: usize, unit: &dyn Runner) -> Result<(), Errno> {
        self.watch(index, unit, EpollFlags::EPOLLIN)
    }

    /// Keeps a unit's descriptor from waking this thread.
    fn disarm(&self, index: usize, unit: &dyn Runner) -> Result<(), Errno> {
        self.watch(index, unit, EpollFlags::empty())
    }

    fn watch(&self, index: usize, unit: &dyn Runner, flags: EpollFlags) -> Result<(), Errno> {
        self.epoll
            .modify(unit.work(), &mut EpollEvent::new(flags, index as u64))
    }
}

/// The loop's state: which units are in flight, and whose descriptors are disarmed.
struct Rounds {
    units: Vec<Box<dyn Runner>>,
    poller: Poller,
    policy: PollPolicy,
    /// Lives as long as the thread, so its descriptor cannot be reused under epoll.
    stop: Arc<StopLatch>,
    in_flight: u8,
    disarmed: u8,
    backoff: Backoff,
}

impl Rounds {
    fn new(
        units: Vec<Box<dyn Runner>>,
        poller: Poller,
        policy: PollPolicy,
        stop: Arc<StopLatch>,
    ) -> Self {
        let backoff = Backoff::new();
        Self {
            units,
            poller,
            policy,
            stop,
            in_flight: 0,
            disarmed: 0,
            backoff,
        }
    }

    /// Until the stop latch is set. An error of epoll cannot be repaired here: the units are given up.
    fn run(mut self) -> Vec<Box<dyn Runner>> {
        loop {
            match self.round() {
                Ok(true) => {}
                Ok(false) => return self.units,
                Err(errno) => {
                    let text = format!("the worker cannot wait: {errno}");
                    for unit in &mut self.units {
                        give_up(unit.as_mut(), &text);
                    }
                    return self.serve_out();
                }
            }
        }
    }

    /// Without epoll: completes what still slips through the gates, until it is time to stop.
    fn serve_out(mut self) -> Vec<Box<dyn Runner>> {
        while !self.stop.is_set_within(SERVE_OUT) {
            for unit in &mut self.units {
                // A unit that was given up completes what it finds.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unit.step())) {
                    discard(payload);
                }
            }
        }
        self.units
    }

    /// One wait and one step of each unit that may have something to do. `false` when it is time to stop.
    fn round(&mut self) -> Result<bool, Errno> {
        let timeout = self.timeout()?;
        let ready = self.poller.wait(timeout)?;
        if ready.stop {
            return Ok(false);
        }
        let mut progressed = false;
        for index in 0..self.units.len() {
            let bit = 1 << index;
            if (ready.units | self.in_flight) & bit != 0 {
                progressed |= self.step(index, bit)?;
            }
        }
        if progressed {
            self.backoff = Backoff::new();
        }
        Ok(true)
    }

    fn step(&mut self, index: usize, bit: u8) -> Result<bool, Errno> {
        let unit = &mut self.units[index];
        // Engines are caught where they are called; this catches everything else, so that one unit's fault
        // does not take the others of this thread with it.
        let step = catch_unwind(AssertUnwindSafe(|| unit.step())).unwrap_or_else(|payload| {
            discard(payload);
            give_up(unit.as_mut(), "the worker panicked in this unit's step");
            Step::Idle
        });
        match step {
            Step::InFlight => {
                if self.in_flight & bit == 0 {
                    self.in_flight |= bit;
                    self.backoff = Backoff::new();
                }
            }
            Step::Idle | Step::Completed => {
                self.in_flight &= !bit;
                if self.disarmed & bit != 0 {
                    self.disarmed &= !bit;
                    self.poller.arm(index, self.units[index].as_ref())?;
                }
            }
        }
        Ok(step == Step::Completed)
    }

    fn timeout(&mut self) -> Result<Option<Duration>, Errno> {
        if self.in_flight == 0 || self.policy == PollPolicy::Reference {
            return Ok(None);
        }
        if self.policy == PollPolicy::Busy {
            return Ok(Some(Duration::ZERO));
        }
        let Some(sleep) = self.backoff.next() else {
            // Give way: on one CPU the device's threads need it.
            thread::yield_now();
            return Ok(Some(Duration::ZERO));
        };
        for index in 0..self.units.len() {
            let bit = 1 << index;
            if self.in_flight & !self.disarmed & bit != 0 {
                self.disarmed |= bit;
                self.poller.disarm(index, self.units[index].as_ref())?;
            }
        }
        Ok(Some(sleep))
    }
}

/// Gives a unit up; a panic on the way, in the destructor of a payload, ends here.
fn give_up(unit: &mut dyn Runner, text: &str) {
    let cause = Cause {
        status: Status::FAILURE,
        seq: None,
        text: text.into(),
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unit.give_up(cause))) {
        discard(payload);
    }
}

/// Spin for a short while, then sleep longer each time.
#[derive(Debug)]
struct Backoff {
    since: Option<Instant>,
    sleep: Duration,
}

impl Backoff {
    fn new() -> Self {
        Self {
            since: None,
            sleep: FIRST_SLEEP,
        }
    }

    /// How long to sleep; `None` while it is worth looking again at once.
    fn next(&mut self) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < SPIN {
            return None;
        }
        let sleep = self.sleep;
        self.sleep = (sleep * 2).min(LONGEST_SLEEP);
        Some(sleep)
    }
}
