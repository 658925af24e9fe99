//! The kernel driver behind `/dev/neuronN`: every system call of the backend for real hardware.
//!
//! [`NeuronDevice`] implements [`Device`](crate::Device) on it. Spec `driver.md`; layouts and numbers are
//! those of [`xu_abi::driver`].
//!
//! ```text
//!        NeuronDevice                                the lane's device: `device`
//!      |                 |
//!  Chunk, Mapping      Claim              what is given back when it is dropped
//!      |                 |
//!    Node ─────────── Claims              one full descriptor of a device, one O_WRONLY descriptor of the process
//!      |  guards: `calls`  |              what would crash the kernel is refused here, and no call is made
//!      v                   v
//!     Call: argument and buffers, as long as the table says
//!      |
//!    Kernel (trait)  ── System ──> open, ioctl, mmap, munmap, close        `sys`, the only file with `unsafe`
//! ```
//!
//! | rule | where |
//! |---|---|
//! | a device is opened once in a process, and its descriptor never duplicated | [`node`] |
//! | the first question is the interface version | [`negotiation`] |
//! | a child of a fork makes no call, also when it drops things | [`owner`] |
//! | any answer but 0 is a failure, and one table says what it means | [`answers`] |
//! | a call that a signal interrupted is made again, unless it counts: a doorbell, a start | [`Node::call`](node::Node) |
//! | a pointer that the driver gets is a buffer of the length that the driver uses | [`call`] |
//! | what the driver says is checked before it is used | [`memory`], [`negotiation`] |
//!
//! [`Kernel`] is a trait so that tests can stand behind it; no code here knows whether something does.

pub mod answers;
pub mod call;
mod calls;
pub mod claim;
pub mod datastore;
pub mod device;
pub mod discovery;
pub mod error;
pub mod kernel;
pub mod mapping;
pub mod memory;
pub mod negotiation;
pub mod node;
pub mod owner;
pub mod processes;
mod registry;
pub mod sys;

pub use answers::{Meaning, Severity};
pub use call::{Buffer, Call};
pub use calls::{NqRing, NqSpec, Queue, Ring, RingPair};
pub use claim::{Claim, Claims};
pub use datastore::Datastore;
pub use device::{NeuronDevice, Options, Survey, survey};
pub use error::DriverError;
pub use kernel::{Access, Descriptor, Grain, Kernel};
pub use mapping::Mapping;
pub use memory::{Chunk, ChunkSpec, Location};
pub use negotiation::Identity;
pub use node::Node;
pub use owner::Owner;
pub use processes::Attached;
pub use sys::{Pages, System};
