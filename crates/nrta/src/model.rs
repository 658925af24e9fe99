//! A model loaded on one core: what it takes and gives, its tensors, and unloading it.
//!
//! Made by [`Core::load`](crate::Core::load), used by [`ComputeQueue::execute`](crate::ComputeQueue::execute).
//! Dropping the last handle unloads the model as soon as no execution needs it; [`LoadedModel::unload`] does so at once,
//! whoever else has a handle.

use crate::bindings::{Bindings, in_order};
use crate::error::{Error, ScheduleError};
use crate::logical_core::Core;
use crate::payload::Element;
use crate::runtime::Inner;
use crate::shape::Shape;
use crate::tensor::{Storage, Tensor};
use core::fmt;
use parking_lot::Mutex;
use std::sync::Arc;
use xu_abi::SeqId;
use xu_device::elementwise::Dtype;
use xu_device::program::Program;
use xu_model::{Model, TensorSpec, ValueType};
use xu_worker::here_only::HereOnly;

/// What a [`Model`] consists of.
pub use xu_model::{Layer, Op, Value, ValueId, Weight, WeightId};

/// One program for each physical core.
pub(crate) type Programs = Arc<[Arc<Program>]>;

/// A model in a core's memory, compiled for one batch size. Clones name the same loaded model.
#[derive(Clone)]
pub struct LoadedModel {
    core: Core,
    shared: Arc<Shared>,
}

struct Shared {
    core: Core,
    name: String,
    batch: u32,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    device_bytes: u64,
    /// `None` once unloaded.
    programs: HereOnly<Mutex<Option<Programs>>>,
}

/// An input or an output, for those who do not care which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Input,
    Output,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// What there is to know about a loaded model. Made by [`LoadedModel::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// Its name.
    pub name: String,
    /// The logical core that it is loaded on.
    pub core: u32,
    /// How many physical cores run it together: 1 or 2.
    pub physical_cores: u32,
    /// Samples per execution.
    pub batch: u32,
    /// Memory of the core that it takes, bytes, without the tensors that are bound to it.
    pub device_bytes: u64,
    /// What it takes, in order.
    pub inputs: Vec<TensorInfo>,
    /// What it gives, in order.
    pub outputs: Vec<TensorInfo>,
}

/// What there is to know about an input or an output, for a whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Its name, unique in the model.
    pub name: String,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its shape; the batch is the first dimension.
    pub shape: Shape,
    /// Its size in bytes.
    pub bytes: u64,
}

impl LoadedModel {
    pub(crate) fn new(core: Core, model: &Model, batch: u32, programs: Vec<Program>) -> Self {
        let programs: Programs = programs.into_iter().map(Arc::new).collect();
        let shared = Shared {
            core: core.clone(),
            name: model.name().to_owned(),
            batch,
            inputs: model.inputs().to_vec(),
            outputs: model.outputs().to_vec(),
            device_bytes: programs.iter().map(|program| program.bytes()).sum(),
            programs: HereOnly::new(Mutex::new(Some(programs))),
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

    /// Everything there is to know about it.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        let infos = |role| {
            let specs = self.specs(role).iter();
            specs.map(|spec| self.tensor_info(spec)).collect()
        };
        ModelInfo {
            name: self.shared.name.clone(),
            core: self.core.index(),
            // CAST: 1 or 2.
            physical_cores: self.core.runtime().tpbs(self.core.index()).len() as u32,
            batch: self.batch(),
            device_bytes: self.shared.device_bytes,
            inputs: infos(Role::Input),
            outputs: infos(Role::Output),
        }
    }

    /// Allocates a typed tensor for a whole batch of the input of this name.
    ///
    /// ```
    /// # use nrta::{Model, Runtime};
    /// # let runtime = Runtime::builder().open()?;
    /// let model = Model::open("../../examples/digits/model.xum")?;
    /// let digits = runtime.core(0)?.load(&model, 16)?;
    /// let images = digits.input::<u8>("image")?;
    /// assert_eq!(images.shape().dimensions(), [16, 64]);
    /// assert!(digits.input::<f32>("image").is_err()); // it is of bytes
    /// # Ok::<(), nrta::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchName`], [`Error::WrongType`]; as [`Core::allocate`].
    pub fn input<T: Element>(&self, name: &str) -> Result<Tensor<T>, Error> {
        self.typed(Role::Input, name)
    }

