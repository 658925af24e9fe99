//! A model loaded on one core.
//!
//! Made by [`Core::load`](crate::Core::load), used by [`ComputeQueue::execute`](crate::ComputeQueue::execute).
//! Dropping the handle unloads the model as soon as no execution needs it.

use crate::error::{Error, ScheduleError};
use crate::logical_core::Core;
use crate::runtime::Inner;
use crate::tensor::Tensor;
use core::fmt;
use std::sync::Arc;
use xu_device::program::Program;
use xu_model::{Model, TensorSpec};
use xu_worker::here_only::HereOnly;

/// A model in a core's memory, compiled for one batch size. Clones name the same loaded model.
#[derive(Clone)]
pub struct LoadedModel {
    core: Core,
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    batch: u32,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    /// One program per physical core.
    programs: HereOnly<Arc<[Arc<Program>]>>,
}

impl LoadedModel {
    pub(crate) fn new(core: Core, model: &Model, batch: u32, programs: Vec<Program>) -> Self {
        let shared = Shared {
            name: model.name().to_owned(),
            batch,
            inputs: model.inputs().to_vec(),
            outputs: model.outputs().to_vec(),
            programs: HereOnly::new(programs.into_iter().map(Arc::new).collect()),
        };
        Self {
            core,
            shared: Arc::new(shared),
        }
    }

    /// The model's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Samples per execution.
    #[must_use]
    pub fn batch(&self) -> u32 {
        self.shared.batch
    }

    /// What the model takes, per sample, in order.
    #[must_use]
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.shared.inputs
    }

    /// What the model gives, per sample, in order.
    #[must_use]
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.shared.outputs
    }

    /// Allocates a tensor for a whole batch of input `index`.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; as [`Core::allocate`].
    pub fn allocate_input(&self, index: usize) -> Result<Tensor, Error> {
        self.allocate("input", self.inputs(), index)
    }

    /// Allocates a tensor for a whole batch of output `index`.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; as [`Core::allocate`].
    pub fn allocate_output(&self, index: usize) -> Result<Tensor, Error> {
        self.allocate("output", self.outputs(), index)
    }

    fn allocate(
        &self,
        role: &'static str,
        specs: &[TensorSpec],
        index: usize,
    ) -> Result<Tensor, Error> {
        let Some(spec) = specs.get(index) else {
            let model = self.shared.name.clone();
            return Err(Error::NoSuchTensor {
                model,
                role,
                index,
                count: specs.len(),
            });
        };
        self.core.allocate(self.batch_bytes(spec))
    }

    fn batch_bytes(&self, spec: &TensorSpec) -> u64 {
        // Loading has checked that this fits the device's memory.
        (spec.bytes_per_sample() as u64).saturating_mul(u64::from(self.shared.batch))
    }

    pub(crate) fn programs(&self) -> Arc<[Arc<Program>]> {
        Arc::clone(&self.shared.programs)
    }

    pub(crate) fn check_home(&self, runtime: &Arc<Inner>, core: u32) -> Result<(), ScheduleError> {
        if !Arc::ptr_eq(self.core.runtime(), runtime) {
            return Err(ScheduleError::WrongRuntime { what: "model" });
        }
        if self.core.index() != core {
            let on = self.core.index();
            return Err(ScheduleError::WrongCore {
                what: "model",
                on,
                queue: core,
            });
        }
        Ok(())
    }

    pub(crate) fn check_tensors(
        &self,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
    ) -> Result<(), ScheduleError> {
        self.check_role("input", self.inputs(), inputs)?;
        self.check_role("output", self.outputs(), outputs)
    }

    fn check_role(
        &self,
        role: &'static str,
        specs: &[TensorSpec],
        tensors: &[&Tensor],
    ) -> Result<(), ScheduleError> {
        let model = || self.shared.name.clone();
        if specs.len() != tensors.len() {
            let (expected, given) = (specs.len(), tensors.len());
            return Err(ScheduleError::TensorCount {
                model: model(),
                role,
                expected,
                given,
            });
        }
        for (spec, tensor) in specs.iter().zip(tensors) {
            let (expected, given) = (self.batch_bytes(spec), tensor.bytes());
            if given < expected {
                let name = spec.name().to_owned();
                return Err(ScheduleError::TensorTooSmall {
                    model: model(),
                    role,
                    name,
                    expected,
                    given,
                });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LoadedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedModel")
            .field("name", &self.shared.name)
            .field("core", &self.core.index())
            .field("batch", &self.shared.batch)
            .finish_non_exhaustive()
    }
}
