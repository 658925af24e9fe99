//! The command line of `device-report`.

use std::path::PathBuf;

use crate::options::rounds;

/// Rounds of a whole run, as many as a good median needs.
const ROUNDS: usize = 31;
/// Few, but enough that some samples are good on a busy machine too.
const SMOKE_ROUNDS: usize = 12;

pub(crate) const HELP: &str = "\
device-report: measures stager and harvester against the same work by hand

  --rounds N       samples of each candidate in each cell (31)
  --smoke          12 rounds: shows that all of it runs
  --output DIR     write bench-device.md there; without it the report is printed
  --help           print this text
";

/// One call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) smoke: bool,
    pub(crate) output: Option<PathBuf>,
    pub(crate) help: bool,
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
                _ => return Err(format!("`{argument}` is not understood")),
            }
        }
        Ok(options)
    }

    /// What a person types to repeat the run.
    pub(crate) fn command(&self) -> String {
        if self.smoke {
            "cargo xtask bench device --smoke".to_owned()
        } else {
            format!("cargo xtask bench device --rounds {}", self.rounds)
        }
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
        let whole = parsed("").expect("default");
        assert_eq!(whole.rounds, ROUNDS);
        assert_eq!(whole.command(), "cargo xtask bench device --rounds 31");
        assert_eq!(parsed("--rounds 9").expect("nine").rounds, 9);
        assert_eq!(parsed("--smoke").expect("smoke").rounds, SMOKE_ROUNDS);
        for line in ["--rounds", "--rounds 0", "--quick", "stage"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
