//! One line of the report: what was looked at, what it is, and what to do about it.

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// As it should be, or a fact.
    Ok,
    /// It works, and may not always.
    Warning,
    /// It does not work.
    Problem,
}

impl Standing {
    /// `ok`, `warning`, `problem`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// A finding. What is not ok has a remedy: it cannot be made without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    topic: &'static str,
    value: String,
    /// Nothing for what is ok.
    wrong: Option<(Standing, String)>,
}

impl Finding {
    pub(crate) fn ok(topic: &'static str, value: impl Into<String>) -> Self {
        Self {
            topic,
            value: value.into(),
            wrong: None,
        }
    }

    pub(crate) fn warning(
        topic: &'static str,
        value: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::wrong(topic, value, Standing::Warning, remedy)
    }

    pub(crate) fn problem(
        topic: &'static str,
        value: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::wrong(topic, value, Standing::Problem, remedy)
    }

    fn wrong(
        topic: &'static str,
        value: impl Into<String>,
        standing: Standing,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            topic,
            value: value.into(),
            wrong: Some((standing, remedy.into())),
        }
    }

    /// What was looked at.
    pub(crate) fn topic(&self) -> &'static str {
        self.topic
    }

    /// What it is.
    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    pub(crate) fn standing(&self) -> Standing {
        self.wrong
            .as_ref()
            .map_or(Standing::Ok, |(standing, _)| *standing)
    }

    /// What to do; `None` for what is ok.
    pub(crate) fn remedy(&self) -> Option<&str> {
        self.wrong.as_ref().map(|(_, remedy)| remedy.as_str())
    }
}
