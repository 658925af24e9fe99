//! Whether this is still the process that made something.
//!
//! Objects that must not be touched in a forked child remember their [`Owner`] and ask it. Asking is one load from
//! memory: the word it loads lies on a page that the kernel wipes in every child. Spec `xu.md` section 4, fork; failure
//! kind P1.
//!
//! ```text
//!  parent        word: 7 ──── fork ────▶ child     word: 0 ──── first `Owner::here` ────▶ word: 8
//!  Owner(7): here                        Owner(7): elsewhere        Owner(7): elsewhere, Owner(8): here
//! ```
//!
//! A child numbers its generation after every one that it inherited, so no owner of an ancestor is ever here again.
//! Where the page cannot be had, under miri, and in models, the process id decides; that costs a system call, and a
//! descendant that is given the number of a dead ancestor would be mistaken for it.
//!
//! One moment is not covered: a process that forks while another of its threads is inside its very first
//! [`Owner::here`] leaves a child in which [`Owner::here`] may not return. [`Owner::is_here`] always does.

#![cfg_attr(
    not(any(loom, miri)),
    allow(
        unsafe_code,
        reason = "asks the kernel for memory that forks wipe, and refers to it"
    )
)]

use core::sync::atomic::{AtomicU64, Ordering};

/// The process that made something.
#[derive(Clone, Copy, Debug)]
pub struct Owner(Mark);

#[derive(Clone, Copy, Debug)]
enum Mark {
    Word {
        word: &'static AtomicU64,
        generation: u64,
    },
    Process(u32),
}

impl Owner {
    /// The calling process.
    #[must_use]
    pub fn here() -> Self {
        Self(match word() {
            Some(word) => Mark::Word {
                word,
                generation: generation(word),
            },
            None => Mark::Process(std::process::id()),
        })
    }

    /// Whether the calling process is that one. False in every child that it forks, and in their children.
    #[must_use]
    pub fn is_here(self) -> bool {
        match self.0 {
            // Relaxed: the word changes at a fork only, and in a child that has one thread.
            Mark::Word { word, generation } => word.load(Ordering::Relaxed) == generation,
            Mark::Process(id) => std::process::id() == id,
        }
    }
}

/// The highest generation that this process or an ancestor of it has used. A child inherits it.
static LAST: AtomicU64 = AtomicU64::new(0);

/// This process's generation; the first to ask gives it one.
fn generation(word: &AtomicU64) -> u64 {
    // Relaxed, here and below: each word is on its own.
    match word.load(Ordering::Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => next,
                Err(faster) => faster,
            }
        }
        generation => generation,
    }
}

#[cfg(any(loom, miri))]
fn word() -> Option<&'static AtomicU64> {
    None
}

/// The word that forks wipe, made when it is first asked for and never given back.
#[cfg(not(any(loom, miri)))]
fn word() -> Option<&'static AtomicU64> {
    static WORD: std::sync::OnceLock<Option<&'static AtomicU64>> = std::sync::OnceLock::new();
    *WORD.get_or_init(page::wiped_by_fork)
}

#[cfg(not(any(loom, miri)))]
mod page {
    use core::num::NonZero;
    use core::sync::atomic::AtomicU64;
    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Lengths are rounded up to whole pages by the kernel.
    const LENGTH: NonZero<usize> = NonZero::<usize>::MIN.saturating_add(size_of::<AtomicU64>() - 1);

    /// A word on a page of its own, zero now and zero again in every child. `None` where the kernel has no such pages
    /// (before Linux 4.14) or no memory.
    pub(super) fn wiped_by_fork() -> Option<&'static AtomicU64> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses an address that nothing else has, so no memory in use is replaced.
        let page = unsafe { mmap_anonymous(None, LENGTH, access, MapFlags::MAP_PRIVATE) }.ok()?;
        // SAFETY: `page` is the mapping just made, of this length, and nothing refers to it yet.
        let wiped = unsafe { madvise(page, LENGTH.get(), MmapAdvise::MADV_WIPEONFORK) };
        if wiped.is_err() {
            // SAFETY: as above; nothing refers to the mapping, and nothing will. Should that fail, a page is lost.
            let _ = unsafe { munmap(page, LENGTH.get()) };
            return None;
        }
        // SAFETY: the mapping is readable, writable, zeroed, aligned to a page, long enough, never given back, and only
        // referred to through this shared atomic. The kernel wipes it while a child has not yet begun to run.
        Some(unsafe { page.cast::<AtomicU64>().as_ref() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_the_process_that_asked_is_here() {
        let owner = Owner::here();
        assert!(owner.is_here());
        assert!(Owner::here().is_here());
    }

    #[test]
    fn p1_a_generation_is_given_once() {
        let word = AtomicU64::new(0);
        let first = generation(&word);
        assert_eq!(generation(&word), first);
        // What a fork does.
        word.store(0, Ordering::Relaxed);
        assert!(generation(&word) > first);
    }
}
