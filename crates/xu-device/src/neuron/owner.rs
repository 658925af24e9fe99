//! Whether this is still the process that opened a device.
//!
//! A child of a fork has the descriptors of its parent without being attached: some calls would crash the kernel, and
//! its destructors would close or free what is not its own. So whatever belongs to an open device remembers its
//! [`Owner`], and a child does nothing. Spec `driver.md` section 11, trap 12; failure kind P1.

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
        Self(std::process::id())
    }

    /// Whether the calling process is that one.
    #[must_use]
    pub fn is_here(self) -> bool {
        std::process::id() == self.0
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
