//! One execution on a core: five engines that step in drawn order, and the records that they owe.
//!
//! Owned by the core's sequencer, begun by it for each request, stepped by it until it has finished.
//! Rules: spec `driver_emulation.md` section 5. Engines run concurrently: they are interleaved instruction by
//! instruction in an order drawn from the seed, so the order between status queues varies. Each engine posts START when
//! it first steps and END after its last effect; the core's error records come before the last END.
//!
//! ```text
//!   Pending --START--> Running <--------> Stalled (semaphore)
//!      |                  |  halt, abort
//!      | abort            v
//!      +----START-----> Ending --END--> Ended          a stuck engine: Pending --START--> Stuck, for good
//! ```
//!
//! An execution that cannot go on is aborted: the error record is posted, the program semaphores are
//! cleared, and every engine that has not ended posts the START and END that are still missing, so that the
//! request completes with an error instead of hanging. A program whose engines all wait for semaphores that
//! nobody raises is not such a case: no machine can tell that it will not go on, and so the core hangs.
//! An engine that stalls looks again when another one signals, or when nothing else can run.

use super::compute::StateBuffer;
use super::engine::{Block, Fault, Step, Surface};
use super::fault_plan::Mark;
use super::mishaps::{Mishaps, Stuck};
use super::random::SplitMix;
use super::records::Core;
use std::collections::VecDeque;
use xu_abi::record::ErrorKind;
use xu_abi::{DeviceAddr, Engine, ExecRequest, SemIndex};

/// What an out-of-bounds record says: the first of the kinds.
const OUT_OF_BOUNDS: u16 = 0;
/// Who acts when none of the engines does: the core reports an error.
const ERROR_REPORT: usize = Engine::ALL.len();

/// An execution.
#[derive(Debug)]
pub(super) struct Execution {
    members: [Member; 5],
    mishaps: Mishaps,
    /// Errors that the core has yet to report.
    errors: VecDeque<ErrorKind>,
    aborted: bool,
    /// Bit *n*: engine *n* can act, once its time has come.
    ready: u8,
    /// Bit *n*: engine *n* waits, or has waited, for its time.
    timed: u8,
}

/// An engine in an execution.
#[derive(Debug)]
struct Member {
    block: Block,
    state: MemberState,
    /// It does nothing before this moment, nanoseconds; 0 is any time.
    not_before: u64,
    /// Custom records that it has posted because of a fault.
    customs: usize,
    /// It has reported a numerical error in this execution.
    numerical: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Pending,
    Running,
    Stalled(SemIndex),
    Ending,
    Ended,
    Stuck,
}

/// What a step of an execution did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// An engine acted.
    Stepped,
    /// Nothing: no engine can act before this moment.
    NotBefore(u64),
    /// Nothing: no engine can act until a semaphore is raised.
    Asleep,
    /// The last engine has ended.
    Finished,
}

impl Execution {
    /// One of which nothing is left to do.
    pub(super) fn ended() -> Self {
        let member = |engine| Member {
            block: Block::new(engine, DeviceAddr::new(0)),
            state: MemberState::Ended,
            not_before: 0,
            customs: 0,
            numerical: false,
        };
        Self {
            members: Engine::ALL.map(member),
            mishaps: Mishaps::default(),
            errors: VecDeque::new(),
            aborted: false,
            ready: 0,
            timed: 0,
        }
    }

    /// Begins anew, with these faults. The engines do not know yet where.
    pub(super) fn restart(&mut self, mishaps: Mishaps) {
        for member in &mut self.members {
            member.block.restart(DeviceAddr::new(0));
            member.state = MemberState::Pending;
            member.not_before = 0;
            member.customs = 0;
            member.numerical = false;
        }
        // Those of one that was given up half received.
        self.errors.clear();
        self.errors.extend(mishaps.errors());
        self.mishaps = mishaps;
        self.aborted = false;
        self.note_all();
    }

    /// The faults of this execution.
    pub(super) fn mishaps(&self) -> &Mishaps {
        &self.mishaps
    }

    /// Lets the engines begin at what `request` says.
    pub(super) fn aim(&mut self, request: &ExecRequest) {
        for member in &mut self.members {
            member
                .block
                .restart(request.engine_address(member.block.engine));
        }
    }

    /// Ends an execution of which nothing runs: the sequencer cannot make sense of it.
    pub(super) fn reject(&mut self, core: Core<'_>) {
        core.post_error(ErrorKind::SoftwareSequencer, 0);
        self.abort(core);
    }

