//! The peer: what the author of a service would write with `tokio` alone.
//!
//! ```text
//!   tasks ── mpsc of jobs ──> one thread, started by `spawn_blocking`, that owns the device:
//!                             stage what is there, up to the depth; harvest in order
//!   tasks <── oneshot ─────── answer each job
//! ```
//!
//! It stages the same bytes and harvests the same records by the same code, with the same time limit and clock.
//! It does without all else that the facade does: no events, no counters, no health, no checks of tensors.

mod lane;
mod task;

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::place::Place;
use super::service::{Service, room};
use crate::pin::{self, Pair};
use lane::{Ended, Lane};

pub(crate) use task::InATask;

/// For how long a thread that looks again does so before it sleeps, as our worker.
const BUDGET: Duration = Duration::from_micros(20);
/// Looks without giving way to other threads.
const EAGER: u32 = 32;

/// A request: which set of tensors, and where the answer goes.
pub(super) struct Job {
    set: usize,
    answer: oneshot::Sender<Ended>,
}

/// How the thread that owns the device takes up jobs.
pub(crate) trait Manner: 'static {
    /// Returns when nobody can ask any more.
    fn serve(jobs: mpsc::Receiver<Job>, lane: Lane);
}

/// Stages whatever has come between two executions that end. Sleeps when there is nothing.
pub(crate) struct Greedy;

/// The same, and looks again for a while before it sleeps.
pub(crate) struct GreedyAwake;

/// Takes up all that is there, stages all of it, and harvests all of it. Sleeps when there is nothing.
pub(crate) struct InTurns;

/// The same, and looks again for a while before it sleeps.
pub(crate) struct InTurnsAwake;

/// The design on a device of kind `P`.
pub(crate) struct ByHand<P, M> {
    jobs: mpsc::Sender<Job>,
    sets: usize,
    next: usize,
    _place: PhantomData<fn() -> (P, M)>,
}

/// A job on its way.
pub(crate) struct Answer(oneshot::Receiver<Ended>);

impl<P, M> ByHand<P, M> {
    fn new(jobs: mpsc::Sender<Job>, sets: usize) -> Self {
        Self {
            jobs,
            sets,
            next: 0,
            _place: PhantomData,
        }
    }

    #[inline]
    fn send(&mut self) -> Answer {
        let (answer, answered) = oneshot::channel();
        let set = self.next;
        self.next += 1;
        if self.next == self.sets {
            self.next = 0;
        }
        if self.jobs.try_send(Job { set, answer }).is_err() {
            panic!("the channel takes no request");
        }
        Answer(answered)
    }
}

impl<P: Place, M: Manner> Service for ByHand<P, M> {
    type Answer = Answer;

    fn start(processors: Pair, depth: usize) -> Option<Self> {
        let lane = Lane::open(P::device(processors)?, depth)?;
        let (jobs, received) = mpsc::channel(room(depth));
        // The executor's end waits for it, and it ends when the sender goes.
        tokio::task::spawn_blocking(move || {
            pin::pin(processors[1]);
            M::serve(received, lane);
        });
        Some(Self::new(jobs, depth))
    }

    #[inline]
    fn request(&mut self) -> Answer {
        self.send()
    }

    #[inline]
    fn is_done(answer: &Answer) -> bool {
        answer.is_done()
    }
}

impl Answer {
    /// Also when nobody will answer any more.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        !self.0.is_empty() || self.0.is_terminated()
    }
}

impl Future for Answer {
    type Output = bool;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let ended = Pin::new(&mut self.0).poll(cx);
        ended.map(|ended| ended.is_ok_and(|ended| ended.is_success()))
    }
}

impl Manner for Greedy {
    fn serve(jobs: mpsc::Receiver<Job>, lane: Lane) {
        greedy(jobs, lane, mpsc::Receiver::blocking_recv);
    }
}

impl Manner for GreedyAwake {
    fn serve(jobs: mpsc::Receiver<Job>, lane: Lane) {
        greedy(jobs, lane, watchful_recv);
    }
}

impl Manner for InTurns {
    fn serve(jobs: mpsc::Receiver<Job>, lane: Lane) {
        in_turns(jobs, lane, mpsc::Receiver::blocking_recv);
    }
}

impl Manner for InTurnsAwake {
    fn serve(jobs: mpsc::Receiver<Job>, lane: Lane) {
        in_turns(jobs, lane, watchful_recv);
    }
}

/// Waits for a job; `None` when nobody can ask any more.
type Recv = fn(&mut mpsc::Receiver<Job>) -> Option<Job>;

#[inline(always)]
fn greedy(mut jobs: mpsc::Receiver<Job>, mut lane: Lane, recv: Recv) {
    while let Some(job) = recv(&mut jobs) {
        lane.stage(job);
        let mut moments = Moments::default();
        while lane.is_busy() {
            take_up(&mut jobs, &mut lane);
            moments.after(lane.look());
        }
    }
}

#[inline(always)]
fn in_turns(mut jobs: mpsc::Receiver<Job>, mut lane: Lane, recv: Recv) {
    while let Some(job) = recv(&mut jobs) {
        lane.stage(job);
        take_up(&mut jobs, &mut lane);
        let mut moments = Moments::default();
        while lane.is_busy() {
            moments.after(lane.look());
        }
    }
}

/// Stages all that is there and has room.
#[inline(always)]
fn take_up(jobs: &mut mpsc::Receiver<Job>, lane: &mut Lane) {
    while lane.has_room()
        && let Ok(job) = jobs.try_recv()
    {
        lane.stage(job);
    }
}

/// As `blocking_recv`, after it has looked for a while.
#[inline(always)]
fn watchful_recv(jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
    let mut moments = Moments::default();
    let mut since = None;
    loop {
        match jobs.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => moments.pass(),
        }
        if !moments.are_short() && since.get_or_insert_with(Instant::now).elapsed() >= BUDGET {
            return jobs.blocking_recv();
        }
    }
}

/// What a thread does between two looks in vain: other threads get the processor when it has looked for a while.
#[derive(Default)]
struct Moments(u32);

impl Moments {
    #[inline(always)]
    fn after(&mut self, has_found: bool) {
        if has_found {
            self.0 = 0;
        } else {
            self.pass();
        }
    }

    fn pass(&mut self) {
        if self.are_short() {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        self.0 = self.0.saturating_add(1);
    }

    fn are_short(&self) -> bool {
        self.0 < EAGER
    }
}
