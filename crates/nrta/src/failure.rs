//! Kinds of failure: a closed list for programs that decide by kind, with what to do about each.
//!
//! Every status of the C ABI that is not success is one of them, and each has one status ([`Failure::of`],
//! [`Failure::status`]). A few more are told apart by this library alone ([`Failure::OWN`]): they share the status `FAILURE`, for
//! the ABI has none of its own for them. Had from [`RequestError::failure`](crate::RequestError::failure),
//! [`Refused::failure`](crate::Refused::failure), [`ScheduleError::failure`](crate::ScheduleError::failure) and
//! [`Error::failure`](crate::Error::failure). Spec: `c-api.md` sections 3 and 15.

use core::fmt;
use xu_abi::Status;

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $remedy:literal;)*) => {
        /// What kind of failure it was.
        ///
        /// ```
        /// use nrta::{Failure, Status};
        ///
        /// let failure = Failure::of(Status::TIMEOUT).unwrap();
        /// assert_eq!(failure, Failure::Timeout);
        /// assert!(failure.degrades_compute());
        /// assert_eq!(failure.status(), Status::TIMEOUT);
        /// assert_eq!(Failure::of(Status::SUCCESS), None);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Failure {
            $($(#[$doc])* $name,)*
            /// The request was skipped by its caller, and has not run. Its status is `FAILURE`.
            Skipped,
            /// Somebody else has the cores that were to be opened. Its status is `FAILURE`.
            CoresHeld,
            /// A status that has no name.
            Unknown(Status),
        }

        impl Failure {
            /// The kind of each status that has a name, but for success.
            pub const NAMED: &'static [Self] = &[$(Self::$name),*];

            /// What this library tells apart by more than the status, which is `FAILURE`: [`Failure::of`] gives none of them.
            pub const OWN: &'static [Self] = &[Self::Skipped, Self::CoresHeld];

            /// The kind of a status; none is success.
            #[must_use]
            pub fn of(status: Status) -> Option<Self> {
                Some(match status {
                    Status::SUCCESS => return None,
                    $(Status::$status => Self::$name,)*
                    unknown => Self::Unknown(unknown),
                })
            }

            /// Its status.
            #[must_use]
            pub fn status(self) -> Status {
                match self {
                    $(Self::$name => Status::$status,)*
                    Self::Skipped | Self::CoresHeld => Status::FAILURE,
                    Self::Unknown(status) => status,
                }
            }

            /// What to do about it, for people.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Self::$name => $remedy,)*
                    Self::Skipped => "nothing: its caller had it skipped; schedule it again if it is wanted after all",
                    Self::CoresHeld => "free the cores: end the process that the text names, or choose other cores",
                    Self::Unknown(_) => "look the status up in the documents of the driver",
                }
            }
        }
    };
}

