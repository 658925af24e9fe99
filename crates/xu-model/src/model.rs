//! A validated model: values, weights, and layers whose names have become ids.
//!
//! Made only by [`Container`]; read by the compile step, which needs no strings and
//! repeats no check.
//!
//! ```text
//!   values   0 .. inputs | one per layer, in order
//!   layers   every layer reads values with smaller ids and defines the next one
//!   weights  each named tensor once, in order of first use
//! ```

use crate::container::Container;
use crate::error::ModelError;
use crate::tensor::{TensorSpec, Value, ValueId, Weight, WeightId};
use std::path::Path;

/// What a layer does to each row of its input.
///
/// The engine in parentheses is the one that a compiler is expected to use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Converts `u8` or `f32` to `f32` and multiplies by a constant (DVE).
    Scale {
        /// The constant, finite.
        factor: f32,
    },
    /// Multiplies rows of width `in` by a matrix `[in, out]` (PE).
    MatMul {
        /// The matrix, row-major.
        weight: WeightId,
    },
    /// Adds one constant per column (ACT).
    Bias {
        /// The constants, shape `[width]`.
        bias: WeightId,
    },
    /// The larger of each element and zero (ACT).
    Relu,
    /// `exp(x - max) / sum(exp(x - max))` of each row (ACT).
    Softmax,
    /// Column of each row's maximum as `u32`; the first one wins (POOL).
    ArgMax,
    /// Sum of two values, element by element (DVE).
    Add,
    /// Product of two values, element by element (DVE).
    Mul,
    /// Sum of each row (POOL).
    Sum,
    /// Maximum of each row (POOL).
    Max,
}

impl Op {
    /// The manifest's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scale { .. } => "scale",
            Self::MatMul { .. } => "matmul",
            Self::Bias { .. } => "bias",
            Self::Relu => "relu",
            Self::Softmax => "softmax",
            Self::ArgMax => "argmax",
            Self::Add => "add",
            Self::Mul => "mul",
            Self::Sum => "sum",
            Self::Max => "max",
        }
    }

    /// The weight that the operation uses, if it uses one.
    #[must_use]
    pub const fn weight(self) -> Option<WeightId> {
        match self {
            Self::MatMul { weight } => Some(weight),
            Self::Bias { bias } => Some(bias),
            Self::Scale { .. }
            | Self::Relu
            | Self::Softmax
            | Self::ArgMax
            | Self::Add
            | Self::Mul
            | Self::Sum
            | Self::Max => None,
        }
    }
}

/// One step: an operation, what it reads, and the value that it defines.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) output: ValueId,
}

impl Layer {
    /// The operation.
    #[must_use]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// Two values (`a`, then `b`) for [`Op::Add`] and [`Op::Mul`], otherwise one. `a` may equal `b`.
    #[must_use]
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// The value that this layer, and no other, defines.
    #[must_use]
    pub const fn output(&self) -> ValueId {
        self.output
    }
}

/// A model whose every rule has been checked.
///
/// * Each layer reads only inputs and results of earlier layers, and types and widths fit its operation.
/// * Each output is the result of a layer; two outputs are two results. A later layer may read it too.
/// * An input that no layer reads, and a result that nobody uses, are legal.
/// * Every weight that is here is used, and is finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(crate) name: String,
    pub(crate) inputs: Vec<TensorSpec>,
    pub(crate) outputs: Vec<TensorSpec>,
    /// The value of each output, parallel to `outputs`.
    pub(crate) output_values: Vec<ValueId>,
    pub(crate) values: Vec<Value>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) weights: Vec<Weight>,
}

impl Model {
    /// Opens a container file and takes its model.
    ///
    /// # Errors
    /// [`ModelError`]: the file cannot be read, is too long, or breaks a rule of the format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        Container::open(path).map(Container::into_model)
    }

    /// Parses the bytes of a container and takes its model.
    ///
    /// # Errors
    /// [`ModelError`]: they break a rule of the format.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        Container::parse(bytes).map(Container::into_model)
    }

    /// Name of the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a caller supplies, in manifest order; at least one.
    #[must_use]
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    /// What a caller receives, in manifest order; at least one.
    #[must_use]
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    /// The value of each input, parallel to [`inputs`](Self::inputs).
    pub fn input_values(&self) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        (0..self.inputs.len()).map(ValueId::from_index)
    }

    /// The value of each output, parallel to [`outputs`](Self::outputs).
    #[must_use]
    pub fn output_values(&self) -> &[ValueId] {
        &self.output_values
    }

    /// Every value: the inputs, then the result of each layer.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value that `id` names.
    ///
    /// # Panics
    /// May panic when `id` comes from another model.
    #[must_use]
    #[track_caller]
    pub fn value(&self, id: ValueId) -> &Value {
        // PANIC: ids are made by the resolver of this model only, one per value.
        &self.values[id.index()]
    }

    /// The layers in execution order, which is the order of the manifest.
    pub fn layers(&self) -> core::slice::Iter<'_, Layer> {
        self.layers.iter()
    }

    /// Every weight that a layer uses, once, in order of first use.
    #[must_use]
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// The weight that `id` names.
    ///
    /// # Panics
    /// May panic when `id` comes from another model.
    #[must_use]
    #[track_caller]
    pub fn weight(&self, id: WeightId) -> &Weight {
        // PANIC: ids are made by the resolver of this model only, one per weight.
        &self.weights[id.index()]
    }

    /// Number of learned numbers.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.weights.iter().map(|weight| weight.data.len()).sum()
    }
}
