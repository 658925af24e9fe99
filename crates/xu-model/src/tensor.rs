//! What flows through a model and what it has learned: element types, values, weights.
//!
//! Made by the resolver; read by the compile step and by whoever binds tensors to a model.

use core::fmt;

/// Type of an element, as the device stores it (little-endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// Unsigned byte.
    U8,
    /// Unsigned 32-bit integer.
    U32,
    /// IEEE 754 binary32.
    F32,
}

impl ValueType {
    /// Size of one element, bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U32 | Self::F32 => 4,
        }
    }

    /// The manifest's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U32 => "u32",
            Self::F32 => "f32",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::U8, Self::U32, Self::F32]
            .into_iter()
            .find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An input or an output of a model: what a caller binds.
///
/// The shape is that of one sample. A batch of `n` samples is `n` of them, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub(crate) name: String,
    pub(crate) dtype: ValueType,
    pub(crate) shape: Vec<usize>,
    /// Product of `shape`, at most [`MAX_ELEMENTS`](crate::limits::MAX_ELEMENTS).
    pub(crate) elements: usize,
}

impl TensorSpec {
    /// Name, unique among the model's values.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of an element.
    #[must_use]
    pub const fn dtype(&self) -> ValueType {
        self.dtype
    }

    /// Shape of one sample, row-major; never empty, no dimension is zero.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements of one sample.
    #[must_use]
    pub const fn elements(&self) -> usize {
        self.elements
    }

    /// Size of one sample, bytes.
    #[must_use]
    pub const fn bytes_per_sample(&self) -> usize {
        self.elements * self.dtype.bytes()
    }
}

/// Names a [`Value`] of one model: its place in [`Model::values`](crate::Model::values).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueId(u32);

impl ValueId {
    pub(crate) fn from_index(index: usize) -> Self {
        // CAST: a model has at most MAX_TENSORS inputs and MAX_LAYERS results.
        Self(index as u32)
    }

    /// Place in [`Model::values`](crate::Model::values).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names a [`Weight`] of one model: its place in [`Model::weights`](crate::Model::weights).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(u32);

impl WeightId {
    pub(crate) fn from_index(index: usize) -> Self {
        // CAST: a model has at most one weight per layer, and at most MAX_LAYERS layers.
        Self(index as u32)
    }

    /// Place in [`Model::weights`](crate::Model::weights).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something computed or supplied: `[batch, width]` elements, row-major.
///
/// The shape of an input is flattened: layers see rows, one per sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub(crate) name: String,
    pub(crate) dtype: ValueType,
    pub(crate) width: usize,
}

impl Value {
    /// Name, unique in the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of an element.
    #[must_use]
    pub const fn dtype(&self) -> ValueType {
        self.dtype
    }

    /// Number of elements per sample, between 1 and [`MAX_ELEMENTS`](crate::limits::MAX_ELEMENTS).
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Size of one sample, bytes.
    #[must_use]
    pub const fn bytes_per_sample(&self) -> usize {
        self.width * self.dtype.bytes()
    }
}

/// A learned tensor: finite 32-bit floats, row-major.
#[derive(Clone, PartialEq)]
pub struct Weight {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f32>,
}

impl Weight {
    /// Name in the weights section.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `[in, out]` for a matrix, `[width]` for a bias.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements, row-major: element `(i, o)` of a matrix is at `i * out + o`.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        &self.data
    }
}

/// Prints what a person needs; the elements would be pages.
impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weight")
            .field("name", &self.name)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
