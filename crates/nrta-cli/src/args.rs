//! The command line: options, defaults, and what is refused.

#[cfg(feature = "real-driver")]
mod doctor;
#[cfg(feature = "real-driver")]
mod probe;

use crate::Failure;
#[cfg(feature = "real-driver")]
use crate::probe::ProbeArgs;
#[cfg(feature = "real-driver")]
pub(crate) use doctor::DoctorArgs;
use lexopt::prelude::*;
use nrta::{Backend, PollPolicy};
use std::ops::RangeInclusive;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Run a model over the execution-unit lane, on a simulated machine or on devices.

usage: nrta run DIR [options]
       nrta doctor [--deep] [--device neuron] [--dev DIR] [--sys DIR] [--proc DIR] [--json]
       nrta probe [--index N] [--core N] [--dev DIR] [--no-reset] [--execute DIR]
                  [--json] [--json-file FILE]
       nrta probe --list
       nrta config [--json]

DIR holds model.xum, heldout.xud and, optionally, expected.json. The model takes one
u8 input of the size of an image and gives, among others, one u32 label.

config prints what a runtime would be opened with in this environment, and where each
value comes from; run does not look at the environment.

doctor says what this host has of what devices need, with a remedy for what is not as it
should be. It attaches to no device; a core is claimed for some microseconds to see whether
it is free. With --deep it attaches, as a runtime does, to list the processes of each device
and to try whether memory can be had. With --device neuron a host without a device has a
problem. DIR: /dev, /sys and /proc, unless they are elsewhere.

probe asks a device for every fact about the hardware that nobody has seen on one yet
(docs/hardware-checklist.md), on one core that it claims and resets. It is for owners of
hardware: scripts/hardware-report. --execute runs the model in DIR as well, which writes to
addresses that nobody has verified. exit code: 2 without a device, 1 when a fact is refuted.

options of run:
  --device D     simulated, or neuron (also real-driver): devices behind the kernel driver
                 (default simulated)
  --dev DIR      directory of the device nodes (default /dev)
  --sys DIR      root of sysfs (default /sys)
  --cores N      logical cores to use, 1 to 256 (default 2)
  --tpbs N       physical cores of each logical core, 1 or 2 (default 1)
  --depth N      batches in flight per core, 1 to 4096 (default 8); the compute queue
                 takes 8 executions, so more shows how a full queue is handled
  --batch N      images per request, 1 to 4096 (default 16)
  --repeat N     passes over the images, 1 to 1000000 (default 100)
  --policy P     adaptive, reference or busy (default adaptive)
  --timeout N    seconds that an execution or a chunk of a move may take (default 30)
  --seed N       seed of the simulated machine (default 0)
  --faults FILE  what is to go wrong with the simulated machine, as JSON
                 (docs/machine.md)
  --show-config  print what the runtime is opened with to standard error first
  --json         print the result as one JSON object
  --quiet        no progress bar
  -h, --help     print this
  -V, --version  print the version

exit code: 0 when the run succeeded and predictions are as expected, or the doctor found no
problem, 1 when not, 2 when the command line or a file is not acceptable.
";

/// Most physical cores of a simulated machine.
const MAX_TPBS: u32 = 256;

/// The words that may come first.
const COMMANDS: &str = match cfg!(feature = "real-driver") {
    true => "run, doctor, probe or config",
    false => "run or config",
};

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Run(RunArgs),
    /// Examine the host.
    #[cfg(feature = "real-driver")]
    Doctor(DoctorArgs),
    /// Ask a device about unverified facts.
    #[cfg(feature = "real-driver")]
    Probe(ProbeArgs),
    /// Print the settings of this environment.
    Config {
        json: bool,
    },
}

