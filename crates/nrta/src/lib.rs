//! A safe, asynchronous facade over the execution-unit lane of a Neuron device.
//!
//! For services that move tensors and run models: schedule a request, get a [`Pending`], and await it, wait
//! for it, or poll it. Scheduling never blocks; a full queue is an ordinary answer that hands the arguments
//! back. Without hardware everything runs on a simulated machine that consumes the same bytes.
//!
//! ```
//! use nrta::{Model, Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().cores(1).open()?;
//! let core = runtime.core(0)?;
//! let digits = core.load(&Model::open("../../examples/digits/model.xum")?, 1)?;
//! let (image, scores, label) =
//!     (digits.allocate_input(0)?, digits.allocate_output(0)?, digits.allocate_output(1)?);
//! let moves = core.tensor_op(0)?;
//!
//! moves.write(&image, 0, vec![0; 64])?.wait()?;
//! core.compute().execute(&digits, &[&image], &[&scores, &label])?.wait()?;
//! let label = moves.read(&label, 0, vec![0; 4])?.wait()?;
//! assert!(label[0] < 10);
//! # Ok(())
//! # }
//! ```
//!
//! Every [`Pending`] is also a future of any executor: `.await` in place of `.wait()`.
//!
//! # Order
//!
//! A core has four queues: two that move tensors, one that computes, one for collectives. Requests of one queue run one at
//! a time, in the order in which they were accepted, and complete in that order.
//! Between queues nothing is implied: wait for a request before scheduling what depends on it elsewhere.
//!
//! # Ownership
//!
//! A request owns everything that the device or the worker touches: buffers, tensors, the model.
//! Dropping a [`Pending`], a [`Tensor`] or a [`LoadedModel`] never pulls memory from under it.
//!
//! # Failure
//!
//! A refused call ([`Refused`]) has changed nothing and hands its arguments back. A request that was accepted and
//! did not succeed is a [`RequestError`] with its own [`Status`]:
//!
//! * `EXEC_COMPLETED_WITH_NUM_ERR` (NaN in a result; the outputs are written), `EXEC_COMPLETED_WITH_ERR` and
//!   `EXEC_OOB` are that request's alone: the queue goes on.
//! * `TIMEOUT`, `EXEC_SW_NQ_OVERFLOW`, hardware errors and `FAILURE` degrade the queue. What is queued behind the
//!   request completes with `EXEC_UNIT_UNRECOVERABLE`, and new requests are refused with the cause
//!   ([`Health`], [`Cause`]). The other queues of the core go on.
//!
//! A degraded queue stays degraded: close the runtime and open another one. Tensors and models belong to the
//! runtime that made them and have to be made again.
//! [`Pending::wait_timeout`] only ends the caller's wait; [`Builder::exec_timeout`] is the limit that ends a request
//! and its queue.
//!
//! | module | subject |
//! |---|---|
//! | [`builder`] | how to open |
//! | [`runtime`] | what is open, and closing it |
//! | [`environment`] | how to open, by variables |
//! | [`settings`] | what it was opened with, and who said so |
//! | [`claims`] | cores that processes share |
//! | [`instance`], [`cpus`] | shapes of the simulated machine; processors of workers |
//! | [`logical_core`] | a core: memory, models, queues |
//! | [`tensor_op`] | write and read tensors |
//! | [`compute`] | run models |
//! | [`collectives`] | all-gather, all-reduce, reduce-scatter |
//! | [`any_queue`] | a queue of any kind, by its id |
//! | [`pending`] | an accepted request |
//! | [`request`] | a request that is prepared and not scheduled |
//! | [`reserve`] | a place in a queue, before there is a request |
//! | [`batch`] | many requests at once |
//! | [`after`] | one request when another has succeeded |
//! | [`payload`] | host memory that requests own |
//! | [`host_buffer`] | host memory that the device reaches |
//! | [`events`] | eventfds that are signalled |
//! | [`completions`] | a queue's progress as a stream |
//! | [`wait`] | wait for a sequence, and all before it |
//! | `reactor` | completions in tokio's reactor (feature `tokio`) |
//! | [`watch`] | be told when a queue closes or degrades |
//! | [`blocking`] | the streams of both for a thread |
//! | [`tensor`], [`shape`] | memory of a core, with and without a type |
//! | [`model`], [`bindings`] | a loaded model, and the tensors that it runs on |
//! | [`simulated`] | the simulated machine, and its faults on purpose |
//! | [`device`] | a device, and what its errors name |
//! | `neuron` | the kernel driver, for whoever looks after devices (feature `real-driver`) |
//! | [`spans`] | events for `tracing` |
//! | `exporter` | counters and gauges for the `metrics` facade (feature `metrics`) |
//! | [`error`], [`failure`] | what can go wrong, and what to do about it |
#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a refusal hands the request back as it is: a box would cost every request an allocation"
)]

