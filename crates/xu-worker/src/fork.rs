//! The process that something belongs to, so that a forked child leaves it alone.
#![allow(unsafe_code, reason = "a value that is not dropped in every process")]

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

/// Remembers the process in which it was made.
#[derive(Clone, Copy, Debug)]
pub struct Owner(u32);

impl Owner {
    /// This process.
    #[must_use]
    pub fn here() -> Self {
        Self(std::process::id())
    }

    /// Whether this is still that process, and not a child that was forked from it.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        self.0 == std::process::id()
    }
}

/// A value that is dropped in the process that made it, and in no other.
///
/// In a forked child the value is leaked instead: its destructor would touch descriptors and a device that are the
/// parent's, and locks that threads hold which the child does not have.
pub(crate) struct HereOnly<T> {
    owner: Owner,
    value: ManuallyDrop<T>,
}

impl<T> HereOnly<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            owner: Owner::here(),
            value: ManuallyDrop::new(value),
        }
    }

    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.owner.is_here()
    }
}

impl<T> Deref for HereOnly<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for HereOnly<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for HereOnly<T> {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // SAFETY: nothing else drops the value, and after this nobody can reach it.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for HereOnly<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
