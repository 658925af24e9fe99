//! The lane that is measured: one `xu_worker` unit, its worker thread, and an engine that needs no device.
//!
//! Every use of `xu_worker`, and of the runtime around it, is here: when their interface changes, nothing else does.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use xu_abi::{Status, XuId, XuType};
use xu_worker::{
    Cause, Completion, Engine, PollPolicy, Progress, Stage, StageError, Unit, UnitOptions,
    WorkerThread,
};

use crate::worker::service::{ANSWERING, Caller};

/// Requests that may be outstanding: one more than the deepest loop has.
const LIMIT: u64 = 64;

/// How often a caller that watches the cursor looks before it gives way: some hundred nanoseconds.
const LOOKS: usize = 64;

/// How the worker waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Reference,
    Adaptive,
    Busy,
}

impl Policy {
    pub(crate) const ALL: [Self; 3] = [Self::Reference, Self::Adaptive, Self::Busy];
    /// What a caller gets who chooses nothing.
    pub(crate) const DEFAULT: Self = Self::Adaptive;

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reference => "Reference",
            Self::Adaptive => "Adaptive",
            Self::Busy => "Busy",
        }
    }

    const fn of_the_worker(self) -> PollPolicy {
        match self {
            Self::Reference => PollPolicy::Reference,
            Self::Adaptive => PollPolicy::Adaptive,
            Self::Busy => PollPolicy::Busy,
        }
    }
}

/// A unit with its worker, which serves it until [`Lane::stop`].
pub(crate) struct Lane {
    unit: Unit<NoDevice>,
    worker: WorkerThread,
}

/// A request on its way.
pub(crate) struct Ticket(Completion<Option<Instant>>);

impl Lane {
    /// The worker inherits the processor that the calling thread is bound to.
    pub(crate) fn start(policy: Policy) -> Result<Self, String> {
        let xu = XuId::new(XuType::Compute, 0, 0).ok_or("there is no such unit")?;
        let options = UnitOptions {
            limit: LIMIT,
            policy: policy.of_the_worker(),
            ..UnitOptions::default()
        };
        let (unit, runner) =
            Unit::new(xu, &options, NoDevice, NoDevice).map_err(|fault| fault.to_string())?;
        let worker = WorkerThread::spawn(ANSWERING, vec![Box::new(runner)])
            .map_err(|fault| fault.to_string())?;
        Ok(Self { unit, worker })
    }

    /// A request that is done at once.
    #[inline]
    pub(crate) fn submit(&self) -> Ticket {
        self.submit_for(None)
    }

    /// A request that runs for so long.
    pub(crate) fn submit_running(&self, takes: Duration) -> Ticket {
        self.submit_for(Some(takes))
    }

    #[inline]
    fn submit_for(&self, takes: Option<Duration>) -> Ticket {
        match self.unit.submit(Request::new(takes)) {
            Ok(accepted) => Ticket(accepted.completion),
            Err(refused) => panic!("the lane refuses a request: {}", refused.reason),
        }
    }

    /// Waits as a caller does; returns when the request was due, if it took any time.
    #[inline]
    pub(crate) fn wait(ticket: Ticket) -> Option<Instant> {
        match ticket.0.wait() {
            Ok(deadline) => deadline,
            Err(lost) => panic!("the lane loses a request: {lost}"),
        }
    }

    /// As [`Lane::wait`], but looks all the time: what is left is what the worker takes.
    pub(crate) fn watch(ticket: Ticket) -> Option<Instant> {
        while !ticket.0.is_done() {
            std::hint::spin_loop();
        }
        Self::wait(ticket)
    }

    /// Requests that nobody is told about.
    #[inline]
    fn post(&self, requests: usize) {
        let requests = std::iter::repeat_with(|| Request::new(None)).take(requests);
        if let Err(refused) = self.unit.post_batch(requests) {
            panic!("the lane refuses a request: {}", refused.reason);
        }
    }

    /// How many requests are complete.
    #[inline]
    fn completed(&self) -> u64 {
        self.unit.last_completed().cursor().get()
    }

    /// Finishes what is queued and joins the thread.
    pub(crate) fn stop(self) {
        self.unit.close();
        self.unit.drain();
        drop(self.worker.stop());
    }
}

/// Waits for each request by its own completion, the oldest first.
pub(crate) struct ByCompletion {
    lane: Lane,
    waiting: VecDeque<Ticket>,
}

