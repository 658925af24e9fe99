//! NRT status codes, their names, and which one wins when cores disagree.
//!
//! Written by workers, read by applications. Rules: spec `xu.md` section 2.11.

use core::fmt;

/// A status as it crosses the C ABI: an `int` whose unknown values survive. The default is success.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Status(i32);

/// How strongly a status claims the result of an execution on several cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Success.
    None,
    /// Any failure without a rank of its own.
    Medium,
    /// Timeout, generic hardware, collectives, queue overflow, network.
    High,
    /// Uncorrectable hardware faults and results completed with an error.
    Critical,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Every status that has a name, by value.
            pub const NAMED: &'static [Self] = &[$(Self::$name),*];

            /// The name without its `NRT_` prefix, unless the value is unknown.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// Done, and well.
    SUCCESS = 0;
    /// An error without a code of its own.
    FAILURE = 1;
    /// An argument was refused.
    INVALID = 2;
    /// A handle does not name a live object.
    INVALID_HANDLE = 3;
    /// Memory, descriptors or another resource ran out.
    RESOURCE = 4;
    /// The device did not finish in time.
    TIMEOUT = 5;
    /// The device reported an error.
    HW_ERROR = 6;
    /// The queue takes no more requests now.
    QUEUE_FULL = 7;
    /// Fewer cores than the model needs.
    LOAD_NOT_ENOUGH_NC = 9;
    /// A model container of a version that is not supported.
    UNSUPPORTED_NEFF_VERSION = 10;
    /// Host memory ran out.
    FAIL_HOST_MEM_ALLOC = 11;
    /// The runtime was not opened.
    UNINITIALIZED = 13;
    /// The runtime is closing or closed.
    CLOSED = 14;
    /// A queue holds no request.
    QUEUE_EMPTY = 15;
    /// The execution unit hit a fatal error and takes no more work.
    EXEC_UNIT_UNRECOVERABLE = 101;
    /// An execution was given unusable input.
    EXEC_BAD_INPUT = 1002;
    /// Completed, but numbers went wrong: outputs hold NaN.
    EXEC_COMPLETED_WITH_NUM_ERR = 1003;
    /// Completed, but with an error.
    EXEC_COMPLETED_WITH_ERR = 1004;
    /// The core is busy.
    EXEC_NC_BUSY = 1005;
    /// An out-of-bounds access on the device.
    EXEC_OOB = 1006;
    /// A collective is still pending.
    COLL_PENDING = 1100;
    /// Hardware error in collectives.
    EXEC_HW_ERR_COLLECTIVES = 1200;
    /// Uncorrectable error in device memory.
    EXEC_HW_ERR_HBM_UE = 1201;
    /// Uncorrectable error in a core's memory.
    EXEC_HW_ERR_NC_UE = 1202;
    /// DMA engine aborted.
    EXEC_HW_ERR_DMA_ABORT = 1203;
    /// A notification queue overflowed: completions may be lost.
    EXEC_SW_NQ_OVERFLOW = 1204;
    /// Uncorrectable but repairable error in device memory.
    EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205;
    /// The network proxy failed.
    NETWORK_PROXY_FAILURE = 1206;
}

impl Status {
    /// A status with this value, known or not.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Self {
        Self(raw)
    }

    /// The C value.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Whether this is [`Status::SUCCESS`].
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// The rank of this status when the cores of one execution disagree.
    #[must_use]
    pub const fn priority(self) -> Priority {
        match self.0 {
            0 => Priority::None,
            5 | 6 | 1200 | 1204 | 1206 => Priority::High,
            // 1004 and 1205 by name, all between by range; the exceptions are matched above.
            1004..=1205 => Priority::Critical,
            _ => Priority::Medium,
        }
    }

    /// The status that stands for an execution whose cores said `self` and `other`.
    ///
    /// Of equal ranks the first one stands.
    #[must_use]
    pub fn resolve(self, other: Self) -> Self {
        if other.priority() > self.priority() {
            other
        } else {
            self
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({self})")
    }
}

/// `QUEUE_FULL (7)`, or `status 4711` when the value has no name.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "status {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_follow_the_table() {
        for code in [1004, 1005, 1006, 1100, 1201, 1202, 1203, 1205] {
            assert_eq!(
                Status::from_raw(code).priority(),
                Priority::Critical,
                "{code}"
            );
        }
        for code in [5, 6, 1200, 1204, 1206] {
            assert_eq!(Status::from_raw(code).priority(), Priority::High, "{code}");
        }
        for code in [1, 2, 7, 101, 1002, 1003, 1207, -1, i32::MAX] {
            assert_eq!(
                Status::from_raw(code).priority(),
                Priority::Medium,
                "{code}"
            );
        }
        assert_eq!(Status::SUCCESS.priority(), Priority::None);
    }

    #[test]
    fn the_stronger_status_wins_and_the_first_of_equals_stands() {
        assert_eq!(
            Status::TIMEOUT.resolve(Status::EXEC_HW_ERR_NC_UE),
            Status::EXEC_HW_ERR_NC_UE
        );
        assert_eq!(Status::TIMEOUT.resolve(Status::HW_ERROR), Status::TIMEOUT);
        assert_eq!(Status::SUCCESS.resolve(Status::FAILURE), Status::FAILURE);
    }

    #[test]
    fn unknown_values_survive() {
        let odd = Status::from_raw(4711);
        assert_eq!((odd.raw(), odd.name()), (4711, None));
    }
}
