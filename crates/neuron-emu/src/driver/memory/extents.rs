//! Free ranges of an address space, handed out first fit.
//!
//! Used by [`pools`](super::pools). Ranges that touch are one: a free that joins two neighbours leaves a single entry.

use std::collections::BTreeMap;
use std::ops::Range;

/// Free ranges: bytes by first address.
#[derive(Debug)]
pub(super) struct Extents {
    free: BTreeMap<u64, u64>,
    whole: Range<u64>,
}

impl Extents {
    /// All of a range is free.
    pub(super) fn new(whole: Range<u64>) -> Self {
        let mut extents = Self {
            free: BTreeMap::new(),
            whole: whole.clone(),
        };
        extents.give(whole);
        extents
    }

    /// The range of all addresses, free or not.
    pub(super) fn whole(&self) -> Range<u64> {
        self.whole.clone()
    }

    /// The lowest free range of so many bytes, more than 0, whose first address is a multiple of `align`, a power of two.
    pub(super) fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let first = self.free.iter().find_map(|(start, free)| {
            let first = start.checked_next_multiple_of(align)?;
            (first.checked_add(bytes)? <= start + free).then_some(first)
        })?;
        self.cut(first, bytes).then_some(first)
    }

    /// Takes this range, if it is free.
    pub(super) fn cut(&mut self, first: u64, bytes: u64) -> bool {
        let Some((&start, &free)) = self.free.range(..=first).next_back() else {
            return false;
        };
        let (end, free_end) = (first + bytes, start + free);
        if end > free_end {
            return false;
        }
        self.free.remove(&start);
        self.insert(start..first);
        self.insert(end..free_end);
        true
    }

    /// A range that was taken is free again.
    pub(super) fn give(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &bytes)) = self.free.range(..start).next_back()
            && before + bytes == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(bytes) = self.free.remove(&end) {
            end += bytes;
        }
        self.insert(start..end);
    }

    fn insert(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.free.insert(range.start, range.end - range.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_range_that_is_long_enough_is_taken() {
        let mut extents = Extents::new(0x1000..0x9000);
        assert_eq!(extents.take(0x1000, 0x1000), Some(0x1000));
        assert_eq!(extents.take(0x2000, 0x4000), Some(0x4000));
        assert_eq!(extents.take(0x2000, 0x1000), Some(0x2000));
        assert_eq!(extents.take(0x4000, 0x1000), None);
        assert_eq!(extents.take(0x3000, 0x1000), Some(0x6000));
        assert_eq!(extents.take(0x1000, 0x1000), None);
    }

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut extents = Extents::new(0..0x6000);
        for first in [0, 0x2000, 0x4000] {
            assert_eq!(extents.take(0x2000, 1), Some(first));
        }
        extents.give(0..0x2000);
        extents.give(0x4000..0x6000);
        extents.give(0x2000..0x4000);
        assert_eq!(extents.take(0x6000, 1), Some(0));
    }

    #[test]
    fn a_range_that_is_not_free_cannot_be_cut() {
        let mut extents = Extents::new(0x1000..0x4000);
        assert!(extents.cut(0x2000, 0x1000));
        assert!(!extents.cut(0x2000, 0x1000));
        assert!(!extents.cut(0x1000, 0x2000));
        assert!(!extents.cut(0x3000, 0x2000));
        assert!(!extents.cut(0, 0x1000));
        assert!(extents.cut(0x3000, 0x1000) && extents.cut(0x1000, 0x1000));
    }
}
