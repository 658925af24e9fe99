//! The error numbers that the driver answers with, and the kernel when a node is opened.
//!
//! Spec `driver.md` section 1, return values. Which call means what by them, the table of `xu-device` says.

/// What became of an ioctl: anything but 0 is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The call did what it does.
    Done,
    /// A failure that is reported as a positive number, as of bytes not copied; the error number of the thread says
    /// nothing.
    Positive(i32),
    /// A failure with an error number, which may be one that this module does not name.
    Errno(i32),
}

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: i32 = $value;)*

        /// Every number with its name, by number.
        pub const NAMED: &[(i32, &str)] = &[$(($name, stringify!($name))),*];

        /// The name of a number that the driver is known to use.
        #[must_use]
        pub const fn name(errno: i32) -> Option<&'static str> {
            match errno {
                $($value => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

errnos! {
    /// A copy timed out or was aborted; a ring breaks the rules; a mapping of the wrong length.
    EPERM = 1;
    /// No such node, datastore or lock.
    ENOENT = 2;
    /// A signal interrupted the call.
    EINTR = 4;
    /// The device is gone.
    EIO = 5;
    /// The device is gone.
    ENXIO = 6;
    /// Core or count out of range.
    E2BIG = 7;
    /// The descriptor is closed.
    EBADF = 9;
    /// Too little room for the answer.
    EAGAIN = 11;
    /// An allocation cannot be satisfied.
    ENOMEM = 12;
    /// The process is not attached.
    EACCES = 13;
    /// A pointer is bad.
    EFAULT = 14;
    /// Somebody else has it.
    EBUSY = 16;
    /// The device is gone.
    ENODEV = 19;
    /// An argument is bad, or the request unknown.
    EINVAL = 22;
    /// The kernel has no descriptor left, for anybody.
    ENFILE = 23;
    /// The process has no descriptor left.
    EMFILE = 24;
    /// Always for DMA_QUIESCE_QUEUES.
    ENOTTY = 25;
    /// More descriptors than the ring has.
    EFBIG = 27;
    /// A device type that has no notification queues.
    ENOSYS = 38;
    /// A text without its end.
    EBADMSG = 74;
    /// The kernel is too old.
    EPROTONOSUPPORT = 93;
    /// The writer has the lock already.
    EALREADY = 114;
    /// The kernel's own number for "not supported", which leaks.
    ENOTSUPP = 524;
}
