//! What one request asks of a tensor-op queue, checked before anything is posted.
//!
//! Made by the facade at schedule time, performed by [`TensorDma`](super::TensorDma).
//! An [`Operation`] that exists is valid: types, ranges, places and overlaps have been looked at, so that performing it
//! can only fail because of the device. Spec: `c-api.md` sections 6.1 and 6.6.

use crate::device::Place;
use crate::elementwise::{Dtype, ReduceOp};
use crate::region::{OutOfRange, Region};
use crate::transfer::CHUNK;
use xu_abi::Status;

/// Most bytes of an operand in one chunk of arithmetic. Smaller than [`CHUNK`], since the stepping thread computes.
pub(super) const ARITHMETIC_CHUNK: usize = 64 << 10;

/// A checked request. It names memory and holds none: see [`Region`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub(super) kind: Kind,
    /// How much there is to do: bytes, or elements where [`Kind::Arithmetic`] says so.
    pub(super) count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Host bytes to the device.
    Write { to: Region },
    /// Device bytes to the host.
    Read { from: Region },
    /// From one address that the device reaches to another.
    Copy { from: Region, to: Region },
    /// One value to every byte.
    Memset { to: Region, value: u8 },
    /// Elements through the bounce buffer: in, combined, out.
    Arithmetic {
        rule: Rule,
        sources: Vec<Region>,
        to: Region,
    },
}

/// How elements of the sources become one of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Cast { from: Dtype, to: Dtype },
    Reduce { op: ReduceOp, dtype: Dtype },
    Fma { dtype: Dtype },
}

impl Operation {
    /// Writes as many host bytes as `to` is long.
    ///
    /// # Errors
    /// [`InvalidOperation::NotDeviceMemory`].
    pub fn write(to: Region) -> Result<Self, InvalidOperation> {
        on_device(to)?;
        Ok(Self {
            count: to.bytes(),
            kind: Kind::Write { to },
        })
    }

    /// Reads `from` into host bytes of the same length.
    ///
    /// # Errors
    /// [`InvalidOperation::NotDeviceMemory`].
    pub fn read(from: Region) -> Result<Self, InvalidOperation> {
        on_device(from)?;
        Ok(Self {
            count: from.bytes(),
            kind: Kind::Read { from },
        })
    }

    /// Writes `from`, host memory that the device reaches, to `to`: to the device a copy like any other, without the bounce
    /// buffer.
    ///
    /// # Errors
    /// [`InvalidOperation::NotHostMemory`], [`InvalidOperation::NotDeviceMemory`], [`InvalidOperation::Lengths`].
    pub fn write_from(from: Region, to: Region) -> Result<Self, InvalidOperation> {
        on_host(from)?;
        on_device(to)?;
        Self::move_all(from, to)
    }

    /// Reads `from` into `to`, host memory that the device reaches, without the bounce buffer.
    ///
    /// # Errors
    /// As [`Operation::write_from`].
    pub fn read_into(from: Region, to: Region) -> Result<Self, InvalidOperation> {
        on_device(from)?;
        on_host(to)?;
        Self::move_all(from, to)
    }

    /// Copies `from` to `to`, both in the memory of one core. The same range twice is an operation that does nothing.
    ///
    /// # Errors
    /// [`InvalidOperation::Lengths`], [`InvalidOperation::Overlap`], [`InvalidOperation::NotDeviceMemory`],
    /// [`InvalidOperation::Apart`].
    pub fn copy(from: Region, to: Region) -> Result<Self, InvalidOperation> {
        together(from, to)?;
        Self::copy_across(from, to)
    }

    /// As [`Operation::copy`], also from the memory of one core to that of another.
    ///
    /// # Errors
    /// As [`Operation::copy`], without [`InvalidOperation::Apart`].
    pub fn copy_across(from: Region, to: Region) -> Result<Self, InvalidOperation> {
        on_device(from)?;
        on_device(to)?;
        Self::move_all(from, to)
    }

    /// A copy between regions whose places have been looked at.
    fn move_all(from: Region, to: Region) -> Result<Self, InvalidOperation> {
        if from.bytes() != to.bytes() {
            return Err(InvalidOperation::Lengths {
                from: from.bytes(),
                to: to.bytes(),
            });
        }
        same_or_apart(from, to)?;
        Ok(Self {
            count: if from == to { 0 } else { to.bytes() },
            kind: Kind::Copy { from, to },
        })
    }

