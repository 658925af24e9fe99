//! Model containers: one file with a small network in it, parsed, validated and resolved.
//!
//! Used by the runtime, which [`load`]s a [`Model`] onto a core as instruction blocks, and by tools, which
//! [`pack`] containers. There is no forward pass in this crate: the results of the device are compared with those of an
//! independent program (`examples/digits/train.py`).
//!
//! ```
//! use xu_model::{Container, Op, pack};
//!
//! // A safetensors file with one matrix, [in, out] = [2, 1].
//! let header = br#"{"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}"#;
//! let mut weights = (header.len() as u64).to_le_bytes().to_vec();
//! weights.extend_from_slice(header);
//! weights.extend([0.5f32, -1.0].into_iter().flat_map(f32::to_le_bytes));
//!
//! let manifest = br#"{
//!   "name": "example",
//!   "inputs":  [{"name": "x", "dtype": "f32", "shape": [2]}],
//!   "outputs": [{"name": "y", "dtype": "f32", "shape": [1]}],
//!   "layers":  [{"op": "matmul", "input": "x", "weight": "w", "output": "y"}]
//! }"#;
//! let container = Container::parse(&pack(manifest, &weights)?)?;
//!
//! let model = container.model();
//! for layer in model.layers() {
//!     let output = model.value(layer.output());
//!     assert_eq!((layer.op().name(), output.name(), output.width()), ("matmul", "y", 1));
//!     if let Op::MatMul { weight } = layer.op() {
//!         assert_eq!(model.weight(weight).data(), [0.5, -1.0]);
//!     }
//! }
//! # Ok::<(), xu_model::ModelError>(())
//! ```
//!
//! A container on its way to a model:
//!
//! ```text
//!   bytes --> Envelope --> manifest text --> raw manifest --+--> resolve --> Model
//!             lengths,      UTF-8, strings   counts, fields |    names to ids, types, shapes
//!             checksum  --> safetensors header -------------+    elements are finite
//!                           counts, names, offsets
//! ```
//!
//! # Map
//!
//! * [`Container`] opens and parses; [`Envelope`] and [`pack`] know the bytes around the two sections.
//! * [`Model`], [`Layer`], [`Op`] are the resolved network; [`TensorSpec`], [`Value`], [`Weight`] what it moves.
//! * [`load`] compiles a model for a batch size and places it on a device.
//! * [`ModelError`] has a variant per thing that can be wrong; [`limits`] has every number that bounds a file.
//!
//! # Hostile files
//!
//! No input makes this crate panic. Every length is compared with the actual one before anything is allocated,
//! every list stops growing at its limit, and the elements of the weights are copied last.
//! A refused file holds at most 6 MiB beside its own bytes, unless nothing but a weight's element is wrong.
//! The format is described in `docs/model-container.md`.

#![forbid(unsafe_code)]

mod compile;
mod container;
mod envelope;
mod error;
pub mod limits;
mod manifest;
mod model;
mod resolve;
mod scope;
mod site;
mod tensor;
mod weights;

pub use compile::{LoadError, MAX_BATCH, load};
pub use container::Container;
pub use envelope::{Envelope, HEADER_BYTES, MAGIC, VERSION, pack};
pub use error::ModelError;
pub use model::{Layer, Model, Op};
pub use tensor::{TensorSpec, Value, ValueId, ValueType, Weight, WeightId};
