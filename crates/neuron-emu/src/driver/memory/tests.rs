//! What chunks promise.
