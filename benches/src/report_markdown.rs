//! The report: bars, machine, and tables of medians and ratios.

use std::fmt::Write;

use crate::bars;
use crate::cells::{RING, RTRB, SPSC, TWIN, Topic};
use crate::report_entry::{median_with_quartiles, names, ratio_with_interval, row, silent};
use crate::report_svg::Chart;
use crate::session::{InState, Measured, Outcome};
use crate::{report_bars, report_choices, report_limits, report_run};

/// Writes all of it.
pub(crate) fn report(
    outcome: &Outcome,
    facts: &[(&str, String)],
    command: &str,
    charts: &[Chart],
    busy: bool,
) -> String {
    let mut text = String::from(
        "# The ring against its peers\n\n\
         Written by `cargo xtask bench ring`; all numbers are from one run, and hold for its machine.\n\
         What is measured and how is in [verifying.md](verifying.md#measuring-the-ring).\n\n",
    );
    if busy {
        text.push_str(
            "**The machine was busy when this run began: take it for a sample of the report, and for no measurement.**\n\n",
        );
    }
    report_run::write(&mut text, outcome, facts, command);
    let Some((main, others)) = outcome.states.split_first() else {
        text.push_str("\nNo sample could be taken.\n");
        return text;
    };
    let _ = write!(
        text,
        "\n## Bars\n\n\
         A word takes {:.0} ns there and back in this state of the machine.\n\n",
        main.state.round_trip
    );
    report_bars::table(&mut text, &bars::judge(&main.cells));
    report_limits::write(&mut text, &main.cells);
    for chart in charts {
        let _ = write!(text, "\n![{}]({})\n", chart.title, chart.file);
    }
    report_choices::write(&mut text, &main.cells);
    for topic in Topic::ALL.into_iter().filter(|topic| topic.has_peers()) {
        tables_of(&mut text, topic, &main.cells);
    }
    for other in others {
        other_state(&mut text, other);
    }
    text
}

/// The bars alone, for the terminal.
pub(crate) fn bars(outcome: &Outcome) -> String {
    let mut text = String::new();
    for state in &outcome.states {
        let _ = write!(
            text,
            "\nA word takes {:.0} ns there and back ({:.0} % of the probes):\n\n",
            state.state.round_trip,
            state.state.share * 100.0
        );
        report_bars::table(&mut text, &bars::judge(&state.cells));
    }
    text
}

/// The medians of a topic and what they are against ours, for each size of item.
fn tables_of(text: &mut String, topic: Topic, cells: &[Measured]) {
    let of_topic: Vec<&Measured> = cells
        .iter()
        .filter(|cell| cell.key.topic == topic)
        .collect();
    if of_topic.is_empty() {
        return;
    }
    let _ = write!(text, "\n## {}\n", topic.title());
    for bytes in [32, 8] {
        let cells: Vec<&Measured> = of_topic
            .iter()
            .copied()
            .filter(|cell| cell.key.bytes == bytes)
            .collect();
        if cells.is_empty() {
            continue;
        }
        let names = names(&cells);
        let _ = write!(
            text,
            "\n{bytes} bytes, {}: median, quartiles, number of samples, and the way of use that was best.\n\n",
            topic.unit()
        );
        table(text, &cells, &names, |cell, name| {
            median_with_quartiles(cell, name)
        });
        let subject = subject(&names);
        let better = if topic.is_rate() { "above" } else { "below" };
        let _ = write!(
            text,
            "\n{subject} against each: ratio of medians with its 95 % interval; {better} 1 is better. \
             The noise floor is {TWIN} against {RTRB}.\n\n"
        );
        let others: Vec<&str> = names
            .iter()
            .copied()
            .filter(|&name| name != subject && name != TWIN)
            .collect();
        table(text, &cells, &others, |cell, name| {
            ratio_with_interval(cell.samples(subject), cell.samples(name))
        });
        let noise = |cell: &&Measured| ratio_with_interval(cell.samples(TWIN), cell.samples(RTRB));
        row(text, "*noise floor*", cells.iter().map(noise));
        notices(text, &cells);
    }
}

/// What the others are compared with: our own, or where it is not measured, the peer of the bars.
fn subject(names: &[&'static str]) -> &'static str {
    let ours = [RING, SPSC].into_iter().find(|name| names.contains(name));
    ours.unwrap_or(RTRB)
}

/// Says which rows have too few samples to say anything.
fn notices(text: &mut String, cells: &[&Measured]) {
    for cell in cells {
        if let Some(silent) = silent(cell) {
            let _ = write!(
                text,
                "\nSkipped at capacity {}, for want of good samples: {silent}.\n",
                cell.key.capacity
            );
        }
    }
}

fn other_state(text: &mut String, other: &InState) {
    let _ = write!(
        text,
        "\n## The bars while a word took {:.0} ns there and back\n\n\
         {:.0} % of the probes found this state.\n\n",
        other.state.round_trip,
        other.state.share * 100.0
    );
    report_bars::table(text, &bars::judge(&other.cells));
}

/// A column for each cell, a row for each name.
fn table(
    text: &mut String,
    cells: &[&Measured],
    names: &[&'static str],
    entry: impl Fn(&Measured, &str) -> String,
) {
    text.push_str("| capacity |");
    for cell in cells {
        let _ = write!(text, " {} |", cell.key.capacity);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(cells.len()));
    text.push('\n');
    for &name in names {
        row(text, name, cells.iter().map(|cell| entry(cell, name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Key;
    use crate::probe::State;
    use crate::session::Row;

    fn outcome() -> Outcome {
        let row = |name, value: f64, count| Row {
            name,
            way: "",
            samples: vec![value; count],
        };
        let cell = Measured {
            key: Key {
                topic: Topic::OneByOne,
                bytes: 32,
                capacity: 64,
            },
            rows: vec![
                row(SPSC, 150.0, 9),
                row(RTRB, 100.0, 9),
                row(TWIN, 101.0, 9),
                row("gil", 1.0, 2),
            ],
        };
        Outcome {
            states: vec![InState {
                state: State {
                    round_trip: 290.0,
                    share: 1.0,
                },
                cells: vec![cell],
            }],
            rounds: 9,
            taken: 36,
            unsteady: 1,
            interrupted: 2,
            work_together: 1.0,
            seconds: 1.5,
        }
    }

    #[test]
    fn the_report_has_bars_medians_ratios_and_notices() {
        let text = report(
            &outcome(),
            &[("kernel", "a|b".to_owned())],
            "do it",
            &[],
            false,
        );
        for part in [
            "```sh\ndo it\n```",
            "| kernel | a\\|b |",
            "| R2 | item by item, 32 B, capacity 64 | xu_ring::spsc / rtrb | ≥ 1.3 | ≥ 2 | 1.500x | 1.50-1.50 | gate met |",
            "| xu_ring::spsc | **150** 150-150 (9) |",
            "| rtrb | **1.50x** 1.50-1.50 |",
            "| *noise floor* | **1.01x** 1.01-1.01 |",
            "Skipped at capacity 64, for want of good samples: gil.",
            "a core each",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn without_any_state_there_is_no_table() {
        let nothing = Outcome {
            states: Vec::new(),
            ..outcome()
        };
        assert!(report(&nothing, &[], "", &[], true).contains("No sample could be taken"));
    }
}
