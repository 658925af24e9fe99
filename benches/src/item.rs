//! What travels through the queues: 8 and 32 bytes that carry their number.
//!
//! Used by the candidates, which make items, and by [`Check`], which looks at each that arrives.

use std::hint::black_box;

/// A value of one size, made from its number.
pub(crate) trait Item: Copy + Default + Send + Sync + 'static {
    fn nth(number: u64) -> Self;
    /// The number.
    fn number(&self) -> u64;
    /// All that is not the number, so that every word has to be read.
    fn rest(&self) -> u64;
}

impl Item for u64 {
    #[inline(always)]
    fn nth(number: u64) -> Self {
        number
    }

    #[inline(always)]
    fn number(&self) -> u64 {
        *self
    }

    #[inline(always)]
    fn rest(&self) -> u64 {
        0
    }
}

impl Item for [u64; 4] {
    #[inline(always)]
    fn nth(number: u64) -> Self {
        [number, number ^ 1, number ^ 3, number ^ 7]
    }

    #[inline(always)]
    fn number(&self) -> u64 {
        self[0]
    }

    #[inline(always)]
    fn rest(&self) -> u64 {
        self[1] ^ self[2] ^ self[3]
    }
}

/// Sees to it that the items arrive complete and in order.
///
/// It keeps what it finds in registers and judges at the end: no branch while the clock runs.
#[derive(Debug, Default)]
pub(crate) struct Check {
    expected: u64,
    wrong: u64,
    rest: u64,
}

impl Check {
    #[inline(always)]
    pub(crate) fn see<T: Item>(&mut self, item: &T) {
        self.wrong |= item.number() ^ self.expected;
        self.rest ^= item.rest();
        self.expected += 1;
    }

    /// # Panics
    /// When an item was lost, doubled or out of order.
    pub(crate) fn finish(self) {
        black_box(self.rest);
        assert_eq!(self.wrong, 0, "an item is not the one that was due");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_in_order_pass() {
        let mut check = Check::default();
        for number in 0..5 {
            check.see(&<[u64; 4]>::nth(number));
        }
        check.finish();
    }

    #[test]
    #[should_panic(expected = "not the one that was due")]
    fn a_lost_item_is_noticed() {
        let mut check = Check::default();
        check.see(&0_u64);
        check.see(&2_u64);
        check.finish();
    }
}
