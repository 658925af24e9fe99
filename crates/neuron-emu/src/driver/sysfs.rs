//! The files of sysfs, in a directory of the emulator's own: programs are told to take it for `/sys`.
//!
//! Spec `driver.md` section 10. Made when somebody first asks for it; rewritten when a process is done, and on demand.
//! What the kernel does at a write cannot be seen here: [`Emulator::reset_node`](super::Emulator::reset_node) stands in
//! for a write to `reset`.
//!
//! ```text
//!   <root>/class/neuron_device/{node_id_2, ...}           of the host
//!                             /neuronN/{core_count, ...}  device
//!                                     /neuron_coreM/...   core
//!         /module/neuron/version
//! ```

mod core;
mod device;
mod memory;
mod tree;

pub(in crate::driver) use tree::Tree;

use super::device::Device;
use memory::MemoryMeters;
use std::io;

/// Version of the driver that is emulated.
const VERSION: &str = "2.24.7.0";

/// Files of nodes in a pod, of which there is none.
const POD_FILES: [&str; 5] = [
    "node_id_2",
    "node_id_4",
    "server_id_2",
    "server_id_4",
    "ultraserver_mode",
];

/// The tree, and what it has to remember from one look at a device to the next.
#[derive(Debug)]
pub(super) struct Sysfs {
    pub(super) tree: Tree,
    meters: Vec<MemoryMeters>,
}

impl Sysfs {
    /// A new tree that shows what there is.
    pub(super) fn create(devices: &[Device]) -> io::Result<Self> {
        let mut tree = Tree::create()?;
        tree.write("module/neuron/version", &format!("{VERSION}\n"), 0o444)?;
        for file in POD_FILES {
            tree.write(&format!("class/neuron_device/{file}"), "-1\n", 0o444)?;
        }
        let mut sysfs = Self {
            tree,
            meters: devices.iter().map(MemoryMeters::new).collect(),
        };
        for device in devices {
            device::write_constants(&mut sysfs.tree, device)?;
        }
        sysfs.refresh(devices)?;
        Ok(sysfs)
    }

    /// Rewrites what has changed.
    pub(super) fn refresh(&mut self, devices: &[Device]) -> io::Result<()> {
        for (device, meters) in devices.iter().zip(&mut self.meters) {
            device::write_state(&mut self.tree, device)?;
            meters.look(device);
            meters.write(&mut self.tree, device)?;
            core::write(&mut self.tree, device)?;
        }
        Ok(())
    }
}

/// The directory of a device.
fn node(device: &Device) -> String {
    format!("class/neuron_device/neuron{}", device.index)
}
