//! Memory of a device that this process has mapped.
//!
//! Made by a chunk, a notification ring, a window or a datastore; unmapped when dropped, whole, and by the process that mapped it.

use super::kernel::Kernel;
use super::owner::Owner;
use super::sys::Pages;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// A mapping. A device or another process may change it at any time, so it is read and written word by word.
#[derive(Debug)]
pub struct Mapping {
    kernel: Arc<dyn Kernel>,
    owner: Owner,
    /// `None` only while it is dropped.
    pages: Option<Pages>,
}

impl Mapping {
    pub(super) fn new(kernel: Arc<dyn Kernel>, owner: Owner, pages: Pages) -> Self {
        Self {
            kernel,
            owner,
            pages: Some(pages),
        }
    }

    /// The pages, in the process that has them: a child of a fork does not inherit mappings.
    fn pages(&self) -> Option<&Pages> {
        self.pages.as_ref().filter(|_| self.owner.is_here())
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pages.as_ref().map_or(0, Pages::bytes)
    }

    /// The word at a byte offset; `None` where there is none.
    #[must_use]
    pub fn word(&self, offset: usize) -> Option<&AtomicU32> {
        self.pages()?.word(offset)
    }

    /// The words from a byte offset on, `bytes` in all; `None` where there are none, and for numbers that are no multiples of 4.
    #[must_use]
    pub fn words(&self, offset: usize, bytes: usize) -> Option<&[AtomicU32]> {
        self.pages()?.words(offset, bytes)
    }

    /// The 64-bit word at a byte offset; `None` where there is none.
    #[must_use]
    pub fn double_word(&self, offset: usize) -> Option<&AtomicU64> {
        self.pages()?.double_word(offset)
    }

    /// Whether it can be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.pages().is_some_and(Pages::is_writable)
    }

    /// Writes zeroes over all of it. Whether that could be done.
    #[must_use]
    pub fn clear(&self) -> bool {
        let Some(pages) = self.pages().filter(|pages| pages.is_writable()) else {
            return false;
        };
        for offset in (0..pages.bytes()).step_by(size_of::<u32>()) {
            // Relaxed, both: whoever enables the reader of this memory orders it, by a system call.
            if let Some(word) = pages.word(offset) {
                word.store(0, Ordering::Relaxed);
            } else if let Some(word) = pages.double_word(offset) {
                word.store(0, Ordering::Relaxed);
            }
        }
        true
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Some(pages) = self.pages.take() else {
            return;
        };
        // In a child of a fork these addresses may be somebody else's.
        if self.owner.is_here() {
            // Refused only when the kernel is out of memory for its own books; then it stays mapped.
            let _ = self.kernel.unmap(pages);
        }
    }
}
