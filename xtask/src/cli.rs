//! The command line: what may be asked, and the help text.
//!
//! Called by `main`; [`VerifyOptions`] is what the rest of the program reads.

use std::time::Duration;

use crate::bench::{AllOptions, BenchOptions};
use crate::fuzz::FuzzOptions;
use crate::soak::{Length, SoakOptions};
use crate::steps;

/// One call of `cargo xtask`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Verify(VerifyOptions),
    BenchRing(BenchOptions),
    BenchWorker(AllOptions),
    BenchDevice(AllOptions),
    BenchFacade(AllOptions),
    Fuzz(FuzzOptions),
    Soak(SoakOptions),
    /// Prints the layouts and constants, or writes them to their files.
    Abi {
        write: bool,
    },
    Tidy,
    Setup,
    Help,
}

/// How `verify` runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VerifyOptions {
    /// The inner loop: few steps, and fewer seeds where a step has them.
    pub(crate) quick: bool,
    /// Steps to run instead of the usual ones; empty means the usual ones.
    pub(crate) only: Vec<String>,
    /// Steps to leave out.
    pub(crate) skip: Vec<String>,
    /// `Some` turns skips into failures, except for these steps.
    pub(crate) strict: Option<Vec<String>>,
    /// Print one JSON object instead of the table.
    pub(crate) json: bool,
    /// Install missing tools that build in a few minutes.
    pub(crate) install: bool,
    /// How long one step may take.
    pub(crate) budget: Duration,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            quick: false,
            only: Vec::new(),
            skip: Vec::new(),
            strict: None,
            json: false,
            install: false,
            budget: Duration::from_secs(10 * 60),
        }
    }
}

/// In an allow list: any step whose tool could not be installed although `--install` tried.
pub(crate) const FAILED_INSTALL: &str = "failed-install";

/// Reads the arguments after the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut arguments = arguments.into_iter();
    let command = match arguments.next().as_deref() {
        None | Some("help" | "--help" | "-h") => Command::Help,
        Some("setup") => Command::Setup,
        Some("tidy") => Command::Tidy,
        Some("verify") => return parse_verify(arguments),
        Some("bench") => return parse_bench(arguments),
        Some("fuzz") => return parse_fuzz(arguments),
        Some("soak") => return parse_soak(arguments),
        Some("abi") => return parse_abi(arguments),
        Some(other) => return Err(format!("no command is called `{other}`")),
    };
    match arguments.next() {
        Some(extra) => Err(format!("`{extra}` is not understood here")),
        None => Ok(command),
    }
}

fn parse_verify(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = VerifyOptions::default();
    while let Some(argument) = arguments.next() {
        let (flag, attached) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let mut value = || {
            attached
                .clone()
                .or_else(|| arguments.next())
                .ok_or_else(|| format!("`{flag}` needs a value"))
        };
        match flag {
            "--only" => options.only = step_names(&value()?)?,
            "--skip" => options.skip = step_names(&value()?)?,
            "--budget" => options.budget = seconds(&value()?)?,
            "--strict" => options.strict = Some(allowed_skips(attached.as_deref())?),
            "--quick" | "--json" | "--install" if attached.is_some() => {
                return Err(format!("`{flag}` takes no value"));
            }
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--install" => options.install = true,
            "--help" | "-h" => return Ok(Command::Help),
            _ => return Err(format!("`{argument}` is not understood by verify")),
        }
    }
    Ok(Command::Verify(options))
}

fn parse_bench(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    match arguments.next().as_deref() {
        Some("ring") => parse_bench_ring(arguments),
        Some("worker") => parse_bench_all("worker", arguments)
            .map(|options| options.map_or(Command::Help, Command::BenchWorker)),
        Some("device") => parse_bench_all("device", arguments)
            .map(|options| options.map_or(Command::Help, Command::BenchDevice)),
        Some("facade") => parse_bench_all("facade", arguments)
            .map(|options| options.map_or(Command::Help, Command::BenchFacade)),
        Some("--help" | "-h") => Ok(Command::Help),
        other => {
            let other = other.unwrap_or("nothing");
            Err(format!(
                "bench measures `ring`, `worker`, `device` or `facade`, and not `{other}`"
            ))
        }
    }
}

