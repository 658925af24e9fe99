//! Everything that this crate fixes, as data: structs, constants, statuses, counters, variables.
//!
//! For programs in other languages, for readers of memory, and for reviewers: `cargo xtask abi --write` puts
//! [`Json`] into `docs/abi.json` and [`Markdown`] into `docs/abi.md`, and `cargo xtask verify` fails when they no
//! longer say what the code says. So a layout does not change unseen.
//!
//! ```
//! use xu_abi::inventory::{Json, STRUCTS};
//!
//! let slot = STRUCTS.iter().find(|layout| layout.original == "xuq_exec_info_t").unwrap();
//! assert_eq!(slot.size, 32);
//! assert!(Json.to_string().starts_with("{\n"));
//! ```
//!
//! Tests of this crate read its source and demand that each asserted struct and each public number is listed here.

mod driver;
mod json;
mod markdown;

pub use driver::{DRIVER_GROUPS, DRIVER_STRUCTS, DRIVER_TARGET};
pub use json::Json;
pub use markdown::Markdown;

use crate::chain::MAX_PACKET_PAIRS;
use crate::descriptor::{
    DESCRIPTOR_SIZE, MAX_TRANSFER, META_PLAIN_COPY, META_WRITE_BARRIER, RING_ALIGN, RING_GRANULE,
    RING_MAX_DESCRIPTORS, RING_MIN_DESCRIPTORS, len_ctrl,
};
use crate::device::{ERROR_NQ, FIRST_STATUS_NQ};
use crate::id::MAX_VIRTUAL_CORES;
use crate::layout::StructLayout;
use crate::metric::{
    CoreCounter, DATASTORE_CORES, DATASTORE_SIGNATURE, DATASTORE_SIZE, DeviceCounter, ErrorFlag,
};
use crate::record::{Custom, ErrorKind, RECORD_SIZE, Subtype, ring_bits};
use crate::unit::{Health, UNIT_TABLE_ENTRIES, Unit, UnitBase, Worker};
use crate::work_item::{InferResponse, ScheduleView, Timespec, WorkItem, WorkKind};
use crate::{
    Cursor, Descriptor, Engine, ErrorRecord, ExecRequest, QueueHeader, RequestBuffer, RingId,
    SeqId, Slot, StatusRecord, XuId, XuType,
};

/// What the layouts are pinned against.
pub const TARGET: &str = "libnrt.so 2.31.24.0, x86-64, little-endian";

/// Every struct of the lane, in the order of the specification.
/// Those of the driver are in [`DRIVER_STRUCTS`].
pub const STRUCTS: &[StructLayout] = &[
    QueueHeader::ABI,
    Slot::ABI,
    UnitBase::ABI,
    Unit::ABI,
    Worker::ABI,
    WorkItem::ABI,
    ScheduleView::ABI,
    InferResponse::ABI,
    Timespec::ABI,
    ExecRequest::ABI,
    RequestBuffer::ABI,
    StatusRecord::ABI,
    ErrorRecord::ABI,
    Descriptor::ABI,
];

/// Constants of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they are about.
    pub title: &'static str,
    /// File and section of the specification.
    pub spec: &'static str,
    /// The constants.
    pub constants: &'static [Constant],
}

/// A number with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The name in this crate, with its type or module.
    pub name: &'static str,
    /// The number.
    pub value: Value,
}

/// A number, and how a person wants to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A count, a size or a value.
    Decimal(i64),
    /// An address, a mask or a word of bits.
    Hex(u64),
}

/// `decimal!{ A::B, "A::C" = value }`: constants by path, or by a name of one's own.
macro_rules! constants {
    ($base:ident: $($path:path $(= $value:expr)?),* $(,)?) => {
        &[$(constants!(@one $base $path $(= $value)?)),*]
    };
    (@one Decimal $path:path = $value:expr) => {
        Constant { name: stringify!($path), value: Value::Decimal($value as i64) }
    };
    (@one Decimal $path:path) => { constants!(@one Decimal $path = $path) };
    (@one Hex $path:path = $value:expr) => {
        Constant { name: stringify!($path), value: Value::Hex($value as u64) }
    };
    (@one Hex $path:path) => { constants!(@one Hex $path = $path) };
}
use constants;

// CAST: in what follows every constant is a small count, or an unsigned word that keeps its bits.

