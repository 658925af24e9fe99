//! What can go wrong, from opening a runtime to the end of a request.
//!
//! Every error has exactly one NRT status ([`Error::status`], [`ScheduleError::status`]); a request that was
//! accepted and failed is a [`RequestError`].
//! Failures hand back what they were given: [`Refused`] the arguments, [`RequestError`] the buffer.

use crate::claims::Busy;
use crate::failure::Failure;
use crate::settings::Backend;
use crate::shape::Shape;
use core::fmt;
use std::io;
use std::path::PathBuf;
use xu_abi::{OutOfRange, SeqId, Status, XuId, XuType};
use xu_device::DeviceError;
use xu_device::collectives::PlanError;
use xu_device::elementwise::Dtype;
use xu_device::tensor_op::InvalidOperation;
use xu_model::{LoadError, ModelError};
use xu_ring::queue::NeverIssued;
use xu_worker::{Refusal, UnitError, WorkerError};

/// Opening a runtime, allocating a tensor or loading a model failed. Nothing half-done remains.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A builder value is out of range.
    #[error("{what} = {value} is not allowed: {allowed}")]
    Config {
        /// Which value.
        what: &'static str,
        /// What was given.
        value: u64,
        /// What would be accepted.
        allowed: String,
    },
    /// A variable of the environment that opening depends on has a value that is not allowed.
    #[error("{variable} = {value:?} is not allowed: {allowed}")]
    Variable {
        /// Which variable.
        variable: &'static str,
        /// What it is set to.
        value: String,
        /// What would be accepted.
        allowed: String,
    },
    /// There is no such device in this build.
    #[error(
        "the backend {backend} is not compiled in: the feature `{backend}` of the crate nrta has it"
    )]
    Backend {
        /// What was asked for.
        backend: Backend,
    },
    /// Somebody else has the cores.
    #[error(transparent)]
    Busy(Box<Busy>),
    /// The cores are of two chips, and a runtime drives one.
    #[error(
        "cores {first} to {last} are of devices {} and {}: a runtime drives one device, which has {cores_per_device} of them; \
         open one for each", devices[0], devices[1]
    )]
    TwoDevices {
        /// The first core, counted over all devices.
        first: u32,
        /// The last of them.
        last: u32,
        /// The devices of the first and of the last.
        devices: [u32; 2],
        /// Logical cores of each device.
        cores_per_device: u32,
    },
    /// The kernel driver refused, or it cannot be spoken to.
    #[cfg(feature = "real-driver")]
    #[error(transparent)]
    Driver(#[from] xu_device::neuron::DriverError),
    /// The directory of a host cannot be used.
    #[error("host {directory:?}: cannot {action}: {source}")]
    Host {
        /// Which directory.
        directory: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The runtime has no such logical core.
    #[error("there is no core {core}: this runtime has {cores}, numbered from 0")]
    NoSuchCore {
        /// What was asked for.
        core: u32,
        /// Number of cores.
        cores: u32,
    },
    /// A core has no such queue.
    #[error("there is no {} queue {queue}: a core has {queues}, numbered from 0", kind.name())]
    NoSuchQueue {
        /// Of which kind.
        kind: XuType,
        /// What was asked for.
        queue: u8,
        /// Number of queues.
        queues: u8,
    },
    /// No queue of any runtime has this id.
    #[error(transparent)]
    NoSuchXu(#[from] OutOfRange),
    /// The queue has never issued the sequence.
    #[error(transparent)]
    NeverIssued(#[from] NeverIssued),
    /// These cores make no group.
    #[error("cores {cores:?} make no group: {why}")]
    Group {
        /// The cores.
        cores: Vec<u32>,
        /// Why not.
        why: &'static str,
    },
    /// The runtime is closed.
    #[error("the runtime is closed")]
    Closed,
    /// This process is a child of the one that opened the runtime.
    #[error("the runtime belongs to the process that this one was forked from")]
    Forked,
    /// A tensor of no bytes.
    #[error("a tensor of {bytes} bytes cannot be allocated: at least 1")]
    EmptyTensor {
        /// What was asked for.
        bytes: u64,
    },
    /// No tensor has this shape.
    #[error("shape {shape:?} is not allowed: {why}")]
    Shape {
        /// Its dimensions.
        shape: Vec<u64>,
        /// Why not.
        why: &'static str,
    },
    /// The tensor has no such part.
    #[error("{bytes} bytes at offset {offset} are no part of a tensor of {size} bytes")]
    Slice {
        /// Where the part begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// Size of the tensor.
        size: u64,
    },
    /// The tensor has no such rows.
    #[error("rows {first}..{end} are no part of a tensor of {all} rows")]
    Rows {
        /// The first.
        first: u64,
        /// Behind the last.
        end: u64,
        /// How many there are.
        all: u64,
    },
    /// The tensor was freed.
    #[error("the tensor was freed")]
    TensorFreed,
    /// The model has no input or output of this name.
    #[error("model {model} has no {role} {name:?}: it has {names:?}")]
    NoSuchName {
        /// The model's name.
        model: String,
        /// `input` or `output`.
        role: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        names: Vec<String>,
    },
    /// An input or output has elements of another type.
    #[error("{role} {name} of model {model} is of {is:?}, not of {asked:?}")]
    WrongType {
        /// The model's name.
        model: String,
        /// `input` or `output`.
        role: &'static str,
        /// Its name.
        name: String,
        /// Type of its elements.
        is: Dtype,
        /// What was asked for.
        asked: Dtype,
    },
    /// The model has no such input or output.
    #[error("model {model} has no {role} {index}: it has {count}, numbered from 0: {names:?}")]
    NoSuchTensor {
        /// The model's name.
        model: String,
        /// `input` or `output`.
        role: &'static str,
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
        /// Their names, in order.
        names: Vec<String>,
    },
    /// A model file is not acceptable.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model could not be compiled or placed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A unit could not be made.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A worker thread could not be started.
    #[error("no worker thread for core {core}: {source}")]
    Worker {
        /// The core.
        core: u32,
        /// What refused.
        #[source]
        source: WorkerError,
    },
    /// The threads of the simulated machine could not be made deaf to signals.
    #[error("the threads of the simulated machine cannot be made deaf to signals: {source}")]
    Machine {
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// What kind of failure it is, and what to do about it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Busy(_) => Failure::CoresHeld,
            _ => failure_of(self.status()),
        }
    }

    /// The status that the C ABI reports for this error.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Config { .. }
            | Self::Variable { .. }
            | Self::Backend { .. }
            | Self::TwoDevices { .. }
            | Self::Host { .. }
            | Self::NoSuchCore { .. }
            | Self::NoSuchQueue { .. }
            | Self::NoSuchXu(_)
            | Self::NeverIssued(_)
            | Self::EmptyTensor { .. }
            | Self::Group { .. }
            | Self::Shape { .. }
            | Self::Slice { .. }
            | Self::Rows { .. }
            | Self::NoSuchName { .. }
            | Self::WrongType { .. }
            | Self::NoSuchTensor { .. } => Status::INVALID,
            Self::TensorFreed => Status::INVALID_HANDLE,
            #[cfg(feature = "real-driver")]
            Self::Driver(error) => error.status(),
            Self::Busy(_) => Status::FAILURE,
            Self::Closed => Status::CLOSED,
            Self::Forked => Status::FAILURE,
            Self::Model(error) => model_status(error),
            Self::Load(LoadError::Device { source: error, .. }) | Self::Device(error) => {
                error.status()
            }
            Self::Load(_) => Status::INVALID,
            Self::Unit(_) | Self::Worker { .. } | Self::Machine { .. } => Status::RESOURCE,
        }
    }
}