/// Submits without looking at any completion, and reads the number of the last one. What it has to submit when it waits
/// goes in one batch, as a caller of `io_uring` does it.
pub(crate) struct ByCursor {
    lane: Lane,
    held: usize,
    seen: u64,
    /// Whether other threads get the processor when it has looked for a while.
    gives_way: bool,
}

impl ByCompletion {
    pub(crate) fn new(lane: Lane) -> Self {
        Self {
            lane,
            waiting: VecDeque::with_capacity(LIMIT as usize),
        }
    }
}

impl ByCursor {
    pub(crate) fn new(lane: Lane) -> Self {
        let seen = lane.completed();
        Self {
            lane,
            held: 0,
            seen,
            gives_way: true,
        }
    }

    /// One that makes no system call of its own: what is counted is the lane's.
    pub(crate) fn spinning(lane: Lane) -> Self {
        Self {
            gives_way: false,
            ..Self::new(lane)
        }
    }
}

impl Caller for ByCompletion {
    #[inline]
    fn submit(&mut self) {
        self.waiting.push_back(self.lane.submit());
    }

    #[inline]
    fn wait(&mut self) -> usize {
        match self.waiting.pop_front() {
            Some(ticket) => {
                Lane::wait(ticket);
                1
            }
            None => 0,
        }
    }

    fn stop(self) {
        self.lane.stop();
    }
}

impl Caller for ByCursor {
    #[inline]
    fn submit(&mut self) {
        self.held += 1;
    }

    #[inline]
    fn wait(&mut self) -> usize {
        self.lane.post(std::mem::take(&mut self.held));
        loop {
            for _ in 0..LOOKS {
                let completed = self.lane.completed();
                if completed > self.seen {
                    let new = completed - self.seen;
                    self.seen = completed;
                    // CAST: no more than are outstanding.
                    return new as usize;
                }
                std::hint::spin_loop();
            }
            if self.gives_way {
                std::thread::yield_now();
            }
        }
    }

    fn stop(self) {
        self.lane.stop();
    }
}

/// Stage and engine of a request that is done at once, or when its time has come.
struct NoDevice;

struct Request {
    takes: Option<Duration>,
    deadline: Option<Instant>,
}

impl Request {
    const fn new(takes: Option<Duration>) -> Self {
        Self {
            takes,
            deadline: None,
        }
    }
}

impl Stage for NoDevice {
    type Item = Request;
    type Outcome = Option<Instant>;

    fn prepare(&mut self, _: &mut Request) -> Result<(), StageError> {
        Ok(())
    }

    fn commit(&mut self, _: &mut Request) -> Result<(), StageError> {
        Ok(())
    }
}

impl Engine for NoDevice {
    type Item = Request;
    type Outcome = Option<Instant>;

    fn begin(&mut self, request: &mut Request) {
        request.deadline = request.takes.map(|takes| Instant::now() + takes);
    }

    fn progress(&mut self, request: &mut Request) -> Progress {
        match request.deadline {
            Some(deadline) if Instant::now() < deadline => Progress::Continue,
            _ => Progress::Done(Status::SUCCESS),
        }
    }

    fn quiesce(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    fn finish(&mut self, request: Request, _: Status) -> Option<Instant> {
        request.deadline
    }
}

/// A whole runtime with nothing to do: what is returned keeps its threads alive.
pub(crate) fn idle_runtime() -> Result<impl Sized, String> {
    let runtime = nrta::Runtime::builder()
        .poll_policy(nrta::PollPolicy::default())
        .open();
    runtime.map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_answers_both_callers() {
        for policy in Policy::ALL {
            let mut caller = ByCompletion::new(Lane::start(policy).expect("starts"));
            caller.submit();
            caller.submit();
            assert_eq!(caller.wait() + caller.wait(), 2);
            caller.stop();
            let mut caller = ByCursor::new(Lane::start(policy).expect("starts"));
            caller.submit();
            caller.submit();
            let mut answered = 0;
            while answered < 2 {
                answered += caller.wait();
            }
            caller.stop();
        }
    }

    #[test]
    fn a_request_says_when_it_was_due() {
        let lane = Lane::start(Policy::DEFAULT).expect("starts");
        let due = Lane::wait(lane.submit_running(Duration::from_millis(1)));
        assert!(due.expect("it took time") <= Instant::now());
        assert_eq!(Lane::watch(lane.submit()), None);
        lane.stop();
    }
}
