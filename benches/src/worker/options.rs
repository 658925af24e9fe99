//! The command line of `worker-report`.

use std::path::PathBuf;

use crate::lane::Policy;
use crate::options::rounds;

/// Rounds of a whole run, as many as a good median needs.
const ROUNDS: usize = 31;
/// Few, but enough that some samples are good on a busy machine too.
const SMOKE_ROUNDS: usize = 12;

pub(crate) const HELP: &str = "\
worker-report: measures the worker against its peers

  --rounds N       samples of each candidate in each cell (31)
  --smoke          12 rounds and short measurements of costs: shows that all of it runs
  --output DIR     write bench-worker.md there; without it the report is printed
  --help           print this text
";

/// One call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) smoke: bool,
    pub(crate) output: Option<PathBuf>,
    pub(crate) help: bool,
    /// Do nothing but send requests, for whoever counts system calls.
    pub(crate) errand: Option<Errand>,
}

/// What a process does whose system calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    pub(crate) policy: Policy,
    /// Whether the caller watches the cursor, and does not wait for completions.
    pub(crate) by_cursor: bool,
    pub(crate) requests: usize,
}

impl Errand {
    /// The arguments by which [`Options::parse`] finds it again.
    pub(crate) fn arguments(self) -> [String; 4] {
        [
            "--errand".to_owned(),
            self.policy.name().to_owned(),
            self.way().to_owned(),
            self.requests.to_string(),
        ]
    }

    pub(crate) const fn way(self) -> &'static str {
        if self.by_cursor {
            "cursor"
        } else {
            "completions"
        }
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let policy = arguments.next()?;
        let way = arguments.next()?;
        Some(Self {
            policy: Policy::ALL
                .into_iter()
                .find(|known| known.name() == policy)?,
            by_cursor: way == "cursor",
            requests: arguments.next()?.parse().ok()?,
        })
    }
}

impl Options {
    /// # Errors
    /// Something is not understood.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: ROUNDS,
            smoke: false,
            output: None,
            help: false,
            errand: None,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("`{argument}` needs a value"))
            };
            match argument.as_str() {
                "--rounds" => options.rounds = rounds(&value()?)?,
                "--output" => options.output = Some(PathBuf::from(value()?)),
                "--smoke" => {
                    options.smoke = true;
                    options.rounds = SMOKE_ROUNDS;
                }
                "--help" | "-h" => options.help = true,
                "--errand" => {
                    let errand = Errand::parse(arguments.by_ref());
                    options.errand = Some(errand.ok_or("the errand is not understood")?);
                }
                _ => return Err(format!("`{argument}` is not understood")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn rounds_and_smoke() {
        assert_eq!(parsed("").expect("default").rounds, ROUNDS);
        assert_eq!(parsed("--rounds 9").expect("nine").rounds, 9);
        assert_eq!(parsed("--smoke").expect("smoke").rounds, SMOKE_ROUNDS);
        for line in ["--rounds", "--rounds 0", "--errand Lazy cursor 9", "W1"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_errand_is_understood_by_the_process_that_gets_it() {
        for policy in Policy::ALL {
            let errand = Errand {
                policy,
                by_cursor: policy == Policy::Busy,
                requests: 4000,
            };
            let options = Options::parse(errand.arguments()).expect("is understood");
            assert_eq!(options.errand, Some(errand));
        }
    }
}
