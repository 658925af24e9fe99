//! What waiting costs: the time on a processor that the worker needs while a request runs, or while there is none; and how
//! late a caller learns that its request is done.

use std::time::{Duration, Instant};

use super::own::lane_on;
use super::procfs::{self, Thread};
use super::service::ANSWERING;
use crate::lane::{self, Lane, Policy};
use crate::pin::{self, Pair};

/// For how long a request runs.
const RUNS: Duration = Duration::from_millis(10);
/// Requests, one after the other, that make one sample of the share of a processor.
const GROUP: usize = 4;
const GROUPS: usize = 10;
const SMOKE_GROUPS: usize = 5;
const IDLE: Duration = Duration::from_secs(2);
const SMOKE_IDLE: Duration = Duration::from_millis(200);

/// What one policy costs.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) policy: Policy,
    /// Percent of a processor while requests run, one number for each group.
    pub(crate) share: Vec<f64>,
    /// Microseconds from when a request was due until a caller knew that looks all the time.
    pub(crate) watched: Vec<f64>,
    /// The same for a caller that sleeps, and has to be woken.
    pub(crate) woken: Vec<f64>,
    /// Percent of a processor with nothing to do.
    pub(crate) idle: f64,
}

/// All policies, and a whole runtime with nothing to do.
#[derive(Debug, Default)]
pub(crate) struct CpuTime {
    pub(crate) policies: Vec<Waiting>,
    /// Percent of a processor.
    pub(crate) idle_runtime: Option<f64>,
    pub(crate) idle_for: Duration,
}

pub(crate) fn measure(processors: Pair, smoke: bool) -> CpuTime {
    let (groups, idle_for) = if smoke {
        (SMOKE_GROUPS, SMOKE_IDLE)
    } else {
        (GROUPS, IDLE)
    };
    let of = |policy| {
        pin::on(processors[0], || {
            waiting(processors, policy, groups, idle_for)
        })
    };
    CpuTime {
        policies: Policy::ALL.into_iter().filter_map(of).collect(),
        idle_runtime: idle_runtime(idle_for),
        idle_for,
    }
}

fn waiting(processors: Pair, policy: Policy, groups: usize, idle_for: Duration) -> Option<Waiting> {
    let lane = lane_on(processors, policy)?;
    let thread = Thread::named(ANSWERING)?;
    // The first one is cold.
    Lane::wait(lane.submit_running(RUNS));
    let mut waiting = Waiting {
        policy,
        share: Vec::new(),
        watched: Vec::new(),
        woken: Vec::new(),
        idle: 0.0,
    };
    for _ in 0..groups {
        let run = || run_group(&lane, Lane::wait, &mut waiting.woken);
        waiting.share.push(share_of(&thread, run)?);
        run_group(&lane, Lane::watch, &mut waiting.watched);
    }
    waiting.idle = share_of(&thread, || std::thread::sleep(idle_for))?;
    lane.stop();
    Some(waiting)
}

/// Adds by how many microseconds each request was late.
fn run_group(lane: &Lane, wait: impl Fn(lane::Ticket) -> Option<Instant>, late: &mut Vec<f64>) {
    for _ in 0..GROUP {
        let due = wait(lane.submit_running(RUNS));
        let seen = Instant::now();
        let lateness = due.map(|due| seen.saturating_duration_since(due));
        late.extend(lateness.map(|lateness| lateness.as_secs_f64() * 1e6));
    }
}

/// How much of a processor, in percent, the thread had meanwhile.
fn share_of(thread: &Thread, run: impl FnOnce()) -> Option<f64> {
    let (before, begin) = (thread.ran()?, Instant::now());
    run();
    let (ran, lasted) = (thread.ran()?.saturating_sub(before), begin.elapsed());
    Some(percent(ran, lasted))
}

fn idle_runtime(idle_for: Duration) -> Option<f64> {
    let runtime = match lane::idle_runtime() {
        Ok(runtime) => runtime,
        Err(fault) => {
            eprintln!("no runtime: {fault}");
            return None;
        }
    };
    let (before, begin) = (procfs::others_ran(), Instant::now());
    std::thread::sleep(idle_for);
    let ran = procfs::others_ran().saturating_sub(before);
    let share = percent(ran, begin.elapsed());
    drop(runtime);
    Some(share)
}

fn percent(part: Duration, whole: Duration) -> f64 {
    100.0 * part.as_secs_f64() / whole.as_secs_f64()
}
