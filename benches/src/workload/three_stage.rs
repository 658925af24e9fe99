//! Rings with three stages: how many requests go through, and how long one takes until its completion is seen.

use std::hint::black_box;

use super::round_trip::{TRIPS, blocks_of};
use super::{Rig, warm_up};
use crate::candidates::Wait;
use crate::candidates::naive::Naive;
use crate::candidates::three_cursor::{self, Submit, Work};
use crate::clock;
use crate::item::{Check, Item};
use crate::pair;
use crate::windows::{Blocks, Timing, co_running, median_block};

/// Requests between two time stamps.
const BLOCK: usize = 64;

/// A ring with three stages.
pub(crate) trait Stages {
    type Front: Front;
    type Back: Back;

    fn with_capacity(capacity: usize) -> (Self::Front, Self::Back);
}

/// The end that submits and triggers.
pub(crate) trait Front: Send {
    /// Submits and triggers request `number`, and waits while the ring is full.
    fn submit_and_trigger<W: Wait>(&mut self, number: u64);
    /// Whether the latest request is complete.
    fn is_completed(&self) -> bool;
}

/// The end that completes.
pub(crate) trait Back: Send {
    /// Completes the next request, waiting for it, and shows it to `check`.
    fn complete<W: Wait>(&mut self, check: &mut Check);
}

/// `xu_ring::queue::ring`.
pub(crate) struct Ours;

impl Stages for Ours {
    type Front = Submit;
    type Back = Work;

    fn with_capacity(capacity: usize) -> (Submit, Work) {
        three_cursor::with_capacity(capacity)
    }
}

impl Front for Submit {
    #[inline(always)]
    fn submit_and_trigger<W: Wait>(&mut self, _: u64) {
        while !self.submit() {
            W::once();
        }
        self.trigger_next();
    }

    #[inline(always)]
    fn is_completed(&self) -> bool {
        Submit::is_completed(self)
    }
}

impl Back for Work {
    #[inline(always)]
    fn complete<W: Wait>(&mut self, check: &mut Check) {
        loop {
            if let Some(number) = self.pop() {
                check.see(&number);
                return;
            }
            W::once();
        }
    }
}

impl Stages for Naive {
    type Front = Naive;
    type Back = Naive;

    fn with_capacity(capacity: usize) -> (Naive, Naive) {
        let ring = Naive::with_capacity(capacity);
        (ring.clone(), ring)
    }
}

impl Front for Naive {
    #[inline(always)]
    fn submit_and_trigger<W: Wait>(&mut self, number: u64) {
        let [_, payload @ ..] = <[u64; 4]>::nth(number);
        while !self.submit(payload) {
            W::once();
        }
        self.trigger_next();
    }

    #[inline(always)]
    fn is_completed(&self) -> bool {
        Naive::is_completed(self)
    }
}

impl Back for Naive {
    #[inline(always)]
    fn complete<W: Wait>(&mut self, check: &mut Check) {
        loop {
            if let Some((number, [a, b, c])) = self.pop() {
                check.see(&[number, a, b, c]);
                return;
            }
            W::once();
        }
    }
}

/// Requests through all stages.
pub(crate) fn throughput<S: Stages, W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing> {
    let (processors, clock) = (rig.processors, rig.clock);
    let [sent, received] = rig.stamps(blocks);
    let (front, back) = S::with_capacity(capacity);
    let ends = pair::run(
        processors,
        || submit_all::<_, W>(front, sent),
        || complete_by::<_, W>(BLOCK, back, received),
    );
    drop(ends);
    let blocks = Blocks {
        items: BLOCK,
        warm_up: warm_up(blocks, capacity, BLOCK),
        backlog: capacity.div_ceil(BLOCK),
    };
    co_running(sent, received, blocks, clock)
}

/// One request: from its submission until its completion is seen.
pub(crate) fn to_completion<S: Stages, W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing> {
    let (processors, clock) = (rig.processors, rig.clock);
    let [stamps, others] = rig.stamps(blocks);
    let (front, back) = S::with_capacity(capacity);
    let ends = pair::run(
        processors,
        || submit_and_wait::<_, W>(front, stamps),
        || complete_by::<_, W>(TRIPS, back, others),
    );
    drop(ends);
    median_block(stamps, blocks_of(blocks, capacity), clock)
}

#[inline(never)]
fn submit_all<F: Front, W: Wait>(mut front: F, stamps: &mut [u64]) -> F {
    let mut number = 0;
    for stamp in stamps {
        for _ in 0..BLOCK {
            front.submit_and_trigger::<W>(number);
            number += 1;
        }
        *stamp = clock::now();
    }
    black_box(front)
}

#[inline(never)]
fn complete_by<B: Back, W: Wait>(block: usize, mut back: B, stamps: &mut [u64]) -> B {
    let mut check = Check::default();
    for stamp in stamps {
        for _ in 0..block {
            back.complete::<W>(&mut check);
        }
        *stamp = clock::now();
    }
    check.finish();
    black_box(back)
}

#[inline(never)]
fn submit_and_wait<F: Front, W: Wait>(mut front: F, stamps: &mut [u64]) -> F {
    let mut number = 0;
    for stamp in stamps {
        for _ in 0..TRIPS {
            front.submit_and_trigger::<W>(number);
            number += 1;
            while !front.is_completed() {
                W::once();
            }
        }
        *stamp = clock::now();
    }
    black_box(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::Eager;

    fn all_arrive<S: Stages>() {
        let (front, back) = S::with_capacity(2 * BLOCK);
        let front = submit_all::<_, Eager>(front, &mut [0; 2]);
        assert!(!front.is_completed());
        complete_by::<_, Eager>(BLOCK, back, &mut [0; 2]);
        assert!(front.is_completed());
    }

    #[test]
    fn every_request_arrives() {
        all_arrive::<Ours>();
        all_arrive::<Naive>();
    }
}