fn model_status(error: &ModelError) -> Status {
    match error.what() {
        ModelError::UnsupportedVersion { .. } => Status::UNSUPPORTED_NEFF_VERSION,
        _ => Status::INVALID,
    }
}

/// A request was not accepted: no sequence number was used, and nothing has changed.
///
/// The one exception is [`ScheduleError::Unit`] with [`Refusal::Commit`], which says that the queue is degraded now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The queue said no: full, closing, degraded, or staging failed.
    #[error(transparent)]
    Unit(#[from] Refusal),
    /// The range is not inside the tensor.
    #[error("{bytes} bytes at offset {offset} pass the end of a tensor of {size} bytes")]
    OutOfRange {
        /// Where the range begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// Size of the tensor.
        size: u64,
    },
    /// The tensor or model lives on another core than the queue.
    #[error("{what} is on core {on}, the queue on core {queue}")]
    WrongCore {
        /// What lives elsewhere.
        what: &'static str,
        /// Where it lives.
        on: u32,
        /// Where the queue is.
        queue: u32,
    },
    /// The tensor or model belongs to another runtime than the queue.
    #[error("{what} belongs to another runtime")]
    WrongRuntime {
        /// What belongs elsewhere.
        what: &'static str,
    },
    /// The tensor was freed.
    #[error("the tensor was freed")]
    TensorFreed,
    /// The model was unloaded.
    #[error("model {model} was unloaded")]
    ModelUnloaded {
        /// The model's name.
        model: String,
    },
    /// An input or output of the model has no tensor.
    #[error("model {model} has no tensor for {role} {name:?}: given were {given:?}")]
    TensorMissing {
        /// The model's name.
        model: String,
        /// `input` or `output`.
        role: &'static str,
        /// Name of the input or output.
        name: String,
        /// The names that tensors were given for.
        given: Vec<String>,
    },
    /// A tensor cannot be bound to an input or output of the model: it was freed, or lives elsewhere.
    #[error("{role} {name} of model {model}: {}", unbound(why, *core))]
    CannotBind {
        /// The model's name.
        model: String,
        /// The core that it is loaded on.
        core: u32,
        /// `input` or `output`.
        role: &'static str,
        /// Name of the input or output.
        name: String,
        /// [`ScheduleError::TensorFreed`], [`ScheduleError::WrongCore`] or [`ScheduleError::WrongRuntime`].
        why: Box<ScheduleError>,
    },
    /// The number of elements differs from that of the tensor.
    #[error("{given} elements for a tensor of {expected}, of shape {shape}")]
    WrongLength {
        /// Elements that were given.
        given: u64,
        /// Elements of the tensor.
        expected: u64,
        /// Shape of the tensor.
        shape: Shape,
    },
    /// Two tensors that should have the same shape have not.
    #[error("a tensor of shape {given} where one of shape {expected} is needed")]
    WrongShape {
        /// The shape that was given.
        given: Shape,
        /// The shape that is needed.
        expected: Shape,
    },
    /// The core has no rank in the group.
    #[error("core {core} is not of the group of cores {group:?}")]
    NotInGroup {
        /// The core.
        core: u32,
        /// The cores of the group.
        group: Vec<u32>,
    },
    /// There is no such collective: its tensors do not fit, or there is no memory for it.
    #[error(transparent)]
    Collective(#[from] PlanError),
    /// There is no such tensor operation: its types, ranges or tensors do not fit.
    #[error(transparent)]
    Operation(#[from] InvalidOperation),
    /// The number of tensors differs from what the model takes.
    #[error("model {model} takes {expected} {role} tensors, given {given}")]
    TensorCount {
        /// The model's name.
        model: String,
        /// `input` or `output`.
        role: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A tensor is too small for what the model binds to it.
    #[error("{role} {name} of model {model} takes {expected} bytes, the tensor has {given}")]
    TensorTooSmall {
        /// The model's name.
        model: String,
        /// `input` or `output`.
        role: &'static str,
        /// Name of the input or output.
        name: String,
        /// Bytes that the model binds.
        expected: u64,
        /// Bytes of the tensor.
        given: u64,
    },
}

impl ScheduleError {
    /// What kind of failure it is, and what to do about it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        failure_of(self.status())
    }

    /// Whether the queue was full: wait for room and schedule again.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        matches!(self, Self::Unit(Refusal::QueueFull { .. }))
    }

    /// The status that the C ABI reports for this refusal.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Unit(refusal) => refusal.status(),
            Self::TensorFreed | Self::ModelUnloaded { .. } => Status::INVALID_HANDLE,
            Self::Collective(error) => error.status(),
            Self::CannotBind { why, .. } => why.status(),
            _ => Status::INVALID,
        }
    }
}

