//! Tensor-op queues: move tensors and compute on them, in order, one request at a time.
//!
//! [`TensorOpQueue`] is the caller's side; the engine performs one chunk per look on the worker thread, so a
//! large transfer does not hold up the other queues of its core.
//! Spec: `c-api.md` sections 6.1 and 6.6, `xu.md` section 4.

mod engine;
mod host;

pub(crate) use engine::{Transfer, TransferEngine, TransferStage};

use crate::error::{Refused, ScheduleError};
use crate::logical_core::Core;
use crate::payload::{ElementSource, ElementTarget, Payload, Source, Target};
use crate::pending::{Pending, Returned};
use crate::tensor::{Storage, Tensor};
use engine::{Direction, Held};
use std::sync::Arc;
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::region::Region;
use xu_device::tensor_op::{InvalidOperation, Operation};
use xu_worker::Unit;

/// One of a core's two queues that move tensors and compute on them.
///
/// Tensors have no type here: elements are little-endian, matrices row-major, and the samples of a batch lie one
/// after the other.
///
/// Requests on one queue run in the order in which they were accepted. Nothing is implied between two
/// queues: wait for a write before scheduling what reads it elsewhere.
///
/// ```
/// use nrta::{Dtype, ReduceOp, Runtime, bf16};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder().open()?;
/// let core = runtime.core(0)?;
/// let moves = core.tensor_op(0)?;
/// let (a, b, sum) = (core.allocate(16)?, core.allocate(16)?, core.allocate(16)?);
/// let small = core.allocate(8)?;
///
/// // One queue is in order: only the last request has to be waited for.
/// moves.write_elements(&a, 0, vec![1.0f32, 2.0, 3.0, 4.0])?.detach();
/// moves.write_elements(&b, 0, vec![10.0f32; 4])?.detach();
/// moves.compute(ReduceOp::Add, Dtype::Float32, &[&a, &b], &sum, 4)?.detach();
/// moves.cast(&sum, Dtype::Float32, &small, Dtype::Bfloat16, 4)?.detach();
/// let back = moves.read_elements(&small, 0, vec![bf16::ZERO; 4])?.wait()?;
/// assert_eq!(back, [11.0, 12.0, 13.0, 14.0].map(bf16::from_f32));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TensorOpQueue {
    core: Core,
    index: u8,
}

impl TensorOpQueue {
    pub(crate) fn new(core: Core, index: u8) -> Self {
        Self { core, index }
    }

    /// Schedules a write of `bytes` to `tensor` at byte `offset`. Never blocks.
    ///
    /// Resolves to `bytes`, so that the buffer can be used again. Writing nothing is a request like any other.
    ///
    /// # Errors
    /// [`Refused`], with `bytes`: the range passes the end, the tensor was freed or is on another core, or
    /// the queue takes no request now.
    pub fn write<B: Source>(
        &self,
        tensor: &Tensor,
        offset: u64,
        bytes: B,
    ) -> Result<Pending<B>, Refused<B>> {
        self.write_payload(tensor, offset, bytes.into_payload())
    }

    /// Schedules a read of as many bytes as `into` is long from `tensor` at byte `offset`. Never blocks.
    ///
    /// Resolves to `into`, filled.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], with `into`.
    pub fn read<B: Target>(
        &self,
        tensor: &Tensor,
        offset: u64,
        into: B,
    ) -> Result<Pending<B>, Refused<B>> {
        self.read_payload(tensor, offset, into.into_payload())
    }

    /// As [`TensorOpQueue::write`], for numbers; `first` counts elements and not bytes.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], with `elements`.
    pub fn write_elements<S: ElementSource>(
        &self,
        tensor: &Tensor,
        first: u64,
        elements: S,
    ) -> Result<Pending<S>, Refused<S>> {
        let offset = byte_offset::<S::Element>(first);
        self.write_payload(tensor, offset, elements.into_payload())
    }

    /// As [`TensorOpQueue::read`], for numbers; `first` counts elements and not bytes.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], with `into`.
    pub fn read_elements<S: ElementTarget>(
        &self,
        tensor: &Tensor,
        first: u64,
        into: S,
    ) -> Result<Pending<S>, Refused<S>> {
        let offset = byte_offset::<S::Element>(first);
        self.read_payload(tensor, offset, into.into_payload())
    }

