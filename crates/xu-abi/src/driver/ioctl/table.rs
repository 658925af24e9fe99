//! The table of ioctls, in the order of the specification.
//!
//! Each row has the parts of a request, the request itself and the size of the argument, as the specification has
//! them; the compiler compares them with each other and with the structure.

use super::{Argument, Direction, Ioctl};
use crate::driver::{
    AppInfo, BarRw, CinitSet, CompatibleVersion, Crwl, CrwlNcMap, CrwlNcMapExt, DeviceBasicInfo,
    DeviceBdf, DeviceBdfExt, DeviceDriverInfo, DeviceInfo, DeviceReady, DeviceReset,
    DmaAckCompleted, DmaCopyDescriptors, DmaCopyDescriptors64, DmaDescriptorCopyout,
    DmaEngGetState, DmaEngSetState, DmaQueueCopyStart, DmaQueueGetState, DmaQueueInit,
    DmaQueueInitBatch, DmaQueueRelease, DmabufFd, DumpMemChunks, Event, GetAppsInfo,
    GetLogicalToPhysicalNcMap, HostDeviceIdToRidMap, MemAlloc, MemAllocV2, MemAllocV2MemType,
    MemAllocV2MemType64, MemBufCopy, MemBufCopy64, MemCopy, MemCopy64, MemCopyAsync,
    MemCopyAsync64, MemCopyAsyncWait, MemFree, MemGetExtendedInfo, MemGetInfo, MemGetMcMmapInfo,
    MemGetMcMmapInfoV2, MemGetPa, Memset, Memset64, NcModelStartedCount, NeuronDsInfo,
    NotificationsInitV1, NotificationsInitV2, NotificationsInitWithReallocV2,
    NotificationsQueueInfo, PodCtrl, PodCtrlV2, PodInfo, PodStatus, PodStatusV2, PostMetric,
    Printk, ProgramEngine, ProgramEngineNc, ProgramEngineNc64, ReadHwCounters, ResourceMmapInfo,
    Semaphore,
};

macro_rules! ioctls {
    ($(
        $name:ident: $number:literal $direction:ident $encoded_size:literal = $request:literal,
        $argument:expr, $size:literal $(, $($flag:ident)+)?;
    )*) => {
        $(
            #[doc = concat!("Number ", $number, ", request `", stringify!($request), "`.")]
            pub const $name: Ioctl = Ioctl::new(
                stringify!($name),
                $number,
                Direction::$direction,
                $encoded_size,
                $argument,
            )$($(.$flag())+)?;

            const _: () = {
                assert!($name.request() == $request, concat!("request of ", stringify!($name)));
                assert!($name.argument.size() == $size, concat!("argument of ", stringify!($name)));
            };
        )*

        /// Every ioctl.
        pub const ALL: &[Ioctl] = &[$($name),*];
    };
}