/// How to run.
#[derive(Debug)]
pub(crate) struct RunArgs {
    pub(crate) dir: PathBuf,
    pub(crate) device: Backend,
    /// Directory of the device nodes; `None` is the usual one.
    pub(crate) dev: Option<PathBuf>,
    /// Root of sysfs; `None` is the usual one.
    pub(crate) sys: Option<PathBuf>,
    pub(crate) cores: u32,
    pub(crate) tpbs: u32,
    pub(crate) depth: u32,
    pub(crate) batch: u32,
    pub(crate) repeat: u32,
    pub(crate) policy: PollPolicy,
    pub(crate) timeout: u32,
    pub(crate) seed: u64,
    pub(crate) faults: Option<PathBuf>,
    pub(crate) show_config: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl Default for RunArgs {
    fn default() -> Self {
        Self {
            dir: PathBuf::new(),
            device: Backend::Simulated,
            dev: None,
            sys: None,
            cores: 2,
            tpbs: 1,
            depth: 8,
            batch: 16,
            repeat: 100,
            policy: PollPolicy::Adaptive,
            timeout: 30,
            seed: 0,
            faults: None,
            show_config: false,
            json: false,
            quiet: false,
        }
    }
}

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Command, Failure> {
    parse_from(lexopt::Parser::from_env())
}

fn parse_from(mut parser: lexopt::Parser) -> Result<Command, Failure> {
    let mut command = None;
    let mut dir = None;
    // The last option that only one of the devices understands.
    let (mut of_simulated, mut of_neuron) = (None, None);
    let mut args = RunArgs::default();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Short('V') | Long("version") => return Ok(Command::Version),
            Long("cores") => args.cores = number(&mut parser, "--cores", 1..=256)?,
            Long("tpbs") => args.tpbs = number(&mut parser, "--tpbs", 1..=2)?,
            Long("depth") => args.depth = number(&mut parser, "--depth", 1..=4096)?,
            Long("batch") => args.batch = number(&mut parser, "--batch", 1..=4096)?,
            Long("repeat") => args.repeat = number(&mut parser, "--repeat", 1..=1_000_000)?,
            Long("policy") => args.policy = policy(&mut parser)?,
            Long("timeout") => args.timeout = number(&mut parser, "--timeout", 1..=1_000_000)?,
            Long("device") => args.device = device(&mut parser)?,
            Long("dev") => {
                of_neuron = Some("--dev");
                args.dev = Some(path(&mut parser)?);
            }
            Long("sys") => {
                of_neuron = Some("--sys");
                args.sys = Some(path(&mut parser)?);
            }
            Long("seed") => {
                of_simulated = Some("--seed");
                args.seed = seed(&mut parser)?;
            }
            Long("faults") => {
                of_simulated = Some("--faults");
                args.faults = Some(parser.value().map_err(usage)?.into());
            }
            Long("show-config") => args.show_config = true,
            Long("json") => args.json = true,
            Long("quiet") => args.quiet = true,
            Value(value) if command.is_none() => {
                if value == "config" {
                    return config(&mut parser, args.json);
                }
                #[cfg(feature = "real-driver")]
                if value == "doctor" {
                    return doctor::parse(&mut parser, args.json);
                }
                #[cfg(feature = "real-driver")]
                if value == "probe" {
                    return probe::parse(&mut parser, args.json);
                }
                if value != "run" {
                    let text = format!("unknown command {value:?}, expected {COMMANDS}");
                    return Err(usage(text));
                }
                command = Some(());
            }
            Value(value) if dir.is_none() => dir = Some(PathBuf::from(value)),
            other => return Err(usage(other.unexpected())),
        }
    }
    if command.is_none() {
        return Err(usage(format!("no command, expected {COMMANDS}")));
    }
    let misplaced = match args.device {
        Backend::RealDriver => {
            of_simulated.map(|option| (option, "the simulated machine", "neuron"))
        }
        _ => of_neuron.map(|option| (option, "devices", "simulated")),
    };
    if let Some((option, of, device)) = misplaced {
        return Err(usage(format!(
            "{option} is of {of}, and --device is {device}"
        )));
    }
    if args.cores * args.tpbs > MAX_TPBS {
        let (cores, tpbs) = (args.cores, args.tpbs);
        let text =
            format!("--cores {cores} with --tpbs {tpbs} are more than {MAX_TPBS} physical cores");
        return Err(usage(text));
    }
    args.dir = dir.ok_or_else(|| usage("run needs a directory"))?;
    Ok(Command::Run(args))
}

fn config(parser: &mut lexopt::Parser, mut json: bool) -> Result<Command, Failure> {
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("json") => json = true,
            other => return Err(usage(other.unexpected())),
        }
    }
    Ok(Command::Config { json })
}

fn seed(parser: &mut lexopt::Parser) -> Result<u64, Failure> {
    let text = parser.value().map_err(usage)?;
    let seed = text.to_str().and_then(|text| text.parse().ok());
    seed.ok_or_else(|| {
        let text = text.to_string_lossy();
        usage(format!("--seed {text:?} is not a number below 2^64"))
    })
}

fn number(
    parser: &mut lexopt::Parser,
    option: &str,
    allowed: RangeInclusive<u32>,
) -> Result<u32, Failure> {
    let text = parser
        .value()
        .map_err(usage)?
        .to_string_lossy()
        .into_owned();
    match text.parse() {
        Ok(number) if allowed.contains(&number) => Ok(number),
        _ => Err(usage(format!(
            "{option} {text:?} is not a number from {} to {}",
            allowed.start(),
            allowed.end()
        ))),
    }
}

fn device(parser: &mut lexopt::Parser) -> Result<Backend, Failure> {
    let text = parser.value().map_err(usage)?;
    match text.to_str() {
        Some("simulated") => Ok(Backend::Simulated),
        Some("neuron" | "real-driver") => Ok(Backend::RealDriver),
        _ => Err(usage(format!(
            "--device {text:?} is not simulated or neuron"
        ))),
    }
}

fn path(parser: &mut lexopt::Parser) -> Result<PathBuf, Failure> {
    Ok(parser.value().map_err(usage)?.into())
}

fn policy(parser: &mut lexopt::Parser) -> Result<PollPolicy, Failure> {
    let text = parser
        .value()
        .map_err(usage)?
        .to_string_lossy()
        .into_owned();
    match text.as_str() {
        "adaptive" => Ok(PollPolicy::Adaptive),
        "reference" => Ok(PollPolicy::Reference),
        "busy" => Ok(PollPolicy::Busy),
        _ => Err(usage(format!(
            "--policy {text:?} is not adaptive, reference or busy"
        ))),
    }
}

fn usage(text: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{text} (see nrta --help)"))
}
