//! Tensors bound to a model's inputs and outputs: what a tensor set is in the C ABI.
//!
//! Made by [`LoadedModel::bind`] and [`LoadedModel::bind_named`], run by
//! [`ComputeQueue::execute_bound`](crate::ComputeQueue::execute_bound). A service that runs a model often binds once for
//! each slot of its pipeline: everything is checked when it is bound, and an execution allocates nothing.
//!
//! Spec: `c-api.md` sections 5.5 (R14: sets are captured) and 6.2.

use crate::error::ScheduleError;
use crate::model::{LoadedModel, Role};
use crate::tensor::{Storage, Tensor};
use core::fmt;
use std::sync::Arc;
use xu_abi::DeviceAddr;

/// A model with a tensor for each of its inputs and outputs. Clones are cheap.
///
/// It keeps the memory of its tensors: freeing or dropping them afterwards changes nothing for it. It does not keep the model
/// loaded: one that was unloaded is refused when it is to be executed.
///
/// ```
/// # use nrta::{Model, Runtime};
/// # let runtime = Runtime::builder().open()?;
/// # let core = runtime.core(0)?;
/// let digits = core.load(&Model::open("../../examples/digits/model.xum")?, 1)?;
/// let image = digits.input::<u8>("image")?;
/// let (scores, label) = (digits.output::<f32>("scores")?, digits.output::<u32>("label")?);
/// let bound = digits.bind(&[&image], &[&scores, &label])?;
///
/// let (moves, compute) = (core.tensor_op(0)?, core.compute());
/// for shade in 0..16 {
///     moves.write_all(&image, vec![shade; 64])?.wait()?;
///     compute.execute_bound(&bound)?.wait()?;
/// }
/// assert!(moves.read_all(&label)?.wait()?[0] < 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Bindings {
    model: LoadedModel,
    pub(crate) bound: Arc<Bound>,
}

/// What the tensors of an execution are. Requests hold it until the device is done with it.
pub(crate) struct Bound {
    /// First byte of every tensor, in the order of the program's bindings.
    pub(crate) addrs: Box<[DeviceAddr]>,
    /// What the addresses lie in.
    _storage: Box<[Arc<Storage>]>,
}

impl Bindings {
    pub(crate) fn new(model: LoadedModel, storage: Box<[Arc<Storage>]>) -> Self {
        let bound = Bound {
            addrs: storage.iter().map(|storage| storage.addr(0)).collect(),
            _storage: storage,
        };
        Self {
            model,
            bound: Arc::new(bound),
        }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &LoadedModel {
        &self.model
    }
}

/// The tensors of these names, in the order of the model. Names that it does not have are passed over.
pub(crate) fn in_order<'t>(
    model: &LoadedModel,
    role: Role,
    named: &[(&str, &'t Tensor)],
) -> Result<Vec<&'t Tensor>, ScheduleError> {
    let specs = model.specs(role).iter();
    specs
        .map(|spec| {
            let of_name =
                |(name, tensor): &(&str, &'t Tensor)| (*name == spec.name()).then_some(*tensor);
            named
                .iter()
                .find_map(of_name)
                .ok_or_else(|| ScheduleError::TensorMissing {
                    model: model.name().to_owned(),
                    role: role.name(),
                    name: spec.name().to_owned(),
                    given: named.iter().map(|(name, _)| (*name).to_owned()).collect(),
                })
        })
        .collect()
}

impl fmt::Debug for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bindings")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("addrs", &self.addrs)
            .finish_non_exhaustive()
    }
}
