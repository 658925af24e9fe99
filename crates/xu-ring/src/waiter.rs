//! Who wants to be told when a request completes: one word of a slot.
//!
//! ```text
//!   byte 0x10   0x11   0x12   0x13 | 0x14            | 0x15 .. 0x17
//!        mark_comp_efd (i32)       | efd_from_pool   | 0
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
    /// The word of a slot that nobody waits on: descriptor -1.
    pub(crate) const NO_WAITER: u64 = Self::pack(-1, false);

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

    pub(crate) const fn to_word(self) -> u64 {
        Self::pack(self.efd, self.from_pool)
    }

    pub(crate) const fn from_word(word: u64) -> Option<Self> {
        let [a, b, c, d, from_pool, ..] = word.to_ne_bytes();
        Self::new(i32::from_ne_bytes([a, b, c, d]), from_pool != 0)
    }

    /// Bytes in the order of the slot, so that the word in memory is the two fields of the ABI.
    const fn pack(efd: i32, from_pool: bool) -> u64 {
        let [a, b, c, d] = efd.to_ne_bytes();
        // CAST: a `bool` is 0 or 1.
        u64::from_ne_bytes([a, b, c, d, from_pool as u8, 0, 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_the_two_fields_of_the_abi() {
        let bytes = Waiter::pooled(0x0102_0304).unwrap().to_word().to_ne_bytes();
        assert_eq!(bytes[..4], 0x0102_0304_i32.to_ne_bytes());
        assert_eq!(bytes[4..], [1, 0, 0, 0]);
        let bytes = Waiter::NO_WAITER.to_ne_bytes();
        assert_eq!(bytes, [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
    }

    #[test]
    fn words_round_trip() {
        for waiter in [
            Waiter::pooled(0),
            Waiter::one_shot(0),
            Waiter::pooled(i32::MAX),
        ] {
            assert_eq!(Waiter::from_word(waiter.unwrap().to_word()), waiter);
        }
        assert_eq!(Waiter::from_word(Waiter::NO_WAITER), None);
    }

    #[test]
    fn negative_numbers_are_no_descriptors() {
        assert_eq!(Waiter::pooled(-1), None);
        assert_eq!(Waiter::one_shot(i32::MIN), None);
    }
}
