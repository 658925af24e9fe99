//! The counters of the driver's datastore, and which of them an execution moves.
//!
//! Written by the worker when an execution finishes, read by monitors through the driver.
//! Spec `xu.md` section 7; names and places `driver.md` section 9.
//!
//! | what an execution reports | counter | how |
//! |---|---|---|
//! | its status | [`CoreCounter::of_status`] | add 1 |
//! | error flags 5 to 8 | [`ErrorFlag::counter`] | add 1 |
//! | four times, microseconds | [`Latency::counter`] | set |
//!
//! ```
//! use xu_abi::metric::{CoreCounter, Latency};
//! use xu_abi::Status;
//!
//! let counter = CoreCounter::of_status(Status::TIMEOUT).unwrap();
//! assert_eq!((counter.ordinal(), counter.name()), (4, Some("INFER_TIMED_OUT")));
//! assert_eq!(Latency::Cc.counter().datastore_offset(0), Some(256 + 8 * 21));
//! ```
//!
//! **Ruling.** The specification maps ten statuses. Any other moves no counter, though the table has names that would
//! fit some of them: readers of the original's counters expect the original's counts.

use crate::range::OutOfRange;
use crate::status::Status;
use core::fmt;

macro_rules! counters {
    (
        $(#[$doc:meta])* $ty:ident: $count:literal, $what:literal, $allowed:literal;
        $($name:ident = $ordinal:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $ty(u8);

        impl $ty {
            /// Number of counters, those without a name included.
            pub const COUNT: u8 = $count;

            $(
                #[doc = concat!("Ordinal ", $ordinal, ".")]
                pub const $name: Self = Self($ordinal);
            )*

            /// Every counter that has a name, by ordinal.
            pub const NAMED: &'static [Self] = &[$(Self::$name),*];

            /// The counter with this ordinal; `None` beyond the last.
            #[must_use]
            pub const fn new(ordinal: u8) -> Option<Self> {
                if ordinal < Self::COUNT { Some(Self(ordinal)) } else { None }
            }

            /// The place in the driver's table.
            #[must_use]
            pub const fn ordinal(self) -> u8 {
                self.0
            }

            /// The driver's name without its prefix; `None` when reserved.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($ordinal => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        impl TryFrom<u8> for $ty {
            type Error = OutOfRange;

            fn try_from(ordinal: u8) -> Result<Self, OutOfRange> {
                Self::new(ordinal).ok_or(OutOfRange {
                    what: $what,
                    value: ordinal.into(),
                    allowed: $allowed,
                })
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($ty), "({})"), self)
            }
        }

        /// The name and the ordinal, or `reserved` and the ordinal.
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} {}", self.name().unwrap_or("reserved"), self.0)
            }
        }
    };
}

counters! {
    /// A counter of one core.
    CoreCounter: 95, "ordinal of a core counter", "0 to 94";
    TIME_IN_USE = 0;
    INFER_COMPLETED = 1;
    INFER_COMPLETED_WITH_ERR = 2;
    INFER_COMPLETED_WITH_NUM_ERR = 3;
    INFER_TIMED_OUT = 4;
    INFER_INCORRECT_INPUT = 5;
    INFER_FAILED_TO_QUEUE = 6;
    ERR_GENERIC = 7;
    ERR_NUMERICAL = 8;
    ERR_MODEL = 9;
    ERR_TRANSIENT = 10;
    ERR_HW = 11;
    ERR_RT = 12;
    LATENCY_DEVICE = 13;
    LATENCY_TOTAL = 14;
    NC_TIME = 15;
    GENERIC_FAIL = 16;
    ERR_RESOURCE = 17;
    ERR_RESOURCE_NC = 18;
    ERR_INVALID = 19;
    ERR_UNSUPPORTED_NEFF_VERSION = 20;
    CC_TIME = 21;
    MEM_USAGE_CODE_DEVICE = 22;
    MEM_USAGE_TENSORS_DEVICE = 23;
    MEM_USAGE_CONSTANTS_DEVICE = 24;
    MEM_USAGE_SCRATCHPAD_DEVICE = 25;
    MEM_USAGE_MISC_DEVICE = 26;
    MODEL_LOAD_COUNT = 27;
    INFERENCE_COUNT = 28;
    MAC_COUNT = 29;
    OOB = 30;
    HW_ERR_COLLECTIVES = 31;
    HW_ERR_HBM_UE = 32;
    HW_ERR_NC_UE = 33;
    HW_ERR_DMA_ABORT = 34;
    ERR_SW_NQ_OVERFLOW = 35;
    ERR_SW_SEMAPHORE_ERROR = 36;
    ERR_SW_EVENT_ERROR = 37;
    ERR_SW_PSUM_COLLISION = 38;
    ERR_SW_SEQUENCER_FATAL = 39;
    HW_ERR_REPAIRABLE_HBM_UE = 40;
}

counters! {
    /// A counter of one device.
    DeviceCounter: 31, "ordinal of a device counter", "0 to 30";
    RUNTIME_VERSION = 0;
    FRAMEWORK_VERSION = 1;
    FAL_VERSION = 2;
    FEATURE_BITMAP = 3;
    MIN_NEFF_VERSION = 4;
    MAX_NEFF_VERSION = 5;
    MEM_USAGE_CODE_HOST = 6;
    MEM_USAGE_TENSORS_HOST = 7;
    MEM_USAGE_CONSTANTS_HOST = 8;
    MEM_USAGE_SCRATCHPAD_HOST = 9;
    MEM_USAGE_MISC_HOST = 10;
    DYNAMIC_SYSFS_METRIC_BITMAP = 11;
    DEVICE_CLUSTER_ID = 12;
}

