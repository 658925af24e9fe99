//! What a person should hear: something that works with the device does not work here.
//!
//! Used by both front ends, and by the driver when the kernel would have crashed.

use std::io::Write;

/// Says it on standard error.
pub(crate) fn complain(message: &str) {
    // Who cannot be told is not.
    let _ = writeln!(std::io::stderr(), "neuron-emu: {message}");
}