ioctls! {
    DEVICE_RESET: 1 None 0 = 0x0000_4E01, Argument::Ignored, 0;
    DEVICE_READY: 2 Read 1 = 0x8001_4E02, Argument::Number(1), 1;
    DEVICE_INFO: 3 Read 8 = 0x8008_4E03, Argument::Struct(&DeviceInfo::ABI), 80;
    DEVICE_INIT: 4 Read 8 = 0x8008_4E04, Argument::Ignored, 0;
    DEVICE_RELEASE: 5 None 0 = 0x0000_4E05, Argument::Ignored, 0;
    DEVICE_APP_PID: 6 Read 4 = 0x8004_4E06, Argument::Number(4), 4;
    DEVICE_GET_ALL_APPS_INFO: 7 Read 8 = 0x8008_4E07, Argument::Entries { head: &GetAppsInfo::ABI, entry: &AppInfo::ABI }, 16;
    BAR_READ: 11 Read 8 = 0x8008_4E0B, Argument::Struct(&BarRw::ABI), 32;
    BAR_WRITE: 12 Write 8 = 0x4008_4E0C, Argument::Struct(&BarRw::ABI), 32, gated;
    POST_METRIC: 13 Write 8 = 0x4008_4E0D, Argument::Struct(&PostMetric::ABI), 16, gated;
    MEM_ALLOC: 21 Read 8 = 0x8008_4E15, Argument::Struct(&MemAlloc::ABI), 32, gated;
    MEM_ALLOC_V2: 102 Read 8 = 0x8008_4E66, Argument::Struct(&MemAllocV2::ABI), 40;
    MEM_ALLOC_V2MT: 102 Read 48 = 0x8030_4E66, Argument::Struct(&MemAllocV2MemType::ABI), 48;
    MEM_ALLOC_V2MT64: 102 Read 56 = 0x8038_4E66, Argument::Struct(&MemAllocV2MemType64::ABI), 56;
    MEM_FREE: 22 Read 8 = 0x8008_4E16, Argument::Struct(&MemFree::ABI), 8, gated;
    MEM_COPY: 23 Read 8 = 0x8008_4E17, Argument::Struct(&MemCopy::ABI), 32, gated;
    MEM_COPY64: 23 Read 40 = 0x8028_4E17, Argument::Struct(&MemCopy64::ABI), 40;
    MEM_BUF_COPY: 24 ReadWrite 8 = 0xC008_4E18, Argument::Struct(&MemBufCopy::ABI), 32;
    MEM_BUF_COPY64: 24 ReadWrite 40 = 0xC028_4E18, Argument::Struct(&MemBufCopy64::ABI), 40;
    MEM_GET_PA: 25 Read 8 = 0x8008_4E19, Argument::Struct(&MemGetPa::ABI), 16, gated;
    MEM_GET_INFO: 26 Read 8 = 0x8008_4E1A, Argument::Struct(&MemGetInfo::ABI), 24, gated;
    PROGRAM_ENGINE: 27 ReadWrite 8 = 0xC008_4E1B, Argument::Struct(&ProgramEngine::ABI), 24;
    MEMSET: 28 Read 8 = 0x8008_4E1C, Argument::Struct(&Memset::ABI), 24;
    MEMSET64: 28 Read 32 = 0x8020_4E1C, Argument::Struct(&Memset64::ABI), 32;
    MEM_GET_EXTENDED_INFO: 29 Read 8 = 0x8008_4E1D, Argument::Struct(&MemGetExtendedInfo::ABI), 48;
    DMA_ENG_INIT: 30 Read 8 = 0x8008_4E1E, Argument::Ignored, 0, gated;
    DMA_ENG_SET_STATE: 31 Read 8 = 0x8008_4E1F, Argument::Struct(&DmaEngSetState::ABI), 8, gated;
    DMA_ENG_GET_STATE: 32 ReadWrite 8 = 0xC008_4E20, Argument::Struct(&DmaEngGetState::ABI), 16;
    DMA_QUEUE_INIT: 33 Read 8 = 0x8008_4E21, Argument::Struct(&DmaQueueInit::ABI), 48, gated;
    DMA_QUEUE_INIT_BATCH: 133 Read 12296 = 0xB008_4E85, Argument::Struct(&DmaQueueInitBatch::ABI), 12296;
    DMA_QUEUE_RELEASE: 34 Read 8 = 0x8008_4E22, Argument::Struct(&DmaQueueRelease::ABI), 8, gated;
    DMA_QUEUE_COPY_START: 35 Read 8 = 0x8008_4E23, Argument::Struct(&DmaQueueCopyStart::ABI), 16;
    DMA_ACK_COMPLETED: 36 Read 8 = 0x8008_4E24, Argument::Struct(&DmaAckCompleted::ABI), 12, gated;
    DMA_QUEUE_GET_STATE: 37 ReadWrite 8 = 0xC008_4E25, Argument::Struct(&DmaQueueGetState::ABI), 24;
    DMA_COPY_DESCRIPTORS: 38 Read 8 = 0x8008_4E26, Argument::Struct(&DmaCopyDescriptors::ABI), 32, gated;
    DMA_COPY_DESCRIPTORS64: 38 Read 40 = 0x8028_4E26, Argument::Struct(&DmaCopyDescriptors64::ABI), 40;
    DMA_DESCRIPTOR_COPYOUT: 39 ReadWrite 8 = 0xC008_4E27, Argument::Struct(&DmaDescriptorCopyout::ABI), 32;
    DMA_QUIESCE_QUEUES: 40 Read 8 = 0x8008_4E28, Argument::Ignored, 0;
    SEMAPHORE_INCREMENT: 41 Read 8 = 0x8008_4E29, Argument::Struct(&Semaphore::ABI), 12;
    SEMAPHORE_DECREMENT: 42 Read 8 = 0x8008_4E2A, Argument::Struct(&Semaphore::ABI), 12;
    SEMAPHORE_READ: 43 ReadWrite 8 = 0xC008_4E2B, Argument::Struct(&Semaphore::ABI), 12;
    SEMAPHORE_WRITE: 44 Read 8 = 0x8008_4E2C, Argument::Struct(&Semaphore::ABI), 12;
    EVENT_SET: 45 Read 8 = 0x8008_4E2D, Argument::Struct(&Event::ABI), 12;
    EVENT_GET: 46 ReadWrite 8 = 0xC008_4E2E, Argument::Struct(&Event::ABI), 12;
    NOTIFICATIONS_INIT_V1: 51 Read 8 = 0x8008_4E33, Argument::Struct(&NotificationsInitV1::ABI), 24, gated;
    NOTIFICATIONS_DESTROY_V1: 52 Read 8 = 0x8008_4E34, Argument::Ignored, 0;
    NOTIFICATIONS_INIT_V2: 53 Read 8 = 0x8008_4E35, Argument::Struct(&NotificationsInitV2::ABI), 48, gated;
    NOTIFICATIONS_INIT_WITH_REALLOC_V2: 54 Read 8 = 0x8008_4E36, Argument::Struct(&NotificationsInitWithReallocV2::ABI), 56, gated;
    NOTIFICATIONS_QUEUE_INFO: 58 Read 8 = 0x8008_4E3A, Argument::Struct(&NotificationsQueueInfo::ABI), 12;
    READ_HW_COUNTERS: 61 Read 8 = 0x8008_4E3D, Argument::Struct(&ReadHwCounters::ABI), 24;
    ACQUIRE_NEURON_DS: 71 Read 8 = 0x8008_4E47, Argument::Struct(&NeuronDsInfo::ABI), 24;
    RELEASE_NEURON_DS: 72 Read 8 = 0x8008_4E48, Argument::Struct(&NeuronDsInfo::ABI), 24;
    CRWL_READER_ENTER: 81 Write 8 = 0x4008_4E51, Argument::Struct(&Crwl::ABI), 36;
    CRWL_READER_EXIT: 82 Write 8 = 0x4008_4E52, Argument::Struct(&Crwl::ABI), 36;
    CRWL_WRITER_ENTER: 83 Write 8 = 0x4008_4E53, Argument::Struct(&Crwl::ABI), 36;
    CRWL_WRITER_DOWNGRADE: 84 Write 8 = 0x4008_4E54, Argument::Struct(&Crwl::ABI), 36;
    CRWL_NC_RANGE_MARK: 85 Write 8 = 0x4008_4E55, Argument::Struct(&CrwlNcMap::ABI), 24, misc;
    CRWL_NC_RANGE_MARK_EXT0: 85 ReadWrite 80 = 0xC050_4E55, Argument::Struct(&CrwlNcMapExt::ABI), 80, misc;
    CRWL_NC_RANGE_UNMARK: 86 Write 8 = 0x4008_4E56, Argument::Struct(&CrwlNcMap::ABI), 24, misc;
    CRWL_NC_RANGE_UNMARK_EXT0: 86 Write 80 = 0x4050_4E56, Argument::Struct(&CrwlNcMapExt::ABI), 80, misc;
    CINIT_SET_STATE: 91 Write 8 = 0x4008_4E5B, Argument::Struct(&CinitSet::ABI), 12;
    NC_MODEL_STARTED_COUNT: 92 Write 8 = 0x4008_4E5C, Argument::Struct(&NcModelStartedCount::ABI), 16;
    COMPATIBLE_VERSION: 93 Write 8 = 0x4008_4E5D, Argument::Struct(&CompatibleVersion::ABI), 8, misc;
    DEVICE_BASIC_INFO: 100 Write 8 = 0x4008_4E64, Argument::Struct(&DeviceBasicInfo::ABI), 8, misc;
    DEVICE_BDF: 101 Read 8 = 0x8008_4E65, Argument::Struct(&DeviceBdf::ABI), 8;
    NC_RESET: 103 Read 8 = 0x8008_4E67, Argument::Struct(&DeviceReset::ABI), 8;
    NC_RESET_READY: 104 Read 8 = 0x8008_4E68, Argument::Struct(&DeviceReady::ABI), 8;
    PROGRAM_ENGINE_NC: 105 ReadWrite 8 = 0xC008_4E69, Argument::Struct(&ProgramEngineNc::ABI), 32;
    PROGRAM_ENGINE_NC64: 105 ReadWrite 40 = 0xC028_4E69, Argument::Struct(&ProgramEngineNc64::ABI), 40;
    DEVICE_BDF_EXT: 106 Read 8 = 0x8008_4E6A, Argument::Struct(&DeviceBdfExt::ABI), 16, misc;
    DEVICE_RESET_STATUS: 106 Read 1 = 0x8001_4E6A, Argument::Number(1), 1;
    DMABUF_FD: 107 Read 8 = 0x8008_4E6B, Argument::Struct(&DmabufFd::ABI), 24, misc;
    MEM_COPY_ASYNC: 108 ReadWrite 48 = 0xC030_4E6C, Argument::Struct(&MemCopyAsync::ABI), 48, gated;
    MEM_COPY_ASYNC64: 108 ReadWrite 56 = 0xC038_4E6C, Argument::Struct(&MemCopyAsync64::ABI), 56;
    MEM_COPY_ASYNC_WAIT: 109 Write 24 = 0x4018_4E6D, Argument::Struct(&MemCopyAsyncWait::ABI), 24, gated;
    DRIVER_INFO_GET: 110 Read 24 = 0x8018_4E6E, Argument::Struct(&DeviceDriverInfo::ABI), 24, misc;
    DRIVER_INFO_SET: 110 Write 24 = 0x4018_4E6E, Argument::Struct(&DeviceDriverInfo::ABI), 24, misc gated;
    MEM_MC_GET_INFO: 111 ReadWrite 24 = 0xC018_4E6F, Argument::Struct(&MemGetMcMmapInfo::ABI), 24;
    MEM_MC_GET_INFO_V2: 111 ReadWrite 32 = 0xC020_4E6F, Argument::Struct(&MemGetMcMmapInfoV2::ABI), 32;
    RESOURCE_MMAP_INFO: 112 ReadWrite 32 = 0xC020_4E70, Argument::Struct(&ResourceMmapInfo::ABI), 32;
    PRINTK: 113 Write 16 = 0x4010_4E71, Argument::Struct(&Printk::ABI), 16, misc;
    HOST_DEVICE_ID: 114 Read 4 = 0x8004_4E72, Argument::Number(4), 4;
    HOST_DEVICE_ID_TO_RID_MAP: 115 ReadWrite 260 = 0xC104_4E73, Argument::Struct(&HostDeviceIdToRidMap::ABI), 260, misc;
    DUMP_MEM_CHUNKS: 116 Read 8 = 0x8008_4E74, Argument::Struct(&DumpMemChunks::ABI), 24;
    NC_PID_STATE_DUMP: 117 ReadWrite 16 = 0xC010_4E75, Argument::Opaque(16), 16, misc;
    HBM_SCRUB_START: 118 ReadWrite 16 = 0xC010_4E76, Argument::Opaque(16), 16;
    HBM_SCRUB_WAIT: 119 ReadWrite 8 = 0xC008_4E77, Argument::Opaque(8), 8;
    GET_LOGICAL_TO_PHYSICAL_NC_MAP: 120 ReadWrite 16 = 0xC010_4E78, Argument::Struct(&GetLogicalToPhysicalNcMap::ABI), 16, misc;
    POD_INFO: 121 ReadWrite 260 = 0xC104_4E79, Argument::Struct(&PodInfo::ABI), 260, misc;
    POD_STATUS: 122 ReadWrite 268 = 0xC10C_4E7A, Argument::Struct(&PodStatus::ABI), 268, misc;
    POD_STATUS_V2: 122 ReadWrite 276 = 0xC114_4E7A, Argument::Struct(&PodStatusV2::ABI), 276, misc;
    POD_CTRL: 123 ReadWrite 16 = 0xC010_4E7B, Argument::Struct(&PodCtrl::ABI), 16, misc;
    POD_CTRL_V2: 123 ReadWrite 20 = 0xC014_4E7B, Argument::Struct(&PodCtrlV2::ABI), 20, misc;
    MEM_BUF_ZEROCOPY64: 124 ReadWrite 40 = 0xC028_4E7C, Argument::Struct(&MemBufCopy64::ABI), 40;
}