/// Bytes of a datastore area that have a meaning, header included.
pub const DATASTORE_SIZE: u32 = 67_200;
/// The first bytes of a datastore area.
pub const DATASTORE_SIGNATURE: [u8; 4] = *b"nds\0";
/// Most cores that a datastore area has counters for.
pub const DATASTORE_CORES: u8 = 16;

const COUNTER_SIZE: u32 = 8;
const DEVICE_COUNTERS: u32 = 8;
const BASE_COUNTERS: u32 = 256;
const BASE_CORES: u32 = 4;
const BASE_PER_CORE: u32 = 31;
const EXTENSION: u32 = 55_936;
const EXTENSION_PER_CORE: u32 = 64;
const LATER_CORES: u32 = 57_984;
const LATER_PER_CORE: u32 = 96;

impl CoreCounter {
    /// What the driver's header puts before the name.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        // CAST: widening.
        if (self.0 as u32) < BASE_PER_CORE {
            "NDS_NC_COUNTER_"
        } else {
            "NDS_EXT_NC_COUNTER_"
        }
    }

    /// The counter that a finished execution with this status adds one to, if there is one.
    #[must_use]
    pub const fn of_status(status: Status) -> Option<Self> {
        Some(match status {
            Status::SUCCESS => Self::INFER_COMPLETED,
            Status::EXEC_COMPLETED_WITH_ERR => Self::INFER_COMPLETED_WITH_ERR,
            Status::TIMEOUT => Self::INFER_TIMED_OUT,
            Status::QUEUE_FULL => Self::INFER_FAILED_TO_QUEUE,
            Status::HW_ERROR => Self::ERR_HW,
            Status::FAILURE => Self::GENERIC_FAIL,
            Status::INVALID => Self::ERR_INVALID,
            Status::EXEC_OOB => Self::OOB,
            Status::EXEC_HW_ERR_HBM_UE => Self::HW_ERR_HBM_UE,
            Status::EXEC_HW_ERR_NC_UE => Self::HW_ERR_NC_UE,
            _ => return None,
        })
    }

    /// Where the 64-bit counter of this core begins, bytes from the start of the datastore; `None` from core 16 on.
    ///
    /// Cores 0 to 3 keep their first 31 counters in one place and the others in another, as the driver grew.
    #[must_use]
    pub const fn datastore_offset(self, core: u8) -> Option<u32> {
        // CAST: widening.
        let (k, c) = (self.0 as u32, core as u32);
        if core >= DATASTORE_CORES {
            None
        } else if c >= BASE_CORES {
            Some(LATER_CORES + COUNTER_SIZE * (LATER_PER_CORE * (c - BASE_CORES) + k))
        } else if k < BASE_PER_CORE {
            Some(BASE_COUNTERS + COUNTER_SIZE * (BASE_PER_CORE * c + k))
        } else {
            Some(EXTENSION + COUNTER_SIZE * (EXTENSION_PER_CORE * c + k - BASE_PER_CORE))
        }
    }
}

impl DeviceCounter {
    /// Where the 64-bit counter begins, bytes from the start of the datastore.
    #[must_use]
    pub const fn datastore_offset(self) -> u32 {
        // CAST: widening.
        DEVICE_COUNTERS + COUNTER_SIZE * self.0 as u32
    }
}

/// One of the nine error flags of a finished execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ErrorFlag(u8);

impl ErrorFlag {
    /// Number of flags.
    pub const COUNT: u8 = 9;
    /// First flag that is counted; those before it are not.
    pub const FIRST_COUNTED: u8 = 5;
    /// Distance from a counted flag to the ordinal of its counter.
    pub const TO_COUNTER: u8 = 31;

    /// The flag with this index; `None` from 9 on.
    #[must_use]
    pub const fn new(index: u8) -> Option<Self> {
        if index < Self::COUNT {
            Some(Self(index))
        } else {
            None
        }
    }

    /// Every flag, by index.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The place among the nine.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0
    }

    /// The counter that an execution with this flag adds one to: those of flags 5 to 8.
    #[must_use]
    pub const fn counter(self) -> Option<CoreCounter> {
        if self.0 < Self::FIRST_COUNTED {
            None
        } else {
            CoreCounter::new(self.0 + Self::TO_COUNTER)
        }
    }
}

impl TryFrom<u8> for ErrorFlag {
    type Error = OutOfRange;

    fn try_from(index: u8) -> Result<Self, OutOfRange> {
        Self::new(index).ok_or(OutOfRange {
            what: "index of an error flag",
            value: index.into(),
            allowed: "0 to 8",
        })
    }
}

/// A time of the execution that finished last, in microseconds. It is set and not added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Latency {
    /// On the device.
    Device,
    /// From submission to completion.
    Total,
    /// On the core.
    Core,
    /// In collectives.
    Cc,
}

impl Latency {
    /// All four, by ordinal of their counters.
    pub const ALL: [Self; 4] = [Self::Device, Self::Total, Self::Core, Self::Cc];

    /// The counter that holds the time.
    #[must_use]
    pub const fn counter(self) -> CoreCounter {
        match self {
            Self::Device => CoreCounter::LATENCY_DEVICE,
            Self::Total => CoreCounter::LATENCY_TOTAL,
            Self::Core => CoreCounter::NC_TIME,
            Self::Cc => CoreCounter::CC_TIME,
        }
    }
}
