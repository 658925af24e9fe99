//! The one way in which a number is refused: it names nothing.
//!
//! Returned by every checked conversion of this crate; the layers above turn it into errors of their own.

use core::fmt;

/// A number that names no value of the type asked for.
///
/// ```
/// use xu_abi::XuType;
/// let refused = XuType::try_from(7).unwrap_err();
/// assert_eq!(refused.to_string(), "XU type is 7, allowed: 0, 1, 2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// What the number should have been.
    pub what: &'static str,
    /// The number.
    pub value: u64,
    /// Which numbers would have done.
    pub allowed: &'static str,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            value,
            allowed,
        } = self;
        write!(f, "{what} is {value}, allowed: {allowed}")
    }
}

impl core::error::Error for OutOfRange {}
