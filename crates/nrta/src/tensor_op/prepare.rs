//! Checks of tensor-op requests: from what a caller says to what the worker performs.
//!
//! Every request of a [`TensorOpQueue`] is made here, whether it is scheduled at once or later. What is refused has changed
//! nothing. Spec: `c-api.md` sections 6.1 and 6.6.

use super::TensorOpQueue;
use super::engine::{Held, Transfer};
use crate::error::{Refused, ScheduleError};
use crate::payload::{ElementSource, ElementTarget, Payload, Source, Target};
use crate::pending::{Call, Returned};
use crate::request::{Home, Request};
use crate::tensor::{Storage, Tensor};
use core::fmt;
use std::sync::Arc;
use xu_device::elementwise::{Dtype, ReduceOp};
use xu_device::region::Region;
use xu_device::tensor_op::{InvalidOperation, Operation};

/// Prepares requests for the tensor-op queues of one core. Made by [`TensorOpQueue::prepare`].
///
/// Its methods are those of the queue, and give a [`Request`] where the queue gives a [`Pending`](crate::Pending).
#[derive(Clone, Copy)]
#[must_use = "it has prepared nothing yet"]
pub struct Prepare<'q> {
    pub(super) queue: &'q TensorOpQueue,
}

impl<'q> Prepare<'q> {
    pub(super) fn new(queue: &'q TensorOpQueue) -> Self {
        Self { queue }
    }

