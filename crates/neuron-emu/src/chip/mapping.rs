//! A range of the backing file, mapped into this process: bytes that others read and write at the same time.
//!
//! Owned by the store. The only file of the chip with `unsafe`.
//! Rules: every access is made of atomic loads and stores of 32-bit words, since the program and its threads access the same
//! pages as they please, and the language has no meaning for atomics of two sizes that race. Parts of a word are exchanged
//! with the rest of it. The first word of a record is stored with release and loaded with acquire, everything else is relaxed.

#![allow(unsafe_code, reason = "maps a file and reads and writes the mapping")]

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::AsFd;

const WORD: usize = size_of::<u32>();

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
        let (first, rest) = into.split_at_mut(head(offset, into.len()));
        self.load_part(offset, first)?;
        let start = offset + first.len();
        let (words, last) = rest.as_chunks_mut::<WORD>();
        let end = start + words.len() * WORD;
        for (at, word) in (start..).step_by(WORD).zip(words) {
            *word = self.word(at)?.load(Ordering::Relaxed).to_ne_bytes();
        }
        self.load_part(end, last)
    }

    /// Stores bytes; `None`, and nothing happens, when some are outside.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        self.check(offset, bytes.len())?;
        let (first, rest) = bytes.split_at(head(offset, bytes.len()));
        self.store_part(offset, first)?;
        let start = offset + first.len();
        let (words, last) = rest.as_chunks::<WORD>();
        let end = start + words.len() * WORD;
        for (at, word) in (start..).step_by(WORD).zip(words) {
            self.word(at)?
                .store(u32::from_ne_bytes(*word), Ordering::Relaxed);
        }
        self.store_part(end, last)
    }

    /// Loads bytes of one word.
    fn load_part(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        if into.is_empty() {
            return Some(());
        }
        let first = offset % WORD;
        let word = self.word(offset - first)?.load(Ordering::Relaxed);
        let bytes = word.to_ne_bytes();
        into.copy_from_slice(bytes.get(first..first + into.len())?);
        Some(())
    }

    /// Stores bytes of one word; the others stay.
    fn store_part(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        let first = offset % WORD;
        let with = |old: u32| {
            let mut new = old.to_ne_bytes();
            new.get_mut(first..first + bytes.len())?
                .copy_from_slice(bytes);
            Some(u32::from_ne_bytes(new))
        };
        let word = self.word(offset - first)?;
        let stored = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        stored.ok().map(|_| ())
    }

    /// Loads an aligned word with acquire.
    pub(super) fn load_acquire(&self, offset: usize) -> Option<u32> {
        // PAIRS: with the release stores of whoever has mapped the file, and with those below.
        self.word(offset)
            .map(|word| u32::from_le(word.load(Ordering::Acquire)))
    }

    /// Stores an aligned word with release.
    pub(super) fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        // PAIRS: with the acquire loads of programs that poll the ring.
        self.word(offset)
            .map(|word| word.store(value.to_le(), Ordering::Release))
    }

    fn check(&self, offset: usize, bytes: usize) -> Option<()> {
        (offset.checked_add(bytes)? <= self.bytes.get()).then_some(())
    }

    /// The word at an offset; `None` where none lies inside, and between two.
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        self.check(offset, WORD)?;
        if !offset.is_multiple_of(WORD) {
            return None;
        }
        let at = self.start.as_ptr().wrapping_add(offset).cast::<u32>();
        // SAFETY: inside the mapping, as checked just now, which lives as long as `self`; aligned, since a mapping begins at a
        // page; and this process reaches it by atomics of this size alone.
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
