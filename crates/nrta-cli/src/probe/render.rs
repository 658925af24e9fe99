//! Print a report of the probe: a line for each fact, or one JSON object.

use super::facts;
use super::report::{Report, Verdict};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The facts and their values, separated by tabs: what `docs/hardware-checklist.md` is compared with.
pub(crate) fn list() -> String {
    let line = |fact: facts::Fact| {
        let value = fact.value.map_or_else(|| "-".to_owned(), hexadecimal);
        format!("{}\t{value}\n", fact.name)
    };
    facts::all().map(line).collect()
}

/// The report for people.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    for (name, value) in &report.device {
        let _ = writeln!(out, "{name:<20} {value}");
    }
    let _ = writeln!(out);
    for (fact, answer) in report.answers() {
        let _ = write!(
            out,
            "{:<10} {:<26} {}",
            answer.verdict.name(),
            fact.name,
            answer.seen
        );
        if !answer.raw.is_empty() {
            let raw: Vec<_> = answer.raw.iter().copied().map(hexadecimal).collect();
            let _ = write!(out, "  [{}]", raw.join(" "));
        }
        let _ = writeln!(out);
    }
    let count = |verdict| report.count(verdict);
    let _ = writeln!(
        out,
        "\n{} confirmed, {} refuted, {} not tested{}",
        count(Verdict::Confirmed),
        count(Verdict::Refuted),
        count(Verdict::NotTested),
        match report.has_failed_reset {
            true => "; a reset of the core failed",
            false => "",
        }
    );
    out
}

/// The report for programs, on one line.
pub(crate) fn json(report: &Report) -> String {
    let device: Vec<Value> = report
        .device
        .iter()
        .map(|(name, value)| json!([name, value]))
        .collect();
    let facts: Map<String, Value> = report
        .answers()
        .into_iter()
        .map(|(fact, answer)| {
            let raw: Vec<_> = answer.raw.iter().copied().map(hexadecimal).collect();
            let value = json!({
                "expected": fact.value.map(hexadecimal),
                "verdict": answer.verdict.name(),
                "seen": answer.seen,
                "raw": raw,
            });
            (fact.name.to_owned(), value)
        })
        .collect();
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": device,
        "facts": facts,
    });
    format!("{value}\n")
}

fn hexadecimal(value: u64) -> String {
    format!("{value:#x}")
}

#[cfg(test)]
mod tests {
    use super::super::report::empty;
    use super::*;

    #[test]
    fn every_fact_has_a_line_in_both_forms() {
        let mut report = empty();
        report.judge("RING_IDS", false, "lap 2".into(), &[0x10, 3]);
        let text = text(&report);
        assert!(text.contains("REFUTED    RING_IDS                   lap 2  [0x10 0x3]"));
        let value: Value = serde_json::from_str(&json(&report)).unwrap();
        assert_eq!(value["facts"]["RING_IDS"]["raw"][1], "0x3");
        assert_eq!(value["facts"]["NQ_ENABLE"]["expected"], "0x14");
        let facts = value["facts"].as_object().unwrap();
        assert_eq!(facts.len(), list().lines().count());
    }
}
