//! The shared area of counters of a process. Its layout is in [`crate::metric`].
//!
//! Spec `driver.md` sections 3 and 9.

use super::argument::arguments;

arguments! {
    /// Of ACQUIRE_NEURON_DS and RELEASE_NEURON_DS.
    NeuronDsInfo is "neuron_ds_info": 24 bytes, align 8 {
        /// → 0 is the caller.
        0 pid: i32,
        4 pad_04: [u8; 4],
        /// ←
        8 mmap_offset: u64,
        /// ← [`DATASTORE_AREA`].
        16 size: u32,
        20 pad_14: [u8; 4],
    }
}

/// Bytes of one area; [`crate::metric::DATASTORE_SIZE`] of them have a meaning.
pub const DATASTORE_AREA: u32 = 262_144;
