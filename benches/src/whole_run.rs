//! The command line of a report that measures everything, always: `worker-report`, `device-report` and `facade-report`.

use std::path::PathBuf;

use crate::options::rounds;

/// Rounds of a whole run, as many as a good median needs.
const ROUNDS: usize = 31;
/// Few, but enough that some samples are good on a busy machine too.
const SMOKE_ROUNDS: usize = 12;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    /// As `cargo xtask bench` calls it.
    pub(crate) name: &'static str,
    /// What the help text says of it.
    pub(crate) what: &'static str,
    /// Whether the program can be sent on an errand, whose system calls somebody counts.
    pub(crate) has_errands: bool,
}

impl Subject {
    pub(crate) fn help(&self) -> String {
        let Self { name, what, .. } = self;
        format!(
            "\
{name}-report: measures {what}

  --rounds N       samples of each candidate in each cell ({ROUNDS})
  --smoke          {SMOKE_ROUNDS} rounds and short measurements: shows that all of it runs
  --output DIR     write bench-{name}.md there; without it the report is printed
  --help           print this text
"
        )
    }
}

/// One call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WholeRun {
    pub(crate) rounds: usize,
    pub(crate) smoke: bool,
    pub(crate) output: Option<PathBuf>,
    pub(crate) help: bool,
    /// Do nothing but this: the arguments behind `--errand`, which the subject understands.
    pub(crate) errand: Option<Vec<String>>,
}

impl WholeRun {
    /// # Errors
    /// Something is not understood.
    pub(crate) fn parse(
        subject: &Subject,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let mut run = Self {
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
                "--rounds" => run.rounds = rounds(&value()?)?,
                "--output" => run.output = Some(PathBuf::from(value()?)),
                "--smoke" => {
                    run.smoke = true;
                    run.rounds = SMOKE_ROUNDS;
                }
                "--help" | "-h" => run.help = true,
                "--errand" if subject.has_errands => {
                    run.errand = Some(arguments.by_ref().collect());
                }
                _ => return Err(format!("`{argument}` is not understood")),
            }
        }
        Ok(run)
    }

    /// What a person types to repeat the run.
    pub(crate) fn command(&self, subject: &Subject) -> String {
        let name = subject.name;
        if self.smoke {
            format!("cargo xtask bench {name} --smoke")
        } else {
            format!("cargo xtask bench {name} --rounds {}", self.rounds)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject = Subject {
        name: "thing",
        what: "a thing",
        has_errands: true,
    };

    fn parsed(line: &str) -> Result<WholeRun, String> {
        WholeRun::parse(&SUBJECT, line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn rounds_and_smoke() {
        let whole = parsed("").expect("default");
        assert_eq!(whole.rounds, ROUNDS);
        assert_eq!(
            whole.command(&SUBJECT),
            "cargo xtask bench thing --rounds 31"
        );
        assert_eq!(parsed("--rounds 9").expect("nine").rounds, 9);
        let smoke = parsed("--smoke").expect("smoke");
        assert_eq!(smoke.rounds, SMOKE_ROUNDS);
        assert_eq!(smoke.command(&SUBJECT), "cargo xtask bench thing --smoke");
        for line in ["--rounds", "--rounds 0", "--quick", "stage"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_errand_takes_the_rest_where_there_are_errands() {
        let errand = parsed("--errand far 9").expect("an errand").errand;
        assert_eq!(errand, Some(vec!["far".to_owned(), "9".to_owned()]));
        let stays = Subject {
            has_errands: false,
            ..SUBJECT
        };
        assert!(WholeRun::parse(&stays, ["--errand".to_owned()]).is_err());
    }

    #[test]
    fn the_help_says_what_is_measured() {
        assert!(
            SUBJECT
                .help()
                .starts_with("thing-report: measures a thing\n")
        );
    }
}
