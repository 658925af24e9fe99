//! System calls for each request, counted by `strace`.
//!
//! The program calls itself with an errand of so many requests, and with one of twice as many: what setting up costs is the
//! same in both, so their difference belongs to the requests. `strace` makes every call slow, and so counts threads that
//! sleep a little more often than they would.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::report_entry::{head, quartiles, row};

/// As many samples as an interval needs.
const SAMPLES: usize = 5;

/// Calls that the report has a column for; `epoll_pwait` is the same as `epoll_wait` here, and so on.
const NAMED: [(&str, &[&str]); 7] = [
    ("write", &["write"]),
    ("read", &["read"]),
    ("epoll_wait", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("epoll_ctl", &["epoll_ctl"]),
    ("ppoll", &["ppoll", "poll"]),
    ("futex", &["futex"]),
    ("sched_yield", &["sched_yield"]),
];

/// What each request of an errand needs.
#[derive(Debug)]
pub(crate) struct PerRequest {
    /// All calls: one number for each pair of errands.
    pub(crate) all: Vec<f64>,
    /// For each of [`NAMED`], the mean.
    named: [f64; NAMED.len()],
}

/// Counts. `errand` gives the arguments that have this program send so many requests.
///
/// # Errors
/// There is no `strace`, or it may not trace.
pub(crate) fn per_request(
    requests: usize,
    errand: impl Fn(usize) -> Vec<String>,
) -> Result<PerRequest, String> {
    let mut calls = PerRequest {
        all: Vec::new(),
        named: [0.0; NAMED.len()],
    };
    for _ in 0..SAMPLES {
        let (once, twice) = (traced(&errand(requests))?, traced(&errand(2 * requests))?);
        let each = |names: &[&str]| {
            let sum =
                |table: &Table| -> f64 { names.iter().filter_map(|name| table.get(*name)).sum() };
            (sum(&twice) - sum(&once)) / requests as f64
        };
        let all = twice.values().sum::<f64>() - once.values().sum::<f64>();
        calls.all.push(all / requests as f64);
        for (mean, (_, names)) in calls.named.iter_mut().zip(NAMED) {
            *mean += each(names) / SAMPLES as f64;
        }
    }
    Ok(calls)
}

/// Writes the table: a row for each errand, which begins with these entries.
pub(crate) fn table_of<'a>(
    text: &mut String,
    columns: &[&str],
    errands: impl Iterator<Item = (Vec<String>, &'a PerRequest)>,
) {
    let [first, others @ ..] = columns else {
        return;
    };
    let named = NAMED.iter().map(|(name, _)| format!("`{name}`"));
    let others = others.iter().map(|column| (*column).to_owned());
    head(text, first, others.chain(["all".to_owned()]).chain(named));
    let mut beside: f64 = 0.0;
    for (entries, calls) in errands {
        let mut entries = entries.into_iter();
        let name = entries.next().unwrap_or_default();
        let named = calls.named.iter().copied().map(two_digits);
        let all = quartiles(&calls.all, two_digits);
        row(text, &name, entries.chain([all]).chain(named));
        beside = beside.max(calls.without_a_column());
    }
    let _ = writeln!(text, "\nCalls without a column: {beside:.2} at most.");
}

impl PerRequest {
    fn without_a_column(&self) -> f64 {
        let all = self.all.iter().sum::<f64>() / self.all.len() as f64;
        (all - self.named.iter().sum::<f64>()).abs()
    }
}

fn two_digits(value: f64) -> String {
    // No minus before a nought.
    format!("{:.2}", value + 0.0).replace("-0.00", "0.00")
}

/// Calls by name.
type Table = BTreeMap<String, f64>;

fn traced(arguments: &[String]) -> Result<Table, String> {
    let program = std::env::current_exe().map_err(|fault| fault.to_string())?;
    let file = place_for_the_table();
    let traced = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&file)
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = traced.map_err(|fault| format!("strace does not start: {fault}"))?;
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("strace fails: {}", said.trim()));
    }
    let table = table(&text);
    if table.is_empty() {
        return Err("strace writes no table that is understood".to_owned());
    }
    Ok(table)
}

fn place_for_the_table() -> PathBuf {
    std::env::temp_dir().join(format!("lane-benches-{}.strace", std::process::id()))
}

/// Reads lines such as ` 99.1  0.001  1  4000  12 futex`, where the number of errors may be missing.
fn table(text: &str) -> Table {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (calls, name) = match words[..] {
            [share, _, _, calls, name] | [share, _, _, calls, _, name] => {
                share.parse::<f64>().ok()?;
                (calls.parse().ok()?, name)
            }
            _ => return None,
        };
        (name != "total").then(|| (name.to_owned(), calls))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read() {
        let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.11    0.000011           1        11           write
 38.89    0.000007           0         9         2 futex
  0.00    0.000000           0         1           execve
------ ----------- ----------- --------- --------- ----------------
100.00    0.000018           0        21         2 total
";
        let table = table(text);
        assert_eq!(table.len(), 3);
        assert_eq!((table["write"], table["futex"]), (11.0, 9.0));
    }

    #[test]
    fn a_row_has_all_calls_and_those_with_a_column() {
        let calls = PerRequest {
            all: vec![1.5; SAMPLES],
            named: [1.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0],
        };
        let mut text = String::new();
        let entries = vec!["quick".to_owned(), "far".to_owned()];
        table_of(
            &mut text,
            &["who", "where"],
            [(entries, &calls)].into_iter(),
        );
        let row =
            "| quick | far | **1.50** 1.50-1.50 | 1.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.25 | 0.00 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.ends_with("Calls without a column: 0.25 at most.\n"),
            "{text}"
        );
    }
}
