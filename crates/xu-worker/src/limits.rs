//! What the operating system refuses since a limit is reached, with the name of the limit.
//!
//! For the texts of errors: whoever reads "Too many open files" asks which limit that is.

use nix::errno::Errno;
use std::io;

/// Why there is no descriptor.
#[must_use]
pub fn no_descriptor(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE) => {
            format!("{error}: the limit of this process is RLIMIT_NOFILE (`ulimit -n`)")
        }
        Some(Errno::ENFILE) => format!("{error}: the limit of the system is fs.file-max"),
        _ => error.to_string(),
    }
}

/// Why there is no thread, or no descriptor for it.
#[must_use]
pub fn no_thread(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => format!(
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
        let named = |errno: Errno| no_thread(&io::Error::from(errno));
        assert!(named(Errno::EMFILE).contains("RLIMIT_NOFILE"));
        assert!(named(Errno::ENFILE).contains("fs.file-max"));
        assert!(named(Errno::EAGAIN).contains("RLIMIT_NPROC"));
        let other = io::Error::from(Errno::ENOMEM);
        assert_eq!(named(Errno::ENOMEM), other.to_string());
    }
}
