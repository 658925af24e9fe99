//! Counts what is complete in a closed loop, and takes a time stamp after each block of it.

use crate::clock;

/// How many requests a block has: several laps of the loop, since answers may come in bursts.
pub(crate) const fn block(depth: usize) -> usize {
    match depth {
        0..=4 => 16,
        5..=16 => 32,
        _ => 64,
    }
}

#[derive(Debug)]
pub(crate) struct Tally<'a> {
    stamps: &'a mut [u64],
    /// Stamps that are taken.
    taken: usize,
    block: usize,
    in_block: usize,
}

impl<'a> Tally<'a> {
    /// For a loop with so many requests outstanding.
    pub(crate) fn new(stamps: &'a mut [u64], depth: usize) -> Self {
        Self {
            stamps,
            taken: 0,
            block: block(depth),
            in_block: 0,
        }
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.taken == self.stamps.len()
    }

    /// So many more are complete: at most as many as a block has.
    #[inline]
    pub(crate) fn completed(&mut self, count: usize) {
        self.in_block += count;
        if self.in_block >= self.block {
            self.in_block -= self.block;
            if let Some(stamp) = self.stamps.get_mut(self.taken) {
                *stamp = clock::now();
                self.taken += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_for_each_block() {
        let mut stamps = [0; 2];
        let mut tally = Tally::new(&mut stamps, 1);
        for _ in 0..31 {
            tally.completed(1);
        }
        assert!(!tally.is_over());
        tally.completed(1);
        assert!(tally.is_over());
        assert!(stamps[0] > 0 && stamps[1] >= stamps[0]);
    }
}
