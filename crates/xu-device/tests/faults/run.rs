//! Drives stager, machine and harvester through a scenario in virtual time, one turn at a time.
//!
//! Stands where the worker stands: after a fatal result, or a doorbell that failed, the unit stages and runs no
//! more, and what is queued completes with 101. When its cores have come to rest, a new unit is opened on the same
//! machine and goes on. It notes what the oracle must know: doorbells, time limits, and when each execution ended.
//!
//! ```text
//!   turn:  stage the next | let the machine step | look with the harvester | let time pass
//! ```
//!
//! Time passes no further than to the next moment at which the machine has something to do, and never while it has
//! something to do now: so "before" means the same to machine and oracle.

use crate::lane::Lane;
use crate::oracle::{Execution, Life};
use crate::plan::{Draws, Scenario};
use crate::posted::Doorbell;
use crate::verdict::{self, UNRECOVERABLE};
use core::time::Duration;
use std::collections::VecDeque;
use xu_device::harvest::{Progress, Report};
use xu_device::simulated::Fault;
use xu_device::stage::Staged;
use xu_device::{Device, DeviceError};

/// Far more turns than any scenario takes.
const TURNS: u32 = 200_000;
/// Looks that find everything that lies in the rings.
const LOOKS: u32 = 64;

/// Most units that are opened on one machine.
const LIVES: usize = 4;

/// What has become of a scenario.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The units that were opened, one after the other.
    pub(crate) lives: Vec<Life>,
    /// The status of every execution that was staged, those behind a fatal one included.
    pub(crate) statuses: Vec<i32>,
    /// What was injected.
    pub(crate) hits: Vec<Fault>,
}

/// The execution that is being harvested.
struct Open {
    /// `None` as long as a collectives barrier stands.
    deadline_ns: Option<u64>,
    looks_ns: Vec<u64>,
}

/// The state of a run.
struct Run<'s> {
    scenario: &'s Scenario,
    lane: Lane,
    draws: Draws,
    lives: Vec<Life>,
    statuses: Vec<i32>,
    /// Executions that were staged, over all lives.
    staged: u32,
    /// The unit that is open.
    unit: Unit,
    over: bool,
}

/// One life of a unit.
#[derive(Default)]
struct Unit {
    life: Life,
    queued: VecDeque<Staged>,
    open: Option<Open>,
    staged: usize,
    /// Staging has failed.
    refused: bool,
    fatal: bool,
}

/// Runs a scenario to its end.
///
/// # Errors
/// What went otherwise than every scenario must go; statuses are for the oracle to judge.
pub(crate) fn run(scenario: &Scenario) -> Result<Ran, String> {
    let lane = Lane::open(scenario)?;
    if scenario.transfers {
        lane.transfer(scenario)?;
    }
    let mut run = Run {
        scenario,
        lane,
        draws: Draws::of(scenario.turns),
        lives: Vec::new(),
        statuses: Vec::new(),
        staged: 0,
        unit: Unit::open(scenario),
        over: false,
    };
    for _ in 0..TURNS {
        if run.over {
            return Ok(run.account());
        }
        run.turn()?;
    }
    Err(format!("execution {} does not end", run.statuses.len()))
}

impl Unit {
    fn open(scenario: &Scenario) -> Self {
        let life = Life {
            cores: vec![Vec::new(); scenario.tpbs.into()],
            chained: scenario.chained,
            at_most_ns: scenario.at_most_ns(),
            ..Life::default()
        };
        Self {
            life,
            ..Self::default()
        }
    }

    fn outstanding(&self) -> u32 {
        // CAST: at most the depth.
        self.queued.len() as u32 + u32::from(self.open.is_some())
    }
}

