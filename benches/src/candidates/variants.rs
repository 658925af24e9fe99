//! Our queue, `xu_ring::spsc`, with one choice made otherwise: throw-away queues that show what each choice is worth.
//!
//! | module | what |
//! |---|---|
//! | `memory` | what all share: slots in a row, and the way of an end through them, as in ours |
//! | `state` | the hand-over of ours, and other choices about the way, the spacing and prefetching |
//! | `cursors` | shared cursors, with and without a copy of the far one |
//! | `sequence` | a number in each slot, and one cursor that is published now and then |
//! | `parking` | the swap: our own `xu_ring::spsc::parking` |

#[allow(unsafe_code, reason = "a queue")]
mod cursors;
#[allow(unsafe_code, reason = "memory of queues")]
mod memory;
mod parking;
#[allow(unsafe_code, reason = "a queue")]
mod sequence;
#[allow(unsafe_code, reason = "a queue")]
mod state;

pub(crate) use cursors::Cursors;
pub(crate) use parking::Parking;
pub(crate) use sequence::Sequence;
pub(crate) use state::State;

use super::spsc;
use crate::item::Item;

/// A line of cache, in bytes.
pub(crate) const LINE: usize = 64;

/// What the report says about a variant: what it does, and what ours does instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) lines: [&'static str; 2],
}

pub(crate) const CURSORS: Variant = Variant {
    name: "shared cursors",
    lines: [
        "The usual design: dense items, a cursor per end, 128 bytes apart, stored at each item; each end keeps a copy of the far one.",
        "Ours: a byte of state beside the value, so that the line with the value is all that travels.",
    ],
};
pub(crate) const UNCACHED: Variant = Variant {
    name: "shared cursors, no copies",
    lines: [
        "The same, but each push and each pop loads the far cursor.",
        "Ours: an end looks at nothing but the slot that it is about to use.",
    ],
};
pub(crate) const SEQUENCE: Variant = Variant {
    name: "sequence numbers",
    lines: [
        "The consumer polls a number in the slot; its cursor is published every capacity/8 items, at most 64, and when it finds nothing.",
        "Ours: the consumer writes to the slot, and gives each back at once; the producer needs no cursor.",
    ],
};
pub(crate) const DIVISION: Variant = Variant {
    name: "index by division",
    lines: [
        "Each push and each pop finds its slot by `%` of a capacity that is known at run time only.",
        "Ours: the place goes on by an addition and a comparison.",
    ],
};
pub(crate) const CLOSE: Variant = Variant {
    name: "slots close together",
    lines: [
        "Slots follow each other without a gap, so that both ends may want one line at the same time.",
        "Ours: up to 64 slots, each takes a power of two of bytes, and with these items a line.",
    ],
};
pub(crate) const LINE_EACH: Variant = Variant {
    name: "a line for each slot",
    lines: [
        "Every slot begins a line of its own.",
        "Ours: several small slots share a line, and so do more than 64 of any size, since fewer lines travel.",
    ],
};
pub(crate) const PREFETCHING: Variant = Variant {
    name: "prefetching consumer",
    lines: [
        "Each pop asks for the line two lines further on, for writing (`prefetchw`).",
        "Ours: nobody asks for a line before it is needed, which the other end may be using.",
    ],
};
pub(crate) const SWAP: Variant = Variant {
    name: "swap (`spsc::parking`)",
    lines: [
        "`try_send` and `try_recv` change the state by a swap, which finds a sleeper; `try_send` also looks whether there is a receiver.",
        "Ours: a store, since nobody sleeps.",
    ],
};
pub(crate) const COPY: Variant = Variant {
    name: "the same, written again",
    lines: [
        "None of these: our choices, in the code that the variants are made of.",
        "As far as this is from 1, the others may be for no reason.",
    ],
};

/// In the order of the report.
pub(crate) const ALL: [Variant; 9] = [
    CURSORS,
    UNCACHED,
    SEQUENCE,
    DIVISION,
    CLOSE,
    LINE_EACH,
    PREFETCHING,
    SWAP,
    COPY,
];

