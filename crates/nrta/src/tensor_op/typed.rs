//! Requests on whole typed tensors: types and sizes come from the tensors.
//!
//! The methods of [`TensorOpQueue`] that name bytes and types are what these come down to.

use super::TensorOpQueue;
use crate::error::{Refused, ScheduleError};
use crate::payload::Element;
use crate::pending::Pending;
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
/// moves.write_all(&b, vec![10.0; 4])?.detach();
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
    pub fn write_all<T: Element>(
        &self,
        tensor: &Tensor<T>,
        elements: Vec<T>,
    ) -> Result<Pending<Vec<T>>, Refused<Vec<T>>> {
        match self.check_length(tensor, elements.len()) {
            Ok(()) => self.write_elements(tensor, 0, elements),
            Err(reason) => Err(Refused::new(reason, elements)),
        }
    }

    /// Schedules a read of every element into memory of its own. Never blocks.
    ///
    /// # Errors
    /// As [`TensorOpQueue::read`].
    pub fn read_all<T: Element>(
        &self,
        tensor: &Tensor<T>,
    ) -> Result<Pending<Vec<T>>, Refused<Vec<T>>> {
        // CAST: a tensor that exists is smaller than the memory of this machine or of a device.
        self.read_elements(tensor, 0, vec![T::default(); tensor.elements() as usize])
    }

    /// Schedules a read of every element into `into`, which is as long. Never blocks. Resolves to `into`.
    ///
    /// # Errors
    /// [`Refused`], with `into`: it is longer or shorter than the tensor; as [`TensorOpQueue::read`].
    pub fn read_all_into<T: Element>(
        &self,
        tensor: &Tensor<T>,
        into: Vec<T>,
    ) -> Result<Pending<Vec<T>>, Refused<Vec<T>>> {
        match self.check_length(tensor, into.len()) {
            Ok(()) => self.read_elements(tensor, 0, into),
            Err(reason) => Err(Refused::new(reason, into)),
        }
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
        self.check_shapes([from.shape()], to.shape())?;
        self.copy(from, 0, to, 0, from.bytes())
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
        self.check_shapes([from.shape()], to.shape())?;
        self.cast(from, T::DTYPE, to, U::DTYPE, from.elements())
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
        self.check_shapes(sources.iter().map(|source| source.shape()), to.shape())?;
        let untyped: Vec<&Tensor> = sources.iter().map(|source| &***source).collect();
        self.compute(op, T::DTYPE, &untyped, to, to.elements())
    }

    /// Schedules `to = a * b + c`, element by element, rounded once. Never blocks.
    ///
    /// # Errors
    /// [`Refused`]: the shapes differ; as [`TensorOpQueue::fma`].
    pub fn fma_all<T: Element>(
        &self,
        [a, b, c]: [&Tensor<T>; 3],
        to: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.check_shapes([a, b, c].map(Tensor::shape), to.shape())?;
        self.fma(T::DTYPE, [a, b, c], to, to.elements())
    }

    fn check_length<T: Element>(
        &self,
        tensor: &Tensor<T>,
        given: usize,
    ) -> Result<(), ScheduleError> {
        self.core.check_state(self.xu())?;
        let (given, expected) = (given as u64, tensor.elements());
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
        let refused = |reason| Refused::new(reason, ());
        self.core.check_state(self.xu()).map_err(refused)?;
        match given.into_iter().find(|given| *given != expected) {
            None => Ok(()),
            Some(given) => Err(refused(ScheduleError::WrongShape {
                given: given.clone(),
                expected: expected.clone(),
            })),
        }
    }
}
