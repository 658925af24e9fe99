//! What the service says to whoever runs it, on standard error.
//!
//! Used by `supervisor` and `server`. Nobody may be listening: a pipe that is closed, a disk that is full. The service goes on
//! then, whereas `eprintln!` would panic, in the very task that is to open the next lane.

use std::fmt::Arguments;
use std::io::{Write, stderr};

/// One line.
pub(crate) fn say(line: Arguments<'_>) {
    let _ = writeln!(stderr(), "{line}");
}
