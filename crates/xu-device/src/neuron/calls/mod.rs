//! One guarded function for each ioctl that the lane uses, by subject.
//!
//! What `driver.md` section 11 lists as crashing or corrupting the kernel cannot be said here, or is refused with
//! [`DriverError::BadArgument`] before a call is made:
//!
//! | trap | what is not let through | where |
//! |---|---|---|
//! | 11, 15 | a second descriptor of the attachment, and one that outlives an exec | [`Node`](super::Node): no duplicate, O_CLOEXEC |
//! | 12 | any call in a child of a fork | [`Node`](super::Node) |
//! | 13 | marks through a descriptor that does not release them | [`Claim`](super::Claim): one write-only descriptor of the process |
//! | 14 | freeing the chunk of a ring while its queue can be started | [`RingPair`] holds it |
//! | 16 | starting with no Rx descriptor, or a queue that was not initialised | [`RingPair::start`], only made by an init |
//! | 17 | DMA_ACK_COMPLETED | not there: rings of user space never need it |
//! | 18 | state or descriptors of an engine that does not exist | [`RingPair`] again |
//! | 19 | DEVICE_BDF_EXT of another index than 0 | [`super::negotiation`] |
//! | 20 | reading registers outside BAR0 | [`Node::read_registers`](super::Node::read_registers) |
//! | 21 | events of a core that does not exist, event 256 | [`Node::set_event`](super::Node::set_event) |
//! | 22, 23, 26 | empty copies, unaligned zero-copy, 4 GiB in one copy | [`super::Chunk`] |
//! | 24 | offset plus size beyond 64 bits, or beyond the chunk | [`super::Chunk`] |
//! | 25 | contiguous scratchpad in host memory; many hardware counters | [`super::ChunkSpec`], [`Node::read_counters`](super::Node::read_counters) |
//! | 27 | mapping a chunk that ends an HBM | [`super::Chunk::map`] |
//! | 28 | types and indices of notification queues that alias others | [`NqSpec`] |
//! | 29 | the bitmap of dynamic metrics | [`super::Datastore`] |
//!
//! Trap 30, a process that resets the core of another, no wrapper can prevent: whoever claims first is in the right. The rings of
//! the other's queues are gone then, so that its next start may be trap 16. Trap 31, slots of asynchronous copies that all of a
//! core share, is not met: copies here are waited for in the call.

mod copying;
mod cores;
mod notification;
mod places;
mod registers;
mod rings;
mod semaphores;

pub(super) use copying::Way;
pub use notification::{NqRing, NqSpec};
pub(super) use registers::Bar0;
pub(super) use rings::Rings;
pub use rings::{Queue, Ring, RingPair};

use super::error::DriverError;
use core::ops::RangeInclusive;
use xu_abi::driver::Ioctl;

/// A refusal that names the value. No call is made.
pub(super) fn refuse(
    ioctl: &Ioctl,
    what: &'static str,
    value: u64,
    allowed: impl Into<String>,
) -> DriverError {
    DriverError::BadArgument {
        call: ioctl.name,
        what,
        value,
        allowed: allowed.into(),
    }
}

/// Refuses a value outside a range.
pub(super) fn within(
    ioctl: &Ioctl,
    what: &'static str,
    value: impl Into<u64>,
    allowed: RangeInclusive<u64>,
) -> Result<(), DriverError> {
    let value = value.into();
    if allowed.contains(&value) {
        return Ok(());
    }
    let (first, last) = allowed.into_inner();
    Err(refuse(ioctl, what, value, format!("{first} to {last}")))
}

/// Refuses a range of bytes that is empty, or leaves what has `size` bytes.
pub(super) fn inside(ioctl: &Ioctl, offset: u64, bytes: u64, size: u64) -> Result<(), DriverError> {
    within(ioctl, "number of bytes", bytes, 1..=size)?;
    // Does not wrap: `bytes` is at most `size`.
    within(ioctl, "offset", offset, 0..=size - bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xu_abi::driver::ioctl::MEM_COPY64;

    /// Traps 23 and 24.
    #[test]
    fn d4_a_range_is_not_empty_and_does_not_wrap() {
        let check = |offset, bytes, size| inside(&MEM_COPY64, offset, bytes, size).is_ok();
        assert!(check(0, 1, 1) && check(4095, 1, 4096) && check(0, 4096, 4096));
        assert!(check(u64::MAX - 1, 1, u64::MAX));
        assert!(!check(0, 0, 4096) && !check(4096, 1, 4096) && !check(0, 0, 0));
        assert!(!check(u64::MAX, 1, 4096) && !check(1, u64::MAX, 4096));
        assert!(!check(u64::MAX, u64::MAX, u64::MAX));
    }
}
