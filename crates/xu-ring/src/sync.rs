//! The only place that names an implementation of atomics and cells.
//!
//! Ordinary builds use `core`; models (`--cfg loom`) use loom's, which see every access that goes through here.
#![forbid(unsafe_code)]

// Only the address of a status cell is carried, never used: the same type in both worlds.
#[cfg(feature = "alloc")]
pub(crate) use core::sync::atomic::AtomicI32;
#[cfg(all(feature = "alloc", not(loom)))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(all(feature = "alloc", loom))]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};

#[cfg(not(loom))]
pub(crate) use self::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use self::turns::AtomicU8;
#[cfg(all(feature = "async", loom))]
pub(crate) use self::waker::AtomicWaker;
#[cfg(all(feature = "async", not(loom)))]
pub(crate) use atomic_waker::AtomicWaker;

#[cfg(not(loom))]
mod cell {
    /// The cell of `core` with the access methods of loom's.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

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

#[cfg(loom)]
mod turns {
    use super::{AtomicUsize, Ordering};

    /// Loom's atomic byte, each access to which conflicts with every other.
    ///
    /// Loom tries two accesses in either order only if they conflict, and compares each access with the *last* one alone.
    /// Where a thread loads a byte and then stores it, as both ends of a queue do with the state of a slot, its own load is
    /// the last, and the other thread's load before that is never tried after the store: whole interleavings are missed.
    /// So each access takes a turn first: a read-modify-write operation that orders nothing and conflicts with its like.
    #[derive(Debug)]
    pub(crate) struct AtomicU8 {
        turns: AtomicUsize,
        value: loom::sync::atomic::AtomicU8,
    }

    impl AtomicU8 {
        pub(crate) fn new(value: u8) -> Self {
            Self {
                turns: AtomicUsize::new(0),
                value: loom::sync::atomic::AtomicU8::new(value),
            }
        }

        fn take_turn(&self) -> &loom::sync::atomic::AtomicU8 {
            self.turns.fetch_add(1, Ordering::Relaxed);
            &self.value
        }

        pub(crate) fn load(&self, order: Ordering) -> u8 {
            self.take_turn().load(order)
        }

        pub(crate) fn store(&self, value: u8, order: Ordering) {
            self.take_turn().store(value, order);
        }

        pub(crate) fn swap(&self, value: u8, order: Ordering) -> u8 {
            self.take_turn().swap(value, order)
        }

        pub(crate) fn fetch_and(&self, value: u8, order: Ordering) -> u8 {
            self.take_turn().fetch_and(value, order)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u8,
            new: u8,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u8, u8> {
            self.take_turn()
                .compare_exchange(current, new, success, failure)
        }

        pub(crate) fn with_mut<R>(&mut self, access: impl FnOnce(&mut u8) -> R) -> R {
            self.value.with_mut(access)
        }
    }
}

#[cfg(all(feature = "async", loom))]
mod waker {
    /// Loom's waker with the method names of `atomic_waker`.
    #[derive(Debug)]
    pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            Self(loom::future::AtomicWaker::new())
        }

        pub(crate) fn register(&self, waker: &core::task::Waker) {
            self.0.register_by_ref(waker);
        }

        pub(crate) fn wake(&self) {
            self.0.wake();
        }

        pub(crate) fn take(&self) -> Option<core::task::Waker> {
            self.0.take_waker()
        }
    }
}
