//! The part of a report that says what was run, on what machine, and in which state of it.

use std::fmt::Write;

use crate::session::Outcome;

/// The command, the facts, and what became of the samples.
pub(crate) fn write<K>(
    text: &mut String,
    outcome: &Outcome<K>,
    facts: &[(&str, String)],
    command: &str,
) {
    let _ = write!(
        text,
        "## The run\n\n```sh\n{command}\n```\n\n| | |\n|---|---|\n"
    );
    for (name, value) in facts {
        let _ = writeln!(text, "| {name} | {} |", value.replace('|', "\\|"));
    }
    let states: Vec<String> = outcome
        .states
        .iter()
        .map(|state| {
            let state = state.state;
            format!("{:.0} ns ({:.0} %)", state.round_trip, state.share * 100.0)
        })
        .collect();
    let _ = writeln!(
        text,
        "| a word there and back, over two lines | {} |",
        states.join(", ")
    );
    let _ = writeln!(
        text,
        "| work on both processors, against one alone | {:.2} times the time: {} |",
        outcome.work_together,
        if outcome.work_together > 1.4 {
            "they share a core"
        } else {
            "a core each"
        }
    );
    let _ = writeln!(
        text,
        "| samples | {} in {} rounds and {:.0} s; {} left out because the state changed or a core was shared, {} because \
         the two sides hardly ran together |",
        outcome.taken, outcome.rounds, outcome.seconds, outcome.unsteady, outcome.interrupted
    );
}