/// How far slots are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    AsOurs,
    Close,
    LineEach,
}

impl Spacing {
    /// From one slot of so many bytes to the next.
    pub(crate) fn stride<T: Item>(self, slot: usize, capacity: usize) -> usize {
        match self {
            Self::AsOurs => spsc::stride::<T>(capacity).max(slot),
            Self::Close => slot,
            Self::LineEach => slot.next_multiple_of(LINE),
        }
    }
}

/// What a variant of `state` does otherwise than ours.
pub(crate) trait Choice: Send {
    const SPACING: Spacing = Spacing::AsOurs;
    /// Finds slots by division.
    const DIVIDES: bool = false;
    /// The consumer prefetches.
    const PREFETCHES: bool = false;
}

/// Nothing.
pub(crate) struct Same;
/// Slots are found by division.
pub(crate) struct Divided;
/// Slots are close together.
pub(crate) struct Close;
/// Each slot has a line of its own.
pub(crate) struct LineEach;
/// The consumer prefetches.
pub(crate) struct Prefetching;

impl Choice for Same {}
impl Choice for Divided {
    const DIVIDES: bool = true;
}
impl Choice for Close {
    const SPACING: Spacing = Spacing::Close;
}
impl Choice for LineEach {
    const SPACING: Spacing = Spacing::LineEach;
}
impl Choice for Prefetching {
    const PREFETCHES: bool = true;
}

/// Whether the variant is another queue than ours at this capacity, and can be made on this machine.
pub(crate) fn differs<T: Item>(name: &str, capacity: usize) -> bool {
    let is_spaced_otherwise = |spacing: Spacing| {
        let slot = state::slot_size::<T>();
        spacing.stride::<T>(slot, capacity) != Spacing::AsOurs.stride::<T>(slot, capacity)
    };
    match name {
        name if name == CLOSE.name => is_spaced_otherwise(Spacing::Close),
        name if name == LINE_EACH.name => is_spaced_otherwise(Spacing::LineEach),
        name if name == PREFETCHING.name => cfg!(target_arch = "x86_64"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::{Eager, Queue, Receiver, Sender};

    /// Fills and empties a queue again and again, by one more each time, and then from another thread.
    pub(super) fn keeps_the_order<Q: Queue<[u64; 4]>>() {
        for capacity in [2, 3, 8, 67] {
            let (mut sender, mut receiver) = Q::with_capacity(capacity);
            let (mut sent, mut received) = (0, 0);
            // A consumer that tells late of room keeps less than an eighth to itself.
            let most = capacity - capacity / 8;
            for fill in (1..=most).chain(1..=most) {
                for _ in 0..fill {
                    sender.send::<Eager>(Item::nth(sent));
                    sent += 1;
                }
                for _ in 0..fill {
                    assert_eq!(receiver.receive::<Eager>(), <[u64; 4]>::nth(received));
                    received += 1;
                }
            }
        }
        let (mut sender, mut receiver) = Q::with_capacity(3);
        let last = if cfg!(miri) { 50 } else { 2000 };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..last {
                    sender.send::<Yielding>(Item::nth(number));
                }
            });
            for number in 0..last {
                assert_eq!(receiver.receive::<Yielding>(), <[u64; 4]>::nth(number));
            }
        });
    }

    /// Lets the other thread run, which may have the same processor.
    struct Yielding;

    impl super::super::Wait for Yielding {
        fn once() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn names_are_different() {
        for (index, variant) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != variant.name));
        }
    }

    #[test]
    fn spacing_is_another_or_left_out() {
        assert!(differs::<[u64; 4]>(COPY.name, 8));
        for capacity in [8, 64, 1000] {
            let ours = spsc::stride::<[u64; 4]>(capacity);
            let close = state::slot_size::<[u64; 4]>();
            assert_eq!(differs::<[u64; 4]>(CLOSE.name, capacity), ours != close);
            assert_eq!(differs::<[u64; 4]>(LINE_EACH.name, capacity), ours != LINE);
        }
    }
}
