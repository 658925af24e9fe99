//! The system calls: the only file of this crate with `unsafe`.
//!
//! Used by [`super::Node`], [`super::Claims`] and [`super::Mapping`] through [`super::Kernel`].
//!
//! Why here and not in a crate from elsewhere: every crate that offers ioctl or mmap leaves the argument to its caller
//! as `unsafe`, since it cannot know what a driver does with it. [`super::Call`] knows, from the table of all ioctls, so
//! the whole argument stands in this file and everything above it is safe.
//!
//! * *ioctl*: [`super::Call::new`] has compared argument and buffers with the table, `point` has set every pointer of
//!   the argument to one of these buffers, and they are borrowed for as long as the call lasts. The driver keeps no
//!   address. One exception decides what the layer above may do: after MEM_BUF_ZEROCOPY64 has timed out, the device may
//!   still write into the buffer. So that call is only made towards the device.
//!   The premise is that the node belongs to the driver of the table. What a path names nobody can prove; so the first call
//!   on every descriptor is COMPATIBLE_VERSION, with 8 bytes for 8, and another driver fails it.
//! * *mmap*: the kernel chooses the address, so nothing in use is replaced. The memory is shared with a device or
//!   with another process: it is only reached through atomics of one size, and never through a plain reference.
//! * *madvise*: one page of this process's own, for [`super::Owner`].

#![allow(
    unsafe_code,
    reason = "ioctl and mmap; the argument is in the documentation of this file"
)]

use super::call::Call;
use super::kernel::{Access, Descriptor, Grain, Kernel};
use core::num::NonZero;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use nix::sys::stat::Mode;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use xu_abi::driver::errno::{self, Answer};

/// The operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Kernel for System {
    fn open(&self, path: &Path, access: Access) -> Result<Descriptor, i32> {
        let mode = match access {
            Access::Full => OFlag::O_RDWR,
            Access::Misc => OFlag::O_WRONLY,
            Access::ReadOnly => OFlag::O_RDONLY,
        };
        open(path, mode | OFlag::O_CLOEXEC, Mode::empty())
            .map(Descriptor::file)
            .map_err(number)
    }

    fn ioctl(&self, descriptor: &Descriptor, call: &mut Call<'_, '_>) -> Answer {
        let Some(file) = descriptor.as_file() else {
            return Answer::Errno(errno::EBADF);
        };
        let request = call.ioctl().request();
        call.point();
        let argument = call.argument_mut().as_mut_ptr();
        // CAST: a request has 32 bits; the type of the parameter differs between C libraries.
        let request = request as libc::Ioctl;
        // SAFETY: `argument` is exclusively borrowed and of the size that the driver reads and writes, and so is every
        // buffer that its pointers name: `Call::new` has compared all with the table. The descriptor is open.
        let returned = unsafe { libc::ioctl(file.as_raw_fd(), request, argument) };
        let answer = answer(returned, Errno::last_raw());
        call.unpoint();
        answer
    }

    fn map(
        &self,
        descriptor: &Descriptor,
        offset: u64,
        bytes: usize,
        access: Access,
        grain: Grain,
    ) -> Result<Pages, i32> {
        let file = descriptor.as_file().ok_or(errno::EBADF)?;
        let length = NonZero::new(bytes).ok_or(errno::EINVAL)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| errno::EINVAL)?;
        let protection = match access {
            Access::Full => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            Access::ReadOnly | Access::Misc => ProtFlags::PROT_READ,
        };
        // SAFETY: the kernel chooses an address that nothing else has; see the documentation of this file.
        let mapped = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file, offset) };
        let base = mapped.map_err(number)?.cast();
        Ok(Pages {
            base,
            length,
            writable: access == Access::Full,
            grain,
        })
    }

    fn unmap(&self, pages: Pages) -> Result<(), i32> {
        // SAFETY: `pages` is a mapping that was made here, whole, and given up by whoever could refer to it.
        unsafe { munmap(pages.base.cast(), pages.length.get()) }.map_err(number)
    }

    fn close(&self, descriptor: Descriptor) {
        // Not repeated when interrupted: Linux has closed it then.
        drop(descriptor);
    }
}

/// A mapping that has not been given back yet. Forgetting it leaves the memory mapped.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    length: NonZero<usize>,
    writable: bool,
    grain: Grain,
}

