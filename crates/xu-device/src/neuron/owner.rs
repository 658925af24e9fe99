//! Whether this is still the process that opened a device.
//!
//! A child of a fork has the descriptors of its parent without being attached: some calls would crash the kernel, and
//! its destructors would close or free what is not its own. So whatever belongs to an open device remembers its
//! [`Owner`], and a child does nothing. Spec `driver.md` section 11, trap 12; failure kind P1.
//!
//! Asking costs one load, since every access to a mapping asks: the process id is kept on a page that the kernel wipes in
//! every child. Where there is no such page, and under miri, it is a system call.

use core::sync::atomic::Ordering;

/// The process that made something.
///
/// ```
/// # use xu_device::neuron::Owner;
/// assert!(Owner::here().is_here());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u32);

impl Owner {
    /// The calling process.
    #[must_use]
    pub fn here() -> Self {
        Self(process_id())
    }

    /// Whether the calling process is that one.
    #[must_use]
    pub fn is_here(self) -> bool {
        process_id() == self.0
    }

    /// The process id.
    #[must_use]
    pub fn pid(self) -> u32 {
        self.0
    }

    /// Another process, for tests: as after a fork.
    #[cfg(test)]
    pub(super) fn elsewhere() -> Self {
        // No process has number 0 from its own point of view.
        Self(0)
    }
}

/// The id of the calling process.
fn process_id() -> u32 {
    let Some(kept) = super::sys::wiped_by_fork() else {
        return std::process::id();
    };
    // Relaxed, both: the word changes at a fork only, and in a child that has one thread.
    match kept.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            kept.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}
