//! What processes have left behind, for tests that kill them.
//!
//! "Clean" is what the driver cleans: no file, no process, no chunk and no queue of one, no lock, no datastore, no reset
//! that nobody asked about. Marks are told apart from it, as the driver leaves those that were made through a full descriptor.

use super::device::Device;
use super::files::Files;
use super::{memory, rings};
use std::collections::BTreeMap;
use std::fmt;
use xu_abi::driver::CoreInit;

/// What there is, of all devices. Printed, it is a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// By device.
    pub nodes: Vec<NodeRemains>,
    /// Marked cores of the host, by process.
    pub marks: BTreeMap<u32, Vec<usize>>,
}

/// What there is of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRemains {
    /// Descriptors, by process.
    pub descriptors: BTreeMap<u32, u32>,
    /// Attached processes and how often.
    pub attached: Vec<(u32, u32)>,
    /// Host and device memory of processes, bytes, by process.
    pub memory: BTreeMap<u32, [u64; 2]>,
    /// DMA queues with rings of a process, by process; those that are reserved keep theirs and are not counted.
    pub queues: BTreeMap<u32, usize>,
    /// Owners of datastores.
    pub datastores: Vec<u32>,
    /// Cores with a reader or writer lock.
    pub locked: Vec<usize>,
    /// Processes with a reset that nobody has asked about.
    pub resets: Vec<u32>,
    /// Cores that somebody began to initialise. They outlive their process.
    pub initialised: Vec<(usize, CoreInit)>,
    /// What every call answers, if the device is gone.
    pub gone: Option<i32>,
}

impl Remains {
    pub(super) fn of(devices: &[Device], files: &Files) -> Self {
        Self {
            nodes: devices
                .iter()
                .map(|device| NodeRemains::of(device, files))
                .collect(),
            marks: devices
                .first()
                .map(|device| device.system.claims.lock().by_process())
                .unwrap_or_default(),
        }
    }

    /// Whether nothing of any process is left, marks aside.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.nodes.iter().all(NodeRemains::is_clean)
    }

    /// Whether nothing at all is left: every core is free, too. Marks are left by who claims with the wrong descriptor (trap 13).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_clean() && self.marks.is_empty()
    }
}

impl NodeRemains {
    fn of(device: &Device, files: &Files) -> Self {
        let attached = device.processes.lock().attached();
        Self {
            descriptors: files.holders(device.index),
            attached,
            memory: memory::usage(device),
            queues: rings::owners(device),
            datastores: device.datastores.lock().owners(),
            locked: device.core_locks.lock().held(),
            resets: device.resets.pending(),
            initialised: device.core_inits.lock().initialised(),
            gone: device.gone(),
        }
    }

    /// Whether nothing of any process is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let Self {
            descriptors,
            attached,
            memory,
            queues,
            datastores,
            locked,
            resets,
            initialised: _,
            gone,
        } = self;
        descriptors.is_empty()
            && attached.is_empty()
            && memory.is_empty()
            && queues.is_empty()
            && datastores.is_empty()
            && locked.is_empty()
            && resets.is_empty()
            && gone.is_none()
    }
}

impl fmt::Display for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.nodes.iter().enumerate() {
            writeln!(f, "neuron{index}: {node}")?;
        }
        write!(f, "marks: {:?}", self.marks)
    }
}

impl fmt::Display for NodeRemains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("clean");
        }
        write!(
            f,
            "descriptors {:?}, attached {:?}, memory {:?}, queues {:?}, datastores {:?}, locked cores {:?}, resets {:?}, gone {:?}",
            self.descriptors,
            self.attached,
            self.memory,
            self.queues,
            self.datastores,
            self.locked,
            self.resets,
            self.gone,
        )
    }
}
