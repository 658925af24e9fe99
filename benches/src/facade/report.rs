//! The report on the facade: bars, machine, rates and times by device, and costs.

use std::fmt::Write;

use super::bars;
use super::cells::{EAGER, Key, OURS, PEERS, TWIN, Topic};
use super::costs::Costs;
use crate::report_entry::{head, median_with_quartiles, names, notice, ratio_with_interval, row};
use crate::report_heading::{Heading, warnings};
use crate::session::{InState, Measured, Outcome};
use crate::{report_bars, report_run, strace};

/// Writes all of it.
pub(crate) fn report(outcome: &Outcome<Key>, costs: &Costs, heading: &Heading<'_>) -> String {
    let mut text = String::from(
        "# The facade against a design by hand\n\n\
         Written by `cargo xtask bench facade`; all numbers are from one run, and hold for its machine.\n\
         What is measured and how is in [verifying.md](verifying.md#measuring-the-facade).\n\n",
    );
    warnings(&mut text, heading);
    report_run::write(&mut text, outcome, heading.facts, heading.command);
    match outcome.states.split_first() {
        None => text.push_str("\nNo sample could be taken.\n"),
        Some((main, others)) => {
            bars_in(&mut text, main, costs);
            for topic in Topic::ALL {
                closed_loops(&mut text, topic, &main.cells);
            }
            for other in others {
                other_state(&mut text, other);
            }
        }
    }
    system_calls(&mut text, costs);
    allocations(&mut text, costs);
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
         On a device without latency, while a word takes {:.0} ns there and back; each side on the executor, and in the \
         manner, that suits it best.\n\n",
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

fn title(topic: Topic) -> (&'static str, &'static str) {
    match topic {
        Topic::NoLatency => (
            "A device without latency",
            "An execution is over when its doorbell has rung: what is left is the software on both sides.",
        ),
        Topic::AtTheLook => (
            "A device without latency, whose records cost the same on both sides",
            "As above, but the thread that looks for a record writes it. Above, the thread that stages writes the records, so that \
             the design by hand, which does both on one thread, has them in its cache, and the facade, whose worker harvests, \
             fetches five lines from the other processor; hardware writes them to memory for either.",
        ),
        Topic::Simulated => (
            "The simulated machine",
            "The digits model runs on engines that are threads of the second processor, beside whoever harvests: for \
             information, and no bar.",
        ),
    }
}

fn closed_loops(text: &mut String, topic: Topic, cells: &[Measured<Key>]) {
    let cells: Vec<&Measured<Key>> = cells
        .iter()
        .filter(|cell| cell.key.topic == topic)
        .collect();
    let (title, what) = title(topic);
    let _ = write!(
        text,
        "\n## {title}\n\n{what} So many requests are always on their way. Median, quartiles, number of samples, and the manner \
         that was best.\n\nThousands of requests in a second:\n\n"
    );
    let columns = || cells.iter().map(|cell| format!("depth {}", cell.key.depth));
    let names = names(&cells);
    head(text, "who", columns());
    for &name in &names {
        let rate = |cell: &&Measured<Key>| median_with_quartiles(&cell.as_rates(1e3), name);
        row(text, name, cells.iter().map(rate));
    }
    text.push_str("\nNanoseconds for each request; at depth 1 that is the round trip:\n\n");
    head(text, "who", columns());
    for &name in &names {
        let time = |cell: &&Measured<Key>| median_with_quartiles(cell, name);
        row(text, name, cells.iter().map(time));
    }
    text.push_str(
        "\nHow many times as fast the first is: ratio of rates with its 95 % interval. The noise floor is the same design \
         measured twice.\n\n",
    );
    head(text, "ours against theirs", columns());
    for (ours, peer) in OURS
        .into_iter()
        .flat_map(|ours| PEERS.map(|peer| (ours, peer)))
    {
        ratios(text, &cells, &format!("{ours} / {peer}"), ours, peer);
    }
    if names.contains(&TWIN) {
        let [ours, peer] = EAGER;
        ratios(text, &cells, &format!("{ours} / {peer}"), ours, peer);
        ratios(text, &cells, "*noise floor*", TWIN, PEERS[0]);
    }
    cells.iter().for_each(|cell| notice(text, cell));
}

fn ratios(text: &mut String, cells: &[&Measured<Key>], name: &str, ours: &str, peer: &str) {
    let entry = |cell: &&Measured<Key>| ratio_with_interval(cell.samples(peer), cell.samples(ours));
    row(text, name, cells.iter().map(entry));
}

fn system_calls(text: &mut String, costs: &Costs) {
    text.push_str(
        "\n## System calls for each request\n\n\
         Depth 8, without latency, all threads together, counted by `strace`, which slows every call down; starting and \
         stopping cancel out. Whoever awaits or waits may sleep, which are the calls of its executor or its own, and whoever \
         wakes it makes one more; a thread that looks makes none, so that its row is the lane's.\n\
         All: median and quartiles; single calls: means. A small number that is not 0, above or below, is the odd sleep: the \
         bar asks for none, and takes 0.01 for it.\n\n",
    );
    if let Some(fault) = &costs.no_calls {
        let _ = writeln!(text, "Skipped: {fault}.");
        return;
    }
    let errands = costs.calls.iter().map(|cost| {
        let who = vec![cost.name.to_owned(), cost.way.to_owned()];
        (who, &cost.each)
    });
    strace::table_of(text, &["who", "manner"], errands);
}

fn allocations(text: &mut String, costs: &Costs) {
    text.push_str(
        "\n## Heap allocations for each request\n\n\
         Depth 8, without latency, in the steady state, all threads together. The bar asks for none, and takes 0.001 for \
         it.\n\n",
    );
    if costs.allocations.is_empty() {
        text.push_str("Skipped: the heap of this program does not count.\n");
        return;
    }
    head(
        text,
        "who",
        ["manner", "allocations"].map(str::to_owned).into_iter(),
    );
    for cost in &costs.allocations {
        // No minus before a nought.
        let each = format!("{:.4}", cost.each + 0.0).replace("-0.0000", "0.0000");
        row(text, cost.name, [cost.way.to_owned(), each].into_iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::State;
    use crate::session::Row;

    fn outcome() -> Outcome<Key> {
        let row = |name, ns: f64, count| Row {
            name,
            way: "",
            samples: vec![ns; count],
        };
        let cell = |topic, depth, rows| Measured {
            key: Key { topic, depth },
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
                        Topic::NoLatency,
                        8,
                        vec![
                            row(OURS[0], 500.0, 9),
                            row(PEERS[0], 1000.0, 9),
                            row(TWIN, 1000.0, 9),
                            row(PEERS[1], 9.0, 2),
                        ],
                    ),
                    cell(Topic::Simulated, 8, vec![row(OURS[0], 20_000.0, 9)]),
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
    fn the_report_has_bars_rates_times_ratios_and_notices() {
        let costs = Costs {
            no_calls: Some("strace does not start".to_owned()),
            ..Costs::default()
        };
        let text = report(&outcome(), &costs, &HEADING);
        for part in [
            "```sh\ndo it\n```",
            "A smoke run",
            "| F1 | requests/s, depth 8 | nrta, current thread / by hand, current thread | ≥ 2 | ≥ 4 | 2.000x | 2.00-2.00 | gate met |",
            "| nrta, current thread | **2000** 2000-2000 (9) |",
            "| nrta, current thread / by hand, current thread | **2.00x** 2.00-2.00 |",
            "| *noise floor* | **1.00x** 1.00-1.00 |",
            "Skipped (no latency, depth 8), for want of good samples: by hand, multi thread.",
            "| nrta, current thread | **50.0** 50.0-50.0 (9) |",
            "strace does not start",
            "the heap of this program does not count",
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
        let text = report(&nothing, &Costs::default(), &HEADING);
        assert!(text.contains("No sample could be taken"));
        assert_eq!(bars(&nothing, &Costs::default()), "");
    }
}
