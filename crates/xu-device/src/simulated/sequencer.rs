//! One core's sequencer: doorbell, request, rendezvous, five engines.
//!
//! A state machine that never blocks. In real time the core's own thread steps it and sleeps when it says so; in virtual
//! time the driver of the machine steps it.
//! Rules: `driver_emulation.md` section 5.
//!
//! ```text
//!   Idle -- doorbell --> Receiving -- one pair a step --> Gathering -- last rank --> Running -- last END --> Idle
//!                            |                              (only with a context)       ^
//!                            +-- bad publish: error record, every engine is ended ------+
//! ```

use super::compute::StateBuffer;
use super::execution::{Execution, Turn};
use super::hardware::Hardware;
use super::publish::{Received, Walk};
use super::random::SplitMix;
use super::records::Core;
use super::rendezvous::Standing;
use super::tpb::Tpb;
use crate::host_time::host_ns;
use crate::map;
use core::time::Duration;
use std::time::Instant;
use xu_abi::TpbIndex;

/// Longest sleep of a thread that waits for time; then it looks again.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// What a step did, or why there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Something was done.
    Again,
    /// Nothing can be done before this moment, nanoseconds.
    NotBefore(u64),
    /// Nothing can be done until something comes from outside.
    Asleep,
}

/// The state of a sequencer.
#[derive(Debug)]
pub(super) struct Sequencer {
    random: SplitMix,
    phase: Phase,
    walk: Walk,
    execution: Execution,
    buffer: StateBuffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The next pair is walked at this moment, nanoseconds; 0 is at once.
    Receiving(u64),
    Gathering,
    Running,
}

/// Serves doorbells of `tpb` on this thread until the core is to stop.
pub(super) fn run(hardware: &Hardware, tpb: &Tpb, mut sequencer: Sequencer) {
    let _end = EndOfThread(tpb);
    let core = Core { hardware, tpb };
    while !tpb.is_stopping() {
        match sequencer.step(core) {
            Progress::Again => {}
            Progress::NotBefore(due) => {
                let left = Duration::from_nanos(due.saturating_sub(host_ns()));
                tpb.sleep(Some(Instant::now() + left.min(LONGEST_SLEEP)));
            }
            Progress::Asleep => tpb.sleep(None),
        }
    }
}

/// Tells clients when the thread ends, by return or by panic.
struct EndOfThread<'m>(&'m Tpb);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        self.0.thread_ended();
    }
}

impl Sequencer {
    /// The sequencer of one core of a machine with this seed.
    pub(super) fn new(seed: u64, tpb: TpbIndex) -> Self {
        Self {
            // Cores of one machine draw different orders; the generator mixes neighbouring seeds well.
            random: SplitMix::new(seed ^ (u64::from(tpb.get()) << 32)),
            phase: Phase::Idle,
            walk: Walk::default(),
            execution: Execution::ended(),
            buffer: StateBuffer::default(),
        }
    }

    /// Does one thing, if there is one that can be done now.
    pub(super) fn step(&mut self, core: Core<'_>) -> Progress {
        if core.tpb.is_resetting() {
            return self.reset(core);
        }
        if core.tpb.is_backed_up() {
            return Progress::Asleep;
        }
        match self.phase {
            Phase::Idle => self.take_doorbell(core),
            Phase::Receiving(due) if due > 0 && due > core.hardware.now_ns() => {
                Progress::NotBefore(due)
            }
            Phase::Receiving(_) => self.receive(core),
            Phase::Gathering => self.gather(core),
            Phase::Running => match self
                .execution
                .step(core, &mut self.random, &mut self.buffer)
            {
                Turn::Stepped => Progress::Again,
                Turn::NotBefore(due) => Progress::NotBefore(due),
                Turn::Asleep => Progress::Asleep,
                Turn::Finished => self.rest(core),
            },
        }
    }

    /// When it goes on by itself, if it waits for time: nanoseconds.
    pub(super) fn due(&self) -> Option<u64> {
        match self.phase {
            Phase::Receiving(due) => Some(due),
            Phase::Running => self.execution.due(),
            Phase::Idle | Phase::Gathering => None,
        }
    }

    fn take_doorbell(&mut self, core: Core<'_>) -> Progress {
        let Core { hardware, tpb } = core;
        let Some(number) = tpb.take_doorbell() else {
            return Progress::Asleep;
        };
        let mishaps = hardware
            .injector
            .execution(tpb.index, number, || hardware.now_ns());
        self.walk = Walk::begin(tpb);
        self.execution.restart(mishaps);
        let mishaps = self.execution.mishaps();
        if mishaps.device_goes() {
            hardware.lose();
            return Progress::Asleep;
        }
        let sram = mishaps.sram_errors() as u64;
        if sram > 0 {
            tpb.count_memory_errors(|errors| errors.sram += sram);
        }
        if mishaps.queue_aborts() {
            hardware.abort_model_exec(tpb);
        }
        self.phase = Phase::Receiving(hardware.after(hardware.costs.per_descriptor_ns));
        Progress::Again
    }

    fn receive(&mut self, core: Core<'_>) -> Progress {
        let Core { hardware, tpb } = core;
        if tpb.dma[usize::from(map::MODEL_EXEC_QUEUE)].lock().is_held() {
            // Whoever has the engine run again has this one look again.
            return Progress::Asleep;
        }
        let received = match self.walk.step(&hardware.bus, tpb) {
            Ok(None) => return self.rest(core),
            Ok(Some(bytes)) if !self.walk.is_complete() => {
                let costs = hardware.costs;
                let takes = costs
                    .of_bytes(bytes)
                    .saturating_add(costs.per_descriptor_ns);
                self.phase = Phase::Receiving(hardware.after(takes));
                return Progress::Again;
            }
            Ok(Some(_)) => self.walk.finish(&hardware.bus, tpb),
            Err(bad) => Err(bad),
        };
        match received {
            Ok(received) if self.join(core, &received) => self.execution.aim(&received.request),
            _ => {
                self.execution.reject(core);
                self.phase = Phase::Running;
            }
        }
        Progress::Again
    }

    /// Lets the execution run, or joins the collectives group whose barrier comes first; `false` when there is no
    /// place for this core.
    fn join(&mut self, core: Core<'_>, received: &Received) -> bool {
        let Some(membership) = received.membership else {
            self.phase = Phase::Running;
            return true;
        };
        let Core { hardware, tpb } = core;
        let Ok(passing) = hardware.rendezvous.join(tpb.index, membership) else {
            return false;
        };
        if self.walk.is_orphaned(tpb) {
            // The opening has not seen that this core has joined.
            hardware.rendezvous.leave(tpb.index);
        }
        for other in passing.iter().filter_map(|index| hardware.tpb(*index).ok()) {
            other.nudge();
        }
        self.phase = Phase::Gathering;
        true
    }

    fn gather(&mut self, core: Core<'_>) -> Progress {
        match core.hardware.rendezvous.standing(core.tpb.index) {
            Standing::Waiting => Progress::Asleep,
            Standing::Passed => {
                core.tpb.pass_barrier();
                self.phase = Phase::Running;
                Progress::Again
            }
            // The request queue was opened meanwhile: whoever sent the request has gone, and nothing has started.
            Standing::Gone => self.rest(core),
        }
    }

    /// Drops what it does: nothing more is posted of it.
    fn reset(&mut self, core: Core<'_>) -> Progress {
        self.phase = Phase::Idle;
        core.tpb.was_reset();
        Progress::Again
    }

    fn rest(&mut self, core: Core<'_>) -> Progress {
        self.phase = Phase::Idle;
        core.tpb.rest();
        Progress::Again
    }
}
