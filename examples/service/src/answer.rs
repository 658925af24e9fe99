//! What a client gets: the answer to its image, or why there is none now.
//!
//! Made by `slot`, `lane` and `supervisor`, written to the client by `http`.

use nrta::{Cause, Refused, RequestError, Status};
use serde_json::{Value, json};
use std::time::Duration;

/// What the network says of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The digit.
    pub label: u32,
    /// The probability of each digit.
    pub scores: Vec<f32>,
    /// The logical core that computed it.
    pub core: u32,
}

impl Answer {
    /// The body of a response.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "label": self.label, "scores": self.scores, "core": self.core })
    }
}

/// Why a valid request is not answered. Trying again later is right in every case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Every slot was busy for as long as a request may wait.
    #[error("no slot was free within {} ms", .waited.as_millis())]
    Busy {
        /// How long the request has waited.
        waited: Duration,
    },
    /// The device has failed this request, or its lane has ended with it.
    #[error("{cause}")]
    Failed {
        /// Its status.
        status: Status,
        /// What is known beyond the status.
        cause: String,
    },
    /// There is no lane: the device is being opened again.
    #[error("the device is being opened again; it was lost: {}", .0.text)]
    Reopening(
        /// What has ended the lane before.
        Cause,
    ),
    /// The service is closing.
    #[error("the service is closing")]
    Closing,
}

impl Unavailable {
    /// The slot that had the request is gone.
    pub(crate) fn abandoned() -> Self {
        Self::Failed {
            status: Status::FAILURE,
            cause: "the request was given up with its lane".into(),
        }
    }

    /// The status that says most about it.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Busy { .. } => Status::QUEUE_FULL,
            Self::Failed { status, .. } => *status,
            Self::Reopening(cause) => cause.status,
            Self::Closing => Status::CLOSED,
        }
    }

    /// In how many seconds a client may try again.
    #[must_use]
    pub fn retry_after(&self) -> u32 {
        match self {
            // The next request may well succeed.
            Self::Failed { .. } => 0,
            Self::Busy { .. } | Self::Reopening(_) | Self::Closing => 1,
        }
    }

    /// The body of a response.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "error": self.to_string(), "status": self.status().to_string() })
    }
}

impl<T> From<RequestError<T>> for Unavailable {
    fn from(error: RequestError<T>) -> Self {
        Self::Failed {
            status: error.status,
            cause: error.to_string(),
        }
    }
}

impl<A> From<Refused<A>> for Unavailable {
    fn from(refused: Refused<A>) -> Self {
        Self::Failed {
            status: refused.status(),
            cause: refused.to_string(),
        }
    }
}
