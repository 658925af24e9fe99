//! Who wants to be told when a request completes: two words of a slot.
//!
//! ```text
//!   byte 0x10   0x11   0x12   0x13 | 0x14
//!        mark_comp_efd (i32)       | efd_from_pool (u8)
//! ```
//!
//! Observers install it, the worker takes it out when it pops. Rules: spec `xu.md` sections 2.2 and 4.
#![forbid(unsafe_code)]

/// An eventfd that somebody waits on, and what becomes of it after the signal.
///
/// The ring carries the number only: it never signals, closes or duplicates a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    efd: i32,
    from_pool: bool,
}

impl Waiter {
    /// The descriptor in a slot that nobody waits on.
    pub(super) const NO_EFD: i32 = xu_abi::Slot::NO_EFD;

    /// A descriptor that returns to its pool: the worker signals it and leaves it open.
    /// `None` when `efd` is negative, which is no descriptor.
    #[must_use]
    pub const fn pooled(efd: i32) -> Option<Self> {
        Self::new(efd, true)
    }

    /// A descriptor made for this wait: the worker signals and then closes it.
    /// `None` when `efd` is negative, which is no descriptor.
    #[must_use]
    pub const fn one_shot(efd: i32) -> Option<Self> {
        Self::new(efd, false)
    }

    const fn new(efd: i32, from_pool: bool) -> Option<Self> {
        if efd >= 0 {
            Some(Self { efd, from_pool })
        } else {
            None
        }
    }

    /// The descriptor's number.
    #[must_use]
    pub const fn efd(self) -> i32 {
        self.efd
    }

    /// Whether the descriptor stays open after the signal.
    #[must_use]
    pub const fn is_pooled(self) -> bool {
        self.from_pool
    }

    /// From the two words of a slot.
    pub(super) const fn from_parts(efd: i32, from_pool: u8) -> Option<Self> {
        Self::new(efd, from_pool != xu_abi::Slot::EFD_CLOSED_AFTER_USE)
    }

    /// The flag as it is in a slot.
    pub(super) const fn flag(self) -> u8 {
        if self.from_pool {
            xu_abi::Slot::EFD_FROM_POOL
        } else {
            xu_abi::Slot::EFD_CLOSED_AFTER_USE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip() {
        for waiter in [
            Waiter::pooled(0),
            Waiter::one_shot(0),
            Waiter::pooled(i32::MAX),
        ] {
            let parts = waiter.unwrap();
            assert_eq!(Waiter::from_parts(parts.efd(), parts.flag()), waiter);
        }
        assert_eq!(Waiter::from_parts(Waiter::NO_EFD, 0), None);
        assert_eq!(Waiter::pooled(1).unwrap().flag(), 1);
        assert_eq!(Waiter::one_shot(1).unwrap().flag(), 0);
    }

    #[test]
    fn negative_numbers_are_no_descriptors() {
        assert_eq!(Waiter::pooled(-1), None);
        assert_eq!(Waiter::one_shot(i32::MIN), None);
    }
}
