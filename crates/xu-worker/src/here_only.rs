//! A value that is dropped in the process that made it, and in no other.
//!
//! Units, their worker halves and worker threads are such values. Spec `xu.md` section 4, fork; failure kind P1.
#![allow(unsafe_code, reason = "a value that is not dropped in every process")]

use crate::fork::Owner;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

/// A value of this process.
///
/// In a forked child the value is leaked instead: its destructor would touch descriptors and a device that are the
/// parent's, and locks that threads hold which the child does not have.
pub struct HereOnly<T> {
    owner: Owner,
    value: ManuallyDrop<T>,
}

impl<T> HereOnly<T> {
    /// A value of the calling process.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            owner: Owner::here(),
            value: ManuallyDrop::new(value),
        }
    }

    /// Whether the calling process made it.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
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
