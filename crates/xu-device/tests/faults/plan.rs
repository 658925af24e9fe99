//! Scenarios at random: a machine, a sequence of executions, a plan of faults, an order of events; all from one seed.

use core::time::Duration;
use xu_abi::Engine;
use xu_device::nq::Mode;
use xu_device::simulated::{Costs, Fault, FaultPlan, Mark, Rule, When};

/// A small seeded generator (SplitMix64), so that a number is all it takes to repeat a run.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// The same as any type that `bound` fits in.
    fn number<T: TryFrom<u64> + Default>(&mut self, bound: u64) -> T {
        T::try_from(self.below(bound)).unwrap_or_default()
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn of_list<T: Clone>(&mut self, list: &[T]) -> T {
        // PANIC: below the length.
        list[self.number::<usize>(list.len() as u64)].clone()
    }
}

/// One life of a unit, before it happens.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Decides the machine's own order of events.
    pub(crate) seed: u64,
    pub(crate) arch: u8,
    pub(crate) tpbs: u16,
    pub(crate) clock_drift: f64,
    pub(crate) costs: Costs,
    /// Whether each engine waits for the one before it.
    pub(crate) chained: bool,
    /// How the harvester learns that there is a record.
    pub(crate) mode: Mode,
    /// Whether the first core passes a collectives barrier before the first execution.
    pub(crate) collectives: bool,
    /// Whether a tensor is moved first.
    pub(crate) transfers: bool,
    /// Most executions that are staged and not complete.
    pub(crate) depth: u32,
    pub(crate) executions: u32,
    /// The time limit of each.
    pub(crate) limit: Duration,
    pub(crate) plan: FaultPlan,
    /// In one of how many of its turns the harvester looks.
    pub(crate) laziness: u64,
    /// Decides in which order machine, stager and harvester take their turns.
    pub(crate) turns: u64,
}

impl Scenario {
    pub(crate) fn of(seed: u64) -> Self {
        let draws = &mut Draws::of(seed);
        // Now and then enough to go round the rings.
        let executions = if draws.one_in(100) {
            100 + draws.number::<u32>(200)
        } else {
            1 + draws.number::<u32>(12)
        };
        let tpbs = 1 + draws.number::<u16>(2);
        let limit = Duration::from_millis(10 + draws.below(90));
        let costs = match draws.below(4) {
            0 => Costs::FREE,
            1 => Costs::nominal(),
            _ => Costs {
                per_instruction_ns: draws.below(2_000),
                per_kilo_operation_ns: draws.below(10),
                per_kibibyte_ns: draws.below(100),
                per_descriptor_ns: draws.below(2_000),
            },
        };
        let rules = draws.of_list(&[0, 1, 1, 1, 2, 2, 3]);
        let mut rules: Vec<Rule> = (0..rules)
            .map(|_| rule(draws, tpbs, executions, limit))
            .collect();
        if draws.one_in(2) {
            meet(draws, &mut rules, tpbs);
        }
        if draws.one_in(12) {
            let when = rule(draws, tpbs, executions, limit).when;
            rules.extend(chatter(draws, &when));
        }
        let of_transfer =
            |rule: &Rule| matches!(rule.fault, Fault::TransferAborts | Fault::TransferHangs);
        let transfers = rules.iter().any(of_transfer) || draws.one_in(8);
        Self {
            arch: 2 + draws.number::<u8>(2),
            tpbs,
            clock_drift: draws.of_list(&[0.5, 0.97, 1.0, 1.0003, 1.4, 2.0]),
            costs,
            chained: draws.one_in(3),
            mode: draws.of_list(&[Mode::Phase, Mode::Tail]),
            collectives: !rules.iter().any(stops_request) && draws.one_in(3),
            transfers,
            depth: draws.of_list(&[1, 2, 3, 8, 12]),
            executions,
            limit,
            plan: FaultPlan { rules },
            laziness: draws.of_list(&[1, 1, 1, 4, 40]),
            turns: draws.bits(),
            seed,
        }
    }

    /// An execution without faults takes no longer than this, nanoseconds: fewer than a hundred instructions, and
    /// eight descriptors of less than a kibibyte.
    pub(crate) fn at_most_ns(&self) -> u64 {
        let costs = &self.costs;
        100 * costs.per_instruction_ns + 16 * (costs.per_descriptor_ns + costs.per_kibibyte_ns)
    }

