//! What is to be said of the variables that were read, until there is an opening to say it in.
//!
//! Collected while they are read, told by [`Builder::open`](crate::Builder::open): whoever only asks what would be opened hears
//! nothing, and each opening says it once. Spec: `env.md` rules P7 and P8, section 9.5.

use tracing::{info, warn};

/// One line of the log.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// Something else is used than was given.
    Adjusted {
        variable: &'static str,
        given: String,
        used: String,
        allowed: String,
    },
    /// The vendor has removed it.
    Removed {
        variable: &'static str,
        given: String,
        instead: &'static str,
    },
    /// It is named as those of this library are, and is none of them.
    Unknown {
        variable: String,
        given: String,
        closest: &'static str,
    },
    /// It is known, and nothing depends on it.
    NoEffect {
        variable: &'static str,
        why: &'static str,
    },
}

impl Note {
    pub(crate) fn tell(&self) {
        match self {
            Self::Adjusted {
                variable,
                given,
                used,
                allowed,
            } => warn!(
                name: "nrta.adjusted", target: "nrta::environment",
                variable, given, used, allowed, "value adjusted"
            ),
            Self::Removed {
                variable,
                given,
                instead,
            } => warn!(
                name: "nrta.removed", target: "nrta::environment",
                variable, given, instead, "was removed and has no effect"
            ),
            Self::Unknown {
                variable,
                given,
                closest,
            } => warn!(
                name: "nrta.unknown", target: "nrta::environment",
                variable, given, closest, "unknown variable has no effect: is the closest one meant?"
            ),
            Self::NoEffect { variable, why } => info!(
                name: "nrta.no_effect", target: "nrta::environment",
                variable, why, "has no effect here"
            ),
        }
    }
}
