//! Requests on whole typed tensors: types and sizes come from the tensors.
//!
//! The methods of [`Prepare`] that name bytes and types are what these come down to; those of [`TensorOpQueue`] are preparing
//! and scheduling in one.

use super::{Prepare, TensorOpQueue};
use crate::error::{Refused, ScheduleError};
use crate::payload::{Element, ElementSource, ElementTarget, Payload};
use crate::pending::{Pending, Returned};
use crate::request::Request;
use crate::shape::Shape;
use crate::tensor::Tensor;
use xu_device::elementwise::ReduceOp;

/// Requests on whole typed tensors. For a part of one take its [`rows`](Tensor::rows).
///
/// ```
/// use nrta::{ReduceOp, Runtime, bf16};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder().open()?;
/// let core = runtime.core(0)?;
/// let moves = core.tensor_op(0)?;
/// let [a, b, sum] = [(); 3].map(|()| core.tensor::<f32>(&[2, 2]));
/// let (a, b, sum, half) = (a?, b?, sum?, core.tensor::<bf16>(&[2, 2])?);
///
/// moves.write_all(&a, vec![1.0, 2.0, 3.0, 4.0])?.detach();
/// moves.write_all(&b, [10.0; 4])?.detach();
/// moves.compute_all(ReduceOp::Add, &[&a, &b], &sum)?.detach();
/// moves.cast_all(&sum, &half)?.detach();
/// assert_eq!(moves.read_all(&half)?.wait()?, [11.0, 12.0, 13.0, 14.0].map(bf16::from_f32));
/// # Ok(())
/// # }
/// ```
impl TensorOpQueue {
    /// Schedules a write of every element. Never blocks. Resolves to `elements`.
    ///
    /// # Errors
    /// [`Refused`], with `elements`: there are more or fewer of them than the tensor has; as [`TensorOpQueue::write`].
    pub fn write_all<T: Element, S: ElementSource<Element = T>>(
        &self,
        tensor: &Tensor<T>,
        elements: S,
    ) -> Result<Pending<S>, Refused<S>> {
        self.at_once(self.prepare().write_all(tensor, elements))
    }

    /// Schedules a read of every element into memory of its own. Never blocks.
    ///
    /// # Errors
    /// As [`TensorOpQueue::read`].
    pub fn read_all<T: Element>(
        &self,
        tensor: &Tensor<T>,
    ) -> Result<Pending<Vec<T>>, Refused<Vec<T>>> {
        self.at_once(self.prepare().read_all(tensor))
    }

    /// Schedules a read of every element into `into`, which is as long. Never blocks. Resolves to `into`.
    ///
    /// # Errors
    /// [`Refused`], with `into`: it is longer or shorter than the tensor; as [`TensorOpQueue::read`].
    pub fn read_all_into<T: Element, S: ElementTarget<Element = T>>(
        &self,
        tensor: &Tensor<T>,
        into: S,
    ) -> Result<Pending<S>, Refused<S>> {
        self.at_once(self.prepare().read_all_into(tensor, into))
    }

    /// Schedules a copy of a whole tensor. Never blocks.
    ///
    /// # Errors
    /// [`Refused`]: the shapes differ; as [`TensorOpQueue::copy`].
    pub fn copy_all<T: Element>(
        &self,
        from: &Tensor<T>,
        to: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once(self.prepare().copy_all(from, to))
    }

    /// Schedules a conversion of every element. Never blocks.
    ///
    /// # Errors
    /// [`Refused`]: the shapes differ; as [`TensorOpQueue::cast`].
    pub fn cast_all<T: Element, U: Element>(
        &self,
        from: &Tensor<T>,
        to: &Tensor<U>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once(self.prepare().cast_all(from, to))
    }

    /// Schedules combining all `sources` into `to`, element by element. Never blocks.
    ///
    /// # Errors
    /// [`Refused`]: the shapes differ, or there is no source; as [`TensorOpQueue::compute`].
    pub fn compute_all<T: Element>(
        &self,
        op: ReduceOp,
        sources: &[&Tensor<T>],
        to: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once(self.prepare().compute_all(op, sources, to))
    }

    /// Schedules `to = a * b + c`, element by element, rounded once. Never blocks.
    ///
    /// # Errors
    /// [`Refused`]: the shapes differ; as [`TensorOpQueue::fma`].
    pub fn fma_all<T: Element>(
        &self,
        factors: [&Tensor<T>; 3],
        to: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once(self.prepare().fma_all(factors, to))
    }
}

