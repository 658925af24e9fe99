//! What an answer of the driver means: the one table from call and result to status and severity.
//!
//! Used by [`super::Node`] and [`super::Claims`] for every call. Spec `driver.md` section 1, return values; failure kind
//! D4. Rows are tried in order: a number means one thing for one call and another for the next.

use core::fmt;
use xu_abi::Status;
use xu_abi::driver::Ioctl;
use xu_abi::driver::errno::{self, Answer};

/// What became of a call that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Meaning {
    /// An argument was refused, or the driver does not know the request: it says the same of both.
    BadArgument,
    /// A handle names no chunk, or the access leaves it.
    BadHandle,
    /// The driver could not reach the argument.
    BadPointer,
    /// This driver or this device has no such call.
    Unsupported,
    /// The process is not attached any more: somebody has closed a descriptor.
    NotAttached,
    /// The descriptor is closed.
    Closed,
    /// Memory ran out.
    OutOfMemory,
    /// Descriptors ran out.
    OutOfDescriptors,
    /// Somebody else has it, or has it still.
    Busy,
    /// Another process holds a core.
    CoreTaken,
    /// There is no such thing: no node, no datastore, no lock.
    Missing,
    /// A copy timed out, or a DMA queue stopped.
    DmaAborted,
    /// A signal came, again and again.
    Interrupted,
    /// The device is gone.
    Lost,
    /// A number that nobody expects.
    Unknown,
}

/// How far a failure reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The call alone; nothing changed, and the next one may succeed.
    Call,
    /// The core or the queue that was concerned: what it does now is unknown.
    Unit,
    /// The device, or this process's share of it: everything there is lost.
    Device,
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadArgument => "an argument was refused",
            Self::BadHandle => "no such memory",
            Self::BadPointer => "the argument could not be reached",
            Self::Unsupported => "not supported",
            Self::NotAttached => "the process is not attached",
            Self::Closed => "the descriptor is closed",
            Self::OutOfMemory => "out of memory",
            Self::OutOfDescriptors => "out of descriptors",
            Self::Busy => "busy",
            Self::CoreTaken => "another process holds a core",
            Self::Missing => "nothing there",
            Self::DmaAborted => "a copy timed out or was aborted",
            Self::Interrupted => "interrupted",
            Self::Lost => "the device is gone",
            Self::Unknown => "unknown",
        })
    }
}

impl Meaning {
    /// The status that an application sees.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::BadArgument => Status::INVALID,
            Self::BadHandle => Status::INVALID_HANDLE,
            Self::OutOfMemory | Self::OutOfDescriptors => Status::RESOURCE,
            Self::Busy | Self::CoreTaken => Status::EXEC_NC_BUSY,
            Self::DmaAborted => Status::EXEC_HW_ERR_DMA_ABORT,
            Self::Lost | Self::NotAttached | Self::Closed => Status::HW_ERROR,
            Self::BadPointer
            | Self::Unsupported
            | Self::Missing
            | Self::Interrupted
            | Self::Unknown => Status::FAILURE,
        }
    }

    /// How far it reaches.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::DmaAborted | Self::Unknown => Severity::Unit,
            Self::Lost | Self::NotAttached | Self::Closed => Severity::Device,
            _ => Severity::Call,
        }
    }
}

/// Which calls a row speaks of, by the beginnings of their names.
type Names = &'static [&'static str];

/// Calls that move bytes by DMA: their EPERM is a time-out or an abort.
const COPIES: Names = &[
    "MEM_COPY",
    "MEM_BUF_COPY",
    "MEM_BUF_ZEROCOPY",
    "MEMSET",
    "PROGRAM_ENGINE",
    "DMA_COPY_DESCRIPTORS",
    "DMA_DESCRIPTOR_COPYOUT",
    "HBM_SCRUB",
];
/// Calls whose EINVAL is an unknown handle or an access outside a chunk.
const WITH_HANDLE: Names = &[
    "MEM_FREE",
    "MEM_COPY",
    "MEM_BUF_COPY",
    "MEM_BUF_ZEROCOPY",
    "MEM_GET_PA",
    "MEM_GET_INFO",
    "MEMSET",
    "DMA_COPY_DESCRIPTORS",
];
const ANY: Names = &[""];

