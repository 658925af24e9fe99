//! The command line.
//!
//! Read by `main`; everything of it is also an [`Options`], for programs that start a [`Service`](crate::Service) themselves.

pub use crate::limits::Limits;
use lexopt::prelude::*;
use nrta::simulated::FaultPlan;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
Serve the digits model over HTTP.

usage: digits-service [options]

  --listen ADDRESS    where to listen; port 0 lets the system choose [127.0.0.1:0]
  --model FILE        the model container [examples/digits/model.xum]
  --cores N           logical cores [what the environment says, or 1]
  --depth N           requests in flight on each core, 1 to 63 [what the environment says, or 8]
  --wait MS           how long a request may wait for a free slot [300]
  --timeout MS        how long an execution may take; then its core counts as lost
                      [what the environment says, or 2000]
  --connections N     connections at once; further ones wait [1024]
  --faults FILE       what goes wrong with the simulated machine, as JSON; given again, for the next lane
  --help              this text

POST /classify takes 64 pixels from 0 to 16, as an array of JSON or as application/octet-stream.
Variables of the environment, NEURON_RT_* and NRTA_*, say how the runtime is opened; an option wins over them.
GET /health says how the queues are. SIGTERM and Ctrl-C end the service when it has answered.
";

/// How a service is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The model container.
    pub model: PathBuf,
    /// Logical cores; `None` for what the environment says, or 1.
    pub cores: Option<u32>,
    /// Requests in flight on each core; `None` for what the environment says, or 8.
    pub depth: Option<u32>,
    /// How long a request may wait for a free slot.
    pub wait: Duration,
    /// How long an execution may take; `None` for what the environment says, or two seconds.
    pub exec_timeout: Option<Duration>,
    /// Connections at once.
    pub connections: usize,
    /// What goes wrong with the simulated machine of each lane; of later ones, nothing. When there is
    /// none at all, what the environment says, in every lane.
    pub faults: Vec<FaultPlan>,
    /// How long clients and ends may take.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../digits/model.xum");
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            model: model.into(),
            cores: None,
            depth: None,
            wait: Duration::from_millis(300),
            exec_timeout: None,
            connections: 1024,
            faults: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// The command line is not acceptable.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// An option that does not exist, or has no value. The text names it.
    #[error("{0}: --help says what there is")]
    CommandLine(#[from] lexopt::Error),
    /// A value of the wrong form.
    #[error("--{option} {value:?} is not allowed: {why}")]
    Form {
        /// Which option.
        option: &'static str,
        /// What was given.
        value: OsString,
        /// Why not.
        why: String,
    },
    /// A number out of its range.
    #[error("--{option} {value} is not allowed: {least} to {most}")]
    Range {
        /// Which option.
        option: &'static str,
        /// What was given.
        value: u64,
        /// The least that is allowed.
        least: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// A plan of faults cannot be read.
    #[error("--faults {}: {why}", .path.display())]
    Faults {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

impl Options {
    /// The options of a command line without its first argument; `None` when it asks for help.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Option<Self>, OptionError> {
        let mut parser = lexopt::Parser::from_args(arguments);
        let mut options = Self::default();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("help") | Short('h') => return Ok(None),
                Long("listen") => options.listen = parsed(&mut parser, "listen")?,
                Long("model") => options.model = parser.value()?.into(),
                Long("cores") => options.cores = Some(number(&mut parser, "cores", 1, 256)?),
                Long("depth") => options.depth = Some(number(&mut parser, "depth", 1, 63)?),
                Long("wait") => options.wait = milliseconds(&mut parser, "wait", 0)?,
                Long("timeout") => {
                    options.exec_timeout = Some(milliseconds(&mut parser, "timeout", 1)?);
                }
                Long("connections") => {
                    options.connections = number(&mut parser, "connections", 1, 1 << 20)?;
                }
                Long("faults") => {
                    let path = PathBuf::from(parser.value()?);
                    options.faults.push(faults(&path)?);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Some(options))
    }

    /// What goes wrong in a lane, counted from 1; `None` for what the environment says.
    pub(crate) fn faults_of(&self, generation: u32) -> Option<FaultPlan> {
        if self.faults.is_empty() {
            return None;
        }
        let index = usize::try_from(generation)
            .ok()
            .and_then(|n| n.checked_sub(1));
        let plan = index.and_then(|index| self.faults.get(index));
        Some(plan.cloned().unwrap_or_default())
    }
}

/// The value of an option, of a form that the type has.
fn parsed<T: FromStr<Err: Display>>(
    parser: &mut lexopt::Parser,
    option: &'static str,
) -> Result<T, OptionError> {
    let value = parser.value()?;
    let failed = |why| OptionError::Form {
        option,
        value: value.clone(),
        why,
    };
    let text = value
        .to_str()
        .ok_or_else(|| failed("it is not UTF-8".into()))?;
    text.parse()
        .map_err(|error: T::Err| failed(error.to_string()))
}

fn number<T: TryFrom<u64>>(
    parser: &mut lexopt::Parser,
    option: &'static str,
    least: u64,
    most: u64,
) -> Result<T, OptionError> {
    let value: u64 = parsed(parser, option)?;
    let number = T::try_from(value).ok();
    number
        .filter(|_| (least..=most).contains(&value))
        .ok_or(OptionError::Range {
            option,
            value,
            least,
            most,
        })
}

/// Up to an hour.
fn milliseconds(
    parser: &mut lexopt::Parser,
    option: &'static str,
    least: u64,
) -> Result<Duration, OptionError> {
    number(parser, option, least, 3_600_000).map(Duration::from_millis)
}

fn faults(path: &Path) -> Result<FaultPlan, OptionError> {
    let failed = |why: String| OptionError::Faults {
        path: path.into(),
        why,
    };
    let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))
}