/// Requests on whole typed tensors.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = nrta::Runtime::builder().open()?;
/// # let core = runtime.core(0)?;
/// let moves = core.tensor_op(0)?;
/// let (pixels, floats) = (core.tensor::<u8>(&[2, 3])?, core.tensor::<f32>(&[2, 3])?);
/// let write = moves.prepare().write_all(&pixels, [1, 2, 3, 4, 5, 6])?;
/// let cast = moves.prepare().cast_all(&pixels, &floats)?;
/// let read = moves.prepare().read_all(&floats)?;
///
/// moves.schedule(write)?.detach();
/// moves.schedule(cast)?.detach();
/// assert_eq!(moves.schedule(read)?.wait()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// # Ok(())
/// # }
/// ```
impl Prepare<'_> {
    /// As [`TensorOpQueue::write_all`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn write_all<T: Element, S: ElementSource<Element = T>>(
        &self,
        tensor: &Tensor<T>,
        elements: S,
    ) -> Result<Request<S>, Refused<S>> {
        let payload = elements.into_payload();
        match self.check_length(tensor, &payload) {
            Ok(()) => self.write_payload(tensor, 0, payload),
            Err(reason) => refused(reason, payload),
        }
    }

    /// As [`TensorOpQueue::read_all`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn read_all<T: Element>(
        &self,
        tensor: &Tensor<T>,
    ) -> Result<Request<Vec<T>>, Refused<Vec<T>>> {
        // CAST: a tensor that exists is smaller than the memory of this machine or of a device.
        self.read_elements(tensor, 0, vec![T::default(); tensor.elements() as usize])
    }

    /// As [`TensorOpQueue::read_all_into`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn read_all_into<T: Element, S: ElementTarget<Element = T>>(
        &self,
        tensor: &Tensor<T>,
        into: S,
    ) -> Result<Request<S>, Refused<S>> {
        let payload = into.into_payload();
        match self.check_length(tensor, &payload) {
            Ok(()) => self.read_payload(tensor, 0, payload),
            Err(reason) => refused(reason, payload),
        }
    }

    /// As [`TensorOpQueue::copy_all`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn copy_all<T: Element>(
        &self,
        from: &Tensor<T>,
        to: &Tensor<T>,
    ) -> Result<Request<()>, Refused<()>> {
        self.check_shapes([from.shape()], to.shape())?;
        self.copy(from, 0, to, 0, from.bytes())
    }

    /// As [`TensorOpQueue::cast_all`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn cast_all<T: Element, U: Element>(
        &self,
        from: &Tensor<T>,
        to: &Tensor<U>,
    ) -> Result<Request<()>, Refused<()>> {
        self.check_shapes([from.shape()], to.shape())?;
        self.cast(from, T::DTYPE, to, U::DTYPE, from.elements())
    }

    /// As [`TensorOpQueue::compute_all`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn compute_all<T: Element>(
        &self,
        op: ReduceOp,
        sources: &[&Tensor<T>],
        to: &Tensor<T>,
    ) -> Result<Request<()>, Refused<()>> {
        self.check_shapes(sources.iter().map(|source| source.shape()), to.shape())?;
        let untyped: Vec<&Tensor> = sources.iter().map(|source| &***source).collect();
        self.compute(op, T::DTYPE, &untyped, to, to.elements())
    }

    /// As [`TensorOpQueue::fma_all`].
    ///
    /// # Errors
    /// As there, except that the queue is not asked.
    pub fn fma_all<T: Element>(
        &self,
        [a, b, c]: [&Tensor<T>; 3],
        to: &Tensor<T>,
    ) -> Result<Request<()>, Refused<()>> {
        self.check_shapes([a, b, c].map(Tensor::shape), to.shape())?;
        self.fma(T::DTYPE, [a, b, c], to, to.elements())
    }

    fn check_length<T: Element>(
        &self,
        tensor: &Tensor<T>,
        payload: &Payload,
    ) -> Result<(), ScheduleError> {
        self.queue.core.check_state(self.queue.xu())?;
        let given = (payload.bytes().len() / size_of::<T>()) as u64;
        let expected = tensor.elements();
        if given == expected {
            return Ok(());
        }
        let shape = tensor.shape().clone();
        Err(ScheduleError::WrongLength {
            given,
            expected,
            shape,
        })
    }

    fn check_shapes<'s>(
        &self,
        given: impl IntoIterator<Item = &'s Shape>,
        expected: &Shape,
    ) -> Result<(), Refused<()>> {
        let state = self.queue.core.check_state(self.queue.xu());
        let checked = state.and_then(|()| expected.check_same(given));
        checked.map_err(|reason| Refused::new(reason, ()))
    }
}

/// Gives the memory back.
fn refused<T: Returned<Raw = Payload>>(
    reason: ScheduleError,
    payload: Payload,
) -> Result<Request<T>, Refused<T>> {
    Err(Refused {
        reason,
        args: T::from_raw(payload),
    })
}
