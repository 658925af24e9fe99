//! Print the findings: a line each, with the remedy below, or one JSON object.

use super::finding::{Finding, Standing};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The report for people.
pub(crate) fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let standing = finding.standing().name();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "{standing:<8} {:<18} {}",
            finding.topic(),
            line(finding.value())
        );
        if let Some(remedy) = finding.remedy() {
            let _ = writeln!(out, "{:<8} {:<18} -> {}", "", "", line(remedy));
        }
    }
    let _ = writeln!(out, "{}", summary(findings));
    out
}

/// The report for programs, on one line.
pub(crate) fn json(findings: &[Finding]) -> String {
    let all: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "topic": finding.topic(),
                "standing": finding.standing().name(),
                "value": finding.value(),
                "remedy": finding.remedy(),
            })
        })
        .collect();
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "warnings": count(findings, Standing::Warning),
        "problems": count(findings, Standing::Problem),
        "findings": all,
    });
    format!("{value}\n")
}

fn summary(findings: &[Finding]) -> String {
    let named = |count: usize, name: &str| match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    let problems = named(count(findings, Standing::Problem), "problem");
    let warnings = named(count(findings, Standing::Warning), "warning");
    format!("{problems}, {warnings}")
}

fn count(findings: &[Finding], standing: Standing) -> usize {
    findings
        .iter()
        .filter(|finding| finding.standing() == standing)
        .count()
}

/// On one line, whatever a file of the host contains.
fn line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_and_its_remedy_another() {
        let findings = [
            Finding::ok("kernel", "6.1\n7"),
            Finding::problem("open", "EACCES", "do this"),
        ];
        assert_eq!(
            text(&findings),
            "ok       kernel             6.1 7\n\
             problem  open               EACCES\n                            -> do this\n\
             1 problem, 0 warnings\n"
        );
        let value: Value = serde_json::from_str(&json(&findings)).unwrap();
        assert_eq!(value["problems"], 1);
        assert_eq!(value["findings"][0]["remedy"], Value::Null);
        let problem = json!({
            "topic": "open", "standing": "problem", "value": "EACCES", "remedy": "do this"
        });
        assert_eq!(value["findings"][1], problem);
    }
}
