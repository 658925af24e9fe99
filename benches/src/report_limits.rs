//! The part of the report that says what limits the bars of which a lot is asked: R8, R9, T1 and T2.
//!
//! It prints measured numbers and what follows from them by arithmetic, and no reasons.

use std::fmt::Write;

use crate::bars::{self, EXPECTED_CONTROL};
use crate::candidates::variants::LINE;
use crate::candidates::{BATCH, spsc};
use crate::cells::{NAIVE, ONE_LINE, RING, RTRB, SPSC, TWO_LINES, Topic};
use crate::report_entry::{median_with_quartiles, ratio_text, ratio_with_interval, row, short};
use crate::session::Measured;
use crate::statistics::{Ratio, Summary};

/// Writes what the cells have numbers for; nothing, if they have none.
pub(crate) fn write(text: &mut String, cells: &[Measured]) {
    let mut body = String::new();
    if let Some(word) = cells.iter().find(|cell| cell.key.topic == Topic::Word) {
        times(&mut body, word, cells);
    }
    batches(&mut body, cells);
    stages(&mut body, cells);
    if !body.is_empty() {
        let _ = write!(text, "\n## What limits\n{body}");
    }
}

/// T1 and T2: a word there and back without a queue, and the times of queues against it.
fn times(text: &mut String, word: &Measured, cells: &[Measured]) {
    text.push_str(
        "\nA bare word there and back, without a queue: a store by each side, and each waits for the other's. A scale, and \
         no lower bound; on the same line each time, or on the next, as slots are.\n\n\
         | the answer is on | ns: median, quartiles, number of samples |\n|---|---|\n",
    );
    for name in [ONE_LINE, TWO_LINES].into_iter().flatten() {
        row(text, name, [median_with_quartiles(word, name)].into_iter());
    }
    let of_topic = |topic| cells.iter().find(|cell| cell.key.topic == topic);
    let trips = [
        ("T1", Topic::RoundTrip, SPSC, TWO_LINES),
        ("T2", Topic::Completion, RING, ONE_LINE),
    ];
    let mut rows = String::new();
    for (bar, topic, ours, lines) in trips {
        let Some((cell, (fastest, word))) = of_topic(topic).zip(fastest(word, lines)) else {
            continue;
        };
        let (ours_ns, peer) = (cell.samples(ours), cell.samples(RTRB));
        let asked = |times: Option<f64>| {
            let ratio = times.and_then(|times| scaled(Ratio::of_medians(peer, word), times));
            ratio_text(ratio)
        };
        let (gate, target) =
            bars::demands(bar, RTRB).map_or((None, None), |(gate, target)| (Some(gate), target));
        let entries = [
            fastest.to_owned(),
            ratio_with_interval(ours_ns, word),
            ratio_with_interval(peer, word),
            asked(gate),
            asked(target),
        ];
        row(&mut rows, &format!("{bar} | {ours}"), entries.into_iter());
    }
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\nTimes over that of the word in its fastest way, on as many lines as the bar's own way has (T1: one for each queue; T2: the slot's, \
             where the answer is too). What the bar asks for is its part of the time of {RTRB}, over the same: where that is \
             below 1, the bar asks for less time than the bare word takes.\n\n\
             | bar | queue | the word on | ours | {RTRB} | the gate asks for | the target asks for |\n\
             |---|---|---|---|---|---|---|\n{rows}"
        );
    }
}

/// The fastest way of the word on so many lines, and its samples.
fn fastest<'a>(word: &'a Measured, names: [&'static str; 4]) -> Option<(&'static str, &'a [f64])> {
    names
        .into_iter()
        .filter_map(|name| {
            let samples = word.samples(name);
            Some((Summary::of(samples)?.median, name, samples))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name, samples)| (name, samples))
}

fn scaled(ratio: Option<Ratio>, by: f64) -> Option<Ratio> {
    ratio.map(|ratio| Ratio {
        value: ratio.value * by,
        low: ratio.low * by,
        high: ratio.high * by,
    })
}

/// R9: how many lines an item takes, and how many of them move.
fn batches(text: &mut String, cells: &[Measured]) {
    let mut rows = String::new();
    for cell in cells {
        let key = cell.key;
        if key.topic != Topic::Batches {
            continue;
        }
        let stride = match key.bytes {
            8 => spsc::stride::<u64>(key.capacity),
            _ => spsc::stride::<[u64; 4]>(key.capacity),
        };
        let ours = lines(stride);
        for (name, lines, of_cursors) in [
            (SPSC, ours, "none".to_owned()),
            (RTRB, lines(key.bytes), cursor_lines(key.capacity)),
            ("gil", lines(key.bytes), cursor_lines(key.capacity)),
        ] {
            let median = Summary::of(cell.samples(name)).map(|summary| summary.median);
            let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
            let against = Ratio::of_medians(cell.samples(SPSC), cell.samples(name));
            let (items, moved) = if name == SPSC {
                (String::new(), String::new())
            } else {
                (
                    ratio_text(against),
                    ratio_text(scaled(against, ours / lines)),
                )
            };
            let entries = [
                name.to_owned(),
                format!("{lines:.3}"),
                of_cursors,
                number(median),
                items,
                number(median.map(|median| median * lines)),
                moved,
            ];
            let what = format!("{} B, {}", key.bytes, key.capacity);
            row(&mut rows, &what, entries.into_iter());
        }
    }
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\nR9, batches of {BATCH}: lines of {LINE} bytes for each item. Ours from the distance of two slots, as their \
             addresses say; a peer lends slices of its memory, where items are {} and 8 bytes apart, and moves the lines of \
             its two cursors besides: each at least once in a queue full of items, at most once in a batch. Ours has no cursors. \
             Where ours is below 1 in items and above 1 in lines, it moves more lines in a second than the peer, and more for \
             each item.\n\n\
             | size, capacity | queue | lines per item | and of cursors | M items/s | ours / peer | M lines of items/s | ours / peer |\n\
             |---|---|---|---|---|---|---|---|\n{rows}",
            size_of::<[u64; 4]>()
        );
    }
}

