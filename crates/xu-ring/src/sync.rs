//! The only place that names an implementation of atomics and cells.
//!
//! Ordinary builds use `core`; models (`--cfg loom`) use loom's, which see every access that goes through here.
#![forbid(unsafe_code)]

// Only the address of a status cell is carried, never used: the same type in both worlds.
pub(crate) use core::sync::atomic::AtomicI32;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
pub(crate) use self::cell::UnsafeCell;

#[cfg(not(loom))]
mod cell {
    /// The cell of `core` with the access methods of loom's.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Runs `read` with a pointer that it may only read through.
        #[inline(always)]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Runs `write` with a pointer that nobody else may use meanwhile.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}