    /// The same with less in it: what to try when a scenario has failed.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut simpler: Vec<Self> = (0..self.plan.rules.len())
            .map(|rule| {
                let mut one = self.clone();
                one.plan.rules.remove(rule);
                one
            })
            .collect();
        let mut with = |change: fn(&mut Self)| {
            let mut one = self.clone();
            change(&mut one);
            if one.difference(self) {
                simpler.push(one);
            }
        };
        with(|one| {
            one.tpbs = 1;
            one.plan.rules.retain(|rule| rule.when.core != Some(1));
        });
        with(|one| one.executions = one.executions.div_ceil(2));
        with(|one| one.executions = (one.executions - 1).max(1));
        with(|one| one.depth = 1);
        with(|one| one.chained = false);
        with(|one| one.transfers = false);
        with(|one| one.collectives = false);
        with(|one| one.laziness = 1);
        with(|one| one.mode = Mode::Phase);
        with(|one| one.costs = Costs::FREE);
        with(|one| one.arch = 2);
        with(|one| one.clock_drift = 1.0);
        simpler
    }

    fn difference(&self, other: &Self) -> bool {
        format!("{self:?}") != format!("{other:?}")
    }
}

fn rule(draws: &mut Draws, tpbs: u16, executions: u32, limit: Duration) -> Rule {
    let fault = fault(draws, limit);
    let core = match draws.below(3) {
        0 => None,
        _ => Some(draws.number(tpbs.into())),
    };
    let when = match draws.below(6) {
        0 => When {
            probability: Some(0.1 + f64::from(draws.number::<u8>(8)) / 10.0),
            ..When::default()
        },
        1 => When {
            from: draws.below(executions.into()),
            ..When::default()
        },
        times => When {
            from: draws.below(executions.into()),
            times: Some(if times == 2 { 2 } else { 1 }),
            ..When::default()
        },
    };
    let when = match fault {
        // Memory is only asked for while a unit opens, in a dozen calls or more.
        Fault::AllocationFails => When {
            core: None,
            from: draws.below(12),
            times: Some(1),
            probability: None,
        },
        // A tensor goes there and comes back: two calls.
        Fault::TransferAborts | Fault::TransferHangs => When {
            from: draws.below(2),
            ..When::default()
        },
        _ => When { core, ..when },
    };
    Rule { when, fault }
}

/// Whether a request may never pass its barrier. Nobody can say then when its time began: left to the tables.
fn stops_request(rule: &Rule) -> bool {
    matches!(rule.fault, Fault::DoorbellLost | Fault::DmaAbort)
}

/// Has all rules hit the same execution, on cores of their own choice.
fn meet(draws: &mut Draws, rules: &mut [Rule], tpbs: u16) {
    let Some(first) = rules.first().map(|rule| rule.when.clone()) else {
        return;
    };
    let of_a_call = |rule: &&mut Rule| !rule.fault.is_of_a_call();
    for rule in rules.iter_mut().filter(of_a_call) {
        rule.when = When {
            core: Some(draws.number(tpbs.into())),
            ..first.clone()
        };
    }
}

/// More records of one engine than one look reads, which decide nothing.
fn chatter(draws: &mut Draws, when: &When) -> Vec<Rule> {
    let engine = draws.of_list(&Engine::ALL);
    let rule = |sub_id| Rule {
        // Not with every execution that is staged ahead: a ring has room for 255 records.
        when: When {
            times: Some(2),
            ..when.clone()
        },
        fault: Fault::Custom { engine, sub_id },
    };
    let count = 15 + draws.below(25);
    (0..count)
        .map(|_| rule(draws.of_list(&[6, 7, 8])))
        .collect()
}

