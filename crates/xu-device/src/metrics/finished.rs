//! What one core says of an execution that has finished.
//!
//! Built by the worker from status and times, taken in by [`super::Metrics::record`].

use core::fmt;
use core::time::Duration;
use xu_abi::Status;
use xu_abi::metric::{ErrorFlag, Latency};

/// The error flags of a finished execution: a set of the nine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ErrorFlags(u16);

impl ErrorFlags {
    /// No flag.
    pub const NONE: Self = Self(0);

    /// These flags and this one.
    #[must_use]
    pub const fn with(self, flag: ErrorFlag) -> Self {
        Self(self.0 | 1 << flag.index())
    }

    /// Whether a flag is among them.
    #[must_use]
    pub const fn contains(self, flag: ErrorFlag) -> bool {
        self.0 & 1 << flag.index() != 0
    }
}

impl FromIterator<ErrorFlag> for ErrorFlags {
    fn from_iter<I: IntoIterator<Item = ErrorFlag>>(flags: I) -> Self {
        flags.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for ErrorFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raised = ErrorFlag::all().filter(|flag| self.contains(*flag));
        f.debug_set().entries(raised.map(ErrorFlag::index)).finish()
    }
}

/// What one core's part in a finished execution says.
///
/// A stop is none: it has no timings and must not be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub status: Status,
    /// What else was wrong.
    pub flags: ErrorFlags,
    /// From submission to the last END.
    pub device: Option<Duration>,
    /// From submission to completion.
    pub total: Option<Duration>,
    /// From the first START to the last END.
    pub core: Option<Duration>,
    /// From the first CC_START to the last CC_END.
    pub cc: Option<Duration>,
}

impl Finished {
    /// One of the four times; `None` when it is not known.
    #[must_use]
    pub const fn latency(&self, latency: Latency) -> Option<Duration> {
        match latency {
            Latency::Device => self.device,
            Latency::Total => self.total,
            Latency::Core => self.core,
            Latency::Cc => self.cc,
        }
    }
}
