//! Asks the plan of faults at every doorbell, execution and call that can fail, and remembers what was injected.
//!
//! Called by the machine (calls, doorbells) and by sequencers (executions).
//! Rules: [`When`](super::When). A rule is asked when its fault could happen, so a core that is stuck uses up no
//! rule. What is drawn for a rule depends on the seed, the rule, the core and the number of the execution or call, and on
//! nothing else: neither other rules nor the order in which cores run change it. How often a rule applies (`times`) is
//! counted over all cores, and so depends on their order.
//!
//! ```text
//!   doorbell n ----> lost, or refused?  --> number n goes to the sequencer
//!   execution n ---> every other fault of executions  --> Mishaps
//!   call n --------> allocations, transfers
//! ```

use super::fault_plan::{Fault, FaultPlan, Rule};
use super::mishaps::Mishaps;
use super::random::SplitMix;
use core::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;
use xu_abi::TpbIndex;

/// Sets the plan's numbers apart from those of engines and clock.
const SALT: u64 = 0x0F61_756C_7473;
/// Most injections that are remembered.
const LOG_LIMIT: usize = 1 << 20;

/// One fault that was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// On which core; `None` for a reservation of host memory.
    pub core: Option<TpbIndex>,
    /// Number of the execution, or of the call, counted on that core from 0: see [`When`](super::When).
    pub number: u64,
    /// Which rule of the plan, from 0.
    pub rule: usize,
    /// When, nanoseconds of [`Device::now_ns`](crate::Device::now_ns).
    pub at_ns: u64,
}

/// What becomes of a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doorbell {
    /// It rings.
    Rings,
    /// Nobody hears it.
    Lost,
    /// The call fails with this error number.
    Fails(i32),
}

/// What becomes of a transfer queue that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// It moves.
    Moves,
    /// It aborts.
    Aborts,
    /// It moves nothing.
    Hangs,
}

/// The plan at work.
#[derive(Debug)]
pub(super) struct Injector {
    rules: Vec<Rule>,
    seed: u64,
    /// Per core; the last one is host memory. Relaxed: only the number counts.
    allocations: Vec<AtomicU64>,
    /// Per core. Relaxed, as above.
    transfers: Vec<AtomicU64>,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    injections: Vec<Injection>,
    /// How often each rule has happened.
    happened: Vec<u64>,
}

impl Injector {
    /// The caller has checked the plan.
    pub(super) fn new(plan: FaultPlan, seed: u64, tpbs: u16) -> Self {
        let counters = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            seed,
            allocations: counters(tpbs + 1),
            transfers: counters(tpbs),
            log: Mutex::new(Log {
                injections: Vec::new(),
                happened: vec![0; plan.rules.len()],
            }),
            rules: plan.rules,
        }
    }

    /// What was injected, oldest first.
    pub(super) fn injected(&self) -> Vec<Injection> {
        self.log.lock().injections.clone()
    }

    /// Asked for doorbell `number` of a core. One that fails is not lost as well.
    pub(super) fn doorbell(&self, tpb: TpbIndex, number: u64, now: impl Fn() -> u64) -> Doorbell {
        let mut verdict = Doorbell::Rings;
        self.ask(Some(tpb), number, now, |fault| match (fault, verdict) {
            (Fault::DoorbellFails { errno }, Doorbell::Rings) => {
                verdict = Doorbell::Fails(*errno);
                true
            }
            (Fault::DoorbellLost, Doorbell::Rings) => {
                verdict = Doorbell::Lost;
                true
            }
            _ => false,
        });
        verdict
    }

    /// Asked when execution `number` of a core begins.
    pub(super) fn execution(&self, tpb: TpbIndex, number: u64, now: impl Fn() -> u64) -> Mishaps {
        let mut mishaps = Mishaps::default();
        self.ask(Some(tpb), number, now, |fault| {
            let of_a_doorbell = matches!(fault, Fault::DoorbellFails { .. } | Fault::DoorbellLost);
            let ours = !fault.is_of_a_call() && !of_a_doorbell;
            if ours {
                mishaps.add(fault);
            }
            ours
        });
        mishaps
    }

    /// Asked for each reservation of memory of a core, or of host memory: whether it fails.
    pub(super) fn allocation(&self, tpb: Option<TpbIndex>, now: impl Fn() -> u64) -> bool {
        let host = self.allocations.len() - 1;
        let counter = tpb.map_or(host, |tpb| usize::from(tpb.get()));
        let Some(number) = count(&self.allocations, counter) else {
            return false;
        };
        let mut fails = false;
        self.ask(tpb, number, now, |fault| {
            let ours = *fault == Fault::AllocationFails;
            fails |= ours;
            ours
        });
        fails
    }

    /// Asked each time that a transfer queue is given descriptors. One that aborts does not hang as well.
    pub(super) fn transfer(&self, tpb: TpbIndex, now: impl Fn() -> u64) -> Transfer {
        let Some(number) = count(&self.transfers, usize::from(tpb.get())) else {
            return Transfer::Moves;
        };
        let mut verdict = Transfer::Moves;
        self.ask(Some(tpb), number, now, |fault| {
            let happens = match fault {
                Fault::TransferAborts => Transfer::Aborts,
                Fault::TransferHangs => Transfer::Hangs,
                _ => return false,
            };
            let first = verdict == Transfer::Moves;
            if first {
                verdict = happens;
            }
            first
        });
        verdict
    }

    /// Offers `take` the fault of every rule whose other conditions hold; what it takes has happened.
    fn ask(
        &self,
        tpb: Option<TpbIndex>,
        number: u64,
        now: impl Fn() -> u64,
        mut take: impl FnMut(&Fault) -> bool,
    ) {
        for (index, rule) in self.rules.iter().enumerate() {
            let when = &rule.when;
            let elsewhere = when.core.is_some() && when.core != tpb.map(TpbIndex::get);
            if elsewhere || number < when.from || !self.draws(index, tpb, number, when.probability)
            {
                continue;
            }
            let Log {
                injections,
                happened,
            } = &mut *self.log.lock();
            // PANIC: one count for each rule.
            let happened = &mut happened[index];
            if when.times.is_some_and(|times| *happened >= times) || !take(&rule.fault) {
                continue;
            }
            *happened += 1;
            if injections.len() < LOG_LIMIT {
                injections.push(Injection {
                    core: tpb,
                    number,
                    rule: index,
                    at_ns: now(),
                });
            }
        }
    }

    fn draws(
        &self,
        rule: usize,
        tpb: Option<TpbIndex>,
        number: u64,
        probability: Option<f64>,
    ) -> bool {
        let Some(probability) = probability else {
            return true;
        };
        let place = tpb.map_or(u64::MAX, |tpb| u64::from(tpb.get()));
        let drawn = [rule as u64, place, number]
            .iter()
            .fold(self.seed ^ SALT, |seed, part| {
                SplitMix::new(seed).next() ^ part
            });
        SplitMix::new(drawn).unit() < probability
    }
}

/// Number of this call, from 0; `None` for a core that does not exist.
fn count(counters: &[AtomicU64], index: usize) -> Option<u64> {
    Some(counters.get(index)?.fetch_add(1, Ordering::Relaxed))
}
