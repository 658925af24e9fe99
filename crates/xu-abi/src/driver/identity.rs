//! Who the driver and the device are: the first questions after an open.
//!
//! Spec `driver.md` section 3, identity and version.

use super::argument::arguments;

arguments! {
    /// Of COMPATIBLE_VERSION: which interface versions the driver speaks.
    CompatibleVersion is "compatible_version": 8 bytes, align 4 {
        /// ← The newest.
        0 max: u32,
        /// ← The oldest.
        4 min: u32,
    }

    /// Of DEVICE_BASIC_INFO.
    DeviceBasicInfo is "device_basic_info": 8 bytes, align 4 {
        /// ← [`super::Arch`].
        0 architecture: u32,
        /// ← Of the PCI device; 240 is a hardware emulator, 255 is QEMU.
        4 revision: u32,
    }

    /// Of DRIVER_INFO_GET and DRIVER_INFO_SET.
    DeviceDriverInfo is "device_driver_info": 24 bytes, align 8 {
        /// ← [`super::Arch`].
        0 architecture: u32,
        /// ← As in [`DeviceBasicInfo`].
        4 revision: u32,
        /// ← 0.
        8 version: u32,
        /// ← 24.
        12 size: u32,
        /// ← [`Features`].
        16 feature_flags1: u64,
    }

    /// Of DEVICE_INFO.
    DeviceInfo is "device_info": 80 bytes, align 8 {
        /// ← [`super::Arch`].
        0 architecture: u32,
        /// ← As in [`DeviceBasicInfo`].
        4 revision: u32,
        /// ← At most 8.
        8 connected_device_count: u32,
        /// ← Device indices.
        12 connected_devices: [u32; 8],
        44 pad_2c: [u8; 4],
        /// ← The first is an opaque base for BAR_READ and BAR_WRITE.
        48 bar_address: [u64; 2],
        /// ← Bytes.
        64 bar_size: [u64; 2],
    }

    /// Of DEVICE_BDF.
    DeviceBdf is "device_bdf": 8 bytes, align 4 {
        /// ←
        0 bus: u32,
        /// ←
        4 slot: u8,
        /// ←
        5 func: u8,
        6 pad_06: [u8; 2],
    }

    /// Of DEVICE_BDF_EXT.
    DeviceBdfExt is "device_bdf_ext": 16 bytes, align 4 {
        /// → Relative to the device that is asked; the sum must be below 64.
        0 nd_index: u32,
        /// ←
        4 domain: u32,
        /// ←
        8 bus: u32,
        /// ←
        12 slot: u8,
        /// ←
        13 func: u8,
        14 pad_0e: [u8; 2],
    }

    /// Of HOST_DEVICE_ID_TO_RID_MAP.
    HostDeviceIdToRidMap is "host_device_id_to_rid_map": 260 bytes, align 4 {
        /// ← Entries that are set.
        0 count: u32,
        /// ← Routing ids by device index on the host.
        4 map: [u32; 64],
    }

    /// Of GET_LOGICAL_TO_PHYSICAL_NC_MAP.
    GetLogicalToPhysicalNcMap is "get_logical_to_physical_nc_map": 16 bytes, align 8 {
        /// → Address of an [`NcMap`] of `max_map_entries`.
        0 map: u64,
        /// → At most [`NcMap::ENTRIES`].
        8 max_map_entries: u32,
        /// → 0.
        12 mapping_version: u32,
    }

    /// What GET_LOGICAL_TO_PHYSICAL_NC_MAP fills.
    NcMap is "neuron_ioctl_nc_map": 1028 bytes, align 4 {
        /// ← Entries that are set.
        0 num_entries: u32,
        /// ← By logical core.
        4 entries: [NcMapEntry; NcMap::ENTRIES],
    }

    /// Where a logical core is.
    NcMapEntry is "neuron_ioctl_nc_map_entry": 8 bytes, align 4 {
        /// ← Device index.
        0 device_id: u32,
        /// ← Core of that device.
        4 device_nc_idx: u32,
    }

    /// Of DEVICE_GET_ALL_APPS_INFO: the head, followed by `capacity` times [`AppInfo`].
    GetAppsInfo is "get_apps_info": 16 bytes, align 4 {
        /// → 1 locks, 2 memory, 15 all.
        0 flags: u16,
        2 pad_02: [u8; 2],
        /// → Entries that there is room for.
        4 capacity: u32,
        /// ← Entries that are set.
        8 size: u32,
        12 pad_0c: [u8; 4],
    }

    /// One process that is attached.
    AppInfo is "neuron_app_info": 152 bytes, align 8 {
        /// ←
        0 pid: u32,
        /// ← Bit for each core.
        4 nc_lock_map: u8,
        /// ←
        5 uuid: [[u8; 32]; 4],
        133 pad_85: [u8; 3],
        /// ← Bytes of host memory.
        136 host_mem_size: u64,
        /// ← Bytes of device memory.
        144 device_mem_size: u64,
    }
}

impl NcMap {
    /// Most entries that the driver fills.
    pub const ENTRIES: usize = 128;
}

/// Most devices of a host, and so the first index that does not exist.
pub const MAX_DEVICES: u32 = 64;
/// Most cores of a device.
pub const MAX_CORES_PER_DEVICE: u32 = 8;
/// Most processes that one device is attached to.
pub const MAX_PROCESSES: u32 = 16;

/// What a driver says it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// DMABUF_FD.
    pub const DMABUF: u64 = 1 << 0;
    /// MEM_COPY_ASYNC.
    pub const ASYNC_DMA: u64 = 1 << 1;
    /// DMA_QUEUE_INIT_BATCH.
    pub const BATCH_DMAQ_INIT: u64 = 1 << 2;
    /// The range marks of 512 cores.
    pub const BIG_CORE_MAPS: u64 = 1 << 3;
    /// The allocations with a memory type.
    pub const MEM_ALLOC_TYPE: u64 = 1 << 4;
    /// HBM_SCRUB_START.
    pub const HBM_SCRUB: u64 = 1 << 5;
    /// Chunks of 4 GiB and more, and the calls with 64-bit sizes.
    pub const MEM_ALLOC64: u64 = 1 << 6;
    /// Memory type 19.
    pub const CONTIGUOUS_SCRATCHPAD: u64 = 1 << 7;

    /// What a driver can do that does not say: nothing of the above.
    pub const NONE: Self = Self(0);

    /// The bits of `feature_flags1`; unknown ones are kept.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The bits.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Whether every bit of `wanted` is set.
    #[must_use]
    pub const fn has(self, wanted: u64) -> bool {
        self.0 & wanted == wanted
    }
}