    /// Schedules a copy of `bytes` bytes between two tensors of this core, or within one, from byte `from_offset` to byte
    /// `to_offset`. Never blocks. The bytes stay on the device.
    ///
    /// # Errors
    /// [`Refused`]: a range passes the end, the ranges overlap and are not the same, a tensor was freed or is on another
    /// core, or the queue takes no request now.
    pub fn copy(
        &self,
        from: &Tensor,
        from_offset: u64,
        to: &Tensor,
        to_offset: u64,
        bytes: u64,
    ) -> Result<Pending<()>, Refused<()>> {
        self.between(from, to, |from, to| {
            Operation::copy(from.slice(from_offset, bytes)?, to.slice(to_offset, bytes)?)
        })
    }

    /// Schedules setting `bytes` bytes of `tensor` from byte `offset` on to `value`. Never blocks.
    ///
    /// # Errors
    /// As [`TensorOpQueue::copy`].
    pub fn memset(
        &self,
        tensor: &Tensor,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<Pending<()>, Refused<()>> {
        let transfer = self.hold(tensor).and_then(|storage| {
            let region = storage.region().slice(offset, bytes);
            let operation = Operation::memset(region.map_err(InvalidOperation::from)?, value)?;
            Ok(on_device(operation, Held::One { _storage: storage }))
        });
        self.submit(transfer, Payload::None)
    }

    /// Schedules a conversion of the first `elements` elements of `from` to those of `to`. Never blocks.
    ///
    /// Rounds to nearest, ties to even. A float becomes an integer towards zero and saturates, NaN becomes 0; an integer
    /// becomes a narrower one by losing its upper bits; 8-bit floats saturate to the largest finite value.
    ///
    /// # Errors
    /// As [`TensorOpQueue::copy`]; a tensor that holds fewer elements.
    pub fn cast(
        &self,
        from: &Tensor,
        from_dtype: Dtype,
        to: &Tensor,
        to_dtype: Dtype,
        elements: u64,
    ) -> Result<Pending<()>, Refused<()>> {
        self.between(from, to, |from, to| {
            Operation::cast(from, from_dtype, to, to_dtype, elements)
        })
    }

    /// Schedules combining the first `elements` elements of all `sources` into `to`, from the first source to the last.
    /// Never blocks.
    ///
    /// One source is a copy; `to` may be one of the sources. Integers wrap; NaN wins over numbers; 16-bit floats are
    /// combined as 32-bit ones and rounded after each source.
    ///
    /// # Errors
    /// As [`TensorOpQueue::cast`]; no source.
    pub fn compute(
        &self,
        op: ReduceOp,
        dtype: Dtype,
        sources: &[&Tensor],
        to: &Tensor,
        elements: u64,
    ) -> Result<Pending<()>, Refused<()>> {
        let hold = || {
            let mut storage = Vec::with_capacity(sources.len() + 1);
            for source in sources {
                storage.push(self.hold(source)?);
            }
            let regions = storage.iter().map(|storage| storage.region()).collect();
            let target = self.hold(to)?;
            let operation = Operation::compute(op, dtype, regions, target.region(), elements)?;
            storage.push(target);
            Ok(on_device(operation, Held::Many { _storage: storage }))
        };
        self.submit(hold(), Payload::None)
    }

    /// Schedules `to = a * b + c` over the first `elements` elements, rounded once. Floats only. Never blocks.
    ///
    /// # Errors
    /// As [`TensorOpQueue::cast`]; a type that is not a float's.
    pub fn fma(
        &self,
        dtype: Dtype,
        [a, b, c]: [&Tensor; 3],
        to: &Tensor,
        elements: u64,
    ) -> Result<Pending<()>, Refused<()>> {
        let hold = || {
            let storage = [self.hold(a)?, self.hold(b)?, self.hold(c)?];
            let factors = storage.each_ref().map(|storage| storage.region());
            let target = self.hold(to)?;
            let operation = Operation::fma(dtype, factors, target.region(), elements)?;
            let mut storage = Vec::from(storage);
            storage.push(target);
            Ok(on_device(operation, Held::Many { _storage: storage }))
        };
        self.submit(hold(), Payload::None)
    }

    /// As [`TensorOpQueue::write`], but waits for room while the queue is full.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], except that the queue is full.
    pub async fn write_when_room<B: Source>(
        &self,
        tensor: &Tensor,
        offset: u64,
        mut bytes: B,
    ) -> Result<Pending<B>, Refused<B>> {
        loop {
            match self
                .write(tensor, offset, bytes)
                .map_err(Refused::into_retry)
            {
                Ok(pending) => return Ok(pending),
                Err(retry) => bytes = retry?,
            }
            self.room().await;
        }
    }

    /// As [`TensorOpQueue::read`], but waits for room while the queue is full.
    ///
    /// # Errors
    /// As [`TensorOpQueue::read`], except that the queue is full.
    pub async fn read_when_room<B: Target>(
        &self,
        tensor: &Tensor,
        offset: u64,
        mut into: B,
    ) -> Result<Pending<B>, Refused<B>> {
        loop {
            match self.read(tensor, offset, into).map_err(Refused::into_retry) {
                Ok(pending) => return Ok(pending),
                Err(retry) => into = retry?,
            }
            self.room().await;
        }
    }

    fn write_payload<T: Returned<Raw = Payload>>(
        &self,
        tensor: &Tensor,
        offset: u64,
        payload: Payload,
    ) -> Result<Pending<T>, Refused<T>> {
        self.carry(
            Direction::ToDevice,
            Operation::write,
            tensor,
            offset,
            payload,
        )
    }

    fn read_payload<T: Returned<Raw = Payload>>(
        &self,
        tensor: &Tensor,
        offset: u64,
        payload: Payload,
    ) -> Result<Pending<T>, Refused<T>> {
        self.carry(Direction::ToHost, Operation::read, tensor, offset, payload)
    }

    /// A request that moves `payload`.
    fn carry<T: Returned<Raw = Payload>>(
        &self,
        direction: Direction,
        operation: fn(Region) -> Result<Operation, InvalidOperation>,
        tensor: &Tensor,
        offset: u64,
        payload: Payload,
    ) -> Result<Pending<T>, Refused<T>> {
        let bytes = payload.bytes().len() as u64;
        let transfer = self.hold(tensor).and_then(|storage| {
            tensor.check_range(offset, bytes)?;
            let region = storage
                .region()
                .slice(offset, bytes)
                .map_err(InvalidOperation::from)?;
            Ok(Transfer {
                operation: Some(operation(region)?),
                direction,
                payload: Payload::None,
                storage: Held::One { _storage: storage },
            })
        });
        self.submit(transfer, payload)
    }

    /// A request on two tensors that moves nothing between host and device.
    fn between(
        &self,
        from: &Tensor,
        to: &Tensor,
        operation: impl FnOnce(Region, Region) -> Result<Operation, InvalidOperation>,
    ) -> Result<Pending<()>, Refused<()>> {
        let hold = || {
            let storage = [self.hold(from)?, self.hold(to)?];
            let operation = operation(storage[0].region(), storage[1].region())?;
            Ok(on_device(operation, Held::Two { _storage: storage }))
        };
        self.submit(hold(), Payload::None)
    }

    fn hold(&self, tensor: &Tensor) -> Result<Arc<Storage>, ScheduleError> {
        self.core.check_process(self.xu())?;
        tensor.storage_for(self.core.runtime(), self.core.index())
    }

    fn submit<T: Returned<Raw = Payload>>(
        &self,
        transfer: Result<Transfer, ScheduleError>,
        payload: Payload,
    ) -> Result<Pending<T>, Refused<T>> {
        let refused = |reason, payload| Refused {
            reason,
            args: T::from_raw(payload),
        };
        let transfer = match transfer {
            Ok(transfer) => Transfer {
                payload,
                ..transfer
            },
            Err(reason) => return Err(refused(reason, payload)),
        };
        self.unit()
            .submit(transfer)
            .map(Pending::new)
            .map_err(|error| Refused {
                reason: error.reason.into(),
                args: error
                    .item
                    .and_then(|transfer| T::from_raw(transfer.payload)),
            })
    }

    pub(crate) fn unit(&self) -> &Unit<TransferStage> {
        self.core.transfer_unit(self.index)
    }
}

crate::queue::queue_methods!(TensorOpQueue);

fn on_device(operation: Operation, storage: Held) -> Transfer {
    Transfer {
        operation: Some(operation),
        direction: Direction::OnDevice,
        payload: Payload::None,
        storage,
    }
}

/// Beyond every tensor when it has no 64 bits.
fn byte_offset<T>(first: u64) -> u64 {
    first.saturating_mul(size_of::<T>() as u64)
}
