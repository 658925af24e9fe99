//! The table of bars, and the count of how they ended.

use std::fmt::Write;

use crate::report_entry::interval;
use crate::verdict::{Judged, Verdict};

pub(crate) fn table(text: &mut String, judged: &[Judged]) {
    if judged.is_empty() {
        text.push_str("No bar looks at these cells.\n");
        return;
    }
    if judged.iter().all(|bar| bar.verdict == Verdict::NotMeasured) {
        text.push_str("Too few samples for any bar.\n");
        return;
    }
    text.push_str(
        "| bar | what | ours / peer | gate | target | measured | 95 % interval | verdict |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for bar in judged {
        bar_row(text, bar);
    }
    let count = |verdict| judged.iter().filter(|bar| bar.verdict == verdict).count();
    let _ = writeln!(
        text,
        "\n{} met, {} with the gate met, {} missed, {} not measured.",
        count(Verdict::Met),
        count(Verdict::GateMet),
        count(Verdict::Missed),
        count(Verdict::NotMeasured)
    );
}

fn bar_row(text: &mut String, bar: &Judged) {
    let sign = if bar.is_rate { "≥" } else { "≤" };
    let target = bar
        .target
        .map_or_else(String::new, |target| format!("{sign} {target}"));
    let (measured, interval) = match bar.measured {
        Some(measured) => (
            format!("{:.3}{}", measured.value, bar.unit),
            interval(measured),
        ),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let verdict = match bar.verdict {
        Verdict::Missed => "**missed**",
        other => other.text(),
    };
    let _ = writeln!(
        text,
        "| {} | {} | {} | {sign} {} | {target} | {measured} | {interval} | {verdict} |",
        bar.name,
        bar.what,
        against(bar),
        bar.gate
    );
}

fn against(bar: &Judged) -> String {
    if bar.peer.is_empty() {
        bar.ours.to_owned()
    } else {
        format!("{} / {}", bar.ours, bar.peer)
    }
}
