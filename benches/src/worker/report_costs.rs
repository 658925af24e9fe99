//! The part of the report that says what requests cost besides time.

use std::fmt::Write;

use super::costs::Costs;
use super::cpu_time::{CpuTime, Waiting};
use crate::report_entry::{head, quartiles, row, short};
use crate::strace;

pub(super) fn write(text: &mut String, costs: &Costs) {
    system_calls(text, costs);
    allocations(text, costs);
    cpu_time(text, &costs.cpu_time);
}

fn system_calls(text: &mut String, costs: &Costs) {
    text.push_str(
        "\n## System calls for each request\n\n\
         Depth 8, both threads together, counted by `strace`, which slows every call down; starting and stopping cancel out. \
         A caller that waits for completions may sleep, which are its calls; one that watches the cursor makes none.\n\
         All: median and quartiles; single calls: means. A small number that is not 0, above or below, is the odd sleep: the bar asks for none, and takes 0.01 for it.\n\n",
    );
    if let Some(fault) = &costs.no_calls {
        let _ = writeln!(text, "Skipped: {fault}.");
        return;
    }
    let errands = costs.calls.iter().map(|calls| {
        let who = vec![calls.policy.name().to_owned(), calls.way.to_owned()];
        (who, &calls.per_request)
    });
    strace::table_of(text, &["policy", "caller"], errands);
}

fn allocations(text: &mut String, costs: &Costs) {
    text.push_str("\n## Heap allocations for each request\n\nDepth 8, in the steady state, both threads together. The bar asks for none, and takes 0.001 for it.\n\n");
    if costs.allocations.is_empty() {
        text.push_str("Skipped: the heap of this program does not count.\n");
        return;
    }
    head(
        text,
        "policy",
        ["caller", "allocations"].map(str::to_owned).into_iter(),
    );
    for taken in &costs.allocations {
        let entries = [taken.way.to_owned(), format!("{:.4}", taken.per_request)];
        row(text, taken.policy.name(), entries.into_iter());
    }
}

fn cpu_time(text: &mut String, measured: &CpuTime) {
    text.push_str(
        "\n## What waiting costs\n\n\
         Requests that run for 10 ms, one after the other. The worker's part of a processor, from `schedstat`; and how much \
         later than due the caller knows: one that looks all the time shows what the policy adds, one that sleeps has to be \
         woken besides. Median and quartiles.\n\n",
    );
    let columns = [
        "worker, % of a processor",
        "later, caller looks, µs",
        "later, caller sleeps, µs",
        "idle worker, % of a processor",
    ];
    head(text, "policy", columns.map(str::to_owned).into_iter());
    for waiting in &measured.policies {
        row(text, waiting.policy.name(), entries(waiting).into_iter());
    }
    if let Some(idle) = measured.idle_runtime {
        let _ = writeln!(
            text,
            "\nA whole runtime with nothing to do took {idle:.3} % of a processor in {:.1} s, all its threads together.",
            measured.idle_for.as_secs_f64()
        );
    }
}

fn entries(waiting: &Waiting) -> [String; 4] {
    [
        quartiles(&waiting.share, short),
        quartiles(&waiting.watched, short),
        quartiles(&waiting.woken, short),
        format!("{:.3}", waiting.idle),
    ]
}
