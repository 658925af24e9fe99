//! One core's sequencer: doorbell, request, five engines, records.
//!
//! Runs on the core's own thread, started by the machine.
//! Rules: `driver_emulation.md` section 5. Engines run concurrently: they are interleaved instruction by
//! instruction in an order drawn from the seed, so the order between status queues varies. Each engine
//! posts START when it first steps and END after its last effect; error records come before the END of the
//! engine concerned.
//!
//! ```text
//!   doorbell -> publish::receive -> engines step in drawn order -> END on all five status queues
//!                      | bad                  | fault                        ^
//!                      +-------- error record, abort: missing START and END -+
//! ```
//!
//! An execution that cannot go on is aborted: the error record is posted, the program semaphores are
//! cleared, and every engine that has not ended gets the START and END that are still missing, so that the
//! request completes with an error instead of hanging. A program whose engines all wait for semaphores that
//! nobody raises is not such a case: no machine can tell that it will not go on, and so the core hangs.
//! An engine that stalls looks again when another one signals, or when nothing else can run.

use super::Hardware;
use super::compute::StateBuffer;
use super::engine::{Block, Fault, Step, Surface};
use super::publish;
use super::random::SplitMix;
use super::tpb::Tpb;
use xu_abi::device::ERROR_NQ;
use xu_abi::record::{ErrorKind, Subtype};
use xu_abi::{Engine, ErrorRecord, ExecRequest, SemIndex, StatusRecord};
use zerocopy::little_endian::U16;
use zerocopy::transmute;

/// What an out-of-bounds record says: the first of the kinds.
const OUT_OF_BOUNDS: u16 = 0;

/// Serves doorbells of `tpb` until the core is to stop.
pub(super) fn run(hardware: &Hardware, tpb: &Tpb, seed: u64) {
    let _end = EndOfThread(tpb);
    let mut sequencer = Sequencer {
        hardware,
        tpb,
        random: SplitMix::new(seed),
        surface: Surface {
            memory: &hardware.bus.memory,
            tpb,
            buffer: StateBuffer::default(),
        },
    };
    while tpb.await_doorbell() {
        sequencer.execute();
    }
}

/// Tells clients when the thread ends, by return or by panic.
struct EndOfThread<'m>(&'m Tpb);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        self.0.thread_ended();
    }
}

struct Sequencer<'m> {
    hardware: &'m Hardware,
    tpb: &'m Tpb,
    random: SplitMix,
    surface: Surface<'m>,
}

/// An engine in an execution.
struct Member {
    block: Block,
    state: MemberState,
    /// It has reported a numerical error in this execution.
    numerical: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberState {
    Pending,
    Running,
    Stalled(SemIndex),
    Ended,
}

/// Why an execution did not run to its end.
enum Cut {
    /// It goes no further and must be ended.
    Abort,
    /// The core is to stop.
    Shutdown,
}

impl Sequencer<'_> {
    fn execute(&mut self) {
        let received = publish::receive(&self.hardware.bus, self.tpb);
        let request = received.unwrap_or_default();
        let mut members = members(&request);
        let cut = if received.is_ok() {
            self.run_engines(&mut members)
        } else {
            self.post_error(ErrorKind::SoftwareSequencer, 0);
            Err(Cut::Abort)
        };
        if let Err(Cut::Abort) = cut {
            self.abort(&mut members);
        }
    }

    fn run_engines(&mut self, members: &mut [Member; 5]) -> Result<(), Cut> {
        loop {
            if self.tpb.is_stopping() {
                return Err(Cut::Shutdown);
            }
            let Some(index) = self.draw(members) else {
                let awaited = members.iter().filter_map(Member::awaits);
                if awaited.clone().next().is_none() {
                    return Ok(());
                }
                if !self.tpb.await_any(awaited) {
                    return Err(Cut::Shutdown);
                }
                wake(members);
                continue;
            };
            match self.step(&mut members[index])? {
                Step::Signalled => wake(members),
                Step::Interrupted => return Err(Cut::Shutdown),
                _ => {}
            }
        }
    }