failures! {
    /// Nothing more precise is known.
    Unspecific = FAILURE, "read the detail; the device or this library has said why";
    /// An argument was refused.
    InvalidArgument = INVALID, "correct the argument that the text names";
    /// A tensor was freed, or a model unloaded.
    InvalidHandle = INVALID_HANDLE, "make the tensor or load the model again";
    /// Memory, descriptors or threads ran out.
    OutOfResources = RESOURCE, "free tensors or models, or raise the limit that the text names";
    /// It did not end in time.
    Timeout = TIMEOUT, "close the runtime and open it again; raise the limit if the work needs more time";
    /// The hardware failed, and has not said how.
    Hardware = HW_ERROR, "close the runtime and open it again; if it comes back, have the device examined";
    /// The queue is full.
    QueueFull = QUEUE_FULL, "wait for room and schedule again";
    /// The model needs more cores than there are.
    NotEnoughCores = LOAD_NOT_ENOUGH_NC, "make more cores visible, or load a model for fewer";
    /// The model container is of a version that is not known here.
    UnsupportedModel = UNSUPPORTED_NEFF_VERSION, "make the model container again with the version that the text names";
    /// Host memory ran out.
    OutOfHostMemory = FAIL_HOST_MEM_ALLOC, "free host memory";
    /// The runtime was not opened.
    NotOpen = UNINITIALIZED, "open a runtime";
    /// The runtime is closing or closed.
    Closed = CLOSED, "open a runtime";
    /// A queue has no request.
    QueueEmpty = QUEUE_EMPTY, "schedule a request first";
    /// The queue is degraded.
    Degraded = EXEC_UNIT_UNRECOVERABLE, "close the runtime and open it again; the cause says what ended the queue";
    /// An execution was given what it cannot use.
    BadInput = EXEC_BAD_INPUT, "correct the tensors that are bound";
    /// It ran to its end, and numbers went wrong; the outputs are written.
    NumericalError = EXEC_COMPLETED_WITH_NUM_ERR, "look for NaN in the inputs and the outputs";
    /// It ran to its end, and something went wrong on the way.
    CompletedWithError = EXEC_COMPLETED_WITH_ERR, "do not use the outputs; run it again";
    /// The core is busy.
    CoreBusy = EXEC_NC_BUSY, "try again when whoever holds the core has finished";
    /// It went out of bounds.
    OutOfBounds = EXEC_OOB, "check the indices that the model is given";
    /// A collective is not finished.
    CollectivePending = COLL_PENDING, "wait for the other ranks";
    /// It hung in a collective.
    CollectiveFailed = EXEC_HW_ERR_COLLECTIVES, "close the runtimes of all ranks and open them again";
    /// Device memory is broken.
    MemoryBroken = EXEC_HW_ERR_HBM_UE, "close the runtime and take the device out of service";
    /// Memory inside a core is broken.
    CoreMemoryBroken = EXEC_HW_ERR_NC_UE, "close the runtime and open it again; if it comes back, take the device out of service";
    /// A DMA engine has given up.
    DmaAborted = EXEC_HW_ERR_DMA_ABORT, "close the runtime and open it again; if it comes back, have the device examined";
    /// Notifications were lost, and with them completions.
    NotificationsLost = EXEC_SW_NQ_OVERFLOW, "close the runtime and open it again";
    /// Device memory has an error that a reset repairs.
    MemoryRepairable = EXEC_HW_ERR_REPAIRABLE_HBM_UE, "close the runtime and reset the device";
    /// The network proxy of collectives has failed.
    NetworkProxy = NETWORK_PROXY_FAILURE, "restart the network proxy; close the runtimes of all ranks and open them again";
}

impl Failure {
    /// Whether a compute queue certainly takes no more work after a request that ended so. What waits behind it ends as
    /// [`Failure::Degraded`].
    ///
    /// [`Failure::Unspecific`] ends a queue in some cases, such as records that contradict each other, and in others it does
    /// not: the queue's [`health`](crate::ComputeQueue::health) knows.
    #[must_use]
    pub fn degrades_compute(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::Hardware
                | Self::CollectiveFailed
                | Self::MemoryBroken
                | Self::CoreMemoryBroken
                | Self::DmaAborted
                | Self::NotificationsLost
                | Self::MemoryRepairable
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status(), self.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_one_kind_and_every_kind_one_status() {
        for status in Status::NAMED {
            match Failure::of(*status) {
                None => assert!(status.is_success()),
                Some(failure) => {
                    assert!(Failure::NAMED.contains(&failure), "{status}");
                    assert_eq!(failure.status(), *status);
                }
            }
        }
        assert_eq!(Failure::NAMED.len() + 1, Status::NAMED.len());
        for own in Failure::OWN {
            assert_eq!(own.status(), Status::FAILURE);
            assert!(!Failure::NAMED.contains(own) && !own.degrades_compute());
        }
        let odd = Status::from_raw(4711);
        assert_eq!(Failure::of(odd), Some(Failure::Unknown(odd)));
        assert_eq!(Failure::Unknown(odd).status(), odd);
    }

    #[test]
    fn what_degrades_is_what_the_specification_lists() {
        let degrading: Vec<_> = Failure::NAMED
            .iter()
            .filter(|failure| failure.degrades_compute())
            .map(|failure| failure.status().raw())
            .collect();
        assert_eq!(degrading, [5, 6, 1200, 1201, 1202, 1203, 1204, 1205]);
    }
}