impl Run<'_> {
    fn turn(&mut self) -> Result<(), String> {
        match self.draws.below(10) {
            0 | 1 => self.stage()?,
            2..=5 => {
                self.lane.machine.step();
            }
            6 | 7 if self.draws.one_in(self.scenario.laziness) => self.look()?,
            6 | 7 => {}
            _ => self.let_time_pass(),
        }
        let nothing_to_stage = self.unit.refused || self.staged == self.scenario.executions;
        if self.unit.fatal || (nothing_to_stage && self.unit.outstanding() == 0) {
            self.finish()?;
        }
        Ok(())
    }

    /// The unit is at its end: nothing more completes, and the next one may be opened.
    fn finish(&mut self) -> Result<(), String> {
        self.nothing_more_completes()?;
        if self.unit.fatal {
            self.refuses_what_is_behind()?;
        }
        let unit = std::mem::replace(&mut self.unit, Unit::open(self.scenario));
        let executions = &unit.life.executions;
        self.statuses
            .extend(executions.iter().map(|one| one.status));
        let behind = unit.staged - executions.len();
        self.statuses.extend(vec![UNRECOVERABLE; behind]);
        self.lives.push(unit.life);
        let enough = self.staged == self.scenario.executions || self.lives.len() == LIVES;
        self.over = enough || !self.lane.reopen(self.scenario)?;
        Ok(())
    }

    fn stage(&mut self) -> Result<(), String> {
        let is_full = self.unit.outstanding() == self.scenario.depth;
        if is_full || self.unit.refused || self.staged == self.scenario.executions {
            return Ok(());
        }
        let before = self.lane.machine.injected().len();
        let was_lost = self.lane.lost(self.scenario);
        let at_ns = self.lane.machine.now_ns();
        let said = self.lane.stage();
        let injected = self.lane.machine.injected();
        let refused = injected[before..].iter().find_map(|injection| {
            let core = injection.core.map_or(0, |core| usize::from(core.get()));
            match self.scenario.plan.rules[injection.rule].fault {
                Fault::DoorbellFails { errno } => Some((core, errno)),
                _ => None,
            }
        });
        // The cores behind one whose doorbell fails are not told.
        let rung = match (&said, refused) {
            (Ok(_), _) => self.unit.life.cores.len(),
            (Err(_), Some((core, _))) => core + 1,
            (Err(_), None) => 0,
        };
        for core in self.unit.life.cores.iter_mut().take(rung) {
            core.push(Doorbell {
                at_ns,
                faults: Vec::new(),
            });
        }
        match (&said, refused) {
            (Ok(_), None) if !was_lost => {}
            (Err(DeviceError::Driver { errno, .. }), Some((_, planned))) if *errno == planned => {}
            (Err(DeviceError::Lost), None) if self.lane.lost(self.scenario) => {}
            _ => {
                return Err(format!(
                    "staging, refused with {refused:?}, lost {was_lost}, said {said:?}"
                ));
            }
        }
        self.staged += u32::from(said.is_ok());
        self.unit.staged += usize::from(said.is_ok());
        self.unit.refused = said.is_err();
        self.unit.queued.extend(said);
        Ok(())
    }

    fn look(&mut self) -> Result<(), String> {
        let now_ns = self.lane.machine.now_ns();
        if self.unit.open.is_none() {
            let Some(staged) = self.unit.queued.pop_front() else {
                return match self.lane.look() {
                    Progress::Continue => Ok(()),
                    other => Err(format!("without an execution: {other:?}")),
                };
            };
            self.lane
                .parts
                .harvester
                .begin(now_ns, staged, Some(self.scenario.limit));
            self.unit.open = Some(Open {
                deadline_ns: None,
                looks_ns: Vec::new(),
            });
        }
        if let Some(open) = &mut self.unit.open
            && open.deadline_ns.is_none()
            && self.lane.barrier_is_passed(self.scenario)
        {
            // CAST: less than a second.
            let limit_ns = self.scenario.limit.as_nanos() as u64;
            open.deadline_ns = Some(now_ns + limit_ns);
        }
        let device_lost = self.lane.lost(self.scenario);
        match self.lane.look() {
            Progress::Continue => {
                if let Some(open) = &mut self.unit.open {
                    open.looks_ns.push(now_ns);
                }
                Ok(())
            }
            Progress::Done(report) => self.end(&report, false, device_lost),
            Progress::Fatal(report, _) => self.end(&report, true, device_lost),
        }
    }

    fn end(&mut self, report: &Report, fatal: bool, device_lost: bool) -> Result<(), String> {
        let open = self
            .unit
            .open
            .take()
            .ok_or_else(|| format!("without an execution: {report:?}"))?;
        let status = verdict::number(report.status);
        if fatal != verdict::ends_unit(status) {
            return Err(format!("fatal: {fatal}, and {report:?}"));
        }
        self.unit.fatal = fatal;
        self.check_times(report)?;
        self.unit.life.executions.push(Execution {
            deadline_ns: open.deadline_ns.unwrap_or(u64::MAX),
            looks_ns: open.looks_ns,
            ended_ns: self.lane.machine.now_ns(),
            device_lost,
            status,
        });
        Ok(())
    }

    /// What an execution without altered records says about time lies between its doorbell and now.
    fn check_times(&self, report: &Report) -> Result<(), String> {
        let alters = |fault: &Fault| matches!(fault, Fault::CorruptRecord { byte: 8.., .. });
        if self
            .scenario
            .plan
            .rules
            .iter()
            .any(|rule| alters(&rule.fault))
        {
            return Ok(());
        }
        // Records that are posted at the same moment have stamps of their own, a tick apart: at most fifty for each
        // execution, of two nanoseconds.
        let slack = 100 * (1 + u64::from(self.staged));
        let now = self.lane.machine.now_ns() + slack;
        let rung = self.unit.life.cores[0]
            .get(self.unit.life.executions.len())
            .map_or(0, |one| one.at_ns)
            - slack;
        let within = |time: Option<u64>| time.is_none_or(|time| (rung..=now).contains(&time));
        let longest = Duration::from_nanos(now - rung);
        let device_time = report.device_time();
        if within(report.started_ns)
            && within(report.ended_ns)
            && device_time.is_none_or(|time| time <= longest)
        {
            return Ok(());
        }
        Err(format!("times: {rung} {now} {report:?}"))
    }

    /// To the next moment at which something happens, or a part of the way there.
    fn let_time_pass(&mut self) {
        let machine = &self.lane.machine;
        if machine.step() {
            return;
        }
        let now = machine.now_ns();
        let due = machine.next_due();
        let deadline = self
            .unit
            .open
            .as_ref()
            .and_then(|open| open.deadline_ns)
            .filter(|at| *at > now);
        let until = match (due, deadline) {
            (Some(due), Some(deadline)) => due.min(deadline),
            (Some(moment), None) | (None, Some(moment)) => moment,
            (None, None) => now + 1 + self.draws.below(1_000),
        };
        let whole = until - now;
        let by = match self.draws.below(8) {
            0 => whole - 1,
            1 => self.draws.below(whole),
            _ => whole,
        };
        machine.advance(Duration::from_nanos(by));
    }

    /// After the last completion, nothing completes, whatever the machine still does.
    fn nothing_more_completes(&mut self) -> Result<(), String> {
        self.lane.machine.run_until_idle();
        for _ in 0..LOOKS {
            match self.lane.look() {
                Progress::Continue => {}
                other => return Err(format!("after the last one: {other:?}")),
            }
        }
        Ok(())
    }

    /// A unit that saw a fault does not run again: each execution behind it completes once, with 101.
    fn refuses_what_is_behind(&mut self) -> Result<(), String> {
        for staged in self.unit.queued.drain(..) {
            let now_ns = self.lane.machine.now_ns();
            let limit = Some(self.scenario.limit);
            self.lane.parts.harvester.begin(now_ns, staged, limit);
            match (self.lane.look(), self.lane.look()) {
                (Progress::Fatal(report, _), Progress::Continue)
                    if verdict::number(report.status) == UNRECOVERABLE => {}
                other => return Err(format!("behind a fatal one: {other:?}")),
            }
        }
        Ok(())
    }

    fn account(mut self) -> Ran {
        let mut hits = Vec::new();
        for injection in self.lane.machine.injected() {
            let fault = &self.scenario.plan.rules[injection.rule].fault;
            hits.push(fault.clone());
            if !fault.is_of_a_call()
                && let Some(core) = injection.core
                && let Some(doorbell) = self.doorbell(core.get().into(), injection.number)
            {
                doorbell.faults.push(fault.clone());
            }
        }
        Ran {
            lives: self.lives,
            statuses: self.statuses,
            hits,
        }
    }

    /// A doorbell by its number, which counts over all lives.
    fn doorbell(&mut self, core: usize, number: u64) -> Option<&mut Doorbell> {
        let doorbells = self.lives.iter_mut().flat_map(|life| &mut life.cores[core]);
        // CAST: 64-bit targets only.
        doorbells.into_iter().nth(number as usize)
    }
}
