//! One ioctl on its way through the driver: its argument and the memory of its caller.
//!
//! Made by [`dispatch`](super::dispatch), used by every handler.

use super::bug::Bug;
use super::device::Device;
use crate::call::{Caller, NotCopied};
use xu_abi::driver::Ioctl;
use xu_abi::driver::errno::Answer;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What a handler works on.
#[derive(Clone, Copy)]
pub(super) struct Call<'c> {
    pub(super) caller: &'c dyn Caller,
    /// The device of the file.
    pub(super) device: &'c Device,
    /// All devices, by index.
    pub(super) devices: &'c [Device],
    /// Which row of the table it is. Size and direction of the request can have been others.
    pub(super) ioctl: &'static Ioctl,
    /// Address of the argument.
    pub(super) argument: u64,
    /// Whether the caller's process is attached to the device.
    pub(super) attached: bool,
}

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// An error number.
    Errno(i32),
    /// A positive result.
    Positive(i32),
    /// The real driver crashes here, or corrupts the kernel.
    Bug(Bug),
}

/// What a handler gives.
pub(super) type Handled = Result<(), Failure>;

impl From<NotCopied> for Failure {
    /// As most handlers answer: the bytes that were not copied.
    fn from(NotCopied(bytes): NotCopied) -> Self {
        Self::Positive(i32::try_from(bytes).unwrap_or(i32::MAX))
    }
}

impl From<Bug> for Failure {
    fn from(bug: Bug) -> Self {
        Self::Bug(bug)
    }
}

impl Call<'_> {
    pub(super) fn pid(&self) -> u32 {
        self.caller.pid()
    }

    /// The argument, from the caller's memory.
    pub(super) fn argument<A: FromBytes + IntoBytes>(&self) -> Result<A, NotCopied> {
        self.load(self.argument)
    }

    /// Puts the argument back.
    pub(super) fn answer<A: IntoBytes + Immutable>(&self, argument: &A) -> Result<(), NotCopied> {
        self.caller.write(self.argument, argument.as_bytes())
    }

    /// A value from the caller's memory.
    pub(super) fn load<A: FromBytes + IntoBytes>(&self, address: u64) -> Result<A, NotCopied> {
        let mut value = A::new_zeroed();
        self.caller.read(address, value.as_mut_bytes())?;
        Ok(value)
    }

    /// A value to the caller's memory.
    pub(super) fn store<A: IntoBytes + Immutable>(
        &self,
        address: u64,
        value: &A,
    ) -> Result<(), NotCopied> {
        self.caller.write(address, value.as_bytes())
    }
}

impl From<Failure> for Answer {
    /// A bug answers as a dead device does.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Errno(number) => Self::Errno(number),
            Failure::Positive(number) => Self::Positive(number),
            Failure::Bug(_) => Self::Errno(xu_abi::driver::errno::EIO),
        }
    }
}
