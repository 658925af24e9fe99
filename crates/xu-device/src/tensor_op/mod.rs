//! The tensor operations of one DMA queue: one at a time, a chunk per step, never blocking.
//!
//! Owned by a tensor-op engine and stepped on its worker thread. The facade checks a request as an [`Operation`] when it
//! is scheduled; at the head of its queue it goes through [`TensorDma`]:
//!
//! ```text
//!   begin(operation) ── step(now, host) ──> Continue      look again
//!                            │        └───> Done          all of it has arrived
//!                            ├────────────> Refused       nothing was posted, the queue goes on
//!                            └────────────> Fatal         the device may know: the queue is at its end
//!   end() ── says whether the device may still touch the operation's memory: then it must be kept
//! ```
//!
//! No public format describes arithmetic in DMA descriptors, so the operands of a cast, a computation or a
//! multiply-and-add pass through the bounce buffer and the stepping thread computes; everything else is moved by the
//! device alone. Nothing is allocated after opening.
//! Spec: `c-api.md` sections 6.1 and 6.6, `xu.md` section 4.
//!
//! ```
//! use xu_abi::TpbIndex;
//! use xu_device::memory::DeviceMemory;
//! use xu_device::region::Region;
//! use xu_device::simulated::{Machine, MachineConfig};
//! use xu_device::tensor_op::{HostBytes, Operation, Progress, TensorDma};
//! use xu_device::{Device, Place, map};
//! # use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device: Arc<dyn Device> = Machine::start(MachineConfig::default())?;
//! let core = TpbIndex::new(0);
//! let tensor = DeviceMemory::allocate(&device, Place::Hbm(core), 5, 64)?;
//! let mut dma = TensorDma::open(&device, map::transfer_queue(core, 0), Some(1_000_000_000))?;
//!
//! dma.begin(Operation::write(Region::of(&tensor))?)?;
//! while dma.step(dma.now_ns(), HostBytes::Source(b"hello")) == Progress::Continue {}
//! assert!(!dma.end(), "nothing is on its way");
//! # let mut back = [0; 5];
//! # tensor.read(0, &mut back)?;
//! # assert_eq!(&back, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `operation` | a request, checked |
//! | `current` | the operation under way, chunk by chunk |
//! | `host` | the host's bytes, lent for a step |
//! | `arithmetic` | the buffers in which the stepping thread computes |

mod arithmetic;
mod current;
mod host;
mod operation;

pub use host::HostBytes;
pub use operation::{InvalidOperation, Operation};

use crate::device::{Device, DeviceError, DmaQueue};
use crate::transfer::TransferQueue;
use arithmetic::Scratch;
use current::{Current, Posted};
use host::HostPiece;
use std::sync::Arc;
use xu_abi::Status;

/// What one step found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// There is more to do, or to wait for.
    Continue,
    /// The operation is complete.
    Done,
    /// The operation failed before the device could know of it. The queue goes on.
    Refused(OperationError),
    /// The operation failed, and the queue is at its end.
    Fatal(OperationError),
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The device refused something before it knew of the operation.
    #[error(transparent)]
    Before(DeviceError),
    /// The device failed while it may have known of the operation.
    #[error(transparent)]
    InFlight(DeviceError),
    /// A chunk did not arrive in time.
    #[error("a chunk of {bytes} bytes did not arrive within {:?}", core::time::Duration::from_nanos(*limit_ns))]
    Timeout {
        /// Length of the chunk, bytes.
        bytes: usize,
        /// How long it was given, nanoseconds.
        limit_ns: u64,
    },
    /// A step was not lent the bytes that the operation needs.
    #[error(
        "the operation needs {needed} bytes of the host's, in its direction; it was lent {lent}"
    )]
    HostBytes {
        /// What it needs.
        needed: u64,
        /// What it was lent in the right direction.
        lent: u64,
    },
    /// The queue has failed for good before.
    #[error("the queue has failed")]
    QueueFailed,
    /// An operation is under way: it has to be ended first.
    #[error("an operation is under way")]
    UnderWay,
}

impl OperationError {
    /// The status of the request.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Before(error) => error.status(),
            Self::InFlight(error) => error.status_in_flight(),
            Self::Timeout { .. } => Status::TIMEOUT,
            Self::HostBytes { .. } | Self::UnderWay => Status::INVALID,
            Self::QueueFailed => Status::EXEC_UNIT_UNRECOVERABLE,
        }
    }

    /// Whether nothing was posted and the queue goes on: arguments, resources and a full queue of the driver's are that
    /// request's alone, a device in trouble is not (`c-api.md` section 3).
    pub(crate) fn is_refusal(&self) -> bool {
        let harmless = matches!(
            self.status(),
            Status::INVALID | Status::RESOURCE | Status::QUEUE_FULL | Status::EXEC_NC_BUSY
        );
        harmless && !matches!(self, Self::InFlight(_))
    }
}

