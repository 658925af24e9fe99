//! Prints every layout and constant of the ABI: `dump json` for programs, `dump markdown` for readers.
//!
//! Called by `cargo xtask abi` and by the step `abi` of `cargo xtask verify`.

use std::process::ExitCode;
use xu_abi::inventory::{Json, Markdown};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("json") => print!("{Json}"),
        Some("markdown") => print!("{Markdown}"),
        _ => {
            eprintln!("usage: dump json|markdown");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
