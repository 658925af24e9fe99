//! Why this front end cannot be used here.

use nix::errno::Errno;

/// Why system calls of a program cannot be taken here. Another front end may do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// Somebody listens already: a container's supervisor, or an emulator around this one.
    #[error("system calls of this program go to another seccomp listener already (EBUSY)")]
    Taken,
    /// A profile forbids it.
    #[error("this environment does not permit seccomp notification ({0})")]
    Forbidden(&'static str),
    /// The kernel does not have it.
    #[error("this kernel has no seccomp notification: Linux 5.14 or later is needed ({0})")]
    Missing(&'static str),
    /// The kernel has another one.
    #[error("this kernel's seccomp structures are larger than this emulator knows")]
    Newer,
    /// Descriptors of devices have numbers that no descriptor of this process can have.
    #[error(
        "seccomp notification needs room for {needed} descriptors, and the hard limit of open files is {hard} (`ulimit -Hn`), which this process may not raise"
    )]
    Descriptors {
        /// Least limit that will do.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// Something else stands in the way.
    #[error("the seccomp front end cannot be started: {0}")]
    Other(String),
}

impl From<Errno> for Unavailable {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EBUSY => Self::Taken,
            Errno::EPERM => Self::Forbidden("EPERM"),
            Errno::EACCES => Self::Forbidden("EACCES"),
            Errno::EINVAL => Self::Missing("EINVAL"),
            Errno::ENOSYS => Self::Missing("ENOSYS"),
            other => Self::Other(other.to_string()),
        }
    }
}
