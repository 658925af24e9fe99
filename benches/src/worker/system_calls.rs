//! System calls for each request on a loaded lane, counted by `strace`.
//!
//! The program calls itself with an errand of so many requests, and with one of twice as many: what setting up costs is the
//! same in both, so their difference belongs to the requests. `strace` makes every call slow, and so counts a lane whose
//! threads sleep a little more often than they would.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::options::Errand;
use super::own::lane_on;
use super::service::{self, Caller};
use crate::lane::{ByCompletion, ByCursor, Policy};
use crate::pin::{self, Pair};

const DEPTH: usize = 8;
/// As many samples as an interval needs.
const SAMPLES: usize = 5;
const REQUESTS: usize = 4000;
const SMOKE_REQUESTS: usize = 300;

/// Calls that the report has a column for; `epoll_pwait` is the same as `epoll_wait` here, and so on.
pub(crate) const NAMED: [(&str, &[&str]); 7] = [
    ("write", &["write"]),
    ("read", &["read"]),
    ("epoll_wait", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("epoll_ctl", &["epoll_ctl"]),
    ("ppoll", &["ppoll", "poll"]),
    ("futex", &["futex"]),
    ("sched_yield", &["sched_yield"]),
];

/// What one lane needs with one kind of caller.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) policy: Policy,
    pub(crate) way: &'static str,
    /// All calls for each request: one number for each pair of errands.
    pub(crate) all: Vec<f64>,
    /// For each of [`NAMED`], the mean.
    pub(crate) named: [f64; NAMED.len()],
}

/// Counts for each policy and caller.
///
/// # Errors
/// There is no `strace`, or it may not trace.
pub(crate) fn count(smoke: bool) -> Result<Vec<Calls>, String> {
    let requests = if smoke { SMOKE_REQUESTS } else { REQUESTS };
    let mut counted = Vec::new();
    for policy in Policy::ALL {
        for by_cursor in [false, true] {
            counted.push(count_one(Errand {
                policy,
                by_cursor,
                requests,
            })?);
        }
    }
    Ok(counted)
}

fn count_one(errand: Errand) -> Result<Calls, String> {
    let twice = Errand {
        requests: 2 * errand.requests,
        ..errand
    };
    let mut calls = Calls {
        policy: errand.policy,
        way: errand.way(),
        all: Vec::new(),
        named: [0.0; NAMED.len()],
    };
    for _ in 0..SAMPLES {
        let (once, twice) = (traced(errand)?, traced(twice)?);
        let each = |names: &[&str]| {
            let sum =
                |table: &Table| -> f64 { names.iter().filter_map(|name| table.get(*name)).sum() };
            (sum(&twice) - sum(&once)) / errand.requests as f64
        };
        let all = twice.values().sum::<f64>() - once.values().sum::<f64>();
        calls.all.push(all / errand.requests as f64);
        for (mean, (_, names)) in calls.named.iter_mut().zip(NAMED) {
            *mean += each(names) / SAMPLES as f64;
        }
    }
    Ok(calls)
}

/// Calls by name.
type Table = BTreeMap<String, f64>;

fn traced(errand: Errand) -> Result<Table, String> {
    let program = std::env::current_exe().map_err(|fault| fault.to_string())?;
    let file = place_for_the_table();
    let traced = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&file)
        .arg(program)
        .args(errand.arguments())
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
    std::env::temp_dir().join(format!("worker-report-{}.strace", std::process::id()))
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

/// What the traced process does.
///
/// # Errors
/// There is no lane to send requests to.
pub(crate) fn run(errand: Errand) -> Result<(), String> {
    let processors = pin::choose()?;
    let sent = pin::on(processors[0], || {
        if errand.by_cursor {
            send(processors, errand, ByCursor::spinning)
        } else {
            send(processors, errand, ByCompletion::new)
        }
    });
    sent.ok_or_else(|| "there is no lane".to_owned())
}

fn send<C: Caller>(
    processors: Pair,
    errand: Errand,
    caller: impl FnOnce(crate::lane::Lane) -> C,
) -> Option<()> {
    let mut caller = caller(lane_on(processors, errand.policy)?);
    service::run(&mut caller, DEPTH, errand.requests);
    caller.stop();
    Some(())
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
    fn an_errand_ends() {
        let errand = Errand {
            policy: Policy::DEFAULT,
            by_cursor: true,
            requests: 100,
        };
        if pin::choose().is_ok() {
            assert_eq!(run(errand), Ok(()));
        }
    }
}
