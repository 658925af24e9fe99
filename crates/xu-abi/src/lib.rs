//! The bytes of the execution-unit lane: ids, statuses, layouts and constants.
//!
//! Every crate of the workspace builds on this one, and nothing here does more than pack and
//! decode: no allocation, no operating system, no `unsafe`.
//! Host layouts are pinned against `libnrt.so` 2.31.24.0 (x86-64, little-endian); wire layouts are what
//! the device reads and writes.
//! Each size and offset is a compile-time assertion beside its struct.
//!
//! ```
//! use xu_abi::{Cursor, SeqId, XuId, XuType};
//!
//! let compute = XuId::new(XuType::Compute, 0, 3).expect("queue 0 of core 3");
//! let first = SeqId::new(compute, Cursor::FIRST);
//! assert_eq!(first.raw(), 0x0301_0000_0000_0001);
//! assert_eq!(first.xu().vnc(), 3);
//! assert_eq!(format!("{first:?}"), "SeqId(0x0301:1)");
//! ```
//!
//! | module | subject | spec |
//! |---|---|---|
//! | [`id`] | [`XuId`], [`SeqId`], [`Cursor`] | `xu.md` section 1 |
//! | [`queue`] | ring header and slot | 2.1, 2.2 |
//! | [`mod@unit`] | unit, table entry and worker of the original | 2.3 to 2.5 |
//! | [`work_item`] | work item and response area | 2.6, 2.7 |
//! | [`request`] | execution request and its trailer | 2.8 |
//! | [`record`] | notification records | 2.9 |
//! | [`descriptor`] | DMA descriptors and ring ids | 2.10 |
//! | [`status`] | [`Status`] with names and priorities | 2.11 |
//! | [`device`] | addresses, engines, semaphores, events | 5, `driver.md` 7 |
#![no_std]
#![forbid(unsafe_code)]

mod layout;

pub mod descriptor;
pub mod device;
pub mod id;
pub mod queue;
pub mod record;
pub mod request;
pub mod status;
pub mod unit;
pub mod work_item;

pub use descriptor::{Descriptor, RingId};
pub use device::{DeviceAddr, Engine, EventIndex, SemIndex, TpbIndex};
pub use id::{Cursor, SeqId, XuId, XuType};
pub use queue::{QueueHeader, Slot};
pub use record::{ErrorRecord, StatusRecord};
pub use request::{ExecRequest, RequestBuffer};
pub use status::Status;
