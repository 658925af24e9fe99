//! Moves between tensors and host memory that the device reaches: nothing is copied on the way.
//!
//! Part of [`TensorOpQueue`]. To the device such a move is a copy between two of its addresses, so it needs neither the bounce
//! buffer nor the worker's hands.

use super::engine::Held;
use super::{Prepare, TensorOpQueue, Transfer};
use crate::error::{Refused, ScheduleError};
use crate::host_buffer::HostBuffer;
use crate::payload::Payload;
use crate::pending::{Call, Pending};
use crate::request::Request;
use crate::tensor::Tensor;
use xu_device::region::Region;
use xu_device::tensor_op::{InvalidOperation, Operation};

/// Makes an operation of the host's region and the tensor's.
type Make = fn(Region, Region) -> Result<Operation, InvalidOperation>;

impl TensorOpQueue {
    /// Schedules a write of all of `from` to `tensor` at byte `offset`. Never blocks. No byte is copied by the host.
    ///
    /// Resolves to `from`, unless the device may still read it when the request ends ([`host_buffer`](crate::host_buffer)).
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], with `from`; a buffer of another runtime.
    pub fn write_from(
        &self,
        tensor: &Tensor,
        offset: u64,
        from: HostBuffer,
    ) -> Result<Pending<HostBuffer>, Refused<HostBuffer>> {
        self.at_once(self.prepare().write_from(tensor, offset, from))
    }

    /// Schedules a read of as many bytes as `into` is long from `tensor` at byte `offset`. Never blocks. No byte is copied by
    /// the host.
    ///
    /// Resolves to `into`, filled, unless the device may still write to it when the request ends.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write_from`], with `into`.
    pub fn read_into(
        &self,
        tensor: &Tensor,
        offset: u64,
        into: HostBuffer,
    ) -> Result<Pending<HostBuffer>, Refused<HostBuffer>> {
        self.at_once(self.prepare().read_into(tensor, offset, into))
    }
}

impl Prepare<'_> {
    /// As [`TensorOpQueue::write_from`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn write_from(
        &self,
        tensor: &Tensor,
        offset: u64,
        from: HostBuffer,
    ) -> Result<Request<HostBuffer>, Refused<HostBuffer>> {
        self.between_host_and(Call::Write, tensor, offset, from, Operation::write_from)
    }

    /// As [`TensorOpQueue::read_into`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn read_into(
        &self,
        tensor: &Tensor,
        offset: u64,
        into: HostBuffer,
    ) -> Result<Request<HostBuffer>, Refused<HostBuffer>> {
        self.between_host_and(Call::Read, tensor, offset, into, |host, tensor| {
            Operation::read_into(tensor, host)
        })
    }

    fn between_host_and(
        &self,
        call: Call,
        tensor: &Tensor,
        offset: u64,
        buffer: HostBuffer,
        operation: Make,
    ) -> Result<Request<HostBuffer>, Refused<HostBuffer>> {
        let transfer = self.host_transfer(call, tensor, offset, &buffer, operation);
        self.request(transfer, Payload::Host(buffer))
    }

    fn host_transfer(
        &self,
        call: Call,
        tensor: &Tensor,
        offset: u64,
        buffer: &HostBuffer,
        operation: Make,
    ) -> Result<Transfer, ScheduleError> {
        let storage = self.hold(tensor)?;
        let what = "host buffer";
        let wrong_runtime = ScheduleError::WrongRuntime { what };
        if !buffer.is_of(self.queue.core.runtime().host_pool()) {
            return Err(wrong_runtime);
        }
        let host = buffer.region().ok_or(wrong_runtime)?;
        tensor.check_range(offset, host.bytes())?;
        let region = storage.region().slice(offset, host.bytes());
        let operation = operation(host, region.map_err(InvalidOperation::from)?)?;
        Ok(Transfer {
            operation: Some(operation),
            call,
            payload: Payload::None,
            storage: Held::One { _storage: storage },
        })
    }
}
