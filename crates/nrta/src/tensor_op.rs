//! Tensor-op queues: move tensors and compute on them, in order, one request at a time.
//!
//! [`TensorOpQueue`] is the caller's side, and [`Prepare`] checks what it is asked for; the engine performs one chunk per look on the worker thread, so a
//! large transfer does not hold up the other queues of its core.
//! Spec: `c-api.md` sections 6.1 and 6.6, `xu.md` section 4.

mod engine;
mod host;
mod prepare;
mod typed;

pub(crate) use engine::{Transfer, TransferEngine, TransferStage};
pub use prepare::Prepare;

use crate::error::Refused;
use crate::logical_core::Core;
use crate::payload::{ElementSource, ElementTarget, Payload, Source, Target};
use crate::pending::{Pending, Returned};
use crate::request::Request;
use crate::tensor::Tensor;
use xu_device::elementwise::{Dtype, ReduceOp};
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
    pub(crate) core: Core,
    index: u8,
}

impl TensorOpQueue {
    pub(crate) fn new(core: Core, index: u8) -> Self {
        Self { core, index }
    }

    /// Begins a request that is checked now and scheduled later.
    pub fn prepare(&self) -> Prepare<'_> {
        Prepare::new(self)
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
        self.at_once(self.prepare().write(tensor, offset, bytes))
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
        self.at_once(self.prepare().read(tensor, offset, into))
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
        self.at_once(self.prepare().write_elements(tensor, first, elements))
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
        self.at_once(self.prepare().read_elements(tensor, first, into))
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
        self.at_once(self.prepare().copy(from, from_offset, to, to_offset, bytes))
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
        self.at_once(self.prepare().memset(tensor, offset, bytes, value))
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
        self.at_once(
            self.prepare()
                .cast(from, from_dtype, to, to_dtype, elements),
        )
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
        self.at_once(self.prepare().compute(op, dtype, sources, to, elements))
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
        self.at_once(self.prepare().fma(dtype, [a, b, c], to, elements))
    }

    /// As [`TensorOpQueue::write`], but waits for a place while the queue is full.
    ///
    /// # Errors
    /// As [`TensorOpQueue::write`], except that the queue is full.
    pub async fn write_when_room<B: Source>(
        &self,
        tensor: &Tensor,
        offset: u64,
        bytes: B,
    ) -> Result<Pending<B>, Refused<B>> {
        let request = self.prepare().write(tensor, offset, bytes)?;
        let scheduled = self.schedule_when_room(request).await;
        scheduled.map_err(|refused| refused.and_then(Request::into_buffer))
    }

    /// As [`TensorOpQueue::read`], but waits for a place while the queue is full.
    ///
    /// # Errors
    /// As [`TensorOpQueue::read`], except that the queue is full.
    pub async fn read_when_room<B: Target>(
        &self,
        tensor: &Tensor,
        offset: u64,
        into: B,
    ) -> Result<Pending<B>, Refused<B>> {
        let request = self.prepare().read(tensor, offset, into)?;
        let scheduled = self.schedule_when_room(request).await;
        scheduled.map_err(|refused| refused.and_then(Request::into_buffer))
    }

    /// Schedules what was prepared, and gives its buffer back where that is refused.
    fn at_once<T: Returned<Raw = Payload>>(
        &self,
        prepared: Result<Request<T>, Refused<T>>,
    ) -> Result<Pending<T>, Refused<T>> {
        let unit = self.unit();
        let scheduled = prepared?.hand_over(|item| unit.submit(item));
        scheduled.map_err(|refused| refused.and_then(Request::into_buffer))
    }

    pub(crate) fn unit(&self) -> &Unit<TransferStage> {
        self.core.transfer_unit(self.index)
    }
}

crate::queue::queue_methods!(TensorOpQueue);
crate::queue::schedule_methods!(TensorOpQueue, [T: Returned<Raw = Payload>] T);