    /// Lets one engine, drawn from those that can act, do one thing.
    pub(super) fn step(
        &mut self,
        core: Core<'_>,
        random: &mut SplitMix,
        buffer: &mut StateBuffer,
    ) -> Turn {
        let index = match self.draw(core, random) {
            Ok(index) => index,
            Err(turn) => return self.look_again(core, turn),
        };
        if index == ERROR_REPORT {
            if let Some(kind) = self.errors.pop_front() {
                core.post_error(kind, 0);
            }
            return Turn::Stepped;
        }
        let turn = self.act(index, core, buffer);
        self.note(index);
        turn
    }

    fn act(&mut self, index: usize, core: Core<'_>, buffer: &mut StateBuffer) -> Turn {
        // START comes with the first instruction and END with the last, unless a fault has something come between.
        // PANIC: drawn from the members, here and below.
        if self.members[index].state == MemberState::Pending {
            self.begin(index, core);
            let member = &self.members[index];
            if member.state != MemberState::Running || member.not_before > 0 {
                return Turn::Stepped;
            }
        }
        if !self.mishaps.is_empty() && self.post_custom(index, core) {
            return Turn::Stepped;
        }
        if self.members[index].state == MemberState::Running {
            self.execute(index, core, buffer);
            let member = &self.members[index];
            let delayed = member.not_before > 0 || self.errors_first(index);
            if member.state != MemberState::Ending || delayed {
                return Turn::Stepped;
            }
        }
        self.end(index, core)
    }

    /// When the first of the engines that wait for time can act, nanoseconds.
    pub(super) fn due(&self) -> Option<u64> {
        let waits = |member: &&Member| member.can_act() && member.not_before > 0;
        let waiting = self.members.iter().filter(waits);
        waiting.map(|member| member.not_before).min()
    }

    /// One of those that can act now, or what the execution waits for.
    fn draw(&self, core: Core<'_>, random: &mut SplitMix) -> Result<usize, Turn> {
        if self.timed != 0 || !self.errors.is_empty() {
            return self.draw_in_time(core, random);
        }
        let mut ready = self.ready;
        if ready == 0 {
            return Err(Turn::Asleep);
        }
        // CAST: five bits, here and below.
        for _ in 0..random.below(ready.count_ones() as usize) {
            // Without its lowest bit.
            ready &= ready - 1;
        }
        Ok(ready.trailing_zeros() as usize)
    }

    /// As [`Execution::draw`], when somebody waits for time or the core has errors to report.
    fn draw_in_time(&self, core: Core<'_>, random: &mut SplitMix) -> Result<usize, Turn> {
        let mut ready = [0; ERROR_REPORT + 1];
        let mut count = 0;
        let mut offer = |index| {
            // PANIC: each one is offered once.
            ready[count] = index;
            count += 1;
        };
        // Read only if somebody waits for time.
        let mut now = None;
        let mut due = u64::MAX;
        for (index, member) in self.members.iter().enumerate() {
            if !member.can_act() || member.state == MemberState::Ending && self.errors_first(index)
            {
                continue;
            }
            if member.not_before > 0
                && member.not_before > *now.get_or_insert_with(|| core.hardware.now_ns())
            {
                due = due.min(member.not_before);
                continue;
            }
            offer(index);
        }
        if !self.errors.is_empty() {
            offer(ERROR_REPORT);
        }
        if count > 0 {
            Ok(ready[random.below(count)])
        } else if due < u64::MAX {
            Err(Turn::NotBefore(due))
        } else {
            Err(Turn::Asleep)
        }
    }

    /// Whether this is the last engine and the core still has errors to report.
    fn errors_first(&self, index: usize) -> bool {
        let others_ended = || {
            let mut others = self.members.iter().enumerate();
            others.all(|(other, member)| other == index || member.state == MemberState::Ended)
        };
        !self.errors.is_empty() && others_ended()
    }

    /// Nothing can act: perhaps a semaphore was raised from outside.
    fn look_again(&mut self, core: Core<'_>, turn: Turn) -> Turn {
        let awaited = self.members.iter().filter_map(Member::awaits);
        if awaited.clone().next().is_some() && core.tpb.any_raised(awaited) {
            self.wake();
            return Turn::Stepped;
        }
        turn
    }

    fn begin(&mut self, index: usize, core: Core<'_>) {
        let Self {
            members, mishaps, ..
        } = self;
        let member = &mut members[index];
        let engine = member.block.engine;
        core.post_mark(engine, Mark::Start, mishaps);
        match mishaps.stuck(engine) {
            Some(Stuck::Hangs) => member.state = MemberState::Stuck,
            _ if self.aborted => member.halt(core, mishaps),
            Some(Stuck::CannotRead { repairable }) => {
                core.tpb.count_memory_errors(|errors| {
                    if repairable {
                        errors.hbm_repairable += 1;
                    } else {
                        errors.hbm += 1;
                    }
                });
                member.state = MemberState::Stuck;
            }
            None => {
                member.state = MemberState::Running;
                member.wait(core, mishaps.slow_ns(engine));
            }
        }
    }

