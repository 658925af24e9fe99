//! Why the driver was not asked, or what it answered.

use super::answers::{Meaning, Severity};
use crate::device::{DeviceError, named};
use std::path::PathBuf;
use xu_abi::Status;
use xu_abi::driver::arch::Versions;
use xu_abi::driver::errno::{self, Answer};

/// A call that was refused, by us or by the driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// A value that the driver would refuse, misunderstand or not survive. No call was made.
    #[error("{call}: {what} is {value}, allowed: {allowed}")]
    BadArgument {
        /// The ioctl.
        call: &'static str,
        /// Which value.
        what: &'static str,
        /// The value.
        value: u64,
        /// What would do.
        allowed: String,
    },
    /// Argument or buffers are not as the table says. No call was made; a defect of this library.
    #[error("{call}: {what} is not as the table says")]
    Malformed {
        /// The ioctl.
        call: &'static str,
        /// What is not.
        what: &'static str,
    },
    /// The driver answered with a failure.
    #[error("{call}: {}", said(*answer))]
    Answered {
        /// The ioctl.
        call: &'static str,
        /// What it returned.
        answer: Answer,
        /// What that means for this call.
        meaning: Meaning,
    },
    /// The driver said that it succeeded, with a value that cannot be.
    #[error("{call}: the driver says that {what} is {value}")]
    Nonsense {
        /// The ioctl.
        call: &'static str,
        /// Which value.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A node could not be opened.
    #[error("{} cannot be opened, {}: {}", path.display(), named(*errno), why_not_opened(*errno))]
    Open {
        /// The node, or the directory of nodes.
        path: PathBuf,
        /// The error number.
        errno: i32,
    },
    /// Memory could not be mapped.
    #[error("mmap of {bytes} bytes at {offset:#x}: {}", said(Answer::Errno(*errno)))]
    Map {
        /// The cookie.
        offset: u64,
        /// How many.
        bytes: u64,
        /// The error number.
        errno: i32,
    },
    /// This process has the device open already.
    #[error("{}: this process has it open already", path.display())]
    AlreadyOpen {
        /// The node.
        path: PathBuf,
    },
    /// The driver is too old or too new.
    #[error(
        "the driver speaks interface versions {} to {}, this library {}",
        driver.min, driver.max, spoken(ours)
    )]
    Version {
        /// The driver's.
        driver: Versions,
        /// Ours.
        ours: Vec<Versions>,
    },
    /// A device that this library does not know.
    #[error("architecture of the device is {architecture}, allowed: 2, 3")]
    Architecture {
        /// What the driver said.
        architecture: u32,
    },
    /// A core is claimed. Nothing is claimed now.
    #[error("core {core} is claimed already{}", candidates(attached))]
    CoreTaken {
        /// The core, counted over all devices.
        core: u32,
        /// How many of the cores that were asked for nobody had.
        free: u32,
        /// Processes that have its device open, as far as the driver could be asked: one of them, most likely. This process
        /// alone when it has the core itself.
        attached: Vec<u32>,
    },
    /// A reset did not succeed.
    #[error("the reset has failed: the driver's result is {result}")]
    ResetFailed {
        /// The driver's result.
        result: i32,
    },
    /// This process is a child of the one that opened the device.
    #[error("the device was opened by the process that forked this one")]
    Forked,
    /// An earlier answer said that the device, or this process's share of it, is lost. No call was made.
    #[error("the device is lost to this process: {because}")]
    Lost {
        /// What was answered.
        because: Meaning,
    },
    /// The directory of device nodes could not be read.
    #[error("{}: {reason}", root.display())]
    Directory {
        /// The directory.
        root: PathBuf,
        /// Why.
        reason: String,
    },
}

impl DriverError {
    /// The status that an application sees.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::BadArgument { .. } => Status::INVALID,
            Self::Answered { meaning, .. } => meaning.status(),
            Self::Open { errno, .. } => super::answers::of_open(*errno).status(),
            Self::Map { errno, .. } => super::answers::of_map(*errno).status(),
            Self::CoreTaken { .. } => Status::EXEC_NC_BUSY,
            Self::Nonsense { .. } | Self::ResetFailed { .. } | Self::Lost { .. } => {
                Status::HW_ERROR
            }
            Self::Malformed { .. }
            | Self::AlreadyOpen { .. }
            | Self::Version { .. }
            | Self::Architecture { .. }
            | Self::Forked
            | Self::Directory { .. } => Status::FAILURE,
        }
    }

    /// How far the failure reaches.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Answered { meaning, .. } => meaning.severity(),
            Self::Nonsense { .. } => Severity::Unit,
            Self::ResetFailed { .. } | Self::Lost { .. } => Severity::Device,
            _ => Severity::Call,
        }
    }

    /// What the driver meant, if it was asked.
    #[must_use]
    pub fn meaning(&self) -> Option<Meaning> {
        match self {
            Self::Answered { meaning, .. } => Some(*meaning),
            _ => None,
        }
    }
}

impl From<DriverError> for DeviceError {
    fn from(error: DriverError) -> Self {
        match error {
            _ if error.severity() == Severity::Device => Self::Lost,
            DriverError::Answered {
                call,
                answer: Answer::Errno(errno),
                meaning,
            } if (Self::Driver { call, errno }).status() == meaning.status() => {
                Self::Driver { call, errno }
            }
            // Whoever asked gets the same status by either type, and the text with all values.
            other => Self::Refused {
                status: other.status(),
                reason: other.to_string(),
            },
        }
    }
}

fn said(answer: Answer) -> String {
    match answer {
        Answer::Done => "success".to_owned(),
        Answer::Positive(number) => format!("the driver answered {number}"),
        Answer::Errno(number) => format!("the driver answered {}", named(number)),
    }
}

/// What an error number of open says to who has not read the driver. The kernel says some of them itself.
fn why_not_opened(errno: i32) -> &'static str {
    match errno {
        errno::ENOENT => {
            "there is no such node: no Neuron device, or its kernel module is not loaded"
        }
        errno::EACCES | errno::EPERM => "this user may not",
        errno::ENXIO | errno::ENODEV => "the driver has no device behind it, or not any more",
        errno::EINVAL => "a reset of the device has failed before",
        errno::EBUSY => "as many processes are attached to the device as it takes",
        errno::EMFILE => {
            "this process has no descriptor left: close some, or raise the limit (RLIMIT_NOFILE, `ulimit -n`)"
        }
        errno::ENFILE => "the system has no descriptor left: raise the limit (fs.file-max)",
        _ => "the driver refused",
    }
}

fn spoken(ours: &[Versions]) -> String {
    let ranges = ours
        .iter()
        .map(|range| format!("{} to {}", range.min, range.max));
    ranges.collect::<Vec<_>>().join(" and ")
}

fn candidates(attached: &[u32]) -> String {
    if attached.is_empty() {
        return String::new();
    }
    let pids = attached.iter().map(u32::to_string);
    format!(
        "; the device is open in process {}",
        pids.collect::<Vec<_>>().join(", ")
    )
}
