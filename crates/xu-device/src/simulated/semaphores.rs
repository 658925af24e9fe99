//! The semaphores of a core, and the doorbells that its start semaphore counts.
//!
//! Owned by the core, which changes them under its lock.
//! Rules: values saturate at both ends. A doorbell has a number, which the fault plan knows it by; as many are outstanding
//! as the start semaphore is above zero. Those that came by a larger sum, or by a store, get their numbers when they
//! are consumed.

use super::injector::Doorbell;
use crate::map;
use std::collections::VecDeque;
use xu_abi::SemIndex;

const SEMAPHORES: usize = 256;

/// All semaphores of a core. Fresh ones are 0.
#[derive(Debug)]
pub(super) struct Semaphores {
    values: [i32; SEMAPHORES],
    /// Number of doorbells so far, those that failed or were lost included.
    doorbells: u64,
    /// Numbers of the doorbells that have rung and are not consumed: at most as many as the start semaphore says.
    outstanding: VecDeque<u64>,
}

impl Semaphores {
    pub(super) fn new() -> Self {
        Self {
            values: [0; SEMAPHORES],
            doorbells: 0,
            outstanding: VecDeque::new(),
        }
    }

    pub(super) fn value(&self, index: SemIndex) -> i32 {
        // PANIC: 256 semaphores, eight bits.
        self.values[usize::from(index.get())]
    }

    pub(super) fn value_mut(&mut self, index: SemIndex) -> &mut i32 {
        // PANIC: as above.
        &mut self.values[usize::from(index.get())]
    }

    /// Changes a value from outside. Of the doorbells that are not counted any more the latest are forgotten.
    pub(super) fn change(&mut self, index: SemIndex, change: impl FnOnce(i32) -> i32) {
        let value = self.value_mut(index);
        *value = change(*value);
        self.forget_doorbells();
    }

    /// Takes one; `false` when there is none to take.
    pub(super) fn take(&mut self, index: SemIndex) -> bool {
        let value = self.value_mut(index);
        let above_zero = *value > 0;
        if above_zero {
            *value -= 1;
        }
        above_zero
    }

    /// Rings the start semaphore by adding `value`, at least 1, unless `verdict` on this doorbell's number says
    /// otherwise.
    pub(super) fn ring(&mut self, value: i32, verdict: impl FnOnce(u64) -> Doorbell) -> Doorbell {
        let number = self.next_doorbell();
        let verdict = verdict(number);
        let start = self.value_mut(map::INFERENCE_START);
        if verdict == Doorbell::Rings && *start < i32::MAX {
            *start = start.saturating_add(value);
            self.outstanding.push_back(number);
            self.forget_doorbells();
        }
        verdict
    }

    /// Consumes a doorbell, if one has rung: which one.
    pub(super) fn take_doorbell(&mut self) -> Option<u64> {
        if !self.take(map::INFERENCE_START) {
            return None;
        }
        let rung = self.outstanding.pop_front();
        Some(rung.unwrap_or_else(|| self.next_doorbell()))
    }

    /// Sets every semaphore that programs may use to zero.
    pub(super) fn clear_those_of_programs(&mut self) {
        self.values[usize::from(map::FIRST_PROGRAM_SEMAPHORE)..].fill(0);
    }

    /// Sets all to zero. Doorbells are counted on.
    pub(super) fn clear(&mut self) {
        self.values.fill(0);
        self.outstanding.clear();
    }

    fn next_doorbell(&mut self) -> u64 {
        let number = self.doorbells;
        self.doorbells += 1;
        number
    }

    fn forget_doorbells(&mut self) {
        let counted = usize::try_from(self.value(map::INFERENCE_START)).unwrap_or(0);
        self.outstanding.truncate(counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(semaphores: &mut Semaphores, value: i32) {
        assert_eq!(semaphores.ring(value, |_| Doorbell::Rings), Doorbell::Rings);
    }

    #[test]
    fn doorbells_that_are_taken_back_are_the_latest_and_their_numbers_are_not_used_again() {
        let mut semaphores = Semaphores::new();
        for _ in 0..3 {
            ring(&mut semaphores, 1);
        }
        semaphores.change(map::INFERENCE_START, |value| value - 2);
        assert_eq!(semaphores.take_doorbell(), Some(0));
        assert_eq!(semaphores.take_doorbell(), None);
        ring(&mut semaphores, 1);
        assert_eq!(semaphores.take_doorbell(), Some(3));
    }

    #[test]
    fn what_a_sum_or_a_store_has_raised_is_numbered_when_it_is_consumed() {
        let mut semaphores = Semaphores::new();
        ring(&mut semaphores, 3);
        let consumed = [(); 4].map(|()| semaphores.take_doorbell());
        assert_eq!(consumed, [Some(0), Some(1), Some(2), None]);
        semaphores.change(map::INFERENCE_START, |_| 1);
        assert_eq!(semaphores.take_doorbell(), Some(3));
    }

    #[test]
    fn a_doorbell_below_zero_only_counts() {
        let mut semaphores = Semaphores::new();
        semaphores.change(map::INFERENCE_START, |_| -1);
        ring(&mut semaphores, 1);
        assert_eq!(semaphores.take_doorbell(), None);
        ring(&mut semaphores, 1);
        assert_eq!(semaphores.take_doorbell(), Some(1));
        assert_eq!(semaphores.value(map::INFERENCE_START), 0);
    }

    #[test]
    fn the_start_semaphore_saturates_and_no_doorbell_is_remembered_for_it() {
        let mut semaphores = Semaphores::new();
        ring(&mut semaphores, i32::MAX);
        ring(&mut semaphores, 1);
        assert_eq!(semaphores.outstanding, [0]);
        assert_eq!(semaphores.value(map::INFERENCE_START), i32::MAX);
    }
}