    /// As [`TensorOpQueue::write`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn write<B: Source>(
        &self,
        tensor: &Tensor,
        offset: u64,
        bytes: B,
    ) -> Result<Request<B>, Refused<B>> {
        self.write_payload(tensor, offset, bytes.into_payload())
    }

    /// As [`TensorOpQueue::read`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn read<B: Target>(
        &self,
        tensor: &Tensor,
        offset: u64,
        into: B,
    ) -> Result<Request<B>, Refused<B>> {
        self.read_payload(tensor, offset, into.into_payload())
    }

    /// As [`TensorOpQueue::write_elements`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn write_elements<S: ElementSource>(
        &self,
        tensor: &Tensor,
        first: u64,
        elements: S,
    ) -> Result<Request<S>, Refused<S>> {
        let offset = byte_offset::<S::Element>(first);
        self.write_payload(tensor, offset, elements.into_payload())
    }

    /// As [`TensorOpQueue::read_elements`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn read_elements<S: ElementTarget>(
        &self,
        tensor: &Tensor,
        first: u64,
        into: S,
    ) -> Result<Request<S>, Refused<S>> {
        let offset = byte_offset::<S::Element>(first);
        self.read_payload(tensor, offset, into.into_payload())
    }

    /// As [`TensorOpQueue::copy`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn copy(
        &self,
        from: &Tensor,
        from_offset: u64,
        to: &Tensor,
        to_offset: u64,
        bytes: u64,
    ) -> Result<Request<()>, Refused<()>> {
        self.between(Call::Copy, from, to, |from, to| {
            Operation::copy(from.slice(from_offset, bytes)?, to.slice(to_offset, bytes)?)
        })
    }

    /// As [`TensorOpQueue::memset`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn memset(
        &self,
        tensor: &Tensor,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<Request<()>, Refused<()>> {
        let transfer = self.hold(tensor).and_then(|storage| {
            let region = storage.region().slice(offset, bytes);
            let operation = Operation::memset(region.map_err(InvalidOperation::from)?, value)?;
            Ok(on_device(
                Call::Memset,
                operation,
                Held::One { _storage: storage },
            ))
        });
        self.request(transfer, Payload::None)
    }

    /// As [`TensorOpQueue::cast`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn cast(
        &self,
        from: &Tensor,
        from_dtype: Dtype,
        to: &Tensor,
        to_dtype: Dtype,
        elements: u64,
    ) -> Result<Request<()>, Refused<()>> {
        self.between(Call::Cast, from, to, |from, to| {
            Operation::cast(from, from_dtype, to, to_dtype, elements)
        })
    }

    /// As [`TensorOpQueue::compute`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn compute(
        &self,
        op: ReduceOp,
        dtype: Dtype,
        sources: &[&Tensor],
        to: &Tensor,
        elements: u64,
    ) -> Result<Request<()>, Refused<()>> {
        let hold = || {
            let mut storage = Vec::with_capacity(sources.len() + 1);
            for source in sources {
                storage.push(self.hold(source)?);
            }
            let regions = storage.iter().map(|storage| storage.region()).collect();
            let target = self.hold(to)?;
            let operation = Operation::compute(op, dtype, regions, target.region(), elements)?;
            storage.push(target);
            Ok(on_device(
                Call::Compute,
                operation,
                Held::Many { _storage: storage },
            ))
        };
        self.request(hold(), Payload::None)
    }

    /// As [`TensorOpQueue::fma`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn fma(
        &self,
        dtype: Dtype,
        [a, b, c]: [&Tensor; 3],
        to: &Tensor,
        elements: u64,
    ) -> Result<Request<()>, Refused<()>> {
        let hold = || {
            let storage = [self.hold(a)?, self.hold(b)?, self.hold(c)?];
            let factors = storage.each_ref().map(|storage| storage.region());
            let target = self.hold(to)?;
            let operation = Operation::fma(dtype, factors, target.region(), elements)?;
            let mut storage = Vec::from(storage);
            storage.push(target);
            Ok(on_device(
                Call::Fma,
                operation,
                Held::Many { _storage: storage },
            ))
        };
        self.request(hold(), Payload::None)
    }

    pub(super) fn write_payload<T: Returned<Raw = Payload>>(
        &self,
        tensor: &Tensor,
        offset: u64,
        payload: Payload,
    ) -> Result<Request<T>, Refused<T>> {
        self.carry(Call::Write, Operation::write, tensor, offset, payload)
    }

    pub(super) fn read_payload<T: Returned<Raw = Payload>>(
        &self,
        tensor: &Tensor,
        offset: u64,
        payload: Payload,
    ) -> Result<Request<T>, Refused<T>> {
        self.carry(Call::Read, Operation::read, tensor, offset, payload)
    }

    /// A request that moves `payload`.
    fn carry<T: Returned<Raw = Payload>>(
        &self,
        call: Call,
        operation: fn(Region) -> Result<Operation, InvalidOperation>,
        tensor: &Tensor,
        offset: u64,
        payload: Payload,
    ) -> Result<Request<T>, Refused<T>> {
        let bytes = payload.bytes().len() as u64;
        let transfer = self.hold(tensor).and_then(|storage| {
            tensor.check_range(offset, bytes)?;
            let region = storage
                .region()
                .slice(offset, bytes)
                .map_err(InvalidOperation::from)?;
            Ok(Transfer {
                operation: Some(operation(region)?),
                call,
                payload: Payload::None,
                storage: Held::One { _storage: storage },
            })
        });
        self.request(transfer, payload)
    }

    /// A request on two tensors that moves nothing between host and device.
    fn between(
        &self,
        call: Call,
        from: &Tensor,
        to: &Tensor,
        operation: impl FnOnce(Region, Region) -> Result<Operation, InvalidOperation>,
    ) -> Result<Request<()>, Refused<()>> {
        let hold = || {
            let storage = [self.hold(from)?, self.hold(to)?];
            let operation = operation(storage[0].region(), storage[1].region())?;
            Ok(on_device(call, operation, Held::Two { _storage: storage }))
        };
        self.request(hold(), Payload::None)
    }

    pub(super) fn hold(&self, tensor: &Tensor) -> Result<Arc<Storage>, ScheduleError> {
        let core = &self.queue.core;
        core.check_state(self.queue.xu())?;
        tensor.storage_for(core.runtime(), core.index())
    }

    pub(super) fn request<T: Returned<Raw = Payload>>(
        &self,
        transfer: Result<Transfer, ScheduleError>,
        payload: Payload,
    ) -> Result<Request<T>, Refused<T>> {
        match transfer {
            Ok(transfer) => {
                let transfer = Transfer {
                    payload,
                    ..transfer
                };
                Ok(Request::new(Home::of(&self.queue.core), transfer))
            }
            Err(reason) => Err(Refused {
                reason,
                args: T::from_raw(payload),
            }),
        }
    }
}

impl Transfer {
    /// The memory of a request that nobody performs.
    pub(crate) fn into_payload(self) -> Payload {
        self.payload
    }
}

impl fmt::Debug for Prepare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepare")
            .field("queue", self.queue)
            .finish()
    }
}

fn on_device(call: Call, operation: Operation, storage: Held) -> Transfer {
    Transfer {
        operation: Some(operation),
        call,
        payload: Payload::None,
        storage,
    }
}

/// Beyond every tensor when it has no 64 bits.
fn byte_offset<T>(first: u64) -> u64 {
    first.saturating_mul(size_of::<T>() as u64)
}
