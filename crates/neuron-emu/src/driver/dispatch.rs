//! From a request to its handler: the filters, in the order of the driver.
//!
//! Spec `driver.md` section 2, `driver_emulation.md` section 4.
//!
//! ```text
//!   request ──> row of the table ──> O_WRONLY? misc only ──> gated and not attached? ──> handler
//!                 none: EINVAL         else EINVAL             EACCES
//! ```

mod handlers;

use super::AccessMode;
use super::call::{Call, Failure, Handled};
use super::device::Device;
use crate::call::Caller;
use handlers::{HANDLERS, Row};
use xu_abi::driver::Ioctl;
use xu_abi::driver::errno::{EACCES, EINVAL};
use xu_abi::driver::ioctl::{
    self, DRIVER_INFO_GET, DRIVER_INFO_SET, HOST_DEVICE_ID_TO_RID_MAP, MEM_BUF_ZEROCOPY64,
    MEM_MC_GET_INFO, MEM_MC_GET_INFO_V2,
};

/// What has come in.
#[derive(Clone, Copy)]
pub(super) struct Incoming<'c> {
    pub(super) caller: &'c dyn Caller,
    /// The device of the file.
    pub(super) device: &'c Device,
    pub(super) devices: &'c [Device],
    pub(super) mode: AccessMode,
    pub(super) request: u32,
    pub(super) argument: u64,
}

/// Lets a call through to its handler.
pub(super) fn run(incoming: Incoming<'_>) -> Handled {
    let Incoming {
        caller,
        device,
        devices,
        mode,
        request,
        argument,
    } = incoming;
    let (ioctl, handler) = select(request).ok_or(Failure::Errno(EINVAL))?;
    if mode == AccessMode::WriteOnly && !ioctl.misc {
        return Err(Failure::Errno(EINVAL));
    }
    let attached = device.has_attached(caller.pid());
    // The gate compares whole requests: another size of a gated call passes it.
    let is_gated = Ioctl::from_request(request).is_some_and(|exact| exact.gated);
    if is_gated && !attached {
        return Err(Failure::Errno(EACCES));
    }
    handler(&Call {
        caller,
        device,
        devices,
        ioctl,
        argument,
        attached,
    })
}

/// The row that the driver takes for a request: usually that of the very request.
pub(super) fn select(request: u32) -> Option<&'static Row> {
    // CAST: the low byte; then 14 and 2 bits.
    let number = request as u8;
    let encoded_size = (request >> 16 & 0x3FFF) as u16;
    let direction = (request >> 30) as u8;
    let chosen = match number {
        // By size alone.
        111 => [MEM_MC_GET_INFO, MEM_MC_GET_INFO_V2]
            .iter()
            .find(|row| row.encoded_size == encoded_size)?
            .request(),
        115 if encoded_size == HOST_DEVICE_ID_TO_RID_MAP.encoded_size => {
            HOST_DEVICE_ID_TO_RID_MAP.request()
        }
        // By direction; a longer structure may be read, of which 24 bytes are written.
        110 if direction == ioctl::Direction::Write as u8 => DRIVER_INFO_SET.request(),
        110 if direction == ioctl::Direction::Read as u8
            && encoded_size >= DRIVER_INFO_GET.encoded_size =>
        {
            DRIVER_INFO_GET.request()
        }
        // By number alone.
        124 => MEM_BUF_ZEROCOPY64.request(),
        _ => request,
    };
    HANDLERS.iter().find(|(ioctl, _)| ioctl.request() == chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioctl::ALL;

    fn name(request: u32) -> Option<&'static str> {
        select(request).map(|(ioctl, _)| ioctl.name)
    }

    #[test]
    fn every_row_has_one_handler() {
        assert_eq!(HANDLERS.len(), ALL.len());
        for ioctl in ALL {
            assert_eq!(name(ioctl.request()), Some(ioctl.name));
        }
    }

    #[test]
    fn other_sizes_and_directions_are_selected_as_the_driver_does() {
        for (request, expected) in [
            // 111 and 115: by size.
            (0x0018_4E6F, Some("MEM_MC_GET_INFO")),
            (0x4020_4E6F, Some("MEM_MC_GET_INFO_V2")),
            (0xC01C_4E6F, None),
            (0x0104_4E73, Some("HOST_DEVICE_ID_TO_RID_MAP")),
            (0xC108_4E73, None),
            // 110: by direction, and a size that suffices.
            (0x8020_4E6E, Some("DRIVER_INFO_GET")),
            (0x8017_4E6E, None),
            (0x4001_4E6E, Some("DRIVER_INFO_SET")),
            (0xC018_4E6E, None),
            // 124: by number.
            (0x0000_4E7C, Some("MEM_BUF_ZEROCOPY64")),
            // The others exactly.
            (0x800C_4E29, None),
            (0xC008_4E29, None),
            (0x8028_4E66, None),
            (0xC018_4E55, None),
            (0x8008_4E7D, None),
            (0x8008_4E00, None),
        ] {
            assert_eq!(name(request), expected, "{request:#x}");
        }
    }
}
