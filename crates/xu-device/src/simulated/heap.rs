//! A first-fit allocator over one range of addresses.
//!
//! Owned by each memory region, called for every `allocate` and `release`.
//! Rules: free blocks never touch each other (they coalesce), blocks in use never overlap, and only the
//! holder that allocated a block can release it.

use std::collections::BTreeMap;

/// Who holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Whoever called `Device::allocate`.
    Client,
    /// The machine itself: a notification ring.
    Machine,
}

/// Why nothing was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A block of zero bytes.
    NoBytes,
    /// The alignment is not a power of two.
    Alignment,
    /// No free block is large enough.
    Exhausted {
        /// Bytes free in all.
        free: u64,
        /// The largest free block, bytes.
        largest: u64,
    },
}

/// The allocator. Addresses are absolute.
#[derive(Debug)]
pub(super) struct Heap {
    /// Start and length of each free block.
    free: BTreeMap<u64, u64>,
    /// Start, length and holder of each block in use.
    used: BTreeMap<u64, (u64, Holder)>,
}

impl Heap {
    /// A heap over `bytes` bytes from `start`; the range ends inside the 64-bit space.
    pub(super) fn new(start: u64, bytes: u64) -> Self {
        Self {
            free: BTreeMap::from([(start, bytes)]),
            used: BTreeMap::new(),
        }
    }

    /// Takes `bytes` at a multiple of `align`, from the lowest block where they fit.
    pub(super) fn allocate(
        &mut self,
        bytes: u64,
        align: u64,
        holder: Holder,
    ) -> Result<u64, Refusal> {
        if bytes == 0 {
            return Err(Refusal::NoBytes);
        }
        if !align.is_power_of_two() {
            return Err(Refusal::Alignment);
        }
        let fit = self.free.iter().find_map(|(&start, &len)| {
            let aligned = start.checked_next_multiple_of(align)?;
            let end = aligned.checked_add(bytes)?;
            (end <= start + len).then_some((start, len, aligned, end))
        });
        let Some((start, len, aligned, end)) = fit else {
            return Err(Refusal::Exhausted {
                free: self.free_bytes(),
                largest: self.largest_free(),
            });
        };
        self.free.remove(&start);
        if aligned > start {
            self.free.insert(start, aligned - start);
        }
        if start + len > end {
            self.free.insert(end, start + len - end);
        }
        self.used.insert(aligned, (bytes, holder));
        Ok(aligned)
    }

    /// Bytes free in all.
    pub(super) fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }

    /// The largest free block, bytes.
    pub(super) fn largest_free(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// Gives back the block that begins at `start`; `false` when `holder` has no such block.
    pub(super) fn release(&mut self, start: u64, holder: Holder) -> bool {
        let bytes = match self.used.get(&start) {
            Some(&(bytes, held_by)) if held_by == holder => bytes,
            _ => return false,
        };
        self.used.remove(&start);
        let mut merged = (start, bytes);
        if let Some((&below, &len)) = self.free.range(..start).next_back()
            && below + len == start
        {
            self.free.remove(&below);
            merged = (below, len + bytes);
        }
        if let Some(above) = self.free.remove(&(start + bytes)) {
            merged.1 += above;
        }
        self.free.insert(merged.0, merged.1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 0x1000;
    const BYTES: u64 = 512;

    #[test]
    fn refusals_say_why() {
        let mut heap = Heap::new(BASE, BYTES);
        assert_eq!(heap.allocate(0, 1, Holder::Client), Err(Refusal::NoBytes));
        assert_eq!(heap.allocate(1, 3, Holder::Client), Err(Refusal::Alignment));
        assert_eq!(heap.allocate(1, 0, Holder::Client), Err(Refusal::Alignment));
        let first = heap.allocate(200, 1, Holder::Client).unwrap();
        heap.allocate(100, 1, Holder::Client).unwrap();
        assert!(heap.release(first, Holder::Client));
        let refused = Refusal::Exhausted {
            free: 412,
            largest: 212,
        };
        assert_eq!(heap.allocate(300, 1, Holder::Client), Err(refused));
        assert_eq!(heap.allocate(1, 1 << 63, Holder::Client), Err(refused));
        assert_eq!(heap.allocate(u64::MAX, 1, Holder::Client), Err(refused));
    }

    #[test]
    fn only_the_holder_releases() {
        let mut heap = Heap::new(BASE, BYTES);
        let block = heap.allocate(16, 16, Holder::Machine).unwrap();
        assert!(!heap.release(block, Holder::Client));
        assert!(!heap.release(block + 1, Holder::Machine));
        assert!(heap.release(block, Holder::Machine));
        assert!(!heap.release(block, Holder::Machine));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Allocate { bytes: u64, align_log2: u32 },
        Release { nth: usize },
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (1u64..100, 0u32..8).prop_map(|(bytes, align_log2)| Op::Allocate { bytes, align_log2 }),
            any::<usize>().prop_map(|nth| Op::Release { nth }),
        ]
    }

    /// The naive model: one flag per byte.
    fn first_fit(taken: &[bool], bytes: u64, align: u64) -> Option<u64> {
        (BASE..BASE + BYTES)
            .filter(|start| start.is_multiple_of(align) && start + bytes <= BASE + BYTES)
            .find(|start| {
                let from = (start - BASE) as usize;
                taken[from..from + bytes as usize].iter().all(|byte| !byte)
            })
    }

    proptest! {
        #[test]
        fn agrees_with_one_flag_per_byte(ops in prop::collection::vec(op(), 0..120)) {
            let mut heap = Heap::new(BASE, BYTES);
            let mut taken = vec![false; BYTES as usize];
            let mut blocks: Vec<(u64, u64)> = Vec::new();
            for op in ops {
                match op {
                    Op::Allocate { bytes, align_log2 } => {
                        let align = 1 << align_log2;
                        let got = heap.allocate(bytes, align, Holder::Client);
                        match first_fit(&taken, bytes, align) {
                            Some(start) => {
                                prop_assert_eq!(got, Ok(start));
                                let from = (start - BASE) as usize;
                                taken[from..from + bytes as usize].fill(true);
                                blocks.push((start, bytes));
                            }
                            None => {
                                let free = taken.iter().filter(|byte| !**byte).count() as u64;
                                let largest = taken
                                    .split(|byte| *byte)
                                    .map(<[bool]>::len)
                                    .max()
                                    .unwrap_or(0) as u64;
                                prop_assert_eq!(got, Err(Refusal::Exhausted { free, largest }));
                            }
                        }
                    }
                    Op::Release { nth } if !blocks.is_empty() => {
                        let (start, bytes) = blocks.swap_remove(nth % blocks.len());
                        prop_assert!(heap.release(start, Holder::Client));
                        let from = (start - BASE) as usize;
                        taken[from..from + bytes as usize].fill(false);
                    }
                    Op::Release { .. } => {}
                }
            }
            for (start, _) in blocks {
                prop_assert!(heap.release(start, Holder::Client));
            }
            prop_assert_eq!(heap.free, BTreeMap::from([(BASE, BYTES)]));
        }
    }
}
