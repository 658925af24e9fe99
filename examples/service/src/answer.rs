//! What a client gets: the answer to its image, or why there is none now.
//!
//! Made by `slot`, `lane` and `supervisor`, written to the client by `http`.
//!
//! **A result that is no number.** The device says of an execution whose results hold a NaN that it has failed (1003 of the
//! C interface), and the client gets 503: trying again is right where a fault of the device has done it. The digits model gives
//! numbers for every valid image. A model that does not - one that divides by its input, or overflows on some - gives a NaN for
//! the same input each time, and a client that tries again never gets an answer. A service with such a model tells the two
//! apart: it answers 422 to [`Status`] 1003, without `Retry-After`, or has it ignored where the runtime is opened
//! ([`nrta::Builder::numerical_errors`]) and writes the scores that are no numbers as `null`.

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
    /// In how many seconds a client may try again. The next request may well succeed at once, but clients that all try again
    /// at once would be a load of its own.
    pub const RETRY_AFTER: u32 = 1;

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
