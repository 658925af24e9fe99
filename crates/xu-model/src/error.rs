//! Why a container was refused: one variant per thing that can be wrong.
//!
//! Returned by every fallible function of this crate.
//! A message names the place (offset, layer, tensor) and what was expected and found there.
//! Text that comes from the file is shortened, so that a hostile file cannot fill a log.

use crate::limits;
use crate::tensor::ValueType;
use safetensors::SafeTensorError;
use std::path::{Path, PathBuf};

/// Longest piece of a file's own text in a message, bytes.
const MAX_QUOTE: usize = limits::MAX_NAME_BYTES;

/// `text`, or its beginning when it is long.
pub(crate) fn quote(text: &str) -> String {
    if text.len() <= MAX_QUOTE {
        return text.to_owned();
    }
    // A character is at most four bytes, and 0 is a boundary.
    let end = (0..=MAX_QUOTE)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0);
    format!("{}...", &text[..end])
}

/// A container, or a file that should have been one, was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    // ---- the file
    /// The file could not be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The path names a directory, a pipe or a device.
    #[error("{} is not a regular file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is longer than any container may be; nothing was read.
    #[error("{} has {found} bytes, more than {}", .path.display(), limits::MAX_FILE_BYTES)]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
    },

    /// What the file holds is not acceptable.
    #[error("{}: {source}", .path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; never one of the file's own again.
        source: Box<ModelError>,
    },

    // ---- the envelope
    /// The bytes end before the header or the sections do.
    #[error("container is truncated: {needed} bytes needed, {found} found")]
    Truncated {
        /// Length that the header demands.
        needed: u64,
        /// Actual length.
        found: u64,
    },
    /// The bytes at offset 0x00 are not those of a container.
    #[error("bad magic at offset 0x00: expected \"XUMODEL\\0\", found {found:02x?}")]
    BadMagic {
        /// The bytes found.
        found: [u8; 8],
    },
    /// The container was written for another version of the format.
    #[error("unsupported version {found} at offset 0x08: this reader knows version {supported}")]
    UnsupportedVersion {
        /// The version found.
        found: u32,
        /// The version that this crate reads.
        supported: u32,
    },
    /// The reserved word of the header is not zero.
    #[error("reserved word at offset 0x1c is {found:#010x}, expected 0")]
    ReservedNotZero {
        /// The word found.
        found: u32,
    },
    /// The manifest is longer than allowed.
    #[error(
        "manifest of {found} bytes (offset 0x0c) exceeds {}",
        limits::MAX_MANIFEST_BYTES
    )]
    ManifestTooLarge {
        /// Declared length.
        found: u64,
    },
    /// The weights section is longer than allowed.
    #[error(
        "weights of {found} bytes (offset 0x10) exceed {}",
        limits::MAX_WEIGHTS_BYTES
    )]
    WeightsTooLarge {
        /// Declared length.
        found: u64,
    },
    /// Bytes follow the weights section.
    #[error("container is {found} bytes long, its header declares {declared}")]
    LengthMismatch {
        /// Length that the header declares.
        declared: u64,
        /// Actual length.
        found: u64,
    },
    /// The sections are not the ones that were written.
    #[error(
        "checksum mismatch: header at offset 0x18 says {expected:08x}, sections give {found:08x}"
    )]
    ChecksumMismatch {
        /// Checksum in the header.
        expected: u32,
        /// Checksum of the sections.
        found: u32,
    },

    // ---- the text of the manifest
    /// The manifest is not UTF-8.
    #[error("manifest is not UTF-8 at its byte {offset}")]
    ManifestNotUtf8 {
        /// Offset of the first wrong byte, from the start of the manifest.
        offset: usize,
    },
    /// The manifest is not JSON, or not JSON of the right form.
    #[error("manifest is malformed at line {line}, column {column}: {source}")]
    ManifestSyntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the JSON reader said.
        source: serde_json::Error,
    },
    /// A string of the manifest is longer than any name may be written.
    #[error(
        "string at byte {offset} of the manifest exceeds {} bytes",
        limits::MAX_MANIFEST_STRING_BYTES
    )]
    StringTooLong {
        /// Offset of its opening quotation mark, from the start of the manifest.
        offset: usize,
    },

    // ---- names and counts
    /// A name is empty or too long.
    #[error(
        "{what} is {found} bytes long, allowed are 1 to {}",
        limits::MAX_NAME_BYTES
    )]
    NameLength {
        /// Whose name it is.
        what: String,
        /// Its length, bytes.
        found: usize,
    },
    /// There are too many layers.
    #[error("{found} layers exceed {}", limits::MAX_LAYERS)]
    TooManyLayers {
        /// Number of layers.
        found: usize,
    },
    /// There are too many inputs, outputs, tensors or annotations.
    #[error("{found} {what} exceed {}", limits::MAX_TENSORS)]
    TooManyTensors {
        /// What was counted.
        what: &'static str,
        /// How many there are; a reader may stop counting one past the limit.
        found: usize,
    },
    /// A tensor has too many dimensions.
    #[error("tensor {tensor:?} has more than {} dimensions", limits::MAX_RANK)]
    TooManyDimensions {
        /// The tensor.
        tensor: String,
    },
    /// A value would have too many elements per sample.
    #[error(
        "tensor {tensor:?} has {found} elements per sample, more than {}",
        limits::MAX_ELEMENTS
    )]
    TooManyElements {
        /// The tensor.
        tensor: String,
        /// Number of elements.
        found: usize,
    },
    /// The number of elements does not fit a machine word.
    #[error("the number of elements of tensor {tensor:?} with shape {shape:?} overflows")]
    Overflow {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A shape has no dimension, or a dimension is zero.
    #[error("tensor {tensor:?} is empty: its shape is {shape:?}")]
    EmptyShape {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// An element type has no meaning here.
    #[error("tensor {tensor:?} has the unknown element type {found:?}, expected u8, u32 or f32")]
    UnknownValueType {
        /// The tensor.
        tensor: String,
        /// The type found.
        found: String,
    },

    // ---- the layers
    /// A layer has no `op`.
    #[error("layer {layer} has no op")]
    MissingOp {
        /// Index of the layer, from 0.
        layer: usize,
    },
    /// A layer asks for an operation that does not exist.
    #[error("layer {layer}: unknown op {op:?}")]
    UnknownOp {
        /// Index of the layer, from 0.
        layer: usize,
        /// The operation found.
        op: String,
    },
    /// A layer lacks a field that its operation needs.
    #[error("layer {layer} ({op}) lacks the field {field:?}")]
    MissingField {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The missing field.
        field: &'static str,
    },
    /// A layer has a field that its operation does not know.
    #[error("layer {layer} ({op}) has the field {field:?}, which this op does not take")]
    UnexpectedField {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The superfluous field.
        field: String,
    },
    /// A field of a layer holds the wrong kind of thing.
    #[error("layer {layer}: field {field:?} must be {expected}, found {found}")]
    FieldType {
        /// Index of the layer, from 0.
        layer: usize,
        /// The field.
        field: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A constant is not a finite 32-bit float.
    #[error("layer {layer} (scale): factor {found} is not a finite 32-bit float")]
    FactorNotFinite {
        /// Index of the layer, from 0.
        layer: usize,
        /// The constant.
        found: f64,
    },
    /// A layer reads something that neither an input nor an earlier layer defines.
    #[error("layer {layer} ({op}) reads {value:?}, which is not defined before it")]
    UndefinedValue {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The name that it reads.
        value: String,
    },
    /// A name is given to two values, or an output is listed twice.
    #[error("{place} defines {value:?} a second time")]
    DuplicateValue {
        /// Who gives the name again.
        place: String,
        /// The name.
        value: String,
    },
    /// A layer reads elements of a type that its operation does not take.
    #[error("layer {layer} ({op}) reads {value:?} of type {found}, it takes {expected}")]
    DTypeMismatch {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The value.
        value: String,
        /// The types that the operation takes.
        expected: &'static str,
        /// The type of the value.
        found: ValueType,
    },
    /// The two inputs of a layer have different widths.
    #[error(
        "layer {layer} ({op}) reads {value:?} of width {found}, its other input has width {expected}"
    )]
    ShapeMismatch {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The second input.
        value: String,
        /// Width of the first input.
        expected: usize,
        /// Width of the second input.
        found: usize,
    },

    // ---- the outputs
    /// The model has no output.
    #[error("the model has no output")]
    NoOutputs,
    /// No layer defines an output.
    #[error("output {output:?} is not the result of a layer")]
    OutputNotProduced {
        /// The output.
        output: String,
    },
    /// An output is declared differently from what its layer computes.
    #[error(
        "output {output:?} is declared as {declared_elements} x {declared}, its layer computes {computed_elements} x {computed}"
    )]
    OutputMismatch {
        /// The output.
        output: String,
        /// Declared element type.
        declared: ValueType,
        /// Declared number of elements per sample.
        declared_elements: usize,
        /// Computed element type.
        computed: ValueType,
        /// Computed number of elements per sample.
        computed_elements: usize,
    },

    // ---- the weights
    /// The weights section is too short, or its JSON header is longer than allowed.
    #[error(
        "header of {found} bytes in a weights section of {section} bytes, allowed are {}",
        limits::MAX_WEIGHTS_HEADER_BYTES
    )]
    WeightsHeaderLength {
        /// Declared length of the JSON header; 0 when the section has no room for a length.
        found: u64,
        /// Length of the section.
        section: u64,
    },
    /// The weights section is not a safetensors file.
    #[error("weights section is not a safetensors file: {source}")]
    Safetensors {
        /// What is wrong with it.
        source: SafeTensorError,
    },
    /// A tensor of the weights section lies outside it.
    #[error("weight {weight:?} ends at byte {end} of the weights data, which has {available}")]
    WeightOutside {
        /// The tensor.
        weight: String,
        /// Larger of its two offsets.
        end: u64,
        /// Length of the data.
        available: u64,
    },
    /// Two tensors of the weights section have the same name.
    #[error("the weights section has two tensors called {weight:?}")]
    DuplicateWeight {
        /// The name.
        weight: String,
    },
    /// A layer uses a tensor that the weights section does not have.
    #[error("layer {layer} ({op}) uses the weight {weight:?}, which the weights section lacks")]
    MissingWeight {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The tensor.
        weight: String,
    },
    /// A weight's shape does not fit the layer that uses it.
    #[error(
        "layer {layer} ({op}) needs the weight {weight:?} with shape {expected}, found {found:?}"
    )]
    WeightShape {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The tensor.
        weight: String,
        /// The shape that fits.
        expected: String,
        /// The shape found.
        found: Vec<usize>,
    },
    /// A weight is not made of 32-bit floats.
    #[error("layer {layer} ({op}) uses the weight {weight:?} of type {found}, expected F32")]
    WeightValueType {
        /// Index of the layer, from 0.
        layer: usize,
        /// Its operation.
        op: &'static str,
        /// The tensor.
        weight: String,
        /// The type found, in the spelling of safetensors.
        found: String,
    },
    /// A weight contains an infinity or something that is not a number.
    #[error("weight {name:?} is not finite at element {index}")]
    WeightNotFinite {
        /// The tensor.
        name: String,
        /// Index of the first such element, row-major.
        index: usize,
    },
}

impl ModelError {
    /// What is wrong, in whichever file.
    ///
    /// ```
    /// use xu_model::{Model, ModelError};
    ///
    /// let error = Model::open("Cargo.toml").unwrap_err();
    /// assert!(error.to_string().starts_with("Cargo.toml: bad magic"));
    /// assert!(matches!(error.what(), ModelError::BadMagic { .. }));
    /// ```
    #[must_use]
    pub fn what(&self) -> &Self {
        match self {
            Self::InFile { source, .. } => source,
            error => error,
        }
    }

    /// Of the bytes of a file.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::InFile {
            path: path.to_owned(),
            source: Box::new(self),
        }
    }
}
