//! Everything about driver and hardware that was not read in the driver: from other documents, inferred, or chosen.
//!
//! One table. Whoever uses such a number takes it from here, so that one place changes when a device says otherwise.
//! What the simulated machine chooses for itself is in `xu_device::map`.

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Read in an earlier release of the driver.
    Older,
    /// From public documentation about the hardware blocks; the driver does not touch it.
    Secondary,
    /// Follows from something else, if that is right.
    Inferred,
    /// Not known at all: a decision of the specification of the emulation.
    Chosen,
}

impl Standing {
    /// The word used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Older => "older driver",
            Self::Secondary => "secondary",
            Self::Inferred => "inferred",
            Self::Chosen => "chosen",
        }
    }
}

/// One number that a device has yet to confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unverified {
    /// The name of the constant.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Where it comes from.
    pub standing: Standing,
    /// File and section of the specification.
    pub spec: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

macro_rules! unverified {
    ($($name:ident = $value:literal, $standing:ident, $spec:literal, $meaning:literal;)*) => {
        $(#[doc = concat!($meaning, ". Not verified: `", $spec, "`.")] pub const $name: u64 = $value;)*

        /// Every number, by subject.
        pub const TABLE: &[Unverified] = &[$(Unverified {
            name: stringify!($name),
            value: $value,
            standing: Standing::$standing,
            spec: $spec,
            meaning: $meaning,
        }),*];
    };
}

unverified! {
    NQ_QUEUES_OF_CORE = 10, Secondary, "driver.md 5", "Hardware queues of a core's notification block";
    NQ_QUEUES_OF_TOPSP = 1, Secondary, "driver.md 5", "Hardware queues of a TOPSP's notification block";
    NQ_QUEUES_OF_SDMA = 1, Secondary, "driver.md 5", "Hardware queues of an SDMA engine's notification block";
    NQ_OF_ERRORS = 2, Secondary, "driver.md 5", "Hardware queue of error records, by convention of the original runtime";
    NQ_OF_FIRST_ENGINE = 4, Secondary, "driver.md 5", "Hardware queue of status records of the first engine, by convention";
    NQ_TAIL = 0x110, Secondary, "driver.md 5", "Register: producer position in bytes, read-only; queue i at 0x28 i";
    NQ_THRESHOLD = 0x114, Secondary, "driver.md 5", "Register: usage threshold in bytes; queue i at 0x28 i";
    NQ_TIMESTAMP_LOW = 0x00, Secondary, "driver.md 5", "Register of the block: timestamp, low half";
    NQ_TIMESTAMP_HIGH = 0x04, Secondary, "driver.md 5", "Register of the block: timestamp, high half";
    NQ_BACK_PRESSURE = 0x08, Secondary, "driver.md 5", "Register of the block: bit per queue, stall instead of drop when full";
    NQ_ENABLE = 0x14, Secondary, "driver.md 5", "Register of the block: bit per queue, enabled; 0 after reset";
    NQ_OVERWRITE = 0x18, Secondary, "driver.md 5", "Register of the block: bit per queue, overwrite when full";
    NQ_INPUT_ENABLE_0 = 0x30, Secondary, "driver.md 5", "Register of the block: first input write-buffer enable";
    NQ_INPUT_ENABLE_1 = 0x34, Secondary, "driver.md 5", "Register of the block: second input write-buffer enable";
    NQ_COALESCE_TIMER = 0xB4, Secondary, "driver.md 5", "Register of the block: coalescer timer";
    NQ_COALESCE_CONTROL = 0xB8, Secondary, "driver.md 5", "Register of the block: coalescer control";
    NQ_FULL = 0xC4, Secondary, "driver.md 5", "Register of the block: full status";
    NQ_THRESHOLD_PASSED = 0xC8, Secondary, "driver.md 5", "Register of the block: threshold-passed status";
    NQ_TIMESTAMP_INCREMENT = 0xCC, Secondary, "driver.md 5", "Register of the block: timestamp increment";
    NQ_FIRST_PHASE = 1, Inferred, "driver.md 5", "Phase bit of the first lap after a ring is programmed";
    NQ_HEAD_UNIT = 1, Older, "driver.md 5", "The head register counts bytes";
    NQ_HEAD_DISTANCE_V1 = 256, Older, "driver.md 5", "Bytes that the head had to stay behind the tail on v1";
    RECORD_TIMESTAMP_WORD = 2, Secondary, "driver.md 5", "First of the two words of a record that are its timestamp";
    RECORD_BUFFER_OVERFLOW = 0x4000_0000, Secondary, "driver.md 5", "Bit of word 0: the hardware buffer overflowed before this record";
    RECORD_RING_OVERFLOW = 0x2000_0000, Secondary, "driver.md 5", "Bit of word 0: the ring overflowed before this record";
    DESCRIPTOR_META = 0x0080_0000, Secondary, "driver.md 6", "Bit of a descriptor's word 0: META";
    DESCRIPTOR_STRONG_ORDER = 0x2000_0000, Secondary, "driver.md 6", "Bit of a descriptor's word 0: strong-order write, Rx on v3";
    DESCRIPTOR_CONCAT = 0x8000_0000, Secondary, "driver.md 6", "Bit of a descriptor's word 0: CONCAT";
    EMULATED_HOST_CHUNKS = 0x1000_0000, Chosen, "driver_emulation.md 2", "First host chunk of the emulation, above the host bit";
    EMULATED_POISON = 0xA5, Chosen, "driver_emulation.md 2", "Byte that fills new device chunks of the emulation";
    EMULATED_POISON_BYTES = 0x10_0000, Chosen, "driver_emulation.md 2", "Bytes of a device chunk that the emulation fills, at most";
    EMULATED_BAR0 = 0xFFFF_C900_0000_0000, Chosen, "driver_emulation.md 3", "Opaque base for BAR_READ and BAR_WRITE of the emulation";
    EMULATED_NQ_FREE = 16, Chosen, "driver_emulation.md 5", "Bytes of a notification ring that stay free, so that head = tail means empty";
    EMULATED_HBM = 0x4000_0000, Chosen, "driver_emulation.md 1", "Bytes of each HBM of the emulation, when nothing else is asked";
}
