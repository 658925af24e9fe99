//! What has been said about one setting, before it is settled who wins.

use super::{Origin, Setting};

/// What the builder and the environment say.
#[derive(Clone, Debug)]
pub(crate) struct Choice<T> {
    builder: Option<T>,
    environment: Option<Setting<T>>,
}

/// Nobody has said anything.
impl<T> Default for Choice<T> {
    fn default() -> Self {
        Self {
            builder: None,
            environment: None,
        }
    }
}

impl<T: Clone> Choice<T> {
    /// The builder is told.
    pub(crate) fn tell(&mut self, value: T) {
        self.builder = Some(value);
    }

    /// What the environment says, if it says something.
    pub(crate) fn read(&mut self, setting: Option<Setting<T>>) {
        self.environment = setting;
    }

    /// What the builder was told.
    pub(crate) fn told(&self) -> Option<&T> {
        self.builder.as_ref()
    }

    /// What was said, by who wins.
    pub(crate) fn said(&self) -> Option<Setting<T>> {
        match &self.builder {
            Some(value) => Some(Setting {
                value: value.clone(),
                origin: Origin::Builder,
            }),
            None => self.environment.clone(),
        }
    }

    /// What holds when `default` is the default.
    pub(crate) fn or(&self, default: T) -> Setting<T> {
        self.said().unwrap_or(Setting {
            value: default,
            origin: Origin::Default,
        })
    }
}

impl<T> Setting<T> {
    /// Something else of the same origin.
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Setting<U> {
        Setting {
            value: map(self.value),
            origin: self.origin,
        }
    }
}
