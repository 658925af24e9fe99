//! The driver behind `/dev/neuronN`: its ioctls, their arguments, and the maps of the hardware that user space needs.
//!
//! Used by the backend `real-driver` of `xu-device`, and by whatever stands in for the driver in tests: both take every
//! number from here. Spec `driver.md`, against the public driver 2.24.7.0 on x86-64.
//!
//! ```text
//!  fd ── ioctl(request, &mut argument) ──> 0, a positive number, or an errno
//!              |              |
//!        ioctl::Ioctl    a struct of this module, whose pointer fields
//!        one row each    are listed in indirect::of
//! ```
//!
//! ```
//! use xu_abi::driver::ioctl::{self, SEMAPHORE_INCREMENT};
//! use xu_abi::driver::Semaphore;
//!
//! assert_eq!(SEMAPHORE_INCREMENT.request(), 0x8008_4E29);
//! // The encoded size is that of a pointer; the driver reads the whole structure.
//! assert_eq!((SEMAPHORE_INCREMENT.encoded_size, Semaphore::ABI.size), (8, 12));
//! assert_eq!(ioctl::ALL.iter().filter(|ioctl| ioctl.number == 102).count(), 3);
//! ```
//!
//! Arguments are *host layouts*: natural alignment, numbers of the processor, addresses of this process. In the
//! documentation of a field `→` means that the driver reads it, `←` that it writes it, `↔` both.
//!
//! | module | subject | `driver.md` |
//! |---|---|---|
//! | [`ioctl`] | one row for each ioctl | 2 |
//! | [`indirect`] | which fields are pointers, and to how many bytes | 2, 3 |
//! | [`identity`], [`claim`], [`reset`], [`memory`], [`copying`], [`dma`], [`register`], [`notification`], [`datastore`], [`pod`] | arguments | 3 |
//! | [`arch`] | what v2 and v3 consist of | head, 6, 7, 8 |
//! | [`window`] | what can be mapped besides chunks | 4 |
//! | [`errno`] | the error numbers that the driver uses | 1 |
//! | [`unverified`] | all that was not read in the driver | provenance tags |

#![allow(
    missing_debug_implementations,
    reason = "what zerocopy's derives make of a field has none; every type of ours has"
)]

mod argument;

pub mod arch;
pub mod bdf;
pub mod claim;
pub mod copying;
pub mod datastore;
pub mod dma;
pub mod errno;
pub mod identity;
pub mod indirect;
pub mod ioctl;
pub mod memory;
pub mod notification;
pub mod pod;
pub mod register;
pub mod reset;
pub mod unverified;
pub mod window;

pub use arch::{Arch, ArchTable};
pub use bdf::Bdf;
pub use claim::*;
pub use copying::*;
pub use datastore::*;
pub use dma::*;
pub use identity::*;
pub use ioctl::Ioctl;
pub use memory::*;
pub use notification::*;
pub use pod::*;
pub use register::*;
pub use reset::*;