fn parse_bench_ring(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = BenchOptions::default();
    while let Some(argument) = arguments.next() {
        let (flag, attached) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let mut value = || {
            attached
                .clone()
                .or_else(|| arguments.next())
                .ok_or_else(|| format!("`{flag}` needs a value"))
        };
        match flag {
            "--rounds" => options.rounds = Some(value()?),
            "--only" => options.only = Some(value()?),
            "--cell" => options.cell = Some(value()?),
            "--quick" if attached.is_none() => options.quick = true,
            "--help" | "-h" => return Ok(Command::Help),
            _ => return Err(format!("`{argument}` is not understood by bench ring")),
        }
    }
    Ok(Command::BenchRing(options))
}

/// Reads the options of a subject that is always measured whole. `None` asks for help.
fn parse_bench_all(
    subject: &str,
    mut arguments: impl Iterator<Item = String>,
) -> Result<Option<AllOptions>, String> {
    let mut options = AllOptions::default();
    while let Some(argument) = arguments.next() {
        let (flag, attached) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        match flag {
            "--rounds" => {
                let value = attached.or_else(|| arguments.next());
                options.rounds = Some(value.ok_or("`--rounds` needs a value")?);
            }
            "--smoke" if attached.is_none() => options.smoke = true,
            "--help" | "-h" => return Ok(None),
            _ => {
                return Err(format!("`{argument}` is not understood by bench {subject}"));
            }
        }
    }
    Ok(Some(options))
}

fn parse_fuzz(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = FuzzOptions::default();
    while let Some(argument) = arguments.next() {
        let (flag, attached) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        match flag {
            "--seconds" => {
                let value = attached
                    .or_else(|| arguments.next())
                    .ok_or_else(|| format!("`{flag}` needs a value"))?;
                options.seconds = seconds(&value)?.as_secs();
            }
            "--help" | "-h" => return Ok(Command::Help),
            _ if argument.starts_with('-') => {
                return Err(format!("`{argument}` is not understood by fuzz"));
            }
            _ => match options.target.replace(argument) {
                None => {}
                Some(first) => {
                    return Err(format!("one target or all of them, not `{first}` and more"));
                }
            },
        }
    }
    Ok(Command::Fuzz(options))
}

fn parse_soak(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = SoakOptions::default();
    let mut length = None;
    while let Some(argument) = arguments.next() {
        let (flag, attached) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        if matches!(flag, "--help" | "-h") {
            return Ok(Command::Help);
        }
        let value = attached
            .or_else(|| arguments.next())
            .ok_or_else(|| format!("`{flag}` needs a value"))?;
        let number = value
            .parse()
            .map_err(|_| format!("`{value}` is not a number"))?;
        let asked = match flag {
            "--seeds" => Length::Seeds(number),
            "--minutes" => Length::Minutes(number),
            "--seed" => Length::One(number),
            "--first" => {
                options.first = Some(number);
                continue;
            }
            _ => return Err(format!("`{argument}` is not understood by soak")),
        };
        let is_nothing = matches!(asked, Length::Seeds(0) | Length::Minutes(0));
        if length.replace(asked).is_some() || is_nothing {
            return Err(
                "soak takes one of `--seeds`, `--minutes` and `--seed`, the first two above 0"
                    .to_owned(),
            );
        }
    }
    options.length = length.unwrap_or(options.length);
    if matches!(options.length, Length::One(_)) && options.first.is_some() {
        return Err("`--seed` is one scenario; `--first` is for many".to_owned());
    }
    Ok(Command::Soak(options))
}

fn parse_abi(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let write = match arguments.next().as_deref() {
        None => false,
        Some("--write") => true,
        Some("--help" | "-h") => return Ok(Command::Help),
        Some(other) => return Err(format!("`{other}` is not understood by abi")),
    };
    match arguments.next() {
        Some(extra) => Err(format!("`{extra}` is not understood here")),
        None => Ok(Command::Abi { write }),
    }
}

