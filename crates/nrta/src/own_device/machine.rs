//! A simulated machine of a runtime's own.

use crate::error::Error;
use crate::settings::Settings;
use std::sync::Arc;
use xu_device::simulated::{Machine, MachineConfig};
use xu_worker::worker::with_signals_blocked;

/// Host memory that a machine gets for each core, bytes.
const HOST_BYTES_PER_CORE: u64 = 2 << 20;

/// Starts it.
pub(super) fn start(settings: &Settings, arch: u8) -> Result<Arc<Machine>, Error> {
    let defaults = MachineConfig::default();
    // CAST: at most 256.
    let tpbs = settings.tpbs.value as u16;
    // Rings and three bounce buffers of a core need less than a mebibyte.
    let host_bytes = defaults
        .host_bytes
        .max(u64::from(tpbs) * HOST_BYTES_PER_CORE);
    let config = MachineConfig {
        arch,
        tpbs,
        hbm_bytes: settings.hbm_bytes.value.unwrap_or(defaults.hbm_bytes),
        host_bytes,
        seed: settings.seed.value,
        faults: settings.faults.value.clone(),
        ..defaults
    };
    // The machine's threads are as deaf to signals as the workers.
    let machine = with_signals_blocked(|| Machine::start(config))
        .map_err(|source| Error::Machine { source })?;
    Ok(machine?)
}
