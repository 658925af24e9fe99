//! Numbers for shuffling and for the bootstrap: SplitMix64, the same in each run.

#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number less than `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // CAST: the high half of the product is less than the bound.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing_and_moves_something() {
        let mut things: Vec<u32> = (0..50).collect();
        Random::seeded(3).shuffle(&mut things);
        assert_ne!(things, (0..50).collect::<Vec<_>>());
        things.sort_unstable();
        assert_eq!(things, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_reach_the_whole_range() {
        let mut random = Random::seeded(7);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[random.below(10)] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
