//! How much memory is in use, of which kind, for which core.
//!
//! `present` is the difference to the last look, and `peak` the most that any look saw: the driver looks at every
//! allocation, this at every refresh.

use super::node;
use super::tree::{COUNTER, Tree};
use crate::driver::device::Device;
use std::collections::BTreeMap;
use std::io;
use xu_abi::driver::MemType;

/// One amount of memory, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    total: u64,
    /// Signed: memory goes, too.
    present: i64,
    peak: u64,
}

impl Meter {
    fn look(&mut self, bytes: u64) {
        if bytes != self.total {
            // CAST: the difference of two amounts of memory fits.
            self.present = bytes as i64 - self.total as i64;
        }
        self.total = bytes;
        self.peak = self.peak.max(bytes);
    }
}

/// The meters of a device, by directory below it.
#[derive(Debug)]
pub(super) struct MemoryMeters {
    meters: BTreeMap<String, Meter>,
}

/// Directories of host memory.
const HOST: [&str; 8] = [
    "dma_buffers",
    "tensors",
    "constants",
    "application_memory",
    "driver_memory",
    "notifications",
    "dma_rings",
    "uncategorized",
];

/// Directories of device memory.
const DEVICE: [&str; 11] = [
    "model_code",
    "tensors",
    "constants",
    "model_shared_scratchpad",
    "runtime_memory",
    "driver_memory",
    "collectives",
    "nonshared_scratchpad",
    "notifications",
    "dma_rings",
    "uncategorized",
];

/// Where memory of a type is counted, if it lies in the host or in the device.
fn category(mem_type: MemType, is_host: bool) -> &'static str {
    use MemType as T;
    match (mem_type, is_host) {
        (T::CodeHost, true) => "dma_buffers",
        (T::TensorsHost, true) | (T::TensorsDevice, false) => "tensors",
        (T::ConstantsHost, true) | (T::ConstantsDevice, false) => "constants",
        (T::MiscHost, true) => "application_memory",
        (T::DriverHost, true) | (T::DriverDevice, false) => "driver_memory",
        (T::NotificationHost, true) | (T::NotificationDevice, false) => "notifications",
        (T::DmaRingsHost, true) | (T::DmaRingsDevice, false) => "dma_rings",
        (T::CodeDevice, false) => "model_code",
        (T::ScratchpadDevice | T::ContiguousScratchpad, false) => "model_shared_scratchpad",
        (T::MiscDevice, false) => "runtime_memory",
        (T::CollectivesDevice, false) => "collectives",
        (T::NonsharedScratchpadDevice, false) => "nonshared_scratchpad",
        // A type of the other memory, too.
        _ => "uncategorized",
    }
}

fn of_host(category: &str) -> String {
    format!("stats/memory_usage/host_mem/{category}")
}

fn of_core(core: u32, memory: &str) -> String {
    format!("neuron_core{core}/stats/memory_usage/{memory}")
}

impl MemoryMeters {
    pub(super) fn new(device: &Device) -> Self {
        let host = HOST.iter().map(|category| of_host(category));
        let cores = (0..device.cores()).flat_map(|core| {
            let memories = ["host_mem", "device_mem"].map(|memory| of_core(core, memory));
            let kinds = DEVICE.map(|kind| of_core(core, &format!("device_mem/{kind}")));
            memories.into_iter().chain(kinds)
        });
        let meters = host.chain(cores).map(|path| (path, Meter::default()));
        Self {
            meters: meters.collect(),
        }
    }

    /// Adds up the chunks.
    pub(super) fn look(&mut self, device: &Device) {
        let mut bytes = BTreeMap::<String, u64>::new();
        for chunk in device.chunks.lock().iter() {
            let mut add = |path| *bytes.entry(path).or_default() += chunk.bytes;
            let category = category(chunk.mem_type, chunk.is_host());
            if chunk.is_host() {
                add(of_host(category));
                add(of_core(chunk.core, "host_mem"));
            } else {
                add(of_core(chunk.core, "device_mem"));
                add(of_core(chunk.core, &format!("device_mem/{category}")));
            }
        }
        for (path, meter) in &mut self.meters {
            meter.look(bytes.get(path).copied().unwrap_or(0));
        }
    }

    pub(super) fn write(&self, tree: &mut Tree, device: &Device) -> io::Result<()> {
        let node = node(device);
        for (path, meter) in &self.meters {
            for (file, text) in [
                ("total", meter.total.to_string()),
                ("present", meter.present.to_string()),
                ("peak", meter.peak.to_string()),
            ] {
                let path = format!("{node}/{path}/{file}");
                tree.write(&path, &format!("{text}\n"), COUNTER)?;
            }
        }
        Ok(())
    }
}
