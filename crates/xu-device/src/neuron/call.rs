//! One ioctl, checked against the table: the argument has its size, and each pointer a buffer as long as the driver
//! will use.
//!
//! Made by [`super::Node`] and [`super::Claims`], carried out by a [`super::Kernel`]. Since no address from outside gets
//! in, carrying it out is safe: the driver touches what it is lent, and only while the call lasts.

use super::error::DriverError;
use core::fmt;
use xu_abi::driver::Ioctl;
use xu_abi::driver::ioctl::Argument;

/// What a pointer of an argument points at.
#[derive(Debug)]
pub enum Buffer<'b> {
    /// The driver reads it.
    Read(&'b [u8]),
    /// The driver writes it, or reads it.
    Written(&'b mut [u8]),
    /// A null pointer, where the driver takes one.
    Null,
}

impl Buffer<'_> {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Written(bytes) => bytes,
            Self::Null => &[],
        }
    }

    /// The bytes, where the driver may write.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Written(bytes) => Some(bytes),
            Self::Read(_) | Self::Null => None,
        }
    }

    /// The address that the driver gets.
    pub(super) fn address(&mut self) -> u64 {
        let address = match self {
            Self::Read(bytes) => bytes.as_ptr().expose_provenance(),
            Self::Written(bytes) => bytes.as_mut_ptr().expose_provenance(),
            Self::Null => 0,
        };
        // CAST: widening; the driver has no 32-bit interface.
        address as u64
    }
}

/// A call that may be made.
pub struct Call<'c, 'b> {
    ioctl: &'static Ioctl,
    argument: &'c mut [u8],
    buffers: &'c mut [Buffer<'b>],
}

impl<'c, 'b> Call<'c, 'b> {
    /// Checks a call. `buffers` are in the order of [`Ioctl::pointers`].
    ///
    /// # Errors
    /// [`DriverError::Malformed`] when argument or buffers are not as the table says: a defect of the caller.
    pub fn new(
        ioctl: &'static Ioctl,
        argument: &'c mut [u8],
        buffers: &'c mut [Buffer<'b>],
    ) -> Result<Self, DriverError> {
        let malformed = |what| DriverError::Malformed {
            call: ioctl.name,
            what,
        };
        if !has_size(ioctl, argument) {
            return Err(malformed("size of the argument"));
        }
        let pointers = ioctl.pointers();
        if pointers.len() != buffers.len() {
            return Err(malformed("number of buffers"));
        }
        for (pointer, buffer) in pointers.iter().zip(buffers.iter()) {
            if matches!(buffer, Buffer::Null) {
                continue;
            }
            // CAST: a length fits 64 bits.
            let length = buffer.bytes().len() as u64;
            if pointer.bytes(argument).is_none_or(|used| length < used) {
                return Err(malformed("length of a buffer"));
            }
            if matches!(buffer, Buffer::Read(_)) && !pointer.is_read(argument) {
                return Err(malformed("a buffer that the driver writes"));
            }
        }
        Ok(Self {
            ioctl,
            argument,
            buffers,
        })
    }

    /// Which one.
    #[must_use]
    pub fn ioctl(&self) -> &'static Ioctl {
        self.ioctl
    }

    /// The argument. Its pointers are 0 here; the buffers say what is behind them.
    #[must_use]
    pub fn argument(&self) -> &[u8] {
        self.argument
    }

    /// The argument, for a kernel that answers. Pointers stay as they are.
    pub fn argument_mut(&mut self) -> &mut [u8] {
        self.argument
    }

    /// What the pointers point at.
    pub fn buffers(&mut self) -> &mut [Buffer<'b>] {
        self.buffers
    }

    /// Sets the pointers to the addresses of the buffers.
    pub(super) fn point(&mut self) {
        for (pointer, buffer) in self.ioctl.pointers().iter().zip(self.buffers.iter_mut()) {
            let address = buffer.address();
            set(self.argument, pointer.field, address);
        }
    }

    /// Sets the pointers to 0, as they were.
    pub(super) fn unpoint(&mut self) {
        for pointer in self.ioctl.pointers() {
            set(self.argument, pointer.field, 0);
        }
    }
}