/// Why a tensor cannot be bound to what is on `core`. Nothing is said of a queue: there need not be one.
fn unbound(why: &ScheduleError, core: u32) -> String {
    match why {
        ScheduleError::WrongCore { on, .. } => {
            format!("the tensor is on core {on}, the model is on core {core}")
        }
        ScheduleError::WrongRuntime { .. } => "the tensor belongs to another runtime".to_owned(),
        why => why.to_string(),
    }
}

/// A refusal, with the arguments of the refused call.
pub struct Refused<A> {
    /// Why.
    pub reason: ScheduleError,
    /// What was to be scheduled; `None` when the device may hold it ([`Refusal::Commit`]).
    pub args: Option<A>,
}

impl<A> Refused<A> {
    /// What kind of failure it is, and what to do about it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        failure_of(self.status())
    }

    /// Whether the queue was full: wait for room and schedule again.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.reason.is_queue_full()
    }

    /// The status that the C ABI reports for this refusal.
    #[must_use]
    pub fn status(&self) -> Status {
        self.reason.status()
    }

    /// The arguments, to schedule again once there is room.
    ///
    /// # Errors
    /// The refusal itself when the queue was not full: scheduling again would not help.
    pub fn into_retry(self) -> Result<A, Self> {
        match self {
            Self {
                reason,
                args: Some(args),
            } if reason.is_queue_full() => Ok(args),
            refused => Err(refused),
        }
    }

    pub(crate) fn and_then<B>(self, args: impl FnOnce(A) -> Option<B>) -> Refused<B> {
        Refused {
            reason: self.reason,
            args: self.args.and_then(args),
        }
    }

    pub(crate) fn new(reason: impl Into<ScheduleError>, args: A) -> Self {
        Self {
            reason: reason.into(),
            args: Some(args),
        }
    }
}

