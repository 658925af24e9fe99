//! Collectives of typed tensors: the type comes from the tensors, and is the same for all.
//!
//! The methods of [`CollectivesQueue`] that name a type are what these come down to.

use super::{CollectivesQueue, Group, Prepared};
use crate::error::{Refused, ScheduleError};
use crate::payload::Element;
use crate::pending::Pending;
use crate::tensor::Tensor;
use xu_device::collectives::Collective;
use xu_device::elementwise::ReduceOp;

/// Collectives of typed tensors, [`f16`](crate::f16) and [`bf16`](crate::bf16) among them.
///
/// An all-reduce has an output of the input's shape. Of the others only the numbers of elements have to fit: with n ranks
/// inputs of shape `[2, 3]` are gathered in `[n, 2, 3]` or in `[2 n, 3]`.
impl CollectivesQueue {
    /// As [`CollectivesQueue::prepare`].
    ///
    /// # Errors
    /// As there; [`ScheduleError::WrongShape`] for an all-reduce of which an output has another shape than its input.
    pub fn prepare_of<T: Element>(
        &self,
        group: &Group,
        collective: Collective,
        inputs: &[&Tensor<T>],
        outputs: &[&Tensor<T>],
    ) -> Result<Prepared, ScheduleError> {
        self.core.check_state(self.xu())?;
        if let Collective::AllReduce(_) = collective {
            for (input, output) in inputs.iter().zip(outputs) {
                output.shape().check_same([input.shape()])?;
            }
        }
        let inputs: Vec<&Tensor> = inputs.iter().map(|input| &***input).collect();
        let outputs: Vec<&Tensor> = outputs.iter().map(|output| &***output).collect();
        self.prepare(group, collective, T::DTYPE, &inputs, &outputs)
    }

    /// As [`CollectivesQueue::all_gather`].
    ///
    /// # Errors
    /// As there.
    pub fn all_gather_of<T: Element>(
        &self,
        group: &Group,
        input: &Tensor<T>,
        output: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once_of(group, Collective::AllGather, input, output)
    }

    /// As [`CollectivesQueue::all_reduce`].
    ///
    /// # Errors
    /// As there; the shapes differ.
    pub fn all_reduce_of<T: Element>(
        &self,
        group: &Group,
        op: ReduceOp,
        input: &Tensor<T>,
        output: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once_of(group, Collective::AllReduce(op), input, output)
    }

    /// As [`CollectivesQueue::reduce_scatter`].
    ///
    /// # Errors
    /// As there.
    pub fn reduce_scatter_of<T: Element>(
        &self,
        group: &Group,
        op: ReduceOp,
        input: &Tensor<T>,
        output: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.at_once_of(group, Collective::ReduceScatter(op), input, output)
    }

    fn at_once_of<T: Element>(
        &self,
        group: &Group,
        collective: Collective,
        input: &Tensor<T>,
        output: &Tensor<T>,
    ) -> Result<Pending<()>, Refused<()>> {
        self.schedule_prepared(self.prepare_of(group, collective, &[input], &[output]))
    }
}
