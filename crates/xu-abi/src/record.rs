//! The 16-byte notification record, in the two readings that it has.
//!
//! Written by the device into notification queues, read by the harvester.
//! Which reading applies is decided by the ring that was read, never by the record: status rings hold
//! [`StatusRecord`], the error ring holds [`ErrorRecord`]. Spec `xu.md` section 2.9, `driver.md` section 5.

use crate::layout::{assert_layout, bytes_of};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a record in bytes.
pub const RECORD_SIZE: u64 = 16;

/// Bits of byte 3 that belong to the ring and not to the record.
pub mod ring_bits {
    /// Phase: flips each time the writer wraps.
    pub const PHASE: u8 = 0x80;
    /// The hardware's own buffer overflowed before this record.
    pub const BUFFER_OVERFLOW: u8 = 0x40;
    /// The ring overflowed before this record.
    pub const RING_OVERFLOW: u8 = 0x20;
    /// What is left for the tag.
    pub const TAG: u8 = 0x1F;
}

/// A record of an execution-status ring (notification queues 4 to 8).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct StatusRecord {
    /// Instruction line, low 16 bits.
    pub isa_line_lo: U16,
    /// Debug hint in the high nibble, instruction line bits 19:16 in the low one.
    pub hint_and_line_hi: u8,
    /// Phase and overflow bits, then the tag.
    pub ring_and_tag: u8,
    /// Meaning of a custom record.
    pub custom_sub_id: U16,
    /// What happened: see [`Subtype`].
    pub subtype: U16,
    /// Device clock.
    pub device_ts: U64,
}

assert_layout! { StatusRecord is "notification_entry_t" in "xu.md 2.9": 16 bytes, align 1;
isa_line_lo @ 0x00  hint_and_line_hi @ 0x02  ring_and_tag @ 0x03
custom_sub_id @ 0x04  subtype @ 0x06  device_ts @ 0x08 }
bytes_of! { StatusRecord: 16 }

/// What a status record announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subtype {
    /// The engine began its block.
    Start,
    /// The engine finished its block.
    End,
    /// An instruction reported something: see `custom_sub_id`.
    Custom,
    /// Collectives began.
    CcStart,
    /// Collectives ended.
    CcEnd,
    /// Not expected on a status ring.
    Unexpected(u16),
}

impl Subtype {
    /// The value in a record.
    #[must_use]
    pub const fn raw(self) -> u16 {
        match self {
            Self::Start => 2,
            Self::End => 3,
            Self::Custom => 6,
            Self::CcStart => 7,
            Self::CcEnd => 8,
            Self::Unexpected(raw) => raw,
        }
    }

    /// Reads the value of a record: total.
    #[must_use]
    pub const fn from_raw(raw: u16) -> Self {
        match raw {
            2 => Self::Start,
            3 => Self::End,
            6 => Self::Custom,
            7 => Self::CcStart,
            8 => Self::CcEnd,
            other => Self::Unexpected(other),
        }
    }
}

/// What a custom record announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Custom {
    /// One of the out-of-bounds kinds (0 to 5, 9, 10).
    OutOfBounds(u16),
    /// A debug value, for the log.
    DebugValue,
    /// A tensor is complete.
    TensorDone,
    /// A debug read of a tensor.
    TensorRead,
    /// Anything else: a hardware error.
    Unknown(u16),
}

impl Custom {
    /// Bit *k* is set when sub-id *k* is one of the out-of-bounds kinds.
    pub const OUT_OF_BOUNDS_KINDS: u16 = 0x063F;

    /// The sub-id in a record.
    #[must_use]
    pub const fn raw(self) -> u16 {
        match self {
            Self::DebugValue => 6,
            Self::TensorDone => 7,
            Self::TensorRead => 8,
            Self::OutOfBounds(raw) | Self::Unknown(raw) => raw,
        }
    }

    /// Reads the sub-id of a record: total.
    #[must_use]
    pub const fn from_raw(raw: u16) -> Self {
        match raw {
            0..=5 | 9 | 10 => Self::OutOfBounds(raw),
            6 => Self::DebugValue,
            7 => Self::TensorDone,
            8 => Self::TensorRead,
            other => Self::Unknown(other),
        }
    }
}

impl StatusRecord {
    /// Largest `debug_hint` of a sound record; a larger one is a fault.
    pub const MAX_DEBUG_HINT: u8 = 1;
    /// Bits of [`Self::hint_and_line_hi`] that hold the debug hint.
    pub const HINT_MASK: u8 = 0xF0;
    /// Bits of [`Self::hint_and_line_hi`] that hold bits 19:16 of the instruction line.
    pub const LINE_HI_MASK: u8 = 0x0F;

    /// A record as the device writes it, with the ring's bits still clear.
    #[must_use]
    pub fn new(subtype: Subtype, tag: u8, device_ts: u64) -> Self {
        Self {
            ring_and_tag: tag & ring_bits::TAG,
            subtype: U16::new(subtype.raw()),
            device_ts: U64::new(device_ts),
            ..Self::default()
        }
    }

