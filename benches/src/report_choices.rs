//! The part of the report that says what each choice of our queue is worth, against queues that make it otherwise.

use std::fmt::Write;

use crate::candidates::variants;
use crate::cells::{SPSC, Topic};
use crate::report_entry::{median_with_quartiles, ratio_with_interval, row};
use crate::session::Measured;

/// One table: a row for each variant. Nothing, if none was measured.
pub(crate) fn write(text: &mut String, cells: &[Measured]) {
    let cells: Vec<&Measured> = cells
        .iter()
        .filter(|cell| matches!(cell.key.topic, Topic::Choices | Topic::ChoicesTrip))
        .collect();
    if cells.is_empty() {
        return;
    }
    let _ = write!(
        text,
        "\n## {}\n\n\
         {SPSC} against queues that differ from it in one choice, item by item, in the same run. For throughput the ratio is \
         ours / variant, for round trips variant / ours: above 1, the choice pays. With 95 % interval; *ours* where the \
         variant would be the same as ours.\n\n",
        Topic::Choices.title()
    );
    text.push_str("| variant | what it does, and what ours does |");
    for cell in &cells {
        let _ = write!(text, " {} |", heading(cell));
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(cells.len()));
    text.push('\n');
    for variant in variants::ALL {
        let [theirs, ours] = variant.lines;
        let name = format!("{} | {theirs}<br>{ours}", variant.name);
        let entry = |cell: &&Measured| entry(cell, variant.name);
        row(text, &name, cells.iter().map(entry));
    }
    let ours = |cell: &&Measured| {
        let unit = cell.key.topic.unit();
        format!("{} {unit}", median_with_quartiles(cell, SPSC))
    };
    let name = format!("*{SPSC}* | *median, quartiles, number of samples, way of use*");
    row(text, &name, cells.iter().map(ours));
}

fn heading(cell: &Measured) -> String {
    let key = cell.key;
    let what = if key.topic.is_rate() {
        ""
    } else {
        "round trip, "
    };
    format!("{what}{} B, capacity {}", key.bytes, key.capacity)
}

fn entry(cell: &Measured, name: &str) -> String {
    if !cell.rows.iter().any(|row| row.name == name) {
        let is_there = cell.key.topic == Topic::Choices && name != variants::PREFETCHING.name;
        return if is_there { "*ours*" } else { "" }.to_owned();
    }
    let (ours, theirs) = (cell.samples(SPSC), cell.samples(name));
    if cell.key.topic.is_rate() {
        ratio_with_interval(ours, theirs)
    } else {
        ratio_with_interval(theirs, ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Key;
    use crate::session::Row;

    fn measured(topic: Topic, rows: &[(&'static str, f64)]) -> Measured {
        let row = |&(name, value): &(&'static str, f64)| Row {
            name,
            way: "",
            samples: vec![value; 9],
        };
        Measured {
            key: Key {
                topic,
                bytes: 32,
                capacity: 64,
            },
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn above_one_is_better_for_rates_and_for_times() {
        let cells = [
            measured(
                Topic::Choices,
                &[(SPSC, 150.0), (variants::CURSORS.name, 100.0)],
            ),
            measured(
                Topic::ChoicesTrip,
                &[(SPSC, 80.0), (variants::CURSORS.name, 100.0)],
            ),
        ];
        let mut text = String::new();
        write(&mut text, &cells);
        for part in [
            "| 32 B, capacity 64 | round trip, 32 B, capacity 64 |\n|---|---|---|---|\n| shared cursors | ",
            "is all that travels. | **1.50x** 1.50-1.50 | **1.25x** 1.25-1.25 |\n",
            "since fewer lines travel. | *ours* |  |\n",
            "| **150** 150-150 (9) M items/s | **80.0** 80.0-80.0 (9) ns |\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let mut text = String::new();
        write(&mut text, &[measured(Topic::OneByOne, &[(SPSC, 1.0)])]);
        assert_eq!(text, "");
    }
}
