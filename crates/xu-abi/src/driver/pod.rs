//! Pods: several hosts whose devices are connected. The lane does not use them.
//!
//! Spec `driver.md` section 3, last row.

use super::argument::arguments;

arguments! {
    /// Of POD_INFO.
    PodInfo is "pod_info": 260 bytes, align 2 {
        /// →
        0 sz: u16,
        /// ←
        2 pod_type: u8,
        /// ←
        3 pod_id: [u8; 256],
        /// ←
        259 pod_sz: u8,
    }

    /// Of POD_STATUS.
    PodStatus is "pod_status": 268 bytes, align 4 {
        /// → 268.
        0 sz: u16,
        /// ←
        2 pod_id: [u8; 256],
        258 pad_102: [u8; 2],
        /// ←
        260 state: u32,
        /// ←
        264 pod_type: u8,
        /// ←
        265 pod_sz: u8,
        /// ←
        266 node_id: i8,
        267 pad_10b: u8,
    }

    /// Of POD_STATUS_V2.
    PodStatusV2 is "pod_status_v2": 276 bytes, align 4 {
        /// → 276.
        0 sz: u16,
        /// ←
        2 pod_id: [u8; 256],
        258 pad_102: [u8; 2],
        /// ←
        260 state: u32,
        /// ←
        264 pod_type: u8,
        /// ←
        265 pod_sz: u8,
        /// ←
        266 node_id: i8,
        267 pad_10b: u8,
        /// ←
        268 mode: u32,
        /// ←
        272 modes_supported: u32,
    }

    /// Of POD_CTRL.
    PodCtrl is "pod_ctrl": 16 bytes, align 4 {
        /// →
        0 sz: u16,
        2 pad_02: [u8; 2],
        /// →
        4 ctrl: u32,
        /// →
        8 timeout: u32,
        /// ←
        12 state: u32,
    }

    /// Of POD_CTRL_V2.
    PodCtrlV2 is "pod_ctrl_v2": 20 bytes, align 4 {
        /// →
        0 sz: u16,
        2 pad_02: [u8; 2],
        /// →
        4 ctrl: u32,
        /// →
        8 timeout: u32,
        /// ←
        12 state: u32,
        /// →
        16 mode: u32,
    }
}