use Answer::{Errno, Positive};
use Meaning::{
    BadArgument, BadHandle, BadPointer, Busy, Closed, CoreTaken, DmaAborted, Interrupted, Lost,
    Missing, NotAttached, OutOfDescriptors, OutOfMemory, Unsupported,
};

/// The rows. The first that fits stands.
const TABLE: &[(Names, Answer, Meaning)] = &[
    (&["MEM_GET_EXTENDED_INFO"], Positive(22), BadHandle),
    // Names are compared by their beginnings, so the longer one comes first.
    (&["NC_RESET_READY"], Positive(1), BadPointer),
    (&["NC_RESET"], Positive(1), Busy),
    (COPIES, Errno(errno::EPERM), DmaAborted),
    (
        &["NOTIFICATIONS_QUEUE_INFO"],
        Errno(errno::EPERM),
        Unsupported,
    ),
    // Rings that break the rules, and more descriptors than there are.
    (ANY, Errno(errno::EPERM), BadArgument),
    // Not gated: here the number means a bad pointer.
    (&["DMA_QUEUE_INIT_BATCH"], Errno(errno::EACCES), BadPointer),
    (ANY, Errno(errno::EACCES), NotAttached),
    (WITH_HANDLE, Errno(errno::EINVAL), BadHandle),
    (ANY, Errno(errno::EINVAL), BadArgument),
    (ANY, Errno(errno::E2BIG), BadArgument),
    (ANY, Errno(errno::EFBIG), BadArgument),
    (ANY, Errno(errno::EBADMSG), BadArgument),
    // Outside the windows; not in any chunk.
    (&["PROGRAM_ENGINE"], Errno(errno::ENOMEM), BadArgument),
    (&["MEM_MC_GET_INFO"], Errno(errno::ENOMEM), Missing),
    (ANY, Errno(errno::ENOMEM), OutOfMemory),
    (&["CRWL_NC_RANGE_MARK"], Errno(errno::EBUSY), CoreTaken),
    (ANY, Errno(errno::EBUSY), Busy),
    (ANY, Errno(errno::EALREADY), Busy),
    (ANY, Errno(errno::EAGAIN), Busy),
    (ANY, Errno(errno::ENOENT), Missing),
    (ANY, Errno(errno::EFAULT), BadPointer),
    (ANY, Errno(errno::ENOSYS), Unsupported),
    (ANY, Errno(errno::ENOTTY), Unsupported),
    (ANY, Errno(errno::ENOTSUPP), Unsupported),
    (ANY, Errno(errno::EPROTONOSUPPORT), Unsupported),
    (ANY, Errno(errno::EINTR), Interrupted),
    (ANY, Errno(errno::EBADF), Closed),
    (ANY, Errno(errno::EIO), Lost),
    (ANY, Errno(errno::ENXIO), Lost),
    (ANY, Errno(errno::ENODEV), Lost),
];

/// What an answer to a call means; `None` when it is success.
#[must_use]
pub fn of(ioctl: &Ioctl, answer: Answer) -> Option<Meaning> {
    match answer {
        Answer::Done => None,
        // Bytes that were not copied, unless a row says otherwise.
        Positive(_) => Some(row(ioctl.name, answer).unwrap_or(BadPointer)),
        Errno(_) => Some(row(ioctl.name, answer).unwrap_or(Meaning::Unknown)),
    }
}

/// What an error number of open means.
#[must_use]
pub fn of_open(number: i32) -> Meaning {
    match number {
        // Its numbers for a missing node are those of a device that is gone.
        errno::ENXIO | errno::ENODEV => Missing,
        // The permissions of the node, and a device that was invalid after a reset.
        errno::EACCES | errno::EPERM => Unsupported,
        errno::EINVAL => Lost,
        errno::EMFILE | errno::ENFILE => OutOfDescriptors,
        _ => row("", Errno(number)).unwrap_or(Meaning::Unknown),
    }
}