fn lines(stride: usize) -> f64 {
    stride as f64 / LINE as f64
}

fn cursor_lines(capacity: usize) -> String {
    format!("{:.3} to {:.3}", 2.0 / capacity as f64, 2.0 / BATCH as f64)
}

/// R8: what the control does here.
fn stages(text: &mut String, cells: &[Measured]) {
    let [low, high] = EXPECTED_CONTROL;
    let mut rows = String::new();
    for cell in cells {
        if cell.key.topic != Topic::ThreeStage {
            continue;
        }
        let (ours, control) = (cell.samples(RING), cell.samples(NAIVE));
        let against = |summary: Option<Summary>| match summary {
            Some(Summary { median, .. }) => {
                format!("{:.1}x to {:.1}x", median / high, median / low)
            }
            None => "-".to_owned(),
        };
        let entries = [
            median_with_quartiles(cell, NAIVE),
            against(Summary::of(control)),
            median_with_quartiles(cell, RING),
            ratio_with_interval(ours, control),
            against(Summary::of(ours)),
            ratio_with_interval(ours, cell.samples(RTRB)),
        ];
        row(
            &mut rows,
            &cell.key.capacity.to_string(),
            entries.into_iter(),
        );
    }
    if rows.is_empty() {
        return;
    }
    let gate = bars::demands("R8", NAIVE).map_or(f64::NAN, |(gate, _)| gate);
    let _ = write!(
        text,
        "\nR8: its gate, {gate} times the control, was set where the control did {low} to {high} M items/s. A request is {} \
         bytes in the ring, {:.3} lines, by the layout of its ABI. {RTRB}, which has one stage less and items of the same size, \
         is there for the scale.\n\n\
         | capacity | {NAIVE} here, M items/s | over {low} to {high} | {RING}, M items/s | over the control here | over \
         {low} to {high} | over {RTRB} |\n\
         |---|---|---|---|---|---|---|\n{rows}",
        size_of::<xu_abi::Slot>(),
        lines(size_of::<xu_abi::Slot>())
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Key;
    use crate::session::Row;

    fn measured(
        topic: Topic,
        bytes: usize,
        capacity: usize,
        rows: &[(&'static str, f64)],
    ) -> Measured {
        let row = |&(name, value): &(&'static str, f64)| Row {
            name,
            way: "",
            samples: vec![value; 9],
        };
        Measured {
            key: Key {
                topic,
                bytes,
                capacity,
            },
            rows: rows.iter().map(row).collect(),
        }
    }

    fn written(cells: &[Measured]) -> String {
        let mut text = String::new();
        write(&mut text, cells);
        text
    }

    #[test]
    fn times_are_over_the_fastest_word() {
        let word = [
            (ONE_LINE[0], 100.0),
            (ONE_LINE[1], 80.0),
            (TWO_LINES[0], 90.0),
            (TWO_LINES[1], 95.0),
        ];
        let text = written(&[
            measured(Topic::Word, 8, 1, &word),
            measured(Topic::Completion, 32, 64, &[(RING, 120.0), (RTRB, 100.0)]),
        ]);
        assert!(
            text.contains("| one line, `spin_loop` | **80.0** 80.0-80.0 (9) |"),
            "{text}"
        );
        // 0.65 and 0.5 of 100 ns, over 80.
        let row = "| T2 | xu_ring::queue | one line, `spin_loop` | **1.50x** 1.50-1.50 | **1.25x** 1.25-1.25 | \
                   **0.81x** 0.81-0.81 | **0.62x** 0.62-0.62 |";
        assert!(text.contains(row), "{text}");
        assert!(!text.contains("| T1 |"), "{text}");
    }

    #[test]
    fn lines_are_counted_from_the_distance_of_slots() {
        let rows = [(SPSC, 100.0), (RTRB, 160.0)];
        let text = written(&[measured(Topic::Batches, 32, 64, &rows)]);
        let ours = spsc::stride::<[u64; 4]>(64) as f64 / 64.0;
        for part in [
            format!("| 32 B, 64 | {SPSC} | {ours:.3} | none | 100 |  |"),
            format!(
                "| 32 B, 64 | {RTRB} | 0.500 | 0.031 to 0.125 | 160 | **0.62x** 0.62-0.62 | 80.0 | **{:.2}x**",
                ours * 100.0 / 80.0
            ),
            "| 32 B, 64 | gil | 0.500 | 0.031 to 0.125 | - | - | - | - |".to_owned(),
        ] {
            assert!(text.contains(&part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn the_control_is_compared_with_what_was_expected() {
        let rows = [(RING, 84.0), (NAIVE, 14.0), (RTRB, 100.0)];
        let text = written(&[measured(Topic::ThreeStage, 32, 64, &rows)]);
        for part in [
            "its gate, 12 times the control",
            "| 2.0x to 2.3x |",
            "| **6.00x** 6.00-6.00 | 12.0x to 14.0x |",
            "32 bytes in the ring, 0.500 lines",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(
            written(&[measured(Topic::OneByOne, 32, 64, &rows)]),
            "",
            "nothing to say"
        );
    }
}
