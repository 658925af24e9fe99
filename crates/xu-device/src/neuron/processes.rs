//! Which processes are attached to a device, and what they have of it.
//!
//! Asked for the message of a refused claim, and by whoever looks after devices. Spec `driver.md` section 3,
//! DEVICE_GET_ALL_APPS_INFO.

use super::error::DriverError;
use super::node::Node;
use xu_abi::driver::{AppInfo, GetAppsInfo, MAX_PROCESSES, ioctl};
use zerocopy::FromBytes;

/// A process that is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its process id.
    pub pid: u32,
    /// Bit for each core whose reader or writer lock it holds. Claims are something else.
    pub locked_cores: u8,
    /// Bytes of host memory.
    pub host_bytes: u64,
    /// Bytes of device memory.
    pub device_bytes: u64,
}

/// What the driver is to tell of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The locks only: the cheapest.
    Locks,
    /// The locks and the memory.
    Everything,
}

impl Node {
    /// The processes that are attached to this device, this one among them.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn processes(&self) -> Result<Vec<Attached>, DriverError> {
        self.attached(Told::Everything)
    }

    pub(super) fn attached(&self, told: Told) -> Result<Vec<Attached>, DriverError> {
        const ENTRIES: usize = MAX_PROCESSES as usize;
        const HEAD: usize = GetAppsInfo::ABI.size;
        let mut argument = [0; HEAD + ENTRIES * AppInfo::ABI.size];
        let head = GetAppsInfo {
            flags: match told {
                Told::Locks => 1,
                Told::Everything => 0xF,
            },
            capacity: MAX_PROCESSES,
            ..GetAppsInfo::ZEROED
        };
        argument[..HEAD].copy_from_slice(&head.to_bytes());
        self.ask(&ioctl::DEVICE_GET_ALL_APPS_INFO, &mut argument)?;
        let said = GetAppsInfo::read(&argument).map_or(0, |head| head.size);
        let entries = argument[HEAD..].chunks_exact(AppInfo::ABI.size);
        Ok(entries
            // CAST: widening. The driver may say more than there is room for.
            .take(said as usize)
            .filter_map(|entry| AppInfo::read_from_bytes(entry).ok())
            // A slot that nobody has.
            .filter(|app| app.pid != 0)
            .map(|app| Attached {
                pid: app.pid,
                locked_cores: app.nc_lock_map,
                host_bytes: app.host_mem_size,
                device_bytes: app.device_mem_size,
            })
            .collect())
    }
}