    /// Allocates a typed tensor for a whole batch of the output of this name.
    ///
    /// # Errors
    /// As [`LoadedModel::input`].
    pub fn output<T: Element>(&self, name: &str) -> Result<Tensor<T>, Error> {
        self.typed(Role::Output, name)
    }

    /// Allocates a tensor for a whole batch of input `index`.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; as [`Core::allocate`].
    pub fn allocate_input(&self, index: usize) -> Result<Tensor, Error> {
        self.allocate(Role::Input, index)
    }

    /// Allocates a tensor for a whole batch of output `index`.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; as [`Core::allocate`].
    pub fn allocate_output(&self, index: usize) -> Result<Tensor, Error> {
        self.allocate(Role::Output, index)
    }

    /// Binds a tensor to each input and output, in the model's order.
    ///
    /// Each must be at least as large as the model says and is used from its first byte. Nothing checks that two of them
    /// differ: a tensor that is bound twice holds whatever was written to it last.
    ///
    /// # Errors
    /// [`ScheduleError`]: a tensor is missing, too small, freed or on another core, or the model was unloaded.
    pub fn bind(&self, inputs: &[&Tensor], outputs: &[&Tensor]) -> Result<Bindings, ScheduleError> {
        self.core.check_state(self.core.compute().xu())?;
        self.check_role(Role::Input, inputs)?;
        self.check_role(Role::Output, outputs)?;
        let of = |role| self.specs(role).iter().map(move |spec| (role, spec));
        let specs = of(Role::Input).chain(of(Role::Output));
        let storage = specs
            .zip(inputs.iter().chain(outputs))
            .map(|((role, spec), tensor)| self.storage_of(role, spec, tensor))
            .collect::<Result<Box<[Arc<Storage>]>, _>>()?;
        self.programs()?;
        Ok(Bindings::new(self.clone(), storage))
    }

    /// As [`LoadedModel::bind`], by names and in any order. Names that the model does not have are passed over.
    ///
    /// # Errors
    /// As [`LoadedModel::bind`].
    pub fn bind_named(
        &self,
        inputs: &[(&str, &Tensor)],
        outputs: &[(&str, &Tensor)],
    ) -> Result<Bindings, ScheduleError> {
        self.core.check_state(self.core.compute().xu())?;
        let inputs = in_order(self, Role::Input, inputs)?;
        let outputs = in_order(self, Role::Output, outputs)?;
        self.bind(&inputs, &outputs)
    }