fn step_names(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for name in list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        match steps::named(name) {
            Some(steps) => names.extend(steps.map(|step| step.name.to_owned())),
            None => {
                return Err(format!(
                    "no step is called `{name}`; there are: {}",
                    steps::names()
                ));
            }
        }
    }
    if names.is_empty() {
        return Err("the list of steps is empty".to_owned());
    }
    Ok(names)
}

fn allowed_skips(attached: Option<&str>) -> Result<Vec<String>, String> {
    let Some(attached) = attached else {
        return Ok(Vec::new());
    };
    let list = attached
        .strip_prefix("allow:")
        .ok_or_else(|| format!("`--strict={attached}` should read `--strict=allow:a,b`"))?;
    let mut allowed = Vec::new();
    for name in list.split(',') {
        if name == FAILED_INSTALL {
            allowed.push(name.to_owned());
        } else {
            allowed.extend(step_names(name)?);
        }
    }
    Ok(allowed)
}

fn seconds(value: &str) -> Result<Duration, String> {
    match value.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("`{value}` is not a number of seconds")),
    }
}

/// The help text, with the table of steps.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "\
cargo xtask verify [options]   run the steps below, then print a table
cargo xtask tidy               run the workspace's own rules alone
cargo xtask abi [--write]      print every layout and constant, or write them to docs/abi.json and docs/abi.md
cargo xtask bench ring [...]   measure the ring against its peers, and write docs/bench-ring.md
cargo xtask bench worker [...] measure the worker against its peers, and write docs/bench-worker.md
cargo xtask bench device [...] measure stager and harvester against the work by hand, and write docs/bench-device.md
cargo xtask bench facade [...] measure the facade against a design by hand, and write docs/bench-facade.md
cargo xtask fuzz [...]         run the fuzz targets, each for a while
cargo xtask soak [...]         run random machines with random faults against the oracle, for long
cargo xtask setup              install the tools that are missing, and say which
cargo xtask help               print this text

Options of verify:
  --quick                 the steps marked `quick`, and fewer seeds under miri
  --only a,b              these steps and no others
  --skip a,b              not these steps
  --strict[=allow:a,b]    a skipped step is a failure, except for the allowed ones;
                          `failed-install` allows what --install could not install
  --install               install missing tools that build in a few minutes
  --budget SECONDS        end a step that takes longer (600)
  --json                  print one JSON object instead of the table

Options of bench ring:
  --rounds N              samples of each candidate in each cell (45)
  --quick                 7 rounds; the report goes to target/bench-ring
  --only a,b              what these bars (R2, T1) or groups (one-by-one, batches, round-trip, completion,
                          three-stage, single) need; the report goes to target/bench-ring
  --cell TEXT             only cells whose name has this text; likewise

Options of bench worker, bench device and bench facade:
  --rounds N              samples of each candidate in each cell (31)
  --smoke                 12 rounds, to see that it runs; the report goes to target/bench-worker and so on

Options of fuzz:
  --seconds N             how long each target runs (20)
  TARGET                  this target and no other

Options of soak:
  --minutes M             for so long (10)
  --seeds N               so many scenarios, instead
  --first SEED            begin here, and not at a seed that no run has come to before
  --seed SEED             this scenario alone, told in full