/// Every constant of the lane that another program may rely on, by subject.
/// Those of the driver are in [`DRIVER_GROUPS`].
pub const GROUPS: &[Group] = &[
    Group {
        title: "Kinds of execution units",
        spec: "xu.md 1",
        constants: constants! { Decimal: XuType::TensorOp, XuType::Compute, XuType::Collectives },
    },
    Group {
        title: "Limits of queues and cores",
        spec: "xu.md 1",
        constants: constants! { Decimal:
            XuType::TensorOp::queues = XuType::TensorOp.queues(),
            XuType::Compute::queues = XuType::Compute.queues(),
            XuType::Collectives::queues = XuType::Collectives.queues(),
            XuType::TensorOp::default_limit = limit(XuType::TensorOp),
            XuType::Compute::default_limit = limit(XuType::Compute),
            XuType::MAX_COMPUTE_LIMIT,
            MAX_VIRTUAL_CORES,
        },
    },
    Group {
        title: "Bits of ids",
        spec: "xu.md 1",
        constants: constants! { Hex: XuId::TYPE_MASK, XuId::QUEUE_MASK, XuId::VNC_MASK },
    },
    Group {
        title: "Sequences",
        spec: "xu.md 1",
        constants: constants! { Hex:
            SeqId::NUM_BITS,
            Cursor::NONE = Cursor::NONE.get(),
            Cursor::FIRST = Cursor::FIRST.get(),
            Cursor::LAST = Cursor::LAST.get(),
        },
    },
    Group {
        title: "Slot",
        spec: "xu.md 2.2",
        constants: constants! { Decimal:
            Slot::NO_EFD,
            Slot::EFD_CLOSED_AFTER_USE,
            Slot::EFD_FROM_POOL,
        },
    },
    Group {
        title: "Unit and worker",
        spec: "xu.md 2.3 to 2.5",
        constants: constants! { Decimal:
            UnitBase::HEALTHY,
            UnitBase::CLOSING,
            UnitBase::DEGRADED,
            Health::Healthy,
            Health::Closing,
            Health::Degraded,
            Unit::HARVEST_STATE_SIZE,
            UNIT_TABLE_ENTRIES,
            Worker::MAX_UNITS,
        },
    },
    Group {
        title: "Work item",
        spec: "xu.md 2.6, 2.7",
        constants: constants! { Decimal:
            WorkItem::EXECUTE,
            WorkItem::STOP,
            WorkKind::Execute,
            WorkKind::Stop,
            WorkItem::SUBMISSION_TIME_OFFSET,
            Timespec::NANOS_PER_SEC,
        },
    },
    Group {
        title: "Request",
        spec: "xu.md 2.8",
        constants: constants! { Decimal: RequestBuffer::TRAILER_OFFSET },
    },
    Group {
        title: "Engines and their notification queues",
        spec: "xu.md 2.8, 6",
        constants: constants! { Decimal:
            Engine::Pe,
            Engine::Act,
            Engine::Pool,
            Engine::Dve,
            Engine::Sp,
            Engine::Pe::status_nq = Engine::Pe.status_nq(),
            Engine::Act::status_nq = Engine::Act.status_nq(),
            Engine::Pool::status_nq = Engine::Pool.status_nq(),
            Engine::Dve::status_nq = Engine::Dve.status_nq(),
            Engine::Sp::status_nq = Engine::Sp.status_nq(),
            FIRST_STATUS_NQ,
            ERROR_NQ,
        },
    },
    Group {
        title: "Status records",
        spec: "xu.md 2.9, 6",
        constants: constants! { Decimal:
            RECORD_SIZE,
            Subtype::Start = Subtype::Start.raw(),
            Subtype::End = Subtype::End.raw(),
            Subtype::Custom = Subtype::Custom.raw(),
            Subtype::CcStart = Subtype::CcStart.raw(),
            Subtype::CcEnd = Subtype::CcEnd.raw(),
            Custom::DebugValue = Custom::DebugValue.raw(),
            Custom::TensorDone = Custom::TensorDone.raw(),
            Custom::TensorRead = Custom::TensorRead.raw(),
            StatusRecord::MAX_DEBUG_HINT,
        },
    },
    Group {
        title: "Error records (unverified)",
        spec: "xu.md 2.9",
        constants: constants! { Decimal:
            ErrorKind::Transient = ErrorKind::Transient.raw(),
            ErrorKind::Numerical = ErrorKind::Numerical.raw(),
            ErrorKind::SoftwareSequencer = ErrorKind::SoftwareSequencer.raw(),
            ErrorKind::EccUncorrectable = ErrorKind::EccUncorrectable.raw(),
            ErrorKind::EccCorrectable = ErrorKind::EccCorrectable.raw(),
        },
    },
    Group {
        title: "Bits inside records",
        spec: "xu.md 2.9, 6, driver.md 5",
        constants: constants! { Hex:
            StatusRecord::HINT_MASK,
            StatusRecord::LINE_HI_MASK,
            Custom::OUT_OF_BOUNDS_KINDS,
            ring_bits::PHASE,
            ring_bits::BUFFER_OVERFLOW,
            ring_bits::RING_OVERFLOW,
            ring_bits::TAG,
        },
    },
    Group {
        title: "Descriptor words",
        spec: "xu.md 2.10, driver.md 6",
        constants: constants! { Hex:
            len_ctrl::LENGTH,
            len_ctrl::META,
            len_ctrl::RING_ID,
            len_ctrl::FIRST,
            len_ctrl::LAST,
            len_ctrl::INTERRUPT,
            len_ctrl::STRONG_ORDER,
            len_ctrl::DMB,
            len_ctrl::CONCAT,
            META_PLAIN_COPY,
            META_WRITE_BARRIER,
        },
    },
    Group {
        title: "Descriptor rings",
        spec: "xu.md 2.10, driver.md 6",
        constants: constants! { Decimal:
            DESCRIPTOR_SIZE,
            MAX_TRANSFER,
            MAX_PACKET_PAIRS,
            len_ctrl::RING_ID_SHIFT,
            RingId::FIRST = RingId::FIRST.get(),
            RING_ALIGN,
            RING_GRANULE,
            RING_MIN_DESCRIPTORS,
            RING_MAX_DESCRIPTORS,
        },
    },
    Group {
        title: "Datastore",
        spec: "xu.md 7, driver.md 9",
        constants: constants! { Decimal:
            DATASTORE_SIZE,
            DATASTORE_CORES,
            CoreCounter::COUNT,
            DeviceCounter::COUNT,
            ErrorFlag::COUNT,
            ErrorFlag::FIRST_COUNTED,
            ErrorFlag::TO_COUNTER,
        },
    },
    Group {
        title: "Datastore signature, as a little-endian word",
        spec: "driver.md 9",
        constants: constants! { Hex: DATASTORE_SIGNATURE = u32::from_le_bytes(DATASTORE_SIGNATURE) },
    },
];

/// The configured limit of a type that has one.
const fn limit(xu_type: XuType) -> u64 {
    match xu_type.default_limit() {
        Some(limit) => limit,
        // PANIC: evaluated at compile time, for the two types that have a limit.
        None => panic!("no default limit"),
    }
}
