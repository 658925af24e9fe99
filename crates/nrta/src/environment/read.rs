//! Reads variables once, by the rules for what is strict and what is for tuning.
//!
//! Spec: `env.md` section 1.

use super::notes::Note;
use crate::error::Error;
use crate::settings::{Origin, Setting};
use core::cell::RefCell;
use std::ffi::{OsStr, OsString};
use xu_abi::env::{self, Domain, Preset, Variable};

/// Every variable of the specification that is set, as it was when it was read.
pub(super) struct Given {
    set: Vec<(&'static Variable, OsString)>,
    notes: RefCell<Vec<Note>>,
}

impl Given {
    /// Reads each variable once.
    pub(super) fn read(read: impl Fn(&str) -> Option<OsString>) -> Self {
        let given = env::VARIABLES.iter().filter_map(|variable| {
            let value = read(variable.name)?;
            // An empty value is none.
            (!value.to_string_lossy().trim().is_empty()).then_some((variable, value))
        });
        Self {
            set: given.collect(),
            notes: RefCell::default(),
        }
    }

    /// To be told when a runtime is opened.
    pub(super) fn note(&self, note: Note) {
        self.notes.borrow_mut().push(note);
    }

    pub(super) fn into_notes(self) -> Vec<Note> {
        self.notes.into_inner()
    }

    /// Every variable that is set, and its text.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static Variable, String)> {
        let text = |value: &OsStr| value.to_string_lossy().trim().to_owned();
        self.set
            .iter()
            .map(move |(variable, value)| (*variable, text(value)))
    }

    /// The value without blanks around it.
    pub(super) fn text(&self, name: &'static str) -> Option<Setting<String>> {
        let (_, text) = self.all().find(|(variable, _)| variable.name == name)?;
        Some(setting(name, text.clone(), text, false))
    }

    /// The value as a path: it need not be text. Without blanks around it when it is.
    pub(super) fn path(&self, name: &'static str) -> Option<Setting<OsString>> {
        let (_, value) = self
            .set
            .iter()
            .find(|(variable, _)| variable.name == name)?;
        let given = value.to_string_lossy().trim().to_owned();
        let path = match value.to_str() {
            Some(text) => text.trim().into(),
            None => value.clone(),
        };
        Some(setting(name, given, path, false))
    }

    /// A value that opening depends on.
    pub(super) fn strict<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
        allowed: impl FnOnce() -> String,
    ) -> Result<Option<Setting<T>>, Error> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match parse(&text.value) {
            Some(value) => Ok(Some(text.map(|_| value))),
            None => Err(refused(name, text.value, allowed())),
        }
    }

    /// A number that opening depends on.
    pub(super) fn strict_number(
        &self,
        name: &'static str,
        min: u64,
        max: u64,
    ) -> Result<Option<Setting<u64>>, Error> {
        let parse = |text: &str| number(text).filter(|number| (min..=max).contains(number));
        self.strict(name, parse, || format!("a number from {min} to {max}"))
    }

    /// As [`Given::strict_number`], of 32 bits.
    pub(super) fn strict_u32(
        &self,
        name: &'static str,
        min: u32,
        max: u32,
    ) -> Result<Option<Setting<u32>>, Error> {
        let number = self.strict_number(name, min.into(), max.into())?;
        // CAST: at most `max`.
        Ok(number.map(|number| number.map(|number| number as u32)))
    }

    /// A value for tuning: one that cannot be understood is the default, and a note says so, with the default as `shown`.
    pub(super) fn tuned<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
        default: T,
        shown: impl FnOnce(&T) -> String,
    ) -> Option<Setting<T>> {
        let text = self.text(name)?.value;
        let parsed = parse(&text);
        let adjusted = parsed.is_none();
        if adjusted {
            let allowed = env::named(name).map(|variable| variable.domain.to_string());
            self.note(Note::Adjusted {
                variable: name,
                given: text.clone(),
                used: shown(&default),
                allowed: allowed.unwrap_or_default(),
            });
        }
        Some(setting(name, text, parsed.unwrap_or(default), adjusted))
    }

    /// `1 true yes on` or `0 false no off`, in any case.
    pub(super) fn tuned_boolean(&self, name: &'static str, default: bool) -> Option<Setting<bool>> {
        self.tuned(name, boolean, default, bool::to_string)
    }

    /// A number for tuning: above its range it is clamped, below it and when it is none it is the default. A note says so.
    pub(super) fn tuned_number(&self, name: &'static str) -> Option<Setting<u64>> {
        let text = self.text(name)?.value;
        let variable = env::named(name)?;
        let (min, max) = match variable.domain {
            Domain::Integer { min, max, .. } => (min, max.unwrap_or(u64::MAX)),
            _ => (0, u64::MAX),
        };
        let preset = match variable.preset {
            Preset::Integer(preset) => preset,
            _ => min,
        };
        let number = number(&text);
        // No number is below the least one: the specification has 0 fall back to the default.
        let used = match number {
            Some(number) if number >= min => number.min(max),
            _ => preset,
        };
        let adjusted = number != Some(used);
        if adjusted {
            self.note(Note::Adjusted {
                variable: name,
                given: text.clone(),
                used: used.to_string(),
                allowed: variable.domain.to_string(),
            });
        }
        Some(setting(name, text, used, adjusted))
    }
}

fn setting<T>(variable: &'static str, given: String, value: T, adjusted: bool) -> Setting<T> {
    Setting {
        value,
        origin: Origin::Environment {
            variable,
            given,
            adjusted,
        },
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Decimal digits only: no sign, no suffix, no overflow.
pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| is_digits(text))
}

fn boolean(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 4]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is_one_of(["1", "true", "yes", "on"]) {
        Some(true)
    } else if is_one_of(["0", "false", "no", "off"]) {
        Some(false)
    } else {
        None
    }
}

pub(super) fn refused(variable: &'static str, value: String, allowed: String) -> Error {
    Error::Variable {
        variable,
        value,
        allowed,
    }
}
