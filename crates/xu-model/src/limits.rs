//! The limits of a container, in one place.
//!
//! Every reader of this crate compares against these constants before it allocates.
//! `docs/model-container.md` lists the same numbers for people who write containers.

/// Longest manifest, bytes.
pub const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// Longest weights section, bytes.
pub const MAX_WEIGHTS_BYTES: u64 = 512 << 20;

/// Longest JSON header of the weights section, bytes.
pub const MAX_WEIGHTS_HEADER_BYTES: u64 = 1 << 19;

/// Longest file that [`Container::open`](crate::Container::open) reads, bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Most layers in a manifest.
pub const MAX_LAYERS: usize = 4_096;

/// Most inputs, most outputs, and most tensors of the weights section.
pub const MAX_TENSORS: usize = 4_096;

/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// Longest name, bytes of UTF-8. The shortest is one byte.
pub const MAX_NAME_BYTES: usize = 256;

/// Longest string in the text of a manifest, bytes between its quotation marks.
///
/// A name of [`MAX_NAME_BYTES`] fits even when each byte is written as an escape of six characters.
pub const MAX_MANIFEST_STRING_BYTES: usize = 6 * MAX_NAME_BYTES;

/// Most elements of one value, per sample.
pub const MAX_ELEMENTS: usize = 1 << 24;

// A container whose sections are both within their limits is within the limit of the file.
const _: () = assert!(0x20 + MAX_MANIFEST_BYTES + MAX_WEIGHTS_BYTES <= MAX_FILE_BYTES);
