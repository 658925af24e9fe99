//! A range of the backing file, mapped into this process: bytes that others read and write at the same time.
//!
//! Owned by the store. The only file of the chip with `unsafe`.
//! Rules: every access is made of atomic loads and stores, since the program and its threads access the same pages as they
//! please; bytes are moved eight at a time where they are aligned. The first word of a record is stored with release and
//! loaded with acquire, everything else is relaxed.

#![allow(unsafe_code, reason = "maps a file and reads and writes the mapping")]

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::AsFd;

const WORD: usize = size_of::<u64>();

/// A mapping, shared with everybody who maps the same file.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping belongs to no thread, and all accesses to it are atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of a file from `offset`, a multiple of the size of a page.
    pub(super) fn new(file: impl AsFd, offset: i64, bytes: NonZeroUsize) -> Result<Self, Errno> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists. The file cannot become
        // shorter: its size is sealed.
        let start = unsafe { mmap(None, bytes, access, flags, file, offset) }?;
        Ok(Self {
            start: start.cast(),
            bytes,
        })
    }

    /// Loads bytes; `None`, and nothing happens, when some are outside.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        self.check(offset, into.len())?;
        let (first, words) = into.split_at_mut(head(offset, into.len()));
        for (at, byte) in (offset..).zip(first.iter_mut()) {
            *byte = self.byte(at).load(Ordering::Relaxed);
        }
        let start = offset + first.len();
        let whole = words.len() / WORD * WORD;
        let (words, last) = words.split_at_mut(whole);
        for (at, word) in (start..).step_by(WORD).zip(words.chunks_exact_mut(WORD)) {
            word.copy_from_slice(&self.word(at).load(Ordering::Relaxed).to_ne_bytes());
        }
        for (at, byte) in (start + whole..).zip(last) {
            *byte = self.byte(at).load(Ordering::Relaxed);
        }
        Some(())
    }

    /// Stores bytes; `None`, and nothing happens, when some are outside.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        self.check(offset, bytes.len())?;
        let (first, words) = bytes.split_at(head(offset, bytes.len()));
        for (at, byte) in (offset..).zip(first) {
            self.byte(at).store(*byte, Ordering::Relaxed);
        }
        let start = offset + first.len();
        let (words, last) = words.as_chunks::<WORD>();
        for (at, word) in (start..).step_by(WORD).zip(words) {
            self.word(at)
                .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        for (at, byte) in (start + words.len() * WORD..).zip(last) {
            self.byte(at).store(*byte, Ordering::Relaxed);
        }
        Some(())
    }

    /// Loads an aligned word with acquire.
    pub(super) fn load_acquire(&self, offset: usize) -> Option<u32> {
        // PAIRS: with the release stores of whoever has mapped the file, and with those below.
        self.half(offset)
            .map(|word| u32::from_le(word.load(Ordering::Acquire)))
    }

    /// Stores an aligned word with release.
    pub(super) fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        // PAIRS: with the acquire loads of programs that poll the ring.
        self.half(offset)
            .map(|word| word.store(value.to_le(), Ordering::Release))
    }

    fn check(&self, offset: usize, bytes: usize) -> Option<()> {
        (offset.checked_add(bytes)? <= self.bytes.get()).then_some(())
    }

    /// The caller has checked that the byte is inside.
    fn byte(&self, offset: usize) -> &AtomicU8 {
        debug_assert!(offset < self.bytes.get(), "checked by the caller");
        // SAFETY: inside the mapping, which lives as long as `self`; it is only accessed atomically.
        unsafe { AtomicU8::from_ptr(self.start.as_ptr().wrapping_add(offset)) }
    }

    /// The caller has checked that the word is inside, and `offset` is a multiple of its size.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(WORD) && offset + WORD <= self.bytes.get());
        let at = self.start.as_ptr().wrapping_add(offset).cast::<u64>();
        // SAFETY: as for a byte; a mapping begins at a page, so that the word is aligned.
        unsafe { AtomicU64::from_ptr(at) }
    }

    fn half(&self, offset: usize) -> Option<&AtomicU32> {
        self.check(offset, size_of::<u32>())?;
        if !offset.is_multiple_of(size_of::<u32>()) {
            return None;
        }
        let at = self.start.as_ptr().wrapping_add(offset).cast::<u32>();
        // SAFETY: as for a word, and checked just now.
        Some(unsafe { AtomicU32::from_ptr(at) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody has a reference into it any more.
        let unmapped = unsafe { munmap(self.start.cast(), self.bytes.get()) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// How many of `bytes` bytes come before the first whole word.
fn head(offset: usize, bytes: usize) -> usize {
    (offset.next_multiple_of(WORD) - offset).min(bytes)
}
