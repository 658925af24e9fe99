//! What the operating system refuses since a limit is reached, with the name of the limit.
//!
//! For the texts of errors: whoever reads "Too many open files" asks which limit that is.

use std::io;

/// Linux's numbers.
const EAGAIN: i32 = 11;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Why there is no descriptor.
#[must_use]
pub fn no_descriptor(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(EMFILE) => {
            format!("{error}: the limit of this process is RLIMIT_NOFILE (`ulimit -n`)")
        }
        Some(ENFILE) => format!("{error}: the limit of the system is fs.file-max"),
        _ => error.to_string(),
    }
}

/// Why there is no thread, or no descriptor for it.
#[must_use]
pub fn no_thread(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(EAGAIN) => format!(
            "{error}: the limits of threads are RLIMIT_NPROC (`ulimit -u`), pids.max of the control group, and kernel.threads-max"
        ),
        _ => no_descriptor(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_is_named() {
        let named = |number| no_thread(&io::Error::from_raw_os_error(number));
        assert!(named(EMFILE).contains("RLIMIT_NOFILE"));
        assert!(named(ENFILE).contains("fs.file-max"));
        assert!(named(EAGAIN).contains("RLIMIT_NPROC"));
        let other = io::Error::from_raw_os_error(12);
        assert_eq!(named(12), other.to_string());
    }
}