/// Prints no contents of buffers.
impl fmt::Debug for Call<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = self.buffers.iter().map(|buffer| buffer.bytes().len());
        f.debug_struct("Call")
            .field("ioctl", &self.ioctl)
            .field("argument", &self.argument)
            .field("buffers", &lengths.collect::<Vec<_>>())
            .finish()
    }
}

fn set(argument: &mut [u8], field: usize, address: u64) {
    if let Some(place) = argument.get_mut(field..).and_then(<[u8]>::first_chunk_mut) {
        *place = address.to_ne_bytes();
    }
}

fn has_size(ioctl: &Ioctl, argument: &[u8]) -> bool {
    let Argument::Entries { head, entry } = ioctl.argument else {
        return argument.len() == ioctl.argument.size();
    };
    // The second word is how many entries there is room for.
    let capacity = argument.get(4..).and_then(<[u8]>::first_chunk);
    let room = argument.len().saturating_sub(head.size) / entry.size;
    argument.len() >= head.size
        && capacity.is_some_and(|bytes| u32::from_ne_bytes(*bytes) as usize <= room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xu_abi::driver::{BarRw, MemBufCopy64, ioctl};

    fn refused(ioctl: &'static Ioctl, argument: &mut [u8], buffers: &mut [Buffer<'_>]) -> String {
        Call::new(ioctl, argument, buffers).unwrap_err().to_string()
    }

    #[test]
    fn d4_an_argument_of_another_size_is_refused() {
        assert_eq!(
            refused(&ioctl::SEMAPHORE_INCREMENT, &mut [0; 8], &mut []),
            "SEMAPHORE_INCREMENT: size of the argument is not as the table says"
        );
        let mut apps = [0; 16 + 152];
        apps[4] = 2;
        refused(&ioctl::DEVICE_GET_ALL_APPS_INFO, &mut apps, &mut []);
        apps[4] = 1;
        assert!(Call::new(&ioctl::DEVICE_GET_ALL_APPS_INFO, &mut apps, &mut []).is_ok());
        refused(&ioctl::DEVICE_GET_ALL_APPS_INFO, &mut apps[..15], &mut []);
    }

    #[test]
    fn d4_a_buffer_is_as_long_as_the_driver_uses() {
        let registers = BarRw {
            count: 2,
            ..BarRw::ZEROED
        };
        let mut argument = registers.to_bytes();
        let (addresses, mut values) = ([0; 16], [0; 7]);
        let text = refused(
            &ioctl::BAR_READ,
            &mut argument,
            &mut [Buffer::Read(&addresses), Buffer::Written(&mut values)],
        );
        assert!(text.contains("length of a buffer"), "{text}");
        let text = refused(&ioctl::BAR_READ, &mut argument, &mut []);
        assert!(text.contains("number of buffers"), "{text}");
    }

    #[test]
    fn d4_the_driver_does_not_write_what_is_shared() {
        let copy = MemBufCopy64 {
            size: 4,
            ..MemBufCopy64::ZEROED
        };
        let shared = [0; 4];
        let text = refused(
            &ioctl::MEM_BUF_COPY64,
            &mut copy.to_bytes(),
            &mut [Buffer::Read(&shared)],
        );
        assert!(text.contains("that the driver writes"), "{text}");
    }

    #[test]
    fn d4_no_address_stays_in_an_argument() {
        let mut argument = MemBufCopy64 {
            size: 4,
            buffer: 0xDEAD,
            copy_to_mem_handle: 1,
            ..MemBufCopy64::ZEROED
        }
        .to_bytes();
        let bytes = [0; 4];
        let mut buffers = [Buffer::Read(&bytes)];
        let mut call = Call::new(&ioctl::MEM_BUF_COPY64, &mut argument, &mut buffers).unwrap();
        call.point();
        let pointer = MemBufCopy64::read(call.argument()).unwrap().buffer;
        assert_eq!(pointer, bytes.as_ptr().addr() as u64);
        call.unpoint();
        assert_eq!(MemBufCopy64::read(call.argument()).unwrap().buffer, 0);
    }
}