/// Any of the faults.
fn fault(draws: &mut Draws, limit: Duration) -> Fault {
    let engine = draws.of_list(&Engine::ALL);
    let record = draws.of_list(&[Mark::Start, Mark::End]);
    match draws.below(26) {
        0 => Fault::HangEngine { engine },
        1 => Fault::SlowEngine {
            engine,
            by_ns: delay(draws, limit),
        },
        2 => Fault::LateEnd {
            engine,
            by_ns: delay(draws, limit),
        },
        3 => Fault::DropRecord { engine, record },
        4 => Fault::DuplicateRecord { engine, record },
        5 => Fault::ReorderRecords { engine },
        6 => Fault::CorruptRecord {
            engine,
            record,
            byte: draws.number(16),
            with: draws.of_list(&[1, 4, 5, 0x0F, 0x10, 0x80, 0xFF]),
        },
        7 => Fault::UnknownSubtype {
            engine,
            subtype: draws.of_list(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xFFFF]),
        },
        8 => Fault::BadDebugHint {
            engine,
            hint: draws.number(16),
        },
        9 => Fault::Custom {
            engine,
            sub_id: draws.of_list(&[0, 3, 5, 6, 7, 8, 9, 10, 11, 0xFFFF]),
        },
        10 => Fault::Overflow {
            engine,
            latched: true,
        },
        11 => Fault::Overflow {
            engine,
            latched: false,
        },
        12 => Fault::Numerical,
        13 => Fault::Transient,
        14 => Fault::Sequencer,
        15 => Fault::EccCorrectable,
        16 => Fault::EccUncorrectable,
        17 => Fault::UnknownError {
            id: draws.of_list(&[0, 1, 2, 3, 4, 5, 11, 12, 0xFF]),
        },
        18 => Fault::HbmUncorrectable {
            engine,
            repairable: draws.one_in(2),
        },
        19 => Fault::DmaAbort,
        20 => Fault::DoorbellLost,
        21 => Fault::DoorbellFails {
            errno: draws.of_list(&[1, 5, 11, 12, 16, 19, 22, 77]),
        },
        22 => Fault::AllocationFails,
        23 => Fault::TransferAborts,
        24 => Fault::TransferHangs,
        _ => Fault::DeviceLost,
    }
}

/// Short, about as long as the limit, or far beyond it; nanoseconds.
fn delay(draws: &mut Draws, limit: Duration) -> u64 {
    // CAST: less than a second.
    let limit = limit.as_nanos() as u64;
    match draws.below(8) {
        0 | 1 => draws.below(100_000),
        2..=4 => draws.below(limit / 2),
        5 => limit / 2 + draws.below(limit),
        _ => 3 * limit,
    }
}

/// The name of a kind of fault. A new kind does not compile before it has one.
pub(crate) fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::HangEngine { .. } => "HangEngine",
        Fault::SlowEngine { .. } => "SlowEngine",
        Fault::LateEnd { .. } => "LateEnd",
        Fault::DropRecord { .. } => "DropRecord",
        Fault::DuplicateRecord { .. } => "DuplicateRecord",
        Fault::ReorderRecords { .. } => "ReorderRecords",
        Fault::CorruptRecord { .. } => "CorruptRecord",
        Fault::UnknownSubtype { .. } => "UnknownSubtype",
        Fault::BadDebugHint { .. } => "BadDebugHint",
        Fault::Custom { .. } => "Custom",
        Fault::Overflow { .. } => "Overflow",
        Fault::Numerical => "Numerical",
        Fault::Transient => "Transient",
        Fault::Sequencer => "Sequencer",
        Fault::EccCorrectable => "EccCorrectable",
        Fault::EccUncorrectable => "EccUncorrectable",
        Fault::UnknownError { .. } => "UnknownError",
        Fault::HbmUncorrectable { .. } => "HbmUncorrectable",
        Fault::DmaAbort => "DmaAbort",
        Fault::DoorbellLost => "DoorbellLost",
        Fault::DoorbellFails { .. } => "DoorbellFails",
        Fault::AllocationFails => "AllocationFails",
        Fault::TransferAborts => "TransferAborts",
        Fault::TransferHangs => "TransferHangs",
        Fault::DeviceLost => "DeviceLost",
    }
}

/// Every name.
pub(crate) const KINDS: [&str; 25] = [
    "HangEngine",
    "SlowEngine",
    "LateEnd",
    "DropRecord",
    "DuplicateRecord",
    "ReorderRecords",
    "CorruptRecord",
    "UnknownSubtype",
    "BadDebugHint",
    "Custom",
    "Overflow",
    "Numerical",
    "Transient",
    "Sequencer",
    "EccCorrectable",
    "EccUncorrectable",
    "UnknownError",
    "HbmUncorrectable",
    "DmaAbort",
    "DoorbellLost",
    "DoorbellFails",
    "AllocationFails",
    "TransferAborts",
    "TransferHangs",
    "DeviceLost",
];
