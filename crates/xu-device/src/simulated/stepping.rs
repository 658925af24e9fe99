//! Virtual time: the machine moves one micro-step at a time, when it is told to, and its clock likewise.
//!
//! Owned by the machine; there in both modes, but in real time it has nobody to step.
//! An actor is the sequencer of a core with its engines, or a transfer queue. Which of those that can act does so is
//! drawn from the seed, so that a run is a function of the seed and of the client's calls.
//!
//! ```text
//!   step:            draw an actor that can act now -> one descriptor, one instruction, one record
//!   run_until_idle:  step until nobody can, move the clock to the next moment that somebody waits for, and again
//! ```

use super::hardware::Hardware;
use super::random::SplitMix;
use super::records::Core;
use super::sequencer::{Progress, Sequencer};
use super::tpb::Tpb;
use crate::map;
use core::time::Duration;
use parking_lot::Mutex;
use xu_abi::TpbIndex;

/// Sets the order of actors apart from that of engines.
const SALT: u64 = 0x6163_746F_7273;
/// Most micro-steps of one [`Stepping::run_until_idle`].
const STEP_LIMIT: u64 = 50_000_000;

/// The actors of a machine in virtual time.
#[derive(Debug)]
pub(super) struct Stepping(Mutex<Actors>);

#[derive(Debug)]
struct Actors {
    random: SplitMix,
    sequencers: Vec<Sequencer>,
    /// Every actor once; the order is what earlier draws have left.
    order: Vec<Actor>,
}

#[derive(Clone, Copy, Debug)]
enum Actor {
    Core(u16),
    /// Core and queue.
    Transfer(u16, u8),
}

impl Stepping {
    /// Takes over these sequencers, by core. None are there to be stepped in real time.
    pub(super) fn new(seed: u64, sequencers: Vec<Sequencer>) -> Self {
        let mut order = Vec::new();
        for (core, _) in (0u16..).zip(&sequencers) {
            order.push(Actor::Core(core));
            let queues = map::FIRST_TRANSFER_QUEUE..map::DMA_QUEUES;
            order.extend(queues.map(|queue| Actor::Transfer(core, queue)));
        }
        Self(Mutex::new(Actors {
            random: SplitMix::new(seed ^ SALT),
            sequencers,
            order,
        }))
    }

    /// One micro-step of one actor; `false` when none can act.
    pub(super) fn step(&self, hardware: &Hardware) -> bool {
        self.0.lock().step(hardware)
    }

    /// Lets a core notice that it was reset.
    pub(super) fn let_notice(&self, hardware: &Hardware, tpb: &Tpb) {
        let mut actors = self.0.lock();
        let sequencer = actors.sequencers.get_mut(usize::from(tpb.index.get()));
        if let Some(sequencer) = sequencer {
            sequencer.step(Core { hardware, tpb });
        }
    }

    /// The earliest moment after the present one at which somebody who waits for time can act.
    pub(super) fn next_due(&self, hardware: &Hardware) -> Option<u64> {
        self.0.lock().next_due(hardware)
    }

    /// Steps and moves the clock until nobody can act and nobody waits for time; `false` when that takes too long.
    pub(super) fn run_until_idle(&self, hardware: &Hardware) -> bool {
        let mut actors = self.0.lock();
        for _ in 0..STEP_LIMIT {
            if actors.step(hardware) {
                continue;
            }
            let Some(due) = actors.next_due(hardware) else {
                return true;
            };
            let wait = due.saturating_sub(hardware.now_ns());
            hardware.host_clock.advance(Duration::from_nanos(wait));
        }
        false
    }
}

impl Actors {
    fn step(&mut self, hardware: &Hardware) -> bool {
        // Draws without putting back, so that each of those that can act is as likely as the others.
        for left in (1..=self.order.len()).rev() {
            if hardware.is_lost() {
                break;
            }
            let drawn = self.random.below(left);
            // PANIC: `drawn` is below `left`, which is at most the length.
            self.order.swap(drawn, left - 1);
            if self.act(self.order[left - 1], hardware) == Progress::Again {
                return true;
            }
        }
        false
    }

    fn act(&mut self, actor: Actor, hardware: &Hardware) -> Progress {
        match actor {
            Actor::Core(core) => {
                let sequencer = self.sequencers.get_mut(usize::from(core));
                match (sequencer, hardware.tpb(TpbIndex::new(core))) {
                    (Some(sequencer), Ok(tpb)) => sequencer.step(Core { hardware, tpb }),
                    _ => Progress::Asleep,
                }
            }
            Actor::Transfer(core, queue) => match hardware.tpb(TpbIndex::new(core)) {
                // PANIC: a queue below `map::DMA_QUEUES`, here and below.
                Ok(tpb) => tpb.dma[usize::from(queue)].lock().advance(
                    &hardware.bus,
                    hardware.costs,
                    hardware.now_ns(),
                ),
                Err(_) => Progress::Asleep,
            },
        }
    }

    fn next_due(&self, hardware: &Hardware) -> Option<u64> {
        if hardware.is_lost() {
            return None;
        }
        let now = hardware.now_ns();
        let due = |actor: &Actor| match *actor {
            Actor::Core(core) => {
                let backed_up = hardware.tpb(TpbIndex::new(core)).ok()?.is_backed_up();
                let sequencer = self.sequencers.get(usize::from(core))?;
                sequencer.due().filter(|_| !backed_up)
            }
            Actor::Transfer(core, queue) => {
                let tpb = hardware.tpb(TpbIndex::new(core)).ok()?;
                tpb.dma[usize::from(queue)].lock().due()
            }
        };
        self.order
            .iter()
            .filter_map(due)
            .filter(|due| *due > now)
            .min()
    }
}
