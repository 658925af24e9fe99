//! The report on the worker: bars, machine, tables of rates and times, and costs.

use std::fmt::Write;

use super::bars;
use super::cells::{DEFAULT, Key, RTRB, TWIN, Topic};
use super::costs::Costs;
use super::report_costs;
use crate::report_entry::{head, median_with_quartiles, names, notice, ratio_with_interval, row};
use crate::report_heading::{Heading, warnings};
use crate::session::{InState, Measured, Outcome};
use crate::{report_bars, report_run};

/// Writes all of it.
pub(crate) fn report(outcome: &Outcome<Key>, costs: &Costs, heading: &Heading<'_>) -> String {
    let mut text = String::from(
        "# The worker against its peers\n\n\
         Written by `cargo xtask bench worker`; all numbers are from one run, and hold for its machine.\n\
         What is measured and how is in [verifying.md](verifying.md#measuring-the-worker).\n\n",
    );
    warnings(&mut text, heading);
    report_run::write(&mut text, outcome, heading.facts, heading.command);
    match outcome.states.split_first() {
        None => text.push_str("\nNo sample could be taken.\n"),
        Some((main, others)) => {
            bars_in(&mut text, main, costs);
            closed_loops(&mut text, &main.cells);
            single_requests(&mut text, &main.cells);
            for other in others {
                other_state(&mut text, other);
            }
        }
    }
    report_costs::write(&mut text, costs);
    text
}

/// The bars alone, for the terminal.
pub(crate) fn bars(outcome: &Outcome<Key>, costs: &Costs) -> String {
    let mut text = String::new();
    if let Some(main) = outcome.states.first() {
        bars_in(&mut text, main, costs);
    }
    text
}

fn bars_in(text: &mut String, main: &InState<Key>, costs: &Costs) {
    let _ = write!(
        text,
        "\n## Bars\n\n\
         A word takes {:.0} ns there and back in this state of the machine. Where ours is called *cursor*, the caller looks at \
         no completion, and reads the number of the last completed request instead.\n\n",
        main.state.round_trip
    );
    let mut judged = bars::judge(&main.cells);
    judged.extend(bars::judge_costs(costs));
    report_bars::table(text, &judged);
}

fn other_state(text: &mut String, other: &InState<Key>) {
    let _ = write!(
        text,
        "\n## The bars while a word took {:.0} ns there and back\n\n\
         {:.0} % of the probes found this state.\n\n",
        other.state.round_trip,
        other.state.share * 100.0
    );
    report_bars::table(text, &bars::judge(&other.cells));
}

fn closed_loops(text: &mut String, cells: &[Measured<Key>]) {
    let cells: Vec<&Measured<Key>> = of_topic(cells, Topic::TwoCores).collect();
    if cells.is_empty() {
        return;
    }
    text.push_str(
        "\n## Closed loop, two cores\n\n\
         So many requests are always on their way. M requests/s: median, quartiles, number of samples, and the way of use that \
         was best. A sample is a mean over some milliseconds, sleeping and waking included. `io_uring` has no second thread, \
         and tokio's current thread runs both sides; its multi thread may run both tasks on one of its threads, unless the asking \
         one is outside (*crossing*).\n\n",
    );
    let names = names(&cells);
    let columns = || cells.iter().map(|cell| format!("depth {}", cell.key.depth));
    head(text, "candidate", columns());
    for &name in &names {
        row(
            text,
            name,
            cells
                .iter()
                .map(|cell| median_with_quartiles(&cell.as_rates(1e6), name)),
        );
    }
    let _ = write!(
        text,
        "\n{DEFAULT} against each: ratio of rates with its 95 % interval; above 1 is better. The noise floor is {TWIN} \
         against {RTRB}.\n\n"
    );
    head(text, "against", columns());
    for &name in names
        .iter()
        .filter(|&&name| name != DEFAULT && name != TWIN)
    {
        let entry =
            |cell: &&Measured<Key>| ratio_with_interval(cell.samples(name), cell.samples(DEFAULT));
        row(text, name, cells.iter().map(entry));
    }
    let noise = |cell: &&Measured<Key>| ratio_with_interval(cell.samples(RTRB), cell.samples(TWIN));
    row(text, "*noise floor*", cells.iter().map(noise));
    cells.iter().for_each(|cell| notice(text, cell));
}

fn single_requests(text: &mut String, cells: &[Measured<Key>]) {
    text.push_str("\n## One request at a time\n\nNanoseconds for a round trip: median, quartiles, number of samples.\n");
    for (topic, title) in [
        (
            Topic::TwoCores,
            "A core for each side, one request after the other",
        ),
        (
            Topic::Asleep,
            "A core for each side, the answering thread has been asleep for 250 µs",
        ),
        (Topic::OneCore, "Both sides on one core"),
    ] {
        let Some(cell) = of_topic(cells, topic).find(|cell| cell.key.depth == 1) else {
            continue;
        };
        let _ = write!(text, "\n{title}:\n\n");
        let against = format!("{DEFAULT} takes so many times as long");
        head(text, "candidate", ["ns".to_owned(), against].into_iter());
        for name in names(&[cell]) {
            let entries = [
                median_with_quartiles(cell, name),
                ratio_with_interval(cell.samples(DEFAULT), cell.samples(name)),
            ];
            row(text, name, entries.into_iter());
        }
        notice(text, cell);
    }
}

fn of_topic(cells: &[Measured<Key>], topic: Topic) -> impl Iterator<Item = &Measured<Key>> {
    cells.iter().filter(move |cell| cell.key.topic == topic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::State;
    use crate::session::Row;
    use crate::worker::cells::{ECHO, MULTI_THREAD};

    fn outcome() -> Outcome<Key> {
        let row = |name, ns: f64, count| Row {
            name,
            way: "",
            samples: vec![ns; count],
        };
        let cell = |topic, rows| Measured {
            key: Key { topic, depth: 1 },
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
                        Topic::TwoCores,
                        vec![
                            row(DEFAULT, 500.0, 9),
                            row(MULTI_THREAD, 1000.0, 9),
                            row(RTRB, 400.0, 9),
                            row(TWIN, 400.0, 9),
                            row(ECHO, 9.0, 2),
                        ],
                    ),
                    cell(
                        Topic::Asleep,
                        vec![row(DEFAULT, 100.0, 9), row(ECHO, 100.0, 9)],
                    ),
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

    #[test]
    fn the_report_has_bars_rates_times_and_notices() {
        let heading = Heading {
            facts: &[],
            command: "do it",
            busy: false,
            smoke: true,
        };
        let costs = Costs {
            no_calls: Some("strace does not start".to_owned()),
            ..Costs::default()
        };
        let text = report(&outcome(), &costs, &heading);
        for part in [
            "```sh\ndo it\n```",
            "A smoke run",
            "| W4 | round trip, two cores | xu_worker, Adaptive / tokio, multi thread | ≤ 0.75 | ≤ 0.5 | 0.500x | 0.50-0.50 | met |",
            "| xu_worker, Adaptive | **2.00** 2.00-2.00 (9) |",
            "| tokio, multi thread | **2.00x** 2.00-2.00 |",
            "Skipped (two cores, depth 1), for want of good samples: eventfd and epoll.",
            "strace does not start",
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
        let heading = Heading {
            facts: &[],
            command: "",
            busy: true,
            smoke: false,
        };
        let text = report(&nothing, &Costs::default(), &heading);
        assert!(text.contains("No sample could be taken"));
    }
}
