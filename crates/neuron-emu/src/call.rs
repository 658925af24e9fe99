//! The seam between a front end and the driver: who makes a call, and where its memory is.
//!
//! Implemented by each front end, once for each call.

/// The thread that makes a call, as the driver sees it.
pub trait Caller {
    /// Its process: the thread-group id.
    fn pid(&self) -> u32;

    /// Copies from its memory.
    ///
    /// # Errors
    /// [`NotCopied`], the bytes that could not be read.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotCopied>;

    /// Copies to its memory.
    ///
    /// # Errors
    /// [`NotCopied`], the bytes that could not be written.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), NotCopied>;

    /// Whether a signal has come for it, so that a call that waits ends with EINTR.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Bytes that were not copied: a bad pointer. The driver answers some calls with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCopied(pub usize);
