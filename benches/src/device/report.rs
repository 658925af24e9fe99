//! The report on the device layer: times for each execution, ratios to the work by hand, executions per second, calls.

use std::fmt::Write;

use super::calls::{Calls, Counted, NAMES};
use super::cells::{CONTROLS, Key, SAME_CALLS, TWIN, Topic};
use crate::report_entry::{
    head, median_with_quartiles, names, notice, ratio_with_interval, row, short,
};
use crate::report_heading::{Heading, warnings};
use crate::report_run;
use crate::session::{Measured, Outcome};

/// Writes all of it.
pub(crate) fn report(outcome: &Outcome<Key>, counted: &[Counted], heading: &Heading<'_>) -> String {
    let mut text = String::from(
        "# What the device layer costs\n\n\
         Written by `cargo xtask bench device`; all numbers are from one run, and hold for its machine.\n\
         What is measured and how is in [verifying.md](verifying.md#measuring-the-device-layer).\n\n",
    );
    warnings(&mut text, heading);
    report_run::write(&mut text, outcome, heading.facts, heading.command);
    match outcome.states.first() {
        None => text.push_str("\nNo sample could be taken.\n"),
        Some(main) => {
            for topic in Topic::ALL {
                times(&mut text, topic, &main.cells);
            }
            rates(&mut text, &main.cells);
            text.push_str("\n## Against the work by hand\n\n");
            overheads_in(&mut text, &main.cells);
        }
    }
    calls(&mut text, counted);
    text
}

/// The ratios alone, for the terminal.
pub(crate) fn overheads(outcome: &Outcome<Key>) -> String {
    let mut text = String::new();
    if let Some(main) = outcome.states.first() {
        overheads_in(&mut text, &main.cells);
    }
    text
}

fn title(topic: Topic) -> (&'static str, &'static str) {
    match topic {
        Topic::Stage => (
            "Staging",
            "Check, build, write and ring, on a device that costs nothing and does not answer.",
        ),
        Topic::Harvest => (
            "Harvesting",
            "From the head of the queue to a status; START and END of every engine are in the rings already.",
        ),
        Topic::Look => (
            "Looking in vain",
            "One look at rings in which there is nothing: what polling a running execution costs.",
        ),
        Topic::RoundTrip => (
            "Round trip",
            "Staging, then harvesting, one execution at a time. The device that costs nothing posts the ten records of a core \
             at its doorbell, which is in the numbers; the simulated machine runs a null program, five `Halt`s, with its cores \
             on the other processor, and all of its time is in the numbers.",
        ),
    }
}

fn times(text: &mut String, topic: Topic, cells: &[Measured<Key>]) {
    let cells: Vec<&Measured<Key>> = of(cells, topic).collect();
    let (title, what) = title(topic);
    let _ = write!(
        text,
        "\n## {title}\n\n{what} Nanoseconds: median, quartiles, number of samples.\n\n"
    );
    head(text, "who", columns(&cells));
    for name in names(&cells) {
        let entries = cells.iter().map(|cell| median_with_quartiles(cell, name));
        row(text, name, entries);
    }
    for cell in cells {
        notice(text, cell);
    }
}

fn rates(text: &mut String, cells: &[Measured<Key>]) {
    let cells: Vec<Measured<Key>> = of(cells, Topic::RoundTrip)
        .map(|cell| cell.as_rates(1e3))
        .collect();
    let cells: Vec<&Measured<Key>> = cells.iter().collect();
    text.push_str(
        "\n## Executions per second\n\n\
         The round trips as rates: thousands of executions in a second, one at a time, on one thread.\n\n",
    );
    head(text, "who", columns(&cells));
    for name in names(&cells) {
        let entries = cells.iter().map(|cell| median_with_quartiles(cell, name));
        row(text, name, entries);
    }
}

fn overheads_in(text: &mut String, cells: &[Measured<Key>]) {
    text.push_str(
        "Our time over theirs with its 95 % interval. Against *same calls* it is what structure and checks cost; against *into \
         memory* the seam to the device is in it too. The noise floor is the same control measured twice.\n\n",
    );
    let against = [1, 2].map(|tpbs| CONTROLS.map(|control| format!("{tpbs} TPB, {control}")));
    head(text, "what", against.into_iter().flatten());
    for topic in Topic::ALL {
        let cells: Vec<&Measured<Key>> = of(cells, topic).collect();
        let by_hand = |name: &&str| CONTROLS.contains(name) || *name == TWIN;
        for name in names(&cells).into_iter().filter(|name| !by_hand(name)) {
            let entries = cells.iter().flat_map(|cell| {
                let ours = cell.samples(name);
                CONTROLS.map(|control| ratio_with_interval(ours, cell.samples(control)))
            });
            row(text, &format!("{}, {name}", title(topic).0), entries);
        }
        let noise = cells.iter().flat_map(|cell| {
            let ratio = ratio_with_interval(cell.samples(TWIN), cell.samples(SAME_CALLS));
            [ratio, String::new()]
        });
        row(text, &format!("*{}, noise floor*", title(topic).0), noise);
    }
}