/// One DMA queue and the operation at its head.
///
/// When [`TensorDma::end`] has said that memory must be kept, bounce buffer and rings of this are touched like the rest:
/// dropped then, it never gives them back.
#[derive(Debug)]
pub struct TensorDma {
    queue: TransferQueue,
    /// Limit for one chunk, nanoseconds; `None` waits for ever.
    limit_ns: Option<u64>,
    scratch: Scratch,
    current: Option<Current>,
    failed: bool,
}

impl TensorDma {
    /// Opens `queue` and reserves everything that operations will need.
    ///
    /// # Errors
    /// As [`TransferQueue::open`].
    pub fn open(
        device: &Arc<dyn Device>,
        queue: DmaQueue,
        limit_ns: Option<u64>,
    ) -> Result<Self, DeviceError> {
        Ok(Self::new(TransferQueue::open(device, queue)?, limit_ns))
    }

    /// Over a queue that is open already. A chunk that takes `limit_ns` nanoseconds ends it; `None` waits for ever.
    #[must_use]
    pub fn new(queue: TransferQueue, limit_ns: Option<u64>) -> Self {
        Self {
            queue,
            limit_ns,
            scratch: Scratch::new(),
            current: None,
            failed: false,
        }
    }

    /// The host's clock, as the device reads it: a time for [`TensorDma::step`].
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Whether an operation was fatal, or was given up with a chunk on its way: nothing can follow.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Takes an operation to the head of the queue. Touches nothing yet.
    ///
    /// # Errors
    /// [`OperationError::UnderWay`] and [`OperationError::QueueFailed`].
    pub fn begin(&mut self, operation: Operation) -> Result<(), OperationError> {
        if self.failed {
            return Err(OperationError::QueueFailed);
        }
        if self.current.is_some() {
            return Err(OperationError::UnderWay);
        }
        self.current = Some(Current::new(operation));
        Ok(())
    }

    /// One look: posts a chunk if none is on its way, and takes it in if it has arrived.
    ///
    /// `now_ns` is the caller's clock; it decides about the limit, and only after a look that found nothing.
    /// Without an operation under way there is nothing to do: [`Progress::Done`].
    pub fn step(&mut self, now_ns: u64, host: HostBytes<'_>) -> Progress {
        if self.failed {
            return Progress::Fatal(OperationError::QueueFailed);
        }
        let error = match self.advance(now_ns, host) {
            Ok(true) => return Progress::Done,
            Ok(false) => return Progress::Continue,
            Err(error) => error,
        };
        let known = self.current.as_ref().is_some_and(|now| now.may_be_known);
        if !known && error.is_refusal() {
            return Progress::Refused(error);
        }
        self.failed = true;
        Progress::Fatal(error)
    }

    /// Ends the operation, whatever became of it, and says whether the device may still read or write its memory.
    /// Then the memory has to be kept until the device is known to be at rest.
    ///
    /// Without an operation under way: false.
    #[must_use = "memory that the device may still touch must be kept"]
    pub fn end(&mut self) -> bool {
        let had_one = self.current.take().is_some();
        let may_touch = had_one && self.queue.is_in_flight();
        // Nothing may follow a chunk that was given up.
        self.failed |= may_touch;
        may_touch
    }

    /// As [`TensorDma::end`], for an operation that is done: gives it back.
    pub(crate) fn take_done(&mut self) -> Option<Operation> {
        self.current.take().map(|current| current.operation)
    }

    fn advance(&mut self, now_ns: u64, host: HostBytes<'_>) -> Result<bool, OperationError> {
        let Some(current) = &mut self.current else {
            return Ok(true);
        };
        let Some(piece) = current.piece() else {
            return Ok(true);
        };
        let host = HostPiece::of(&current.operation, piece, host)?;
        let posted = match current.posted {
            Some(posted) => posted,
            None => {
                let result = current.post(&mut self.queue, &mut self.scratch, piece, &host);
                current.may_be_known |= self.queue.is_in_flight();
                let bytes = result.map_err(|error| current.explain(error))?;
                *current.posted.insert(Posted {
                    at_ns: now_ns,
                    bytes,
                })
            }
        };
        match self.queue.poll() {
            Err(error) => Err(current.explain(error)),
            Ok(false) => match self.limit_ns {
                Some(limit_ns) if now_ns.saturating_sub(posted.at_ns) >= limit_ns => {
                    let bytes = posted.bytes;
                    Err(OperationError::Timeout { bytes, limit_ns })
                }
                _ => Ok(false),
            },
            Ok(true) => {
                current.posted = None;
                let landed = current.land(&self.queue, &mut self.scratch, piece, host);
                landed.map_err(|error| current.explain(error))?;
                Ok(current.piece().is_none())
            }
        }
    }
}
