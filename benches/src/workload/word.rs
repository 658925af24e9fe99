//! A word there and back, without any queue: a scale for round trips.
//!
//! On one line, as a request whose answer is in its own slot; on two, as an item over two queues. The line may be the same
//! each time, or the next of [`LINES`], as slots are: neither is always the faster.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Rig;
use super::round_trip::{TRIPS, blocks_of};
use crate::candidates::Wait;
use crate::clock;
use crate::pair;
use crate::windows::{Timing, median_block};

/// As many as the queues have slots whose round trips are measured. A power of two.
const LINES: usize = 64;

/// Alone on its pair of lines.
#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicUsize);

/// The answer is written where the question was.
pub(crate) fn one_line<W: Wait>(rig: &mut Rig, capacity: usize, blocks: usize) -> Option<Timing> {
    bounce::<W>(rig, capacity, blocks, [&words(1)[..]; 2])
}

/// The same, on the next line each time.
pub(crate) fn one_line_in_turn<W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing> {
    bounce::<W>(rig, capacity, blocks, [&words(LINES)[..]; 2])
}

/// The answer is written to another line.
pub(crate) fn two_lines<W: Wait>(rig: &mut Rig, capacity: usize, blocks: usize) -> Option<Timing> {
    bounce::<W>(rig, capacity, blocks, [&words(1), &words(1)])
}

/// The same, on the next two lines each time.
pub(crate) fn two_lines_in_turn<W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
) -> Option<Timing> {
    bounce::<W>(rig, capacity, blocks, [&words(LINES), &words(LINES)])
}

fn words(count: usize) -> Vec<Word> {
    (0..count).map(|_| Word::default()).collect()
}

fn bounce<W: Wait>(
    rig: &mut Rig,
    capacity: usize,
    blocks: usize,
    [there, back]: [&[Word]; 2],
) -> Option<Timing> {
    let (processors, clock) = (rig.processors, rig.clock);
    let [stamps, _] = rig.stamps(blocks);
    let trips = blocks * TRIPS;
    pair::run(
        processors,
        || {
            let mut trip = 0;
            for stamp in &mut *stamps {
                for _ in 0..TRIPS {
                    put(at(there, trip), 2 * trip + 1);
                    wait_for::<W>(at(back, trip), 2 * trip + 2);
                    trip += 1;
                }
                *stamp = clock::now();
            }
        },
        || {
            for trip in 0..trips {
                wait_for::<W>(at(there, trip), 2 * trip + 1);
                put(at(back, trip), 2 * trip + 2);
            }
        },
    );
    median_block(stamps, blocks_of(blocks, capacity), clock)
}

#[inline(always)]
fn at(words: &[Word], trip: usize) -> &Word {
    &words[trip & (words.len() - 1)]
}

#[inline(always)]
fn put(word: &Word, number: usize) {
    // PAIRS: with the load in `wait_for`; nothing travels but the word, release and acquire are as in a queue.
    word.0.store(number, Ordering::Release);
}

#[inline(always)]
fn wait_for<W: Wait>(word: &Word, number: usize) {
    // PAIRS: with the store in `put`.
    while word.0.load(Ordering::Acquire) != number {
        W::once();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::Hinted;
    use crate::clock::Clock;
    use crate::pin;

    #[test]
    fn the_word_comes_back() {
        if let Ok(processors) = pin::choose() {
            let mut rig = Rig::new(processors, Clock::with_one_tick_per_ns());
            // What it measures does not matter here: that it ends does.
            let _ = one_line::<Hinted>(&mut rig, 1, 20);
            let _ = two_lines::<Hinted>(&mut rig, 1, 20);
            let _ = one_line_in_turn::<Hinted>(&mut rig, 1, 20);
            let _ = two_lines_in_turn::<Hinted>(&mut rig, 1, 20);
        }
    }
}