// SAFETY: the memory belongs to the process and not to a thread, and is reached through atomics only.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Memory without a device behind it, zeroed, as long as asked: for kernels that are no operating system.
    ///
    /// # Errors
    /// The error number.
    pub fn anonymous(bytes: usize, access: Access, grain: Grain) -> Result<Self, i32> {
        let length = NonZero::new(bytes).ok_or(errno::EINVAL)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses an address that nothing else has.
        let mapped = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) };
        Ok(Self {
            base: mapped.map_err(number)?.cast(),
            length,
            writable: access == Access::Full,
            grain,
        })
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.length.get()
    }

    /// Whether it can be stored to. A store to a mapping that cannot would end the process.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The 32-bit word at a byte offset; `None` beyond the end, for an offset that is not a multiple of 4, and in a
    /// mapping of double words.
    #[must_use]
    pub fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let end = offset.checked_add(size_of::<AtomicU32>())?;
        let is_aligned = offset.is_multiple_of(align_of::<AtomicU32>());
        if end > self.length.get() || !is_aligned || self.grain != Grain::Word {
            return None;
        }
        // SAFETY: `offset` is inside the mapping, as compared above.
        let word = unsafe { self.base.add(offset) }.cast::<AtomicU32>();
        // SAFETY: mappings are aligned to pages and `offset` to words, all bytes are initialised, the mapping lives as
        // long as the borrow of `self`, and nobody of this process refers to it but through atomics of this size.
        Some(unsafe { word.as_ref() })
    }

    /// The 32-bit words from a byte offset on, as many as `bytes` are; `None` where [`Pages::word`] would be, for one of
    /// them.
    #[must_use]
    pub fn words(&self, offset: usize, bytes: usize) -> Option<&[AtomicU32]> {
        const WORD: usize = size_of::<AtomicU32>();
        let end = offset.checked_add(bytes)?;
        let is_aligned = offset.is_multiple_of(WORD) && bytes.is_multiple_of(WORD);
        if end > self.length.get() || !is_aligned || self.grain != Grain::Word {
            return None;
        }
        // SAFETY: `offset` is inside the mapping or at its end, as compared above.
        let first = unsafe { self.base.add(offset) }.cast::<AtomicU32>();
        // SAFETY: as in `word`, for each of the words up to `end`.
        Some(unsafe { core::slice::from_raw_parts(first.as_ptr(), bytes / WORD) })
    }

    /// The 64-bit word at a byte offset; `None` beyond the end, for an offset that is not a multiple of 8, and in a mapping
    /// of words.
    #[must_use]
    pub fn double_word(&self, offset: usize) -> Option<&AtomicU64> {
        let end = offset.checked_add(size_of::<AtomicU64>())?;
        let is_aligned = offset.is_multiple_of(align_of::<AtomicU64>());
        if end > self.length.get() || !is_aligned || self.grain != Grain::DoubleWord {
            return None;
        }
        // SAFETY: `offset` is inside the mapping, as compared above.
        let word = unsafe { self.base.add(offset) }.cast::<AtomicU64>();
        // SAFETY: as in `word`.
        Some(unsafe { word.as_ref() })
    }
}

/// A word that is zero in every child of a fork, until the child sets it: made when it is first asked for, never given back.
/// `None` where the kernel has no such pages (before Linux 4.14) or no memory, and under miri.
pub(super) fn wiped_by_fork() -> Option<&'static AtomicU32> {
    static WORD: OnceLock<Option<Pages>> = OnceLock::new();
    WORD.get_or_init(wiped_page).as_ref()?.word(0)
}

fn wiped_page() -> Option<Pages> {
    if cfg!(miri) {
        return None;
    }
    let pages = Pages::anonymous(size_of::<AtomicU32>(), Access::Full, Grain::Word).ok()?;
    let (base, length) = (pages.base.cast(), pages.length.get());
    // SAFETY: the mapping was just made, it is of this length, private, and nothing is in it yet.
    let wiped = unsafe { madvise(base, length, MmapAdvise::MADV_WIPEONFORK) };
    if wiped.is_err() {
        // Should that fail, a page is lost.
        let _ = System.unmap(pages);
        return None;
    }
    Some(pages)
}

/// The error number counts only when the call says so: a positive result leaves an old one behind.
fn answer(returned: libc::c_int, errno: i32) -> Answer {
    match returned {
        0 => Answer::Done,
        -1 => Answer::Errno(errno),
        other => Answer::Positive(other),
    }
}

fn number(errno: Errno) -> i32 {
    // CAST: an enum of error numbers.
    errno as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d4_a_positive_result_is_neither_error_number_nor_success() {
        assert_eq!(answer(0, errno::EIO), Answer::Done);
        assert_eq!(answer(-1, errno::ENOTSUPP), Answer::Errno(524));
        assert_eq!(answer(22, errno::EIO), Answer::Positive(22));
    }
}