impl<A> fmt::Debug for Refused<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<A> fmt::Display for Refused<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<A> std::error::Error for Refused<A> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}

/// A request was accepted and did not succeed.
pub struct RequestError<T> {
    /// What it was to do, as the call is named that schedules it (`write_from` is a `write`, `read_into` a `read`): `execute`, `write`, `read`, `copy`, `memset`, `cast`,
    /// `compute`, `fma`, `collective`. `request` where its outcome is lost.
    pub call: &'static str,
    /// Its final status.
    pub status: Status,
    /// Which request.
    pub seq: SeqId,
    /// What went wrong, when more is known than the status says.
    pub detail: Option<String>,
    /// It was skipped ([`Pending::skip`](crate::Pending::skip)): it has not run. The status is `FAILURE` then, for there is
    /// none of its own, or that of the queue where that has broken.
    pub skipped: bool,
    /// What the request gives back all the same: the buffer, or the timings of an execution.
    pub value: Option<T>,
}

impl<T> RequestError<T> {
    /// What kind of failure it is, and what to do about it: [`Failure::Skipped`] for a request that was skipped, unless its
    /// queue has broken.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match failure_of(self.status) {
            Failure::Unspecific if self.skipped => Failure::Skipped,
            failure => failure,
        }
    }

    /// The queue that it was a request of.
    #[must_use]
    pub fn xu(&self) -> XuId {
        self.seq.xu()
    }

    /// The logical core of that queue.
    #[must_use]
    pub fn core(&self) -> u32 {
        u32::from(self.seq.xu().vnc())
    }
}

/// No error has the status of success.
fn failure_of(status: Status) -> Failure {
    Failure::of(status).unwrap_or(Failure::Unspecific)
}

impl<T> fmt::Debug for RequestError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestError")
            .field("call", &self.call)
            .field("status", &self.status)
            .field("seq", &self.seq)
            .field("detail", &self.detail)
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for RequestError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.skipped {
            return write!(f, "{} on {} was skipped", self.call, self.seq);
        }
        write!(
            f,
            "{} on {} failed with {}",
            self.call, self.seq, self.status
        )?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        write!(f, "; to do: {}", self.failure().remedy())
    }
}

impl<T> std::error::Error for RequestError<T> {}
