//! How one sample is taken: a thread of its own on the first processor, and a time stamp after each few executions.

use std::hint::black_box;
use xu_device::stage::Staged;

use super::null::Doorbell;
use super::subject::Subject;
use crate::clock::{self, Clock};
use crate::pin;
use crate::windows::{Blocks, Timing, median_block, median_block_of};
use crate::workload::Rig;

/// Executions between two time stamps. Their records fit into the rings.
const EXECUTIONS: usize = 32;
/// One block in so many is warm-up.
const WARM_UP: usize = 16;

/// Staging alone: nobody answers.
pub(crate) fn stage<S: Subject>(rig: &mut Rig, tpbs: usize, blocks: usize) -> Option<Timing> {
    stamped::<S>(rig, tpbs, blocks, Doorbell::IsSilent, |subject| {
        black_box(subject.stage()?);
        Some(())
    })
}

/// Staging, an answer at once, harvesting.
pub(crate) fn round_trip<S: Subject>(rig: &mut Rig, tpbs: usize, blocks: usize) -> Option<Timing> {
    stamped::<S>(rig, tpbs, blocks, Doorbell::Answers, |subject| {
        let staged = subject.stage()?;
        subject.harvest(black_box(staged))
    })
}

/// A look at rings in which there is nothing: what polling costs.
pub(crate) fn look<S: Subject>(rig: &mut Rig, tpbs: usize, blocks: usize) -> Option<Timing> {
    let mut has_begun = false;
    stamped::<S>(rig, tpbs, blocks, Doorbell::IsSilent, |subject| {
        if !has_begun {
            subject.begin();
            has_begun = true;
        }
        subject.look()
    })
}

/// Harvesting alone: the records of a block's executions are there before its time begins.
pub(crate) fn harvest<S: Subject>(rig: &mut Rig, tpbs: usize, blocks: usize) -> Option<Timing> {
    let (processors, clock) = (rig.processors, rig.clock);
    let lasted = pin::on(processors[0], || {
        let mut subject = S::open(processors, tpbs, Doorbell::IsSilent)?;
        let mut lasted = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            for _ in 0..EXECUTIONS {
                subject.run_execution();
            }
            let begin = clock::now();
            for _ in 0..EXECUTIONS {
                subject.harvest(black_box(Staged::default()))?;
            }
            lasted.push(clock::now().wrapping_sub(begin));
        }
        subject.is_sound().then_some(lasted)
    })?;
    let warm = lasted.get(blocks / WARM_UP..)?.to_vec();
    median_block_of(warm, EXECUTIONS, clock)
}

fn stamped<S: Subject>(
    rig: &mut Rig,
    tpbs: usize,
    blocks: usize,
    doorbell: Doorbell,
    once: impl FnMut(&mut S) -> Option<()> + Send,
) -> Option<Timing> {
    let (processors, clock): (_, Clock) = (rig.processors, rig.clock);
    let [stamps, _] = rig.stamps(blocks);
    pin::on(processors[0], || {
        let subject = S::open(processors, tpbs, doorbell)?;
        run(subject, stamps, once)
    })?;
    let read = Blocks {
        items: EXECUTIONS,
        warm_up: blocks / WARM_UP,
        backlog: 0,
    };
    median_block(stamps, read, clock)
}

#[inline(never)]
fn run<S: Subject>(
    mut subject: S,
    stamps: &mut [u64],
    mut once: impl FnMut(&mut S) -> Option<()>,
) -> Option<()> {
    for stamp in stamps {
        for _ in 0..EXECUTIONS {
            once(&mut subject)?;
        }
        *stamp = clock::now();
    }
    subject.is_sound().then_some(())
}
