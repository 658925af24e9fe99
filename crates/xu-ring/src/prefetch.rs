//! Ask the processor for memory that will be needed soon.
//!
//! Used by the working end of a queue. Nothing is read: a prefetch has no effect that a program can see, whatever the
//! address. On processors that this module does not know it does nothing.
#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    allow(unsafe_code, reason = "the instruction takes any address")
)]

/// The line at `address`, to be read.
#[inline(always)]
pub(crate) fn for_reading<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction cannot fault and changes nothing but caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