    /// Posts the next custom record that a fault asks for; `false` when there is none.
    fn post_custom(&mut self, index: usize, core: Core<'_>) -> bool {
        let member = &mut self.members[index];
        let engine = member.block.engine;
        let Some(sub_id) = self.mishaps.custom(engine, member.customs) else {
            return false;
        };
        member.customs += 1;
        core.post_custom(engine, member.block.line(), sub_id, &self.mishaps);
        true
    }

    fn execute(&mut self, index: usize, core: Core<'_>, buffer: &mut StateBuffer) {
        let Self {
            members, mishaps, ..
        } = self;
        let member = &mut members[index];
        let engine = member.block.engine;
        let mut surface = Surface {
            costs: core.hardware.costs,
            memory: &core.hardware.bus.memory,
            tpb: core.tpb,
            buffer,
        };
        member.not_before = 0;
        match member.block.step(&mut surface) {
            Ok(Step::Executed | Step::Interrupted) => {}
            Ok(Step::Takes(ns)) => member.wait(core, ns),
            Ok(Step::NotANumber) => {
                if !core::mem::replace(&mut member.numerical, true) {
                    core.post_error(ErrorKind::Numerical, bit(engine));
                }
            }
            Ok(Step::Signalled) => self.wake(),
            Ok(Step::Stalled(semaphore)) => member.state = MemberState::Stalled(semaphore),
            Ok(Step::Halted) => member.halt(core, mishaps),
            Err(fault) => {
                match fault {
                    Fault::OutOfBounds => {
                        core.post_custom(engine, member.block.line(), OUT_OF_BOUNDS, mishaps);
                    }
                    Fault::Illegal => core.post_error(ErrorKind::SoftwareSequencer, bit(engine)),
                }
                self.abort(core);
            }
        }
    }

    /// Posts END.
    fn end(&mut self, index: usize, core: Core<'_>) -> Turn {
        let member = &mut self.members[index];
        core.post_mark(member.block.engine, Mark::End, &self.mishaps);
        member.state = MemberState::Ended;
        let ended = |member: &Member| member.state == MemberState::Ended;
        if self.members.iter().all(ended) {
            Turn::Finished
        } else {
            Turn::Stepped
        }
    }

    fn abort(&mut self, core: Core<'_>) {
        core.tpb.clear_program_semaphores();
        self.aborted = true;
        for member in &mut self.members {
            match member.state {
                MemberState::Running | MemberState::Stalled(_) => member.halt(core, &self.mishaps),
                MemberState::Pending
                | MemberState::Ending
                | MemberState::Ended
                | MemberState::Stuck => {}
            }
        }
        self.note_all();
    }

    /// Lets every stalled engine look at its semaphore again.
    fn wake(&mut self) {
        for member in &mut self.members {
            if member.awaits().is_some() {
                member.state = MemberState::Running;
            }
        }
        self.note_all();
    }

    /// Takes note of what an engine can do now.
    fn note(&mut self, index: usize) {
        let member = &self.members[index];
        let bit = 1 << index;
        self.ready &= !bit;
        self.timed &= !bit;
        if member.can_act() {
            self.ready |= bit;
        }
        if member.not_before > 0 {
            self.timed |= bit;
        }
    }

    fn note_all(&mut self) {
        for index in 0..self.members.len() {
            self.note(index);
        }
    }
}

impl Member {
    fn can_act(&self) -> bool {
        matches!(
            self.state,
            MemberState::Pending | MemberState::Running | MemberState::Ending
        )
    }

    fn awaits(&self) -> Option<SemIndex> {
        match self.state {
            MemberState::Stalled(semaphore) => Some(semaphore),
            _ => None,
        }
    }

    /// The engine has ended; END is due.
    fn halt(&mut self, core: Core<'_>, mishaps: &Mishaps) {
        self.state = MemberState::Ending;
        self.wait(core, mishaps.late_ns(self.block.engine));
    }

    fn wait(&mut self, core: Core<'_>, ns: u64) {
        self.not_before = match ns {
            0 => 0,
            ns => core.hardware.now_ns().saturating_add(ns),
        };
    }
}

fn bit(engine: Engine) -> u16 {
    1 << engine.index()
}