fn calls(text: &mut String, counted: &[Counted]) {
    text.push_str(
        "\n## Calls of the device for each execution\n\n\
         Counted over 1,024 executions: staging / harvesting. Two bound tensors.\n\n",
    );
    let column = |counted: &Counted| format!("{} TPB, {}", counted.tpbs, counted.used.name());
    head(text, "call", counted.iter().map(column));
    let both = |counted: &Counted, value: fn(&Calls, usize) -> f64, kind| {
        let [staging, harvesting] =
            [counted.staging, counted.harvesting].map(|calls| exact(value(&calls, kind)));
        format!("{staging} / {harvesting}")
    };
    for (kind, name) in NAMES.into_iter().enumerate() {
        let of_kind = |counted: &Counted| both(counted, |calls, kind| calls.of_kind[kind], kind);
        row(text, name, counted.iter().map(of_kind));
    }
    let all = |counted: &Counted| both(counted, |calls, _| calls.of_kind.iter().sum(), 0);
    row(text, "*all calls*", counted.iter().map(all));
    let bytes = |counted: &Counted| both(counted, |calls, _| calls.bytes_written, 0);
    row(text, "*bytes written*", counted.iter().map(bytes));
}

/// A count: whole numbers without a fraction.
fn exact(count: f64) -> String {
    if count.fract() == 0.0 {
        format!("{count:.0}")
    } else {
        short(count)
    }
}

fn of(cells: &[Measured<Key>], topic: Topic) -> impl Iterator<Item = &Measured<Key>> {
    cells.iter().filter(move |cell| cell.key.topic == topic)
}

fn columns<'a>(cells: &'a [&Measured<Key>]) -> impl Iterator<Item = String> + 'a {
    cells.iter().map(|cell| format!("{} TPB", cell.key.tpbs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cells::{self, HARVESTER, INTO_MEMORY, ON_MACHINE, OURS, SAME_CALLS};
    use crate::device::lane::Use;
    use crate::probe::State;
    use crate::session::{InState, Row};

    fn outcome() -> Outcome<Key> {
        let row = |name, ns: f64, count| Row {
            name,
            way: "",
            samples: vec![ns; count],
        };
        let cell = |topic, tpbs, rows| Measured {
            key: Key { topic, tpbs },
            rows,
        };
        Outcome {
            states: vec![InState {
                state: State {
                    round_trip: 290.0,
                    share: 1.0,
                },
                cells: vec![
                    cell(
                        Topic::Stage,
                        1,
                        vec![
                            row(OURS[0], 200.0, 9),
                            row(SAME_CALLS, 100.0, 9),
                            row(INTO_MEMORY, 40.0, 9),
                        ],
                    ),
                    cell(Topic::Harvest, 2, vec![row(HARVESTER, 100.0, 2)]),
                    cell(Topic::RoundTrip, 1, vec![row(ON_MACHINE[0], 20_000.0, 9)]),
                ],
            }],
            rounds: 9,
            taken: 36,
            unsteady: 1,
            interrupted: 2,
            work_together: 1.0,
            seconds: 1.5,
        }
    }

    const HEADING: Heading<'_> = Heading {
        facts: &[],
        command: "do it",
        busy: false,
        smoke: true,
    };

    #[test]
    fn the_report_has_times_ratios_rates_and_calls() {
        let calls = |count| Calls {
            of_kind: [count; 7],
            bytes_written: 200.0,
        };
        let counted = [Counted {
            tpbs: 1,
            used: Use::Skipping,
            staging: calls(12.0),
            harvesting: calls(0.15),
        }];
        let text = report(&outcome(), &counted, &HEADING);
        for part in [
            "```sh\ndo it\n```",
            "A smoke run",
            "| ours, loading each time | **200** 200-200 (9) |",
            "| Staging, ours, loading each time | **2.00x** 2.00-2.00 | **5.00x** 5.00-5.00 |",
            "| ours on the simulated machine, loading each time | **50.0** 50.0-50.0 (9) |",
            "Skipped (harvest, 2 TPB), for want of good samples: ours.",
            "| call | 1 TPB, skip-config |",
            "| write | 12 / 0.15 |",
            "| *all calls* | 84 / 1.05 |",
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
        let text = report(&nothing, &[], &HEADING);
        assert!(text.contains("No sample could be taken"));
        assert_eq!(overheads(&nothing), "");
    }

    #[test]
    fn every_cell_has_both_controls() {
        for cell in cells::all() {
            for control in CONTROLS {
                let has = cell.candidates.iter().any(|other| other.name == control);
                assert!(has, "{}", cell.key);
            }
        }
    }
}
