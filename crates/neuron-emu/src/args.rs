//! The command line of `neuron-emu`.

use lexopt::prelude::*;
use neuron_emu::Settings;
use neuron_emu::config::DriverFault;
use std::ffi::OsString;
use std::path::PathBuf;

/// How to run which program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) settings: Settings,
    pub(crate) front: Front,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) sysfs: Option<PathBuf>,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// How system calls of the program are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Seccomp,
    Preload,
    Auto,
}

impl Run {
    pub(crate) fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}

/// The text of `--help`.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "\
Runs a program that opens /dev/neuronN on a machine without the hardware: a development tool.

usage: neuron-emu [options] [--] program [arguments]

what is emulated:
",
    );
    for (key, takes) in Settings::KEYS {
        text.push_str(&format!("  --{key:<16} {takes}\n"));
    }
    let faults: Vec<_> = DriverFault::ALL.iter().map(|fault| fault.name()).collect();
    text.push_str(&format!(
        "
Bytes are a number, or one with KiB, MiB or GiB.
Faults of the driver:
  {}.
Occasions are counted from 0 on each device: from=N, every=N, times=N, and node=N for one device. The option
can be given again.
",
        faults.join(", ")
    ));
    text.push_str(
        "
how:
  --front F          seccomp (any program), preload (programs of the dynamic libc, one process), or
                     auto: seccomp where it is permitted (default)
  --trace FILE       what the programs did and were answered, a line each; of many, the last 65536
                     (seccomp only)
  --sysfs PATH       make PATH a link to a directory that stands for /sys while the program runs
                     (seccomp only)
  -h, --help         this text

exit code: the program's; 128 + n when signal n ended it; 70 when the real driver would have crashed the
kernel; 64 for a wrong command line; 69 when no front end can be used; 126 or 127 when the program cannot be
executed or is not there.
",
    );
    text
}

/// Reads a command line. `None`: help is wanted.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Option<Run>, lexopt::Error> {
    let mut settings = Settings::default();
    let mut front = Front::Auto;
    let (mut trace, mut sysfs) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("front") => front = parser.value()?.parse_with(which_front)?,
            Long("trace") => trace = Some(parser.value()?.into()),
            Long("sysfs") => sysfs = Some(parser.value()?.into()),
            Long(key) => {
                let key = key.to_owned();
                if !Settings::KEYS.iter().any(|(known, _)| *known == key) {
                    return Err(Long(&key).unexpected());
                }
                let value = parser.value()?.string()?;
                let set = settings.set(&key, &absolute(&key, value)?);
                set.map_err(|error| lexopt::Error::Custom(error.into()))?;
            }
            Value(program) => {
                return Ok(Some(Run {
                    settings,
                    front,
                    trace,
                    sysfs,
                    program,
                    arguments: parser.raw_args()?.collect(),
                }));
            }
            Short(_) => return Err(argument.unexpected()),
        }
    }
    Err("no program is named".into())
}

/// The preloaded library may start in another directory.
fn absolute(key: &str, value: String) -> Result<String, lexopt::Error> {
    if key != "faults" {
        return Ok(value);
    }
    let path = std::path::absolute(&value).map_err(|error| lexopt::Error::Custom(error.into()))?;
    path.into_os_string().string()
}

fn which_front(text: &str) -> Result<Front, &'static str> {
    match text {
        "seccomp" => Ok(Front::Seccomp),
        "preload" => Ok(Front::Preload),
        "auto" => Ok(Front::Auto),
        _ => Err("seccomp, preload or auto is expected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Option<Run>, lexopt::Error> {
        parse(lexopt::Parser::from_args(words))
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let Ok(Some(run)) = parsed(&["--devices", "2", "--", "cat", "--help", "-x"]) else {
            panic!("a program to run");
        };
        assert_eq!(run.settings.config().devices, 2);
        assert_eq!(run.program, "cat");
        assert_eq!(run.arguments, ["--help", "-x"]);
        let Ok(Some(run)) = parsed(&["--front=preload", "cat", "--devices"]) else {
            panic!("a program to run");
        };
        assert_eq!((run.front, run.arguments.len()), (Front::Preload, 1));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for words in [
            &["--colour", "red", "cat"][..],
            &["-x", "cat"],
            &["--arch", "v1", "cat"],
            &["--front", "ptrace", "cat"],
            &["--devices"],
            &[],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn help_names_every_setting() {
        for (key, _) in Settings::KEYS {
            assert!(help().contains(&format!("--{key} ")), "{key}");
        }
    }
}