Steps of verify, in order:
",
    );
    for step in steps::ALL {
        let quick = if step.quick { "quick" } else { "" };
        text.push_str(&format!("  {:<12} {quick:<6} {}\n", step.name, step.checks));
    }
    text.push_str(
        "  `dependencies` stands for deny, machete and typos.

Exit code: 0 when a step passed and none failed, 1 otherwise, 2 when the call is not understood.
",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn options(line: &str) -> VerifyOptions {
        match parsed(line) {
            Ok(Command::Verify(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn no_option_means_the_defaults() {
        assert_eq!(options("verify"), VerifyOptions::default());
    }

    #[test]
    fn lists_are_given_with_a_space_or_an_equals_sign() {
        assert_eq!(options("verify --only lint,loom").only, ["lint", "loom"]);
        assert_eq!(options("verify --skip=miri").skip, ["miri"]);
    }

    #[test]
    fn dependencies_stands_for_three_steps() {
        assert_eq!(
            options("verify --only dependencies").only,
            ["deny", "machete", "typos"]
        );
    }

    #[test]
    fn strict_may_allow_steps_and_failed_installs() {
        assert_eq!(options("verify").strict, None);
        assert_eq!(options("verify --strict").strict, Some(vec![]));
        let allowed = options("verify --strict=allow:typos,failed-install").strict;
        assert_eq!(
            allowed,
            Some(vec!["typos".to_owned(), FAILED_INSTALL.to_owned()])
        );
    }

    #[test]
    fn a_misspelt_call_is_refused() {
        for line in [
            "check",
            "verify --only tipos",
            "verify --only",
            "verify --only ,",
            "verify --strict=typos",
            "verify --strict=allow:tipos",
            "verify --quick=yes",
            "verify --budget 0",
            "verify lint",
            "setup now",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn bench_takes_a_subject_and_options() {
        let options = BenchOptions {
            quick: true,
            only: Some("R1,T2".to_owned()),
            ..BenchOptions::default()
        };
        assert_eq!(
            parsed("bench ring --quick --only R1,T2"),
            Ok(Command::BenchRing(options))
        );
        let smoke = || AllOptions {
            smoke: true,
            rounds: Some("7".to_owned()),
        };
        assert_eq!(
            parsed("bench worker --smoke --rounds=7"),
            Ok(Command::BenchWorker(smoke()))
        );
        assert_eq!(
            parsed("bench device --rounds 7 --smoke"),
            Ok(Command::BenchDevice(smoke()))
        );
        assert_eq!(
            parsed("bench facade --rounds 7 --smoke"),
            Ok(Command::BenchFacade(smoke()))
        );
        for line in ["bench --help", "bench worker --help", "bench device -h"] {
            assert_eq!(parsed(line), Ok(Command::Help), "{line}");
        }
        for line in [
            "bench",
            "bench lane",
            "bench ring --quick=yes",
            "bench ring R1",
            "bench worker --quick",
            "bench worker --rounds",
            "bench device --only stage",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn fuzz_takes_seconds_and_one_target() {
        assert_eq!(parsed("fuzz"), Ok(Command::Fuzz(FuzzOptions::default())));
        let options = FuzzOptions {
            seconds: 3,
            target: Some("ring_spsc".to_owned()),
        };
        assert_eq!(
            parsed("fuzz --seconds 3 ring_spsc"),
            Ok(Command::Fuzz(options))
        );
        for line in [
            "fuzz --seconds",
            "fuzz --seconds 0",
            "fuzz --jobs 2",
            "fuzz abi_ids abi_host",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn soak_takes_one_length_and_a_first_seed() {
        assert_eq!(parsed("soak"), Ok(Command::Soak(SoakOptions::default())));
        let options = |length, first| Ok(Command::Soak(SoakOptions { length, first }));
        assert_eq!(
            parsed("soak --seeds 9 --first=4"),
            options(Length::Seeds(9), Some(4))
        );
        assert_eq!(
            parsed("soak --minutes 3"),
            options(Length::Minutes(3), None)
        );
        assert_eq!(parsed("soak --seed=8"), options(Length::One(8), None));
        for line in [
            "soak --seeds",
            "soak --seeds many",
            "soak --seeds 1 --minutes 1",
            "soak --seeds 0",
            "soak --minutes 0",
            "soak --seed 1 --first 2",
            "soak 5",
            "soak --hours 5",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn abi_prints_unless_told_to_write() {
        assert_eq!(parsed("abi"), Ok(Command::Abi { write: false }));
        assert_eq!(parsed("abi --write"), Ok(Command::Abi { write: true }));
        for line in ["abi write", "abi --write now", "abi --write=yes"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn help_names_every_step() {
        let help = help();
        for step in steps::ALL {
            assert!(help.contains(step.checks), "{}", step.name);
        }
    }
}
