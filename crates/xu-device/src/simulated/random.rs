//! A small seeded generator: the same seed draws the same numbers.
//!
//! Owned by each core's sequencer (the order in which engines step) and by the driver of virtual time (the order in
//! which cores step); used once by the clock, and once for each draw of the fault plan.
//! The algorithm is SplitMix64: one word of state, every seed is good, neighbouring seeds do not resemble
//! each other.

/// The generator.
#[derive(Clone, Debug)]
pub(super) struct SplitMix(u64);

impl SplitMix {
    const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GAMMA);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number from 0 up to, but not including, 1.
    pub(super) const fn unit(&mut self) -> f64 {
        const BITS: u32 = 53;
        // CAST: as many bits as the mantissa has.
        (self.next() >> (u64::BITS - BITS)) as f64 / (1u64 << BITS) as f64
    }

    /// A number below `bound`, or 0 when `bound` is 0.
    pub(super) const fn below(&mut self, bound: usize) -> usize {
        // The high half of the product: even enough for a bound as small as five.
        // CAST: the result is below `bound`.
        ((self.next() as u128 * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_numbers() {
        let mut generator = SplitMix::new(0);
        // First two outputs of the reference implementation.
        assert_eq!(generator.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(generator.next(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn every_number_below_the_bound_is_drawn() {
        let mut generator = SplitMix::new(7);
        let mut drawn = [false; 5];
        for _ in 0..200 {
            drawn[generator.below(5)] = true;
        }
        assert_eq!(drawn, [true; 5]);
        let units: Vec<f64> = (0..200).map(|_| generator.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        assert!(units.iter().any(|unit| *unit < 0.1) && units.iter().any(|unit| *unit > 0.9));
        assert_eq!(generator.below(0), 0);
    }
}
