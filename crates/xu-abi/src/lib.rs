//! The bytes of the execution-unit lane: ids, statuses, layouts and constants.
//!
//! Every crate of the workspace builds on this one, and nothing here does more than pack and
//! decode: no allocation, no operating system, no `unsafe`.
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
//! # Two kinds of layouts
//!
//! *Host layouts* are what threads of one process share: ring header and slot, unit, worker, work item.
//! They follow `libnrt.so` 2.31.24.0 for x86-64, and their numbers are those of the processor.
//! Our own units hold typed Rust values instead; who shares memory with the original's clients, or reads its core
//! dumps, needs the bytes.
//!
//! *Wire layouts* are what the device reads and writes: request and trailer, descriptor, records.
//! They are little-endian everywhere, have no alignment, and take any bytes.
//!
//! ```text
//!  host                                              wire
//!  Unit -> QueueHeader -> Slot -> WorkItem    ==>    RequestBuffer, Descriptor    to the device
//!                                             <==    StatusRecord, ErrorRecord    from the device
//! ```
//!
//! # What holds of every struct
//!
//! * Size, alignment and the offset of every field are asserted at compile time, and kept as its constant `ABI`.
//!   The fields, padding included, cover the struct without a hole.
//! * `from_bytes`, `read` and `to_bytes` convert without `unsafe`; every pattern of bytes is a value and comes out
//!   unchanged. For views without copying each struct has the traits of the crate `zerocopy`.
//!
//! ```
//! use xu_abi::StatusRecord;
//! use xu_abi::record::Subtype;
//!
//! let bytes = [0, 0, 0, 0x85, 0, 0, 77, 0, 8, 7, 6, 5, 4, 3, 2, 1];
//! let record = StatusRecord::read(&bytes)?;
//! assert_eq!(record.subtype(), Subtype::Unexpected(77));
//! assert_eq!(record.to_bytes(), bytes);
//! # Ok::<(), xu_abi::OutOfRange>(())
//! ```
//!
//! # Unknown numbers
//!
//! Devices and drivers are newer than programs, so a number without a name is not an error of decoding.
//! Where the protocol lets the peer say anything, the type keeps it: [`Status`], `Unexpected` and `Unknown`
//! variants, raw ids. Where a number must name something before it can be used, there is a second, checked way in
//! ([`XuId::checked`], [`SeqId::checked`], `TryFrom`) that refuses with [`OutOfRange`], which says what was wrong.
//!
//! # Modules
//!
//! | module | subject | spec |
//! |---|---|---|
//! | [`id`] | [`XuId`], [`SeqId`], [`Cursor`] | `xu.md` section 1 |
//! | [`queue`] | ring header and slot | 2.1, 2.2 |
//! | [`mod@unit`] | unit, table entry and worker of the original | 2.3 to 2.5 |
//! | [`work_item`] | work item and response area | 2.6, 2.7 |
//! | [`request`] | execution request and its trailer | 2.8 |
//! | [`record`] | notification records | 2.9 |
//! | [`descriptor`] | DMA descriptors and ring ids | 2.10, `driver.md` 6 |
//! | [`status`] | [`Status`] with names and priorities | 2.11 |
//! | [`chain`] | copies of any length as chains of descriptors | 2.10, `driver.md` 6 |
//! | [`device`] | addresses, engines, semaphores, events | 5, `driver.md` 7 |
//! | [`driver`] | ioctls of `/dev/neuronN`, their arguments, maps of the hardware | `driver.md` 1 to 8 |
//! | [`metric`] | counters of the driver's datastore | 7, `driver.md` 9 |
//! | [`mod@env`] | names, defaults and ranges of environment variables | `env.md` |
//! | [`layout`] | what a struct looks like in memory, as data | - |
//! | [`inventory`] | all structs and constants, as JSON and Markdown | - |
//!
//! The specification is kept with the project's design work; what a user needs of it is said where it is implemented.
#![no_std]
#![forbid(unsafe_code)]

mod range;

pub mod chain;
pub mod descriptor;
pub mod device;
pub mod driver;
pub mod env;
pub mod id;
pub mod inventory;
pub mod layout;
pub mod metric;
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
pub use range::OutOfRange;
pub use record::{ErrorRecord, StatusRecord};
pub use request::{ExecRequest, RequestBuffer};
pub use status::Status;
