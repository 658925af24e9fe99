//! Says in one line whether system calls can be answered on this machine: `available`, or why not.
//!
//! `cargo xtask verify` repeats it, so that tests that are skipped do not look as if they had passed.

fn main() {
    match neuron_emu::seccomp::available() {
        Ok(()) => println!("available"),
        Err(why) => println!("not available: {why}"),
    }
}
