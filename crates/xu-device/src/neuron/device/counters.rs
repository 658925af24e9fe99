//! What is counted outside the lane: memory errors by the firmware, and finished executions for the driver.
//!
//! Used by [`super::NeuronDevice`]. Spec `driver.md` sections 9 and 10.

use crate::device::{DeviceError, MemoryErrors};
use crate::metrics::Metrics;
use crate::neuron::Datastore;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use xu_abi::TpbIndex;
use xu_abi::metric::{CoreCounter, Latency};

/// The directory of a device below the root of sysfs.
pub(super) fn directory(sysfs: &Path, device: u32) -> PathBuf {
    sysfs
        .join("class/neuron_device")
        .join(format!("neuron{device}"))
}

/// What the firmware has counted. It counts for the whole device; so do we, for each core alike.
///
/// Where the files are not there, as in a container, nothing is counted: that is no reason not to run.
pub(super) fn memory_errors(directory: &Path) -> Result<MemoryErrors, DeviceError> {
    let count = |name: &str| read(&directory.join("stats/hardware").join(name));
    Ok(MemoryErrors {
        sram: count("sram_ecc_uncorrected")?,
        hbm: count("mem_ecc_uncorrected")?,
        hbm_repairable: count("mem_ecc_repairable_uncorrected")?,
    })
}

fn read(path: &Path) -> Result<u64, DeviceError> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map_err(|_| DeviceError::Os {
            what: "a counter of memory errors",
            reason: format!("{}: {text:?} is no number", path.display()),
        }),
        Err(error) if is_absent(error.kind()) => Ok(0),
        Err(error) => Err(DeviceError::Os {
            what: "a counter of memory errors",
            reason: format!("{}: {error}", path.display()),
        }),
    }
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
    )
}

/// What has been added to the area that the driver shows to others, by core of the chip and counter.
///
/// The area has totals of the process, which may have had other devices on these cores before: so what is new is added.
#[derive(Debug, Default)]
pub(super) struct Published(Vec<[u64; CoreCounter::COUNT as usize]>);

impl Published {
    /// Adds what a core has counted since the last time; its latest times are set.
    pub(super) fn publish(&mut self, store: &Datastore, core: u8, metrics: &Metrics) {
        let index = usize::from(core);
        if self.0.len() <= index {
            self.0.resize(index + 1, [0; CoreCounter::COUNT as usize]);
        }
        for counter in (0..CoreCounter::COUNT).filter_map(CoreCounter::new) {
            let Ok(value) = metrics.counter(TpbIndex::new(core.into()), counter) else {
                return;
            };
            // PANIC: as long as was made above, and an ordinal is below the number of counters.
            let known = &mut self.0[index][usize::from(counter.ordinal())];
            let before = core::mem::replace(known, value);
            // Refused for a core beyond the last of an area: a chip has at most 8, an area 16.
            let _ = match Latency::ALL.iter().any(|time| time.counter() == counter) {
                true => store.set(core, counter, value),
                // Less than before: counters of another runtime, from 0.
                false => store.add(core, counter, value.checked_sub(before).unwrap_or(value)),
            };
        }
    }
}
