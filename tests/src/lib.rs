//! What the tests in `tests/` share: the machines that they run on, a life of a runtime, programs that play a role, and a device that
//! meddles.
//!
//! ```text
//!   test ── Rig ──┬── a simulated machine
//!                 '── the driver's interface, through real system calls, with the emulator behind it;
//!                     where these cannot be answered, in another process over the preloaded library
//! ```

pub mod emulated;
pub mod life;
mod meddler;
pub mod preloaded;
pub mod rig;
pub mod role;

pub use emulated::Emulated;
pub use meddler::{AlterDoorbell, AlterWrite, Meddler};
pub use rig::{Kind, Parts, Rig};

/// Where the digits example lies.
pub const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits");

/// The examples of the README and of the container's page compile; the README's lines run in the documentation of
/// `nrta`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/model-container.md")]
struct Pages;