    /// Unloads the model, for all its handles and bindings: they are refused from now on. Never blocks.
    ///
    /// Executions that were accepted run to their end, and the memory goes when the last of them is complete and their outcomes
    /// were taken or dropped; not before the runtime is closed where the queue is degraded, since nobody knows what the device still reads. Returns the sequence
    /// to wait for, for those who want to know: none when nothing was ever executed.
    ///
    /// ```
    /// # use nrta::{Model, Runtime};
    /// # let runtime = Runtime::builder().open()?;
    /// # let core = runtime.core(0)?;
    /// # let digits = core.load(&Model::open("../../examples/digits/model.xum")?, 1)?;
    /// if let Some(last) = digits.unload() {
    ///     core.compute().wait(last, None)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unload(self) -> Option<SeqId> {
        if !self.core.runtime().is_here() {
            return None;
        }
        self.shared.unload();
        let last = self.core.compute_unit().newest_issued();
        last.cursor().is_issuable().then_some(last)
    }

    /// Whether it was unloaded, through whichever handle.
    #[must_use]
    pub fn is_unloaded(&self) -> bool {
        self.core.runtime().is_here() && self.shared.programs.lock().is_none()
    }

    pub(crate) fn specs(&self, role: Role) -> &[TensorSpec] {
        match role {
            Role::Input => &self.shared.inputs,
            Role::Output => &self.shared.outputs,
        }
    }

    /// The caller has checked that this is the process of the runtime.
    pub(crate) fn programs(&self) -> Result<Programs, ScheduleError> {
        let programs = self.shared.programs.lock().clone();
        programs.ok_or_else(|| ScheduleError::ModelUnloaded {
            model: self.shared.name.clone(),
        })
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

    fn tensor_info(&self, spec: &TensorSpec) -> TensorInfo {
        TensorInfo {
            name: spec.name().to_owned(),
            dtype: on_device(spec.dtype()),
            shape: Shape::of_batch(self.batch(), spec.shape()),
            bytes: self.batch_bytes(spec),
        }
    }

    fn typed<T: Element>(&self, role: Role, name: &str) -> Result<Tensor<T>, Error> {
        let (model, role_name) = (|| self.shared.name.clone(), role.name());
        let specs = self.specs(role);
        let Some(spec) = specs.iter().find(|spec| spec.name() == name) else {
            let names = specs.iter().map(|spec| spec.name().to_owned());
            return Err(Error::NoSuchName {
                model: model(),
                role: role_name,
                name: name.to_owned(),
                names: names.collect(),
            });
        };
        let info = self.tensor_info(spec);
        if info.dtype != T::DTYPE {
            return Err(Error::WrongType {
                model: model(),
                role: role_name,
                name: info.name,
                is: info.dtype,
                asked: T::DTYPE,
            });
        }
        self.core.tensor_of(info.shape)
    }

    fn allocate(&self, role: Role, index: usize) -> Result<Tensor, Error> {
        let specs = self.specs(role);
        let Some(spec) = specs.get(index) else {
            let model = self.shared.name.clone();
            return Err(Error::NoSuchTensor {
                model,
                role: role.name(),
                index,
                count: specs.len(),
                names: specs.iter().map(|spec| spec.name().to_owned()).collect(),
            });
        };
        self.core.allocate(self.batch_bytes(spec))
    }

    fn batch_bytes(&self, spec: &TensorSpec) -> u64 {
        // Loading has checked that this fits the device's memory.
        (spec.bytes_per_sample() as u64).saturating_mul(u64::from(self.shared.batch))
    }

    /// The storage of what is to be bound to this input or output.
    fn storage_of(
        &self,
        role: Role,
        spec: &TensorSpec,
        tensor: &Tensor,
    ) -> Result<Arc<Storage>, ScheduleError> {
        let core = self.core.index();
        tensor
            .storage_for(self.core.runtime(), core)
            .map_err(|why| ScheduleError::CannotBind {
                model: self.shared.name.clone(),
                core,
                role: role.name(),
                name: spec.name().to_owned(),
                why: Box::new(why),
            })
    }

    fn check_role(&self, role: Role, tensors: &[&Tensor]) -> Result<(), ScheduleError> {
        let model = || self.shared.name.clone();
        let specs = self.specs(role);
        if specs.len() != tensors.len() {
            let (expected, given) = (specs.len(), tensors.len());
            return Err(ScheduleError::TensorCount {
                model: model(),
                role: role.name(),
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
                    role: role.name(),
                    name,
                    expected,
                    given,
                });
            }
        }
        Ok(())
    }
}

impl Shared {
    /// The caller has checked that this is the process of the runtime.
    fn unload(&self) {
        let programs = self.programs.lock().take();
        if let Some(programs) = programs {
            self.core
                .compute_unit()
                .defer_unstage(0, Box::new(programs));
        }
    }
}

/// The last handle is gone.
impl Drop for Shared {
    fn drop(&mut self) {
        if self.core.runtime().is_here() {
            self.unload();
        }
    }
}

/// A type of a model's manifest, as the device names it.
fn on_device(dtype: ValueType) -> Dtype {
    match dtype {
        ValueType::U8 => Dtype::Uint8,
        ValueType::U32 => Dtype::Uint32,
        ValueType::F32 => Dtype::Float32,
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
