//! From names to ids: the rules of a model, checked once, in the order of the manifest.
//!
//! Called by [`Container`](crate::Container). The order of work is: counts, inputs, layers, outputs, and only
//! then the elements of the weights, so that a wrong manifest costs no copy of them.

use crate::error::{ModelError, quote};
use crate::limits::{MAX_ELEMENTS, MAX_NAME_BYTES};
use crate::manifest::{Counted, Object, RawManifest, RawTensor};
use crate::model::Model;
use crate::scope::Scope;
use crate::tensor::{TensorSpec, ValueType, Weight};
use crate::weights::{self, WeightsFile};

/// Resolves a manifest against the weights that it uses.
///
/// # Errors
/// The variants of [`ModelError`] on names and counts, layers, outputs and weights.
pub(crate) fn resolve(
    manifest: &RawManifest<'_>,
    file: &WeightsFile<'_>,
) -> Result<Model, ModelError> {
    check_name(|| "the name of the model".to_owned(), &manifest.name)?;
    let layers = manifest
        .layers
        .within_limit()
        .map_err(|found| ModelError::TooManyLayers { found })?;
    let inputs = specs("inputs", &manifest.inputs)?;
    let outputs = specs("outputs", &manifest.outputs)?;

    let mut scope = Scope::new(file);
    for (index, input) in inputs.iter().enumerate() {
        let place = || format!("input {index}");
        scope.define(place, &input.name, input.dtype, input.elements)?;
    }
    let layers = layers
        .iter()
        .enumerate()
        .map(|(index, raw)| scope.layer(index, raw))
        .collect::<Result<Vec<_>, _>>()?;
    let output_values = scope.outputs(inputs.len(), &outputs)?;
    let weights = scope
        .weights
        .iter()
        .map(|(name, tensor)| {
            let data = weights::elements(name, tensor)?;
            Ok(Weight {
                name: name.clone(),
                shape: tensor.shape().to_vec(),
                data,
            })
        })
        .collect::<Result<Vec<_>, ModelError>>()?;
    Ok(Model {
        name: manifest.name.clone().into_owned(),
        inputs,
        outputs,
        output_values,
        values: scope.values,
        layers,
        weights,
    })
}

/// Checks the length of a name; `what` says whose it is.
pub(crate) fn check_name(what: impl FnOnce() -> String, name: &str) -> Result<(), ModelError> {
    if name.is_empty() || MAX_NAME_BYTES < name.len() {
        return Err(ModelError::NameLength {
            what: what(),
            found: name.len(),
        });
    }
    Ok(())
}

fn specs<const LIMIT: usize>(
    what: &'static str,
    raw: &Counted<Object<RawTensor<'_>>, LIMIT>,
) -> Result<Vec<TensorSpec>, ModelError> {
    let raw = raw
        .within_limit()
        .map_err(|found| ModelError::TooManyTensors { what, found })?;
    raw.iter()
        .enumerate()
        .map(|(index, Object(tensor))| spec(what, index, tensor))
        .collect()
}

fn spec(what: &'static str, index: usize, raw: &RawTensor<'_>) -> Result<TensorSpec, ModelError> {
    check_name(
        || format!("the name of entry {index} of the {what}"),
        &raw.name,
    )?;
    let tensor = || raw.name.clone().into_owned();
    let dtype = ValueType::from_name(&raw.dtype).ok_or_else(|| ModelError::UnknownValueType {
        tensor: tensor(),
        found: quote(&raw.dtype),
    })?;
    let shape = raw
        .shape
        .within_limit()
        .map_err(|_| ModelError::TooManyDimensions { tensor: tensor() })?
        .to_vec();
    if shape.is_empty() || shape.contains(&0) {
        return Err(ModelError::EmptyShape {
            tensor: tensor(),
            shape,
        });
    }
    let Some(elements) = shape
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size))
    else {
        return Err(ModelError::Overflow {
            tensor: tensor(),
            shape,
        });
    };
    if MAX_ELEMENTS < elements {
        return Err(ModelError::TooManyElements {
            tensor: tensor(),
            found: elements,
        });
    }
    Ok(TensorSpec {
        name: tensor(),
        dtype,
        shape,
        elements,
    })
}