    /// What happened.
    #[must_use]
    pub fn subtype(&self) -> Subtype {
        Subtype::from_raw(self.subtype.get())
    }

    /// What a custom record announces.
    #[must_use]
    pub fn custom(&self) -> Custom {
        Custom::from_raw(self.custom_sub_id.get())
    }

    /// The debug hint: 0 or 1 in a sound record, see [`StatusRecord::MAX_DEBUG_HINT`].
    #[must_use]
    pub const fn debug_hint(&self) -> u8 {
        (self.hint_and_line_hi & Self::HINT_MASK) >> 4
    }

    /// The queue tag, without the ring's bits.
    #[must_use]
    pub const fn nq_id_tag(&self) -> u8 {
        self.ring_and_tag & ring_bits::TAG
    }

    /// The instruction line that an out-of-bounds record names (20 bits).
    #[must_use]
    pub fn isa_line(&self) -> u32 {
        u32::from(self.hint_and_line_hi & Self::LINE_HI_MASK) << 16
            | u32::from(self.isa_line_lo.get())
    }
}

/// A record of the error ring (notification queue 2).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct ErrorRecord {
    /// What failed: see [`ErrorKind`].
    pub error_id: u8,
    /// Detail mask.
    pub mask: U16,
    /// Phase and overflow bits.
    pub ring_and_tag: u8,
    /// Never interpreted.
    pub reserved_04: [u8; 4],
    /// Device clock.
    pub device_ts: U64,
}

assert_layout! { ErrorRecord is "notification_entry_t on the ERROR ring" in "xu.md 2.9": 16 bytes, align 1;
error_id @ 0x00  mask @ 0x01  ring_and_tag @ 0x03  reserved_04 @ 0x04  device_ts @ 0x08 }
bytes_of! { ErrorRecord: 16 }

/// Families of device errors.
///
/// **Unverified.** The spec says that ids 0 to 11 are known and which families exist, not which id is
/// which. This assignment is ours and lives here alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A transient fault: the result is suspect.
    Transient,
    /// NaN or infinity where none belongs.
    Numerical,
    /// The sequencer or an engine met an instruction that it cannot run.
    SoftwareSequencer,
    /// An uncorrectable memory error.
    EccUncorrectable,
    /// A corrected memory error: log only.
    EccCorrectable,
    /// Any other id.
    Unknown(u8),
}

impl ErrorKind {
    /// The id in a record.
    #[must_use]
    pub const fn raw(self) -> u8 {
        match self {
            Self::Transient => 0,
            Self::Numerical => 1,
            Self::SoftwareSequencer => 2,
            Self::EccUncorrectable => 3,
            Self::EccCorrectable => 4,
            Self::Unknown(raw) => raw,
        }
    }

    /// Reads the id of a record: total.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0 => Self::Transient,
            1 => Self::Numerical,
            2 => Self::SoftwareSequencer,
            3 => Self::EccUncorrectable,
            4 => Self::EccCorrectable,
            other => Self::Unknown(other),
        }
    }
}

impl ErrorRecord {
    /// A record as the device writes it, with the ring's bits still clear.
    #[must_use]
    pub fn new(kind: ErrorKind, mask: u16, device_ts: u64) -> Self {
        Self {
            error_id: kind.raw(),
            mask: U16::new(mask),
            device_ts: U64::new(device_ts),
            ..Self::default()
        }
    }

    /// What failed.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::from_raw(self.error_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_an_end_record() {
        let mut record = StatusRecord::new(Subtype::End, 5, 0x0102_0304_0506_0708);
        record.ring_and_tag |= ring_bits::PHASE;
        assert_eq!(
            record.as_bytes(),
            [0, 0, 0, 0x85, 0, 0, 3, 0, 8, 7, 6, 5, 4, 3, 2, 1]
        );
        assert_eq!(record.nq_id_tag(), 5);
    }

    #[test]
    fn every_subtype_and_sub_id_decodes() {
        // Miri takes half a minute for all of them.
        let last = if cfg!(miri) { 64 } else { u16::MAX };
        for raw in 0..=last {
            assert_eq!(Custom::from_raw(raw).raw(), raw);
            assert_eq!(Subtype::from_raw(raw).raw(), raw);
            let record = StatusRecord {
                custom_sub_id: U16::new(raw),
                ..Default::default()
            };
            let oob = matches!(record.custom(), Custom::OutOfBounds(_));
            assert_eq!(oob, matches!(raw, 0..=5 | 9 | 10));
            let kinds = u32::from(Custom::OUT_OF_BOUNDS_KINDS);
            assert_eq!(oob, kinds.checked_shr(raw.into()).unwrap_or(0) & 1 == 1);
        }
        for raw in 0..=u8::MAX {
            assert_eq!(ErrorKind::from_raw(raw).raw(), raw);
        }
    }
}
