//! What a person or a machine reads: progress, the output of failed steps, the table, the closing line.
//!
//! Called by `verify`.
//! The report goes to the standard output; progress goes to the standard error.

use std::fmt::Write;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use crate::step::{Stop, Verdict};
use crate::workspace::Workspace;

/// How many of a failed step's last lines are shown.
const TAIL: usize = 80;

/// One line of the table.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) time: Duration,
    pub(crate) log: PathBuf,
    /// The test runner's own words.
    pub(crate) closing_lines: Vec<String>,
}

impl Row {
    fn result(&self) -> &'static str {
        match self.verdict {
            Ok(_) => "ok",
            Err(Stop::Failed(_)) => "FAILED",
            Err(Stop::Skipped { .. }) => "SKIPPED",
        }
    }

    fn detail(&self) -> &str {
        match &self.verdict {
            Ok(text) | Err(Stop::Failed(text) | Stop::Skipped { reason: text, .. }) => text,
        }
    }

    fn line(&self) -> String {
        let time = format!("{:.1} s", self.time.as_secs_f64());
        format!(
            "{:<12} {:<8} {time:>8}  {}",
            self.name,
            self.result(),
            self.detail()
        )
    }
}

/// Tells a waiting person that something is going on.
pub(crate) struct Progress {
    steps: usize,
    begun: usize,
    /// A terminal shows the running step; anything else gets a line for each finished step.
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            steps,
            begun: 0,
            terminal: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn begin(&mut self, name: &str) {
        self.begun += 1;
        if self.terminal {
            eprint!("\r\x1b[K[{}/{}] {name} ", self.begun, self.steps);
        }
    }

    pub(crate) fn end(&mut self, row: &Row) {
        if self.terminal {
            eprint!("\r\x1b[K");
        } else {
            eprintln!("[{}/{}] {}", self.begun, self.steps, row.line());
        }
    }
}

/// A step passed, and none failed.
pub(crate) fn is_well(rows: &[Row]) -> bool {
    let count = Count::of(rows);
    count.passed > 0 && count.failed == 0
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Count {
    fn of(rows: &[Row]) -> Self {
        let mut count = Self::default();
        for row in rows {
            match row.verdict {
                Ok(_) => count.passed += 1,
                Err(Stop::Failed(_)) => count.failed += 1,
                Err(Stop::Skipped { .. }) => count.skipped += 1,
            }
        }
        count
    }
}

fn total(rows: &[Row]) -> Duration {
    rows.iter().map(|row| row.time).sum()
}

/// The report for a person.
pub(crate) fn text(rows: &[Row], workspace: &Workspace) -> String {
    let mut text = String::new();
    for row in rows
        .iter()
        .filter(|row| matches!(row.verdict, Err(Stop::Failed(_))))
    {
        let log = fs::read_to_string(&row.log).unwrap_or_default();
        push_line(&mut text, &format!("---- {} ----", row.name));
        for line in tail(&log) {
            push_line(&mut text, line);
        }
        push_line(
            &mut text,
            &format!("---- all of it: {} ----\n", workspace.relative(&row.log)),
        );
    }
    for row in rows.iter().filter(|row| !row.closing_lines.is_empty()) {
        push_line(
            &mut text,
            &format!("{}, in the words of the test runner:", row.name),
        );
        for line in &row.closing_lines {
            push_line(&mut text, line);
        }
        text.push('\n');
    }
    push_line(&mut text, "step         result       time  detail");
    for row in rows {
        push_line(&mut text, &row.line());
    }
    let seconds = format!("{:.1} s", total(rows).as_secs_f64());
    push_line(
        &mut text,
        &format!("{:<12} {:<8} {seconds:>8}\n", "total", ""),
    );
    let Count {
        passed,
        failed,
        skipped,
    } = Count::of(rows);
    push_line(
        &mut text,
        &format!("verify: {passed} passed, {failed} failed, {skipped} skipped"),
    );
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn tail(log: &str) -> impl Iterator<Item = &str> {
    let lines = log.lines().count();
    log.lines().skip(lines.saturating_sub(TAIL))
}

/// The report for a machine.
pub(crate) fn json(rows: &[Row], workspace: &Workspace) -> String {
    let steps: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                r#"{{"step":{},"result":{},"seconds":{:.1},"detail":{},"log":{}}}"#,
                quoted(row.name),
                quoted(row.result()),
                row.time.as_secs_f64(),
                quoted(row.detail()),
                quoted(&workspace.relative(&row.log).to_string()),
            )
        })
        .collect();
    let Count {
        passed,
        failed,
        skipped,
    } = Count::of(rows);
    format!(
        r#"{{"steps":[{}],"seconds":{:.1},"passed":{passed},"failed":{failed},"skipped":{skipped}}}"#,
        steps.join(","),
        total(rows).as_secs_f64(),
    )
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, verdict: Verdict) -> Row {
        Row {
            name,
            verdict,
            time: Duration::from_millis(1500),
            log: PathBuf::from("/nowhere/target/verify/step.log"),
            closing_lines: Vec::new(),
        }
    }

    fn passed(name: &'static str) -> Row {
        row(name, Ok("no warning".to_owned()))
    }

    fn skipped(name: &'static str) -> Row {
        let reason = "not found".to_owned();
        row(
            name,
            Err(Stop::Skipped {
                reason,
                install_failed: false,
            }),
        )
    }

    fn failed(name: &'static str) -> Row {
        row(name, Err(Stop::Failed("said \"no\"\n".to_owned())))
    }

    fn workspace() -> Workspace {
        Workspace {
            root: PathBuf::from("/nowhere"),
            target: PathBuf::from("/nowhere/target"),
        }
    }

    #[test]
    fn the_last_line_counts_each_result() {
        let rows = [
            passed("format"),
            passed("lint"),
            failed("tests"),
            skipped("typos"),
        ];
        let text = text(&rows, &workspace());
        assert_eq!(
            text.lines().last(),
            Some("verify: 2 passed, 1 failed, 1 skipped")
        );
        assert!(
            text.contains("format       ok          1.5 s  no warning\n"),
            "{text}"
        );
        assert!(text.contains("all of it: target/verify/step.log"), "{text}");
    }

    #[test]
    fn the_runners_closing_line_is_repeated_as_it_was() {
        let mut tests = passed("tests");
        tests
            .closing_lines
            .push("Summary [   0.1s] 3 tests run: 3 passed, 0 skipped".to_owned());
        let text = text(&[tests], &workspace());
        assert!(
            text.contains("\nSummary [   0.1s] 3 tests run: 3 passed, 0 skipped\n"),
            "{text}"
        );
    }

    #[test]
    fn all_is_well_only_when_something_passed_and_nothing_failed() {
        assert!(is_well(&[passed("format"), skipped("typos")]));
        assert!(!is_well(&[passed("format"), failed("lint")]));
        assert!(!is_well(&[skipped("typos")]));
        assert!(!is_well(&[]));
    }

    #[test]
    fn a_long_log_is_cut_at_its_beginning() {
        let log: String = (0..100).map(|number| format!("{number}\n")).collect();
        assert_eq!(tail(&log).next(), Some("20"));
        assert_eq!(tail(&log).last(), Some("99"));
        assert_eq!(tail("one\n").count(), 1);
    }

    #[test]
    fn json_is_escaped() {
        let json = json(&[failed("lint")], &workspace());
        assert_eq!(
            json,
            r#"{"steps":[{"step":"lint","result":"FAILED","seconds":1.5,"detail":"said \"no\"\u000a","log":"target/verify/step.log"}],"seconds":1.5,"passed":0,"failed":1,"skipped":0}"#
        );
    }
}
