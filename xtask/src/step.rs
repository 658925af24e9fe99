//! A step of verify, and what it works with while it runs.
//!
//! Called by `verify`; the steps themselves are in `steps`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::VerifyOptions;
use crate::process::{self, Ended};
use crate::workspace::Workspace;

/// One row of the table.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// What it checks, for the help text.
    pub(crate) checks: &'static str,
    /// Part of `--quick`.
    pub(crate) quick: bool,
    pub(crate) run: fn(&mut Run<'_>) -> Verdict,
}

/// The detail of a step that passed, or why it did not.
pub(crate) type Verdict = Result<String, Stop>;

/// Why a step did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Failed(String),
    Skipped {
        reason: String,
        /// An install was tried in this run, and did not help.
        install_failed: bool,
    },
}

/// A step while it runs.
pub(crate) struct Run<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) options: &'a VerifyOptions,
    /// Time left for installs, shared by all steps.
    pub(crate) install_budget: &'a mut Duration,
    /// Lines of a test runner that the report repeats.
    pub(crate) closing_lines: Vec<String>,
    log: File,
    log_path: PathBuf,
    deadline: Instant,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        name: &str,
        workspace: &'a Workspace,
        options: &'a VerifyOptions,
        install_budget: &'a mut Duration,
    ) -> Result<Self, String> {
        let log_path = workspace.logs()?.join(format!("{name}.log"));
        let complain = |e| format!("cannot write {}: {e}", log_path.display());
        // Two streams of several processes share the file: each must write at its end.
        fs::write(&log_path, "").map_err(complain)?;
        let log = File::options()
            .read(true)
            .append(true)
            .open(&log_path)
            .map_err(complain)?;
        Ok(Self {
            workspace,
            options,
            install_budget,
            closing_lines: Vec::new(),
            log,
            log_path,
            deadline: Instant::now() + options.budget,
        })
    }

    /// Does two things at once, for commands that use one processor each. The second has a log of its own, which is added to that of
    /// the step when both are done.
    ///
    /// # Errors
    /// What the first says, or else the second.
    pub(crate) fn side_by_side<T: Send>(
        &mut self,
        name: &str,
        first: impl FnOnce(&mut Run<'_>) -> Result<T, Stop>,
        second: impl FnOnce(&mut Run<'_>) -> Result<T, Stop> + Send,
    ) -> Result<[T; 2], Stop> {
        let (workspace, options, deadline) = (self.workspace, self.options, self.deadline);
        let beside = move || {
            // Nothing is installed meanwhile.
            let mut no_budget = Duration::ZERO;
            let mut run =
                Run::new(name, workspace, options, &mut no_budget).map_err(Stop::Failed)?;
            run.deadline = deadline;
            let outcome = second(&mut run);
            Ok((outcome, run.output()))
        };
        let (first, beside) = thread::scope(|scope| {
            let beside = scope.spawn(beside);
            (first(self), beside.join())
        });
        let panicked = |_| Err(Stop::Failed(format!("{name} panicked")));
        let (second, output): (Result<T, Stop>, String) = beside.unwrap_or_else(panicked)?;
        self.note(&output);
        Ok([first?, second?])
    }

    pub(crate) fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Gives the step its whole budget again: installing a tool is not its work.
    pub(crate) fn restart_clock(&mut self) {
        self.deadline = Instant::now() + self.options.budget;
    }

    /// Adds a line of our own to the log.
    pub(crate) fn note(&mut self, line: &str) {
        // A log that cannot be written shows in the next command, which writes to it too.
        let _ = writeln!(self.log, "{line}");
    }

    /// Starts to describe a command; [`Invocation::run`] runs it.
    pub(crate) fn command(&mut self, line: &str) -> Invocation<'_, 'a> {
        let target = self.workspace.target.clone();
        Invocation {
            line: line.to_owned(),
            environment: vec![("CARGO_TARGET_DIR", target.into())],
            run: self,
        }
    }

    /// All that the step's commands printed so far, those that failed included.
    pub(crate) fn output(&mut self) -> String {
        // What cannot be read counts as nothing, and a step that counts nothing fails.
        self.read_log_from(0).unwrap_or_default()
    }

    fn read_log_from(&mut self, start: u64) -> std::io::Result<String> {
        self.log.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        self.log.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A command and its environment.
pub(crate) struct Invocation<'r, 'a> {
    run: &'r mut Run<'a>,
    line: String,
    environment: Vec<(&'static str, OsString)>,
}

impl Invocation<'_, '_> {
    pub(crate) fn env(self, name: &'static str, value: impl Into<OsString>) -> Self {
        let mut this = self.without(name);
        this.environment.push((name, value.into()));
        this
    }

    /// Leaves a variable unset.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.environment.retain(|(known, _)| *known != name);
        self
    }

    /// Uses a directory of its own inside the target directory, for flags that would rebuild the world.
    pub(crate) fn target_subdirectory(self, name: &str) -> Self {
        let target = self.run.workspace.target.join(name);
        self.env("CARGO_TARGET_DIR", target)
    }

    /// Runs the command and gives back what it printed.
    ///
    /// # Errors
    /// It cannot be started, ends badly, or is not done when the step's time is up.
    pub(crate) fn run(self) -> Result<String, Stop> {
        let left = self.run.deadline.saturating_duration_since(Instant::now());
        self.run_within(left)
    }

    /// As [`Self::run`], with a budget of its own.
    pub(crate) fn run_within(self, budget: Duration) -> Result<String, Stop> {
        let Self {
            run,
            line,
            environment,
        } = self;
        let shown: String = environment
            .iter()
            .map(|(name, value)| format!("{name}='{}' ", value.display()))
            .collect();
        run.note(&format!("$ {shown}{line}"));
        let start = run.log.metadata().map(|log| log.len()).unwrap_or(0);
        let ended = process::run(&line, &environment, &run.workspace.root, &run.log, budget);
        let output = run
            .read_log_from(start)
            .map_err(|e| Stop::Failed(format!("cannot read the log back: {e}")))?;
        let short = short(&line);
        match ended {
            Ok(Ended::Well) => Ok(output),
            Ok(Ended::Badly(status)) => Err(Stop::Failed(format!("`{short}` ended with {status}"))),
            Ok(Ended::OutOfTime) => {
                run.note(&format!(
                    "killed: not done after {:.1} s",
                    budget.as_secs_f64()
                ));
                let budget = run.options.budget.as_secs();
                Err(Stop::Failed(format!(
                    "`{short}` killed: the step's {budget} s are over"
                )))
            }
            Err(error) => {
                run.note(&format!("cannot start: {error}"));
                Err(Stop::Failed(format!("cannot start `{short}`: {error}")))
            }
        }
    }
}

/// The words before the first flag: enough to know which command it was.
fn short(line: &str) -> String {
    let words: Vec<&str> = line
        .split_whitespace()
        .take_while(|word| !word.starts_with('-'))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_its_first_words() {
        assert_eq!(
            short("cargo clippy --workspace -- -D warnings"),
            "cargo clippy"
        );
        assert_eq!(
            short("cargo +nightly miri test -p xu-ring"),
            "cargo +nightly miri test"
        );
    }
}