    /// Sets every byte of `to` to `value`.
    ///
    /// # Errors
    /// [`InvalidOperation::NotDeviceMemory`].
    pub fn memset(to: Region, value: u8) -> Result<Self, InvalidOperation> {
        on_device(to)?;
        Ok(Self {
            count: to.bytes(),
            kind: Kind::Memset { to, value },
        })
    }

    /// Converts the first `elements` elements of `from` to those of `to`.
    ///
    /// The ranges may be the same if the elements are of one size.
    ///
    /// # Errors
    /// [`InvalidOperation::TooShort`] when a region holds fewer; as [`Operation::copy`].
    pub fn cast(
        from: Region,
        from_dtype: Dtype,
        to: Region,
        to_dtype: Dtype,
        elements: u64,
    ) -> Result<Self, InvalidOperation> {
        let from = holding(from, from_dtype, elements)?;
        let to = holding(to, to_dtype, elements)?;
        together(from, to)?;
        same_or_apart(from, to)?;
        Ok(Self {
            count: elements,
            kind: Kind::Arithmetic {
                rule: Rule::Cast {
                    from: from_dtype,
                    to: to_dtype,
                },
                sources: vec![from],
                to,
            },
        })
    }

    /// Combines the first `elements` elements of all `sources` into `to`, from the first source to the last.
    ///
    /// One source is a copy, bit by bit. `to` may be the very range of a source.
    ///
    /// # Errors
    /// [`InvalidOperation::NoSources`]; as [`Operation::cast`].
    pub fn compute(
        op: ReduceOp,
        dtype: Dtype,
        sources: Vec<Region>,
        to: Region,
        elements: u64,
    ) -> Result<Self, InvalidOperation> {
        for source in &sources {
            together(*source, to)?;
        }
        Self::compute_across(op, dtype, sources, to, elements)
    }

    /// As [`Operation::compute`], also with sources in the memory of other cores.
    ///
    /// # Errors
    /// As [`Operation::compute`], without [`InvalidOperation::Apart`].
    pub fn compute_across(
        op: ReduceOp,
        dtype: Dtype,
        mut sources: Vec<Region>,
        to: Region,
        elements: u64,
    ) -> Result<Self, InvalidOperation> {
        let to = holding(to, dtype, elements)?;
        for source in &mut sources {
            *source = holding(*source, dtype, elements)?;
            same_or_apart(*source, to)?;
        }
        match sources.as_slice() {
            [] => Err(InvalidOperation::NoSources),
            [only] => Self::copy_across(*only, to),
            _ => Ok(Self {
                count: elements,
                kind: Kind::Arithmetic {
                    rule: Rule::Reduce { op, dtype },
                    sources,
                    to,
                },
            }),
        }
    }

    /// Computes `to = a * b + c` over the first `elements` elements; `to` may be the very range of an operand.
    ///
    /// # Errors
    /// [`InvalidOperation::NotFloat`]; as [`Operation::cast`].
    pub fn fma(
        dtype: Dtype,
        [a, b, c]: [Region; 3],
        to: Region,
        elements: u64,
    ) -> Result<Self, InvalidOperation> {
        if !dtype.is_float() {
            return Err(InvalidOperation::NotFloat { dtype });
        }
        let to = holding(to, dtype, elements)?;
        let mut sources = vec![a, b, c];
        for source in &mut sources {
            *source = holding(*source, dtype, elements)?;
            together(*source, to)?;
            same_or_apart(*source, to)?;
        }
        Ok(Self {
            count: elements,
            kind: Kind::Arithmetic {
                rule: Rule::Fma { dtype },
                sources,
                to,
            },
        })
    }

    /// Length of the host bytes that each step needs; 0 for an operation that stays on the device.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        match self.kind {
            Kind::Write { .. } | Kind::Read { .. } => self.count,
            Kind::Copy { .. } | Kind::Memset { .. } | Kind::Arithmetic { .. } => 0,
        }
    }

    /// The list of sources, to be used for another operation. Empty unless several sources were combined.
    pub(crate) fn into_sources(self) -> Vec<Region> {
        match self.kind {
            Kind::Arithmetic { sources, .. } => sources,
            Kind::Write { .. } | Kind::Read { .. } | Kind::Copy { .. } | Kind::Memset { .. } => {
                Vec::new()
            }
        }
    }

    /// How much of [`Operation::count`] fits into one chunk.
    pub(super) fn per_chunk(&self) -> usize {
        match &self.kind {
            Kind::Arithmetic { rule, .. } => {
                ARITHMETIC_CHUNK / rule.source_bytes().max(rule.target_bytes())
            }
            Kind::Write { .. } | Kind::Read { .. } | Kind::Copy { .. } | Kind::Memset { .. } => {
                CHUNK
            }
        }
    }
}

