//! What copies promise.
