//! Claims of cores and their initialisation.
//!
//! Spec `driver.md` section 3, claiming cores.

use super::argument::{arguments, named_values};

arguments! {
    /// Of the older CRWL_NC_RANGE_MARK and CRWL_NC_RANGE_UNMARK.
    CrwlNcMap is "crwl_nc_map": 24 bytes, align 8 {
        /// → Consecutive cores wanted.
        0 nc_count: u32,
        /// → First core of the range, counted from the device that is asked.
        4 start_nc_index: u32,
        /// → Last core of the range, inclusive.
        8 end_nc_index: u32,
        /// ← The longest free run, also when the mark is refused.
        12 max_nc_available: u32,
        /// ↔ Written by a mark, read by an unmark.
        16 bitmap: u64,
    }

    /// Of CRWL_NC_RANGE_MARK_EXT0 and CRWL_NC_RANGE_UNMARK_EXT0.
    CrwlNcMapExt is "crwl_nc_map_ext": 80 bytes, align 8 {
        /// → Consecutive cores wanted.
        0 nc_count: u32,
        /// → First core of the range, counted from the device that is asked.
        4 start_nc_index: u32,
        /// → Last core of the range, inclusive.
        8 end_nc_index: u32,
        /// ← The longest free run, also when the mark is refused.
        12 max_nc_available: u32,
        /// ↔ Written by a mark, read by an unmark.
        16 bitmap: [u64; 8],
    }

    /// Of CINIT_SET_STATE.
    CinitSet is "cinit_set": 12 bytes, align 4 {
        /// →
        0 nc_id: u32,
        /// → [`CoreInit`].
        4 state: u32,
        /// ← [`CoreInit`].
        8 new_state: u32,
    }

    /// Of the four CRWL reader and writer locks.
    Crwl is "crwl": 36 bytes, align 4 {
        /// →
        0 nc_id: u32,
        /// →
        4 uuid: [u8; 32],
    }

    /// Of NC_MODEL_STARTED_COUNT.
    NcModelStartedCount is "nc_model_started_count": 16 bytes, align 8 {
        /// →
        0 nc_id: u32,
        4 pad_04: [u8; 4],
        /// ←
        8 count: u64,
    }
}

/// Cores that one range mark can speak of.
pub const MAX_MARKED_CORES: u32 = 512;

named_values! {
    /// How far a core is initialised.
    CoreInit(u32), "state of a core's initialisation", "1 to 3";
    /// Somebody is at it: who is told so by a call for this state, or another process.
    Started = 1,
    /// Ready for use.
    Completed = 2,
    /// Not initialised.
    Invalid = 3,
}
