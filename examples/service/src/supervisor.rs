//! Lane after lane: while one serves, wait for its end; close it; open the next one.
//!
//! Run by [`service`](crate::service) as one task. What everybody else knows of it is the [`State`].
//!
//! ```text
//!            ┌────────────────────────────── opened ──────────────────────────────────────┐
//!            v                                                                            │
//!   Serving(lane) ── a queue degrades ──> Reopening(cause) ── slots end, close, pause ── open ── fails: again
//!            │                                                    └── too much leaked ──> Closing
//!            └────── told to stop ──────> Closing ── slots end, close
//!
//! A service that closes opens no lane: a Reopening becomes Closing as soon as it is told.
//! ```
//!
//! Opening and closing block, so they run on threads of their own. Closing has a limit: what does not end by then is leaked by
//! the runtime on purpose, since the device may still write to it.

use crate::answer::Unavailable;
use crate::lane::{self, CoreQueues, Door, Lane, OpenError, Workings};
use crate::log;
use crate::options::Options;
use nrta::{Cause, Runtime, Status};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

/// Pause before opening is tried again; doubles each time, until a lane has answered somebody.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Runtimes that are leaked before the supervisor gives up: each one keeps threads and memory.
const MOST_LEAKED: u32 = 3;

/// What there is for requests now.
#[derive(Debug)]
pub(crate) enum State {
    Serving(Lane),
    /// No lane.
    Reopening {
        generation: u32,
        /// Why the last one has ended.
        last_end: Cause,
        /// Why the next one was not opened, when that was tried.
        open_error: Option<FailedOpening>,
    },
    Closing {
        generation: u32,
    },
}

/// Opening a lane has failed, perhaps again and again.
#[derive(Clone, Debug)]
pub(crate) struct FailedOpening {
    /// How often.
    pub(crate) attempts: u32,
    /// Why, the last time.
    pub(crate) error: Cause,
}

impl State {
    /// Where a request may go in.
    pub(crate) fn door(&self) -> Result<Door, Unavailable> {
        match self {
            Self::Serving(lane) => Ok(lane.door.clone()),
            Self::Reopening { last_end, .. } => Err(Unavailable::Reopening(last_end.clone())),
            Self::Closing { .. } => Err(Unavailable::Closing),
        }
    }

    /// How many lanes there have been.
    pub(crate) fn generation(&self) -> u32 {
        match self {
            Self::Serving(lane) => lane.generation,
            Self::Reopening { generation, .. } | Self::Closing { generation } => *generation,
        }
    }

    /// Shuts the door. What remains has to be dropped where blocking is allowed.
    fn into_queues(self) -> Vec<CoreQueues> {
        match self {
            Self::Serving(lane) => {
                lane.door.shut();
                lane.queues
            }
            Self::Reopening { .. } | Self::Closing { .. } => Vec::new(),
        }
    }
}

/// What the supervisor says when it ends.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Runtimes that did not end in time.
    pub(crate) leaked: u32,
    /// What has ended the last lane, when the supervisor has given up because there were too many of them.
    pub(crate) gave_up: Option<Cause>,
}

/// Lane after lane, until it is told to stop.
pub(crate) struct Supervisor {
    pub(crate) options: Arc<Options>,
    pub(crate) state: watch::Sender<State>,
    /// The service closes: a lane that serves goes on for requests under way, but no other one is opened.
    pub(crate) closing: watch::Receiver<bool>,
    /// No request is under way any more.
    pub(crate) stop: watch::Receiver<bool>,
    /// Runtimes that did not end in time.
    pub(crate) leaked: u32,
    /// Before the next lane is opened. A device that opens and fails at once is not opened as often as requests come.
    pub(crate) pause: Duration,
}