    /// One of the engines that can step.
    fn draw(&mut self, members: &[Member; 5]) -> Option<usize> {
        let mut ready = [0; 5];
        let mut count = 0;
        for (index, member) in members.iter().enumerate() {
            if matches!(member.state, MemberState::Pending | MemberState::Running) {
                ready[count] = index;
                count += 1;
            }
        }
        (count > 0).then(|| ready[self.random.below(count)])
    }

    fn step(&mut self, member: &mut Member) -> Result<Step, Cut> {
        let engine = member.block.engine;
        if member.state == MemberState::Pending {
            self.post_status(engine, Subtype::Start);
            member.state = MemberState::Running;
        }
        let step = match member.block.step(&mut self.surface) {
            Ok(step) => step,
            Err(fault) => {
                match fault {
                    Fault::OutOfBounds => self.post_out_of_bounds(engine, member.block.line()),
                    Fault::Illegal => self.post_error(ErrorKind::SoftwareSequencer, bit(engine)),
                }
                return Err(Cut::Abort);
            }
        };
        match step {
            Step::NotANumber if !member.numerical => {
                member.numerical = true;
                self.post_error(ErrorKind::Numerical, bit(engine));
            }
            Step::Stalled(semaphore) => member.state = MemberState::Stalled(semaphore),
            Step::Halted => {
                self.post_status(engine, Subtype::End);
                member.state = MemberState::Ended;
            }
            _ => {}
        }
        Ok(step)
    }

    fn abort(&mut self, members: &mut [Member; 5]) {
        self.tpb.clear_program_semaphores();
        for member in members {
            let engine = member.block.engine;
            if member.state == MemberState::Pending {
                self.post_status(engine, Subtype::Start);
            }
            if member.state != MemberState::Ended {
                self.post_status(engine, Subtype::End);
            }
            member.state = MemberState::Ended;
        }
    }

    fn post_status(&self, engine: Engine, subtype: Subtype) {
        let nq = engine.status_nq();
        self.post(nq, |stamp| {
            transmute!(StatusRecord::new(subtype, nq, stamp))
        });
    }

    fn post_out_of_bounds(&self, engine: Engine, line: u32) {
        let nq = engine.status_nq();
        self.post(nq, |stamp| {
            // CAST: a line has 20 bits, cut into 16 and 4.
            transmute!(StatusRecord {
                isa_line_lo: U16::new(line as u16),
                hint_and_line_hi: (line >> 16) as u8 & 0x0F,
                custom_sub_id: U16::new(OUT_OF_BOUNDS),
                ..StatusRecord::new(Subtype::Custom, nq, stamp)
            })
        });
    }

    /// Posts on the error queue. Bit *n* of `mask` is engine *n*; 0 is the sequencer itself.
    fn post_error(&self, kind: ErrorKind, mask: u16) {
        self.post(ERROR_NQ, |stamp| {
            transmute!(ErrorRecord::new(kind, mask, stamp))
        });
    }

    /// Stamps and writes under one lock, so that the order of stamps is the order of records.
    fn post(&self, nq: u8, record: impl FnOnce(u64) -> [u8; 16]) {
        let mut queues = self.tpb.notifications.lock();
        let stamp = queues.stamp(self.hardware.ticks.now());
        queues.post(&self.hardware.bus.memory, nq, record(stamp));
    }
}

impl Member {
    fn awaits(&self) -> Option<SemIndex> {
        match self.state {
            MemberState::Stalled(semaphore) => Some(semaphore),
            _ => None,
        }
    }
}

fn members(request: &ExecRequest) -> [Member; 5] {
    Engine::ALL.map(|engine| Member {
        block: Block::new(engine, request.engine_address(engine)),
        state: MemberState::Pending,
        numerical: false,
    })
}

/// Lets every stalled engine look at its semaphore again.
fn wake(members: &mut [Member; 5]) {
    for member in members {
        if member.awaits().is_some() {
            member.state = MemberState::Running;
        }
    }
}

fn bit(engine: Engine) -> u16 {
    1 << engine.index()
}