pub mod after;
pub mod any_queue;
pub mod batch;
pub mod bindings;
pub mod blocking;
pub mod builder;
pub mod claims;
pub mod collectives;
pub mod completions;
pub mod compute;
pub mod cpus;
pub mod environment;
pub mod error;
pub mod events;
#[cfg(feature = "metrics")]
pub mod exporter;
pub mod failure;
pub mod host_buffer;
mod inherited;
pub mod instance;
mod lane;
pub mod logical_core;
pub mod model;
mod own_device;
pub mod payload;
pub mod pending;
mod queue;
#[cfg(feature = "tokio")]
pub mod reactor;
pub mod request;
pub mod reserve;
pub mod runtime;
pub mod settings;
pub mod shape;
pub mod spans;
pub mod tensor;
pub mod tensor_op;
pub mod wait;
pub mod watch;

/// A device as this crate uses it: what [`Device`], [`DeviceError`] and [`InvalidOperation`] are made of.
pub mod device {
    pub use xu_device::region::OutOfRange;
    pub use xu_device::{
        Clock, Device, DeviceAddr, DeviceError, DmaQueue, Head, MemoryErrors, MemoryUse, Place,
        SemIndex, Shape,
    };
}

/// What can go wrong with the simulated machine on purpose, as data (`docs/machine.md`); and the machine itself, for whoever
/// brings one of their own, such as one in virtual time, to [`Builder::device`].
#[cfg(feature = "simulated")]
pub mod simulated {
    pub use xu_abi::Engine;
    pub use xu_device::simulated::{
        Costs, Fault, FaultPlan, Injection, Machine, MachineConfig, Mark, Rule, Time, When,
    };
}

/// The kernel driver behind `/dev/neuronN`, for whoever looks after devices: its calls, what it says of itself, and every fact
/// about it that no device has confirmed. Programs that run models have no use for it.
#[cfg(feature = "real-driver")]
pub mod neuron {
    pub use xu_abi::descriptor;
    pub use xu_abi::driver as abi;
    pub use xu_abi::{EventIndex, SemIndex};
    pub use xu_device::map;
    pub use xu_device::neuron::*;
}

pub use after::{Chain, ChainError};
pub use any_queue::AnyQueue;
pub use batch::Batch;
pub use bindings::Bindings;
pub use blocking::Blocking;
pub use builder::Builder;
pub use claims::Busy;
pub use collectives::{CollectivesQueue, Group, Prepared};
pub use completions::Completions;
pub use compute::{ComputeQueue, Execution};
pub use cpus::CpuSet;
pub use error::{Error, Refused, RequestError, ScheduleError};
pub use events::{EventError, Subscription};
pub use failure::Failure;
pub use host_buffer::{HostBuffer, HostBufferError};
pub use instance::Instance;
pub use logical_core::Core;
pub use model::{LoadedModel, ModelInfo, TensorInfo};
pub use payload::{Element, ElementSource, ElementTarget, Source, Target, bf16, f16};
pub use pending::{Pending, Returned};
pub use request::{RefusedBatch, Request};
pub use reserve::Place;
pub use runtime::Runtime;
pub use settings::{Backend, NumericalErrors, Origin, Setting, Settings};
pub use shape::Shape;
pub use tensor::{Kind, Tensor, Untyped};
pub use tensor_op::TensorOpQueue;
pub use wait::{WaitError, WaitFor};
pub use watch::{HealthChange, HealthWatch};

pub use xu_abi::metric::CoreCounter;
pub use xu_abi::{Cursor, OutOfRange, SeqId, Status, TpbIndex, XuId, XuType};
pub use xu_device::collectives::{Collective, PlanError, UnknownCollective};
pub use xu_device::elementwise::{Dtype, ReduceOp, UnknownDtype, UnknownReduceOp};
pub use xu_device::metrics::{NoSuchCore, Snapshot as Counters};
pub use xu_device::stage::SkipConfig;
pub use xu_device::tensor_op::InvalidOperation;
pub use xu_device::{Device, DeviceError, MemoryUse};
pub use xu_model::{LoadError, Model, ModelError, TensorSpec, ValueType};
pub use xu_ring::queue::NeverIssued;
pub use xu_worker::{
    AppEvent, AskError, Cause, CloseError, CompletionEvent, EventId, Health, InFlight, Latencies,
    NotAnEventFd, NotDelivered, PollPolicy, QueueSnapshot, Refusal, Registered, Report, Skip,
    UnitError, WorkerError,
};