impl Supervisor {
    /// Serves with what `workings` has, and then with what is opened after it, until it is told to stop or has leaked too much.
    pub(crate) async fn run(mut self, mut workings: Workings) -> Lanes {
        loop {
            let generation = self.state.borrow().generation();
            let mut slots = JoinSet::new();
            for slot in workings.slots.drain(..) {
                slots.spawn(slot.serve(Arc::clone(&workings.jobs)));
            }
            let ended = tokio::select! {
                cause = lane::fault(&mut workings.health) => Some(cause),
                // None ends while the door is open, unless it panics.
                Some(_) = slots.join_next() => Some(lost_slot()),
                () = stopped(&mut self.stop) => None,
            };
            let next = match &ended {
                Some(cause) => State::Reopening {
                    generation,
                    last_end: cause.clone(),
                    open_error: None,
                },
                None => State::Closing { generation },
            };
            // In this order, so that who finds the door shut also finds out why.
            let queues = self.state.send_replace(next).into_queues();
            if queues.iter().any(CoreQueues::has_answered) {
                self.pause = Duration::ZERO;
            }
            self.end(workings, slots, queues).await;
            let Some(cause) = ended else {
                return self.lanes(None);
            };
            let (status, text) = (cause.status, &cause.text);
            log::say(format_args!(
                "lane {generation} has ended: {status}: {text}"
            ));
            if self.leaked >= MOST_LEAKED {
                self.state.send_replace(State::Closing { generation });
                return self.lanes(Some(cause));
            }
            match self.reopen(generation, cause).await {
                Some(opened) => workings = opened,
                None => return self.lanes(None),
            }
        }
    }

    fn lanes(&self, gave_up: Option<Cause>) -> Lanes {
        Lanes {
            leaked: self.leaked,
            gave_up,
        }
    }

    /// Has the slots finish what they have and closes the runtime. The door is shut, so the slots end by themselves.
    async fn end(&mut self, workings: Workings, mut slots: JoinSet<()>, queues: Vec<CoreQueues>) {
        let Workings {
            runtime,
            health,
            jobs,
            ..
        } = workings;
        let limit = self.options.limits.lane_end;
        let all_end = async { while slots.join_next().await.is_some() {} };
        if timeout(limit, all_end).await.is_err() {
            // Their clients are told: with a slot goes its request, and with that the way to the client.
            slots.shutdown().await;
        }
        // A request that has come in since the last slot was given up.
        drop(jobs);
        let close = move || {
            let closed = close(runtime, limit);
            drop((health, queues));
            closed
        };
        if !spawn_blocking(close).await.unwrap_or(false) {
            self.leaked += 1;
        }
    }

    /// Opens the next lane, however long it takes; `None` when the service closes meanwhile.
    async fn reopen(&mut self, generation: u32, last_end: Cause) -> Option<Workings> {
        let next = generation + 1;
        let mut attempts = 0;
        loop {
            tokio::select! {
                () = sleep(self.pause) => {}
                () = stopped(&mut self.closing) => {}
            }
            if *self.closing.borrow() {
                self.state.send_replace(State::Closing { generation });
                return None;
            }
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            let error = match open(&self.options, next, Some(last_end.clone())).await {
                Ok((lane, workings)) if *self.closing.borrow() => {
                    // Too late: nobody has seen it.
                    self.state.send_replace(State::Closing { generation });
                    let queues = State::Serving(lane).into_queues();
                    self.end(workings, JoinSet::new(), queues).await;
                    return None;
                }
                Ok((lane, workings)) => {
                    self.state.send_replace(State::Serving(lane));
                    log::say(format_args!("lane {next} serves"));
                    return Some(workings);
                }
                Err(error) => error,
            };
            attempts += 1;
            let text = &error.text;
            log::say(format_args!(
                "lane {next} was not opened, attempt {attempts}: {text}"
            ));
            self.state.send_replace(State::Reopening {
                generation,
                last_end: last_end.clone(),
                open_error: Some(FailedOpening { attempts, error }),
            });
        }
    }
}

/// Resolves when the service is told to stop, or nobody is left who could tell it.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Opens a lane on a thread that may block.
async fn open(
    options: &Arc<Options>,
    generation: u32,
    before: Option<Cause>,
) -> Result<(Lane, Workings), Cause> {
    let options = Arc::clone(options);
    let opened = spawn_blocking(move || lane::open(&options, generation, before)).await;
    let failed = |status, text| Cause {
        status,
        seq: None,
        text,
    };
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(OpenError::Nrta(error))) => Err(failed(error.status(), error.to_string())),
        Ok(Err(OpenError::Bind(error))) => Err(failed(error.status(), error.to_string())),
        Ok(Err(error)) => Err(failed(Status::INVALID, error.to_string())),
        Err(panicked) => Err(failed(Status::FAILURE, panicked.to_string())),
    }
}

/// Whether the runtime is gone. Blocks.
fn close(runtime: Runtime, limit: Duration) -> bool {
    match runtime.close_within(limit) {
        Ok(()) => true,
        Err(error) => {
            log::say(format_args!("a runtime was leaked: {error}"));
            false
        }
    }
}

fn lost_slot() -> Cause {
    Cause {
        status: Status::FAILURE,
        seq: None,
        text: "a slot has ended without being told to".into(),
    }
}
