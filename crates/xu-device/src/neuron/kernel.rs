//! The seam to the operating system: five calls.
//!
//! Implemented by [`super::System`]; tests put a script behind it.

use super::call::Call;
use super::sys::Pages;
use core::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use xu_abi::driver::errno::Answer;

/// What the driver is asked through.
///
/// An implementation repeats nothing and interprets nothing: that is done above it.
pub trait Kernel: Send + Sync + fmt::Debug {
    /// Opens a device node, closed on exec.
    ///
    /// # Errors
    /// The error number.
    fn open(&self, path: &Path, access: Access) -> Result<Descriptor, i32>;

    /// Makes the call on a descriptor that this kernel has opened.
    fn ioctl(&self, descriptor: &Descriptor, call: &mut Call<'_, '_>) -> Answer;

    /// Maps `bytes` of a device at `offset`, shared. `bytes` is exactly what the driver said.
    ///
    /// # Errors
    /// The error number.
    fn map(
        &self,
        descriptor: &Descriptor,
        offset: u64,
        bytes: usize,
        access: Access,
        grain: Grain,
    ) -> Result<Pages, i32>;

    /// Removes a mapping, whole.
    ///
    /// # Errors
    /// The error number.
    fn unmap(&self, pages: Pages) -> Result<(), i32>;

    /// Closes a descriptor. The driver cleans up in here.
    fn close(&self, descriptor: Descriptor);
}

/// What a descriptor or a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Everything: opening attaches the process.
    Full,
    /// For a descriptor `O_WRONLY`: claims and identity only, without being attached.
    Misc,
    /// For a mapping: loads only.
    ReadOnly,
}

/// The size of the words by which a mapping is reached: one for all of it, since accesses of two sizes to one place may
/// not race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grain {
    /// 32 bits: registers, records, descriptors.
    Word,
    /// 64 bits: counters.
    DoubleWord,
}

/// An open device node. It cannot be cloned: closing a duplicate would detach the process.
#[derive(Debug)]
pub struct Descriptor(Inner);

#[derive(Debug)]
enum Inner {
    File(OwnedFd),
    Numbered(u32),
}

impl Descriptor {
    pub(super) fn file(fd: OwnedFd) -> Self {
        Self(Inner::File(fd))
    }

    /// A descriptor of a kernel that is no operating system. There is no file behind it.
    #[must_use]
    pub fn numbered(number: u32) -> Self {
        Self(Inner::Numbered(number))
    }

    /// What [`Descriptor::numbered`] was given.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        match &self.0 {
            Inner::File(_) => None,
            Inner::Numbered(number) => Some(*number),
        }
    }

    pub(super) fn as_file(&self) -> Option<&OwnedFd> {
        match &self.0 {
            Inner::File(fd) => Some(fd),
            Inner::Numbered(_) => None,
        }
    }
}
