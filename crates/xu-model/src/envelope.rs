//! The outer layer of a container: 32 bytes of header, then two sections.
//!
//! Read by [`Container`] and by tools that only want the sections; written by [`pack`].
//! Nothing is allocated here before every length has been compared with the actual one.
//!
//! ```text
//!   0x00  magic "XUMODEL\0"      0x10  u64 weights_len     0x20  manifest, UTF-8 JSON
//!   0x08  u32 version            0x18  u32 crc32           0x20 + manifest_len
//!   0x0C  u32 manifest_len       0x1C  u32 reserved, 0           weights, a safetensors file
//! ```

use crate::container::Container;
use crate::error::ModelError;
use crate::limits::{MAX_MANIFEST_BYTES, MAX_WEIGHTS_BYTES};

/// First bytes of every container.
pub const MAGIC: [u8; 8] = *b"XUMODEL\0";

/// The version of the format that this crate reads and writes.
pub const VERSION: u32 = 1;

/// Length of the header, and offset of the manifest.
pub const HEADER_BYTES: usize = 0x20;

const VERSION_AT: usize = 0x08;
const MANIFEST_LEN_AT: usize = 0x0C;
const WEIGHTS_LEN_AT: usize = 0x10;
const CHECKSUM_AT: usize = 0x18;
const RESERVED_AT: usize = 0x1C;

/// The sections of a container whose header and checksum are right. Their content is not examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    manifest: &'a [u8],
    weights: &'a [u8],
    checksum: u32,
}

impl<'a> Envelope<'a> {
    /// Splits a container into its sections. The checksum is always verified.
    ///
    /// # Errors
    /// A variant of the envelope group of [`ModelError`], from [`ModelError::Truncated`] to
    /// [`ModelError::ChecksumMismatch`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, ModelError> {
        let found = bytes.len() as u64;
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(ModelError::Truncated {
                needed: HEADER_BYTES as u64,
                found,
            });
        };
        let magic = field::<0, 8>(header);
        if magic != MAGIC {
            return Err(ModelError::BadMagic { found: magic });
        }
        let version = u32::from_le_bytes(field::<VERSION_AT, 4>(header));
        if version != VERSION {
            return Err(ModelError::UnsupportedVersion {
                found: version,
                supported: VERSION,
            });
        }
        let reserved = u32::from_le_bytes(field::<RESERVED_AT, 4>(header));
        if reserved != 0 {
            return Err(ModelError::ReservedNotZero { found: reserved });
        }
        let manifest_len = u64::from(u32::from_le_bytes(field::<MANIFEST_LEN_AT, 4>(header)));
        let weights_len = u64::from_le_bytes(field::<WEIGHTS_LEN_AT, 8>(header));
        check_lengths(manifest_len, weights_len)?;

        // Both lengths are below 2^30 now, so the sum is exact.
        let declared = HEADER_BYTES as u64 + manifest_len + weights_len;
        if found < declared {
            return Err(ModelError::Truncated {
                needed: declared,
                found,
            });
        }
        if declared < found {
            return Err(ModelError::LengthMismatch { declared, found });
        }
        let expected = u32::from_le_bytes(field::<CHECKSUM_AT, 4>(header));
        let checksum = crc32fast::hash(body);
        if checksum != expected {
            return Err(ModelError::ChecksumMismatch {
                expected,
                found: checksum,
            });
        }
        // CAST: at most MAX_MANIFEST_BYTES.
        // PANIC: the body is exactly as long as both sections.
        let (manifest, weights) = body.split_at(manifest_len as usize);
        Ok(Self {
            manifest,
            weights,
            checksum,
        })
    }

    /// The manifest section, verbatim.
    #[must_use]
    pub const fn manifest(&self) -> &'a [u8] {
        self.manifest
    }

    /// The weights section, verbatim: a complete safetensors file.
    #[must_use]
    pub const fn weights(&self) -> &'a [u8] {
        self.weights
    }

    /// CRC-32 (IEEE) of both sections.
    #[must_use]
    pub const fn checksum(&self) -> u32 {
        self.checksum
    }
}

/// Builds a container from its sections, and parses it as proof that it can be read.
///
/// The sections are stored verbatim, so that equal sections give equal bytes.
///
/// # Errors
/// As [`Container::parse`].
pub fn pack(manifest_json: &[u8], weights: &[u8]) -> Result<Vec<u8>, ModelError> {
    let (manifest_len, weights_len) = (manifest_json.len() as u64, weights.len() as u64);
    check_lengths(manifest_len, weights_len)?;
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(manifest_json);
    checksum.update(weights);

    let mut bytes = Vec::with_capacity(HEADER_BYTES + manifest_json.len() + weights.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    // CAST: at most MAX_MANIFEST_BYTES.
    bytes.extend_from_slice(&(manifest_len as u32).to_le_bytes());
    bytes.extend_from_slice(&weights_len.to_le_bytes());
    bytes.extend_from_slice(&checksum.finalize().to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(manifest_json);
    bytes.extend_from_slice(weights);
    Container::parse(&bytes)?;
    Ok(bytes)
}

fn check_lengths(manifest_len: u64, weights_len: u64) -> Result<(), ModelError> {
    if MAX_MANIFEST_BYTES < manifest_len {
        return Err(ModelError::ManifestTooLarge {
            found: manifest_len,
        });
    }
    if MAX_WEIGHTS_BYTES < weights_len {
        return Err(ModelError::WeightsTooLarge { found: weights_len });
    }
    Ok(())
}

/// The `N` bytes at offset `AT`; a field outside the header does not compile.
fn field<const AT: usize, const N: usize>(header: &[u8; HEADER_BYTES]) -> [u8; N] {
    const { assert!(AT + N <= HEADER_BYTES) };
    // PANIC: see the assertion.
    core::array::from_fn(|i| header[AT + i])
}
