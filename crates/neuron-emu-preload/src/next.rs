//! The functions that this library stands in front of: the next definitions of the same names.
//!
//! Each is looked up once, without a lock and without allocating: any of them may be called from anywhere.

use nix::libc::{self, DIR, c_char, c_int, c_uint, c_void, mode_t, off_t, size_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

macro_rules! next {
    ($($name:ident: fn($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// The next definition.
        ///
        /// # Safety
        /// As the function of libc.
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("one NUL, at the end"),
            };
            let function = look_up(&FOUND, NAME);
            // SAFETY: libc defines this name with these parameters; where it is variadic, see `lib.rs`.
            let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { core::mem::transmute(function) };
            // SAFETY: the caller's promise.
            unsafe { function($($argument),*) }
        }
    )*};
}

next! {
    open: fn(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat: fn(base: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    opendir: fn(path: *const c_char) -> *mut DIR;
    ioctl: fn(number: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int;
    mmap: fn(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, number: c_int, offset: off_t) -> *mut c_void;
    close: fn(number: c_int) -> c_int;
    close_range: fn(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup: fn(number: c_int) -> c_int;
    dup2: fn(from: c_int, onto: c_int) -> c_int;
    dup3: fn(from: c_int, onto: c_int, flags: c_int) -> c_int;
    fcntl: fn(number: c_int, command: c_int, argument: libc::c_ulong) -> c_int;
}

fn look_up(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // Relaxed: the address is all that is passed on, and every thread finds the same.
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with NUL.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() {
        // There is no way to go on: the program has no such function, and calls it.
        std::process::abort();
    }
    found.store(next, Ordering::Relaxed);
    next
}
