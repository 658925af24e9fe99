//! The environment variables of the runtime: names, defaults, ranges, and what a runtime owes each of them.
//!
//! Data only. Who opens a runtime reads the environment, and parses it by the rules of `env.md` section 1;
//! here stands what it may find. Spec `env.md` sections 2 to 8.
//!
//! ```
//! use xu_abi::env::{self, Preset, Support};
//!
//! let limit = env::named("NEURON_RT_XU_COMPUTE_MAX_QUEUED_REQUESTS").unwrap();
//! assert_eq!((limit.preset, limit.support), (Preset::Integer(8), Support::Full));
//! assert!(limit.domain.contains(63) && !limit.domain.contains(64));
//! ```
//!
//! A row of the specification that stands for several variables (`NEURON_RT_LOG_LEVEL_<C>`) has an entry for each.

mod table;

pub use table::VARIABLES;

use core::fmt;

/// One variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The whole name.
    pub name: &'static str,
    /// What holds when the variable is unset or empty.
    pub preset: Preset,
    /// What it may be set to.
    pub domain: Domain,
    /// What is owed to it.
    pub support: Support,
    /// What happens to a value outside of the domain.
    pub bad_value: BadValue,
    /// Section of `env.md`, 2 to 8.
    pub section: u8,
}

/// What holds when a variable is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Nothing: being unset has a meaning of its own, if any.
    Unset,
    /// The papers give no default.
    Unknown,
    /// This number, in the unit of the domain.
    Integer(u64),
    /// On or off.
    Boolean(bool),
    /// This text.
    Text(&'static str),
    /// What something else says; a sentence for a reader.
    Derived(&'static str),
}

/// What a variable may be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A whole number.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest; `None` when the machine or nothing limits it.
        max: Option<u64>,
        /// What is counted; empty for plain numbers.
        unit: &'static str,
    },
    /// `1 true yes on` or `0 false no off`, in any case.
    Boolean,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Text of this form.
    Text(&'static str),
    /// The papers do not say.
    Unknown,
}

/// What the specification demands of this implementation, with the letters of `env.md`.
///
/// It is the goal and no report: how far a runtime is, its own documentation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// All that the specification says (F).
    Full,
    /// Part of it (P).
    Partial,
    /// Nothing: accepted without effect (A).
    Accepted,
    /// Nothing: removed by the vendor, and setting it warns (R).
    Removed,
}

/// What happens to a value outside of the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadValue {
    /// Opening fails and names the variable (rule P6).
    Refused,
    /// Clamped, or replaced by the default, with a warning (rule P7).
    Adjusted,
}

impl Domain {
    /// Whether this number is allowed; `false` for a domain that is not of numbers.
    #[must_use]
    pub const fn contains(&self, number: u64) -> bool {
        match *self {
            Self::Integer { min, max, .. } => {
                let below = match max {
                    Some(max) => number <= max,
                    None => true,
                };
                min <= number && below
            }
            _ => false,
        }
    }
}

impl Support {
    /// Every class, best first.
    pub const ALL: [Self; 4] = [Self::Full, Self::Partial, Self::Accepted, Self::Removed];

    /// The letter that the specification uses.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Full => 'F',
            Self::Partial => 'P',
            Self::Accepted => 'A',
            Self::Removed => 'R',
        }
    }

    /// The class with this letter.
    #[must_use]
    pub const fn from_letter(letter: char) -> Option<Self> {
        match letter {
            'F' => Some(Self::Full),
            'P' => Some(Self::Partial),
            'A' => Some(Self::Accepted),
            'R' => Some(Self::Removed),
            _ => None,
        }
    }
}

/// The variable with this name, if it is one of ours.
#[must_use]
pub fn named(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

/// `8`, `true`, `unset`, or a sentence.
impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("unset"),
            Self::Unknown => f.write_str("unknown"),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(on) => on.fmt(f),
            Self::Text(text) | Self::Derived(text) => f.write_str(text),
        }
    }
}

/// `1 to 63 requests`, `boolean`, `none, warning, critical`, or a sentence.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { min, max, unit } => {
                match max {
                    Some(max) => write!(f, "{min} to {max}")?,
                    None => write!(f, "{min} or more")?,
                }
                let space = if unit.is_empty() { "" } else { " " };
                write!(f, "{space}{unit}")
            }
            Self::Boolean => f.write_str("boolean"),
            Self::OneOf(words) => {
                for (index, word) in words.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{word}")?;
                }
                Ok(())
            }
            Self::Text(form) => f.write_str(form),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