impl Rule {
    /// Size of an element of a source, bytes.
    pub(super) fn source_bytes(self) -> usize {
        match self {
            Self::Cast { from: dtype, .. } | Self::Reduce { dtype, .. } | Self::Fma { dtype } => {
                dtype.bytes()
            }
        }
    }

    /// Size of an element of the target, bytes.
    pub(super) fn target_bytes(self) -> usize {
        match self {
            Self::Cast { to: dtype, .. } | Self::Reduce { dtype, .. } | Self::Fma { dtype } => {
                dtype.bytes()
            }
        }
    }
}

/// Why there is no such operation. Nothing has been touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOperation {
    /// A region is not in device memory.
    #[error("{region} is in {place}, not in device memory")]
    NotDeviceMemory {
        /// The region.
        region: Region,
        /// Where it is.
        place: Place,
    },
    /// A region is not in host memory that the device reaches.
    #[error("{region} is in {place}, not in host memory")]
    NotHostMemory {
        /// The region.
        region: Region,
        /// Where it is.
        place: Place,
    },
    /// Two regions are in the memory of different cores.
    #[error("one region is in {from}, the other in {to}")]
    Apart {
        /// Where the source is.
        from: Place,
        /// Where the target is.
        to: Place,
    },
    /// Source and target of a copy have different lengths.
    #[error("a copy of {from} bytes to {to} bytes")]
    Lengths {
        /// Length of the source, bytes.
        from: u64,
        /// Length of the target, bytes.
        to: u64,
    },
    /// Source and target have some bytes in common, but not all.
    #[error("source ({from}) and target ({to}) overlap")]
    Overlap {
        /// The source.
        from: Region,
        /// The target.
        to: Region,
    },
    /// A region does not hold that many elements.
    #[error("{region} is too short for {elements} elements of {dtype}")]
    TooShort {
        /// The region.
        region: Region,
        /// How many elements it should hold.
        elements: u64,
        /// Their type.
        dtype: Dtype,
    },
    /// There is nothing to combine.
    #[error("a computation needs at least one source")]
    NoSources,
    /// Integers are not multiplied and added.
    #[error("multiply and add is for floats, not for {dtype}")]
    NotFloat {
        /// The type.
        dtype: Dtype,
    },
    /// A range is not inside a tensor.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

impl InvalidOperation {
    /// [`Status::INVALID`].
    #[must_use]
    pub const fn status(&self) -> Status {
        Status::INVALID
    }
}

fn on_device(region: Region) -> Result<(), InvalidOperation> {
    match region.place() {
        Place::Hbm(_) => Ok(()),
        place @ Place::Host => Err(InvalidOperation::NotDeviceMemory { region, place }),
    }
}

fn on_host(region: Region) -> Result<(), InvalidOperation> {
    match region.place() {
        Place::Host => Ok(()),
        place @ Place::Hbm(_) => Err(InvalidOperation::NotHostMemory { region, place }),
    }
}

/// Whether both are in the device memory of one core.
fn together(from: Region, to: Region) -> Result<(), InvalidOperation> {
    on_device(from)?;
    on_device(to)?;
    if from.place() == to.place() {
        Ok(())
    } else {
        Err(InvalidOperation::Apart {
            from: from.place(),
            to: to.place(),
        })
    }
}

/// Chunks are read before they are written, and in order: the same range is safe, a shifted one is not.
fn same_or_apart(from: Region, to: Region) -> Result<(), InvalidOperation> {
    if from == to || !from.overlaps(to) {
        Ok(())
    } else {
        Err(InvalidOperation::Overlap { from, to })
    }
}

/// The part of `region` that holds `elements` elements.
fn holding(region: Region, dtype: Dtype, elements: u64) -> Result<Region, InvalidOperation> {
    on_device(region)?;
    let too_short = InvalidOperation::TooShort {
        region,
        elements,
        dtype,
    };
    let Some(bytes) = elements.checked_mul(dtype.bytes() as u64) else {
        return Err(too_short);
    };
    region.slice(0, bytes).map_err(|_| too_short)
}