/// What an error number of mmap means.
#[must_use]
pub fn of_map(number: i32) -> Meaning {
    match number {
        // The driver's word for a wrong length or offset.
        errno::EPERM | errno::EACCES => BadArgument,
        _ => row("", Errno(number)).unwrap_or(Meaning::Unknown),
    }
}

fn row(name: &str, answer: Answer) -> Option<Meaning> {
    TABLE
        .iter()
        .find(|(names, result, _)| {
            *result == answer && names.iter().any(|begin| name.starts_with(begin))
        })
        .map(|(_, _, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xu_abi::driver::ioctl;

    #[test]
    fn d4_only_zero_is_success() {
        for ioctl in ioctl::ALL {
            assert_eq!(of(ioctl, Answer::Done), None);
            for answer in [1, 22, 56, i32::MAX, -2].map(Positive) {
                assert!(of(ioctl, answer).is_some(), "{ioctl} {answer:?}");
            }
            for (number, _) in errno::NAMED {
                assert!(of(ioctl, Errno(*number)).is_some(), "{ioctl} {number}");
            }
        }
    }

    /// Section 1, return values, row by row.
    #[test]
    fn d4_answers_mean_what_the_table_says() {
        let expected = [
            (&ioctl::MEM_ALLOC_V2MT64, Positive(8), BadPointer),
            (&ioctl::MEM_GET_EXTENDED_INFO, Positive(22), BadHandle),
            (&ioctl::MEM_GET_EXTENDED_INFO, Positive(48), BadPointer),
            (&ioctl::NC_RESET, Positive(1), Busy),
            (&ioctl::NC_RESET_READY, Positive(1), BadPointer),
            (&ioctl::DMA_QUEUE_INIT_BATCH, Errno(13), BadPointer),
            (&ioctl::MEM_FREE, Errno(13), NotAttached),
            (&ioctl::MEM_FREE, Errno(22), BadHandle),
            (&ioctl::SEMAPHORE_INCREMENT, Errno(7), BadArgument),
            (&ioctl::MEM_ALLOC_V2MT, Errno(12), OutOfMemory),
            (&ioctl::MEM_MC_GET_INFO_V2, Errno(12), Missing),
            (&ioctl::PROGRAM_ENGINE_NC64, Errno(12), BadArgument),
            (&ioctl::DMA_QUEUE_INIT, Errno(1), BadArgument),
            (&ioctl::DMA_QUEUE_COPY_START, Errno(1), BadArgument),
            (&ioctl::MEM_BUF_ZEROCOPY64, Errno(1), DmaAborted),
            (&ioctl::MEMSET64, Errno(1), DmaAborted),
            (&ioctl::NOTIFICATIONS_QUEUE_INFO, Errno(1), Unsupported),
            (&ioctl::DMA_QUIESCE_QUEUES, Errno(25), Unsupported),
            (&ioctl::DRIVER_INFO_SET, Errno(524), Unsupported),
            (&ioctl::CRWL_NC_RANGE_MARK_EXT0, Errno(16), CoreTaken),
            (&ioctl::CRWL_READER_ENTER, Errno(16), Busy),
            (&ioctl::CRWL_WRITER_ENTER, Errno(114), Busy),
            (&ioctl::ACQUIRE_NEURON_DS, Errno(2), Missing),
            (&ioctl::DUMP_MEM_CHUNKS, Errno(11), Busy),
            (&ioctl::PRINTK, Errno(14), BadPointer),
            (&ioctl::DMABUF_FD, Errno(93), Unsupported),
            (&ioctl::MEM_COPY64, Errno(5), Lost),
            (&ioctl::MEM_COPY64, Errno(4711), Meaning::Unknown),
        ];
        for (ioctl, answer, meaning) in expected {
            assert_eq!(of(ioctl, answer), Some(meaning), "{ioctl} {answer:?}");
        }
    }

    #[test]
    fn d4_a_failure_of_a_device_reaches_further_than_one_of_a_call() {
        assert_eq!(BadArgument.severity(), Severity::Call);
        assert_eq!(DmaAborted.severity(), Severity::Unit);
        assert_eq!(NotAttached.severity(), Severity::Device);
        assert_eq!(OutOfMemory.status(), Status::RESOURCE);
    }
}
