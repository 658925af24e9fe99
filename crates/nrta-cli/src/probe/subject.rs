//! The core that is looked at: claimed, on a device that is open, and nobody else's.

use super::ProbeError;
use super::report::Report;
use nrta::neuron::abi::{ArchTable, MemType, arch};
use nrta::neuron::{
    Chunk, ChunkSpec, Claim, Claims, DriverError, Kernel, Location, Node, discovery, negotiation,
};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// One core. What it is made of is given back when it is dropped, the device before the claim.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) node: Arc<Node>,
    /// The core of the device.
    pub(super) core: u8,
    /// Whether the core has been reset: reset values can be read.
    pub(super) is_reset: bool,
    /// What its node is.
    kind: &'static str,
    _claim: Claim,
}

impl Subject {
    /// Claims a core of a device, and opens the device.
    pub(super) fn open(
        kernel: Arc<dyn Kernel>,
        dev: &Path,
        index: u32,
        core: Option<u8>,
    ) -> Result<Self, ProbeError> {
        let claims = Claims::open(Arc::clone(&kernel), dev, index)?;
        let cores = claims.identity().cores();
        let first = index * u32::from(cores);
        let claim = match core {
            Some(core) => {
                let core = first + u32::from(core);
                claims.claim(core..core + 1, &[])?
            }
            // The last one is the least used, and its place says more than that of the first.
            None => (first..first + u32::from(cores))
                .rev()
                .find_map(|core| claims.claim(core..core + 1, &[]).ok())
                .ok_or(ProbeError::NoCore { index })?,
        };
        // CAST: below the number of cores of a device.
        let core = (claim.cores().start - first) as u8;
        Ok(Self {
            node: Arc::new(Node::open(kernel, dev, index)?),
            core,
            is_reset: false,
            kind: kind(&discovery::node(dev, index)),
            _claim: claim,
        })
    }

    pub(super) fn table(&self) -> &'static ArchTable {
        self.node.identity().table()
    }

    /// Resets the core, and notes how that went.
    pub(super) fn reset(&mut self, report: &mut Report) {
        let result = self.node.reset_cores(1 << self.core);
        self.is_reset = result.is_ok();
        report.reset(result);
    }

    pub(super) fn describe(&self) -> Vec<(&'static str, String)> {
        let identity = self.node.identity();
        let spoken: Vec<_> = negotiation::spoken()
            .iter()
            .map(|range| format!("{}-{}", range.min, range.max))
            .collect();
        vec![
            (
                "device",
                format!("neuron{} at {}", self.node.index(), identity.bdf),
            ),
            ("node", self.kind.to_owned()),
            ("core", self.core.to_string()),
            ("architecture", format!("v{}", identity.arch.raw())),
            ("revision", identity.revision.to_string()),
            (
                "interface version",
                format!("{} (spoken: {})", identity.version, spoken.join(", ")),
            ),
            ("feature word", format!("{:#x}", identity.features.raw())),
        ]
    }

    /// A chunk of host memory.
    pub(super) fn host_chunk(&self, bytes: u64) -> Result<Chunk, DriverError> {
        self.chunk(bytes, Location::Host, MemType::MiscHost)
    }

    /// A chunk of the memory that is near the core.
    pub(super) fn device_chunk(&self, bytes: u64) -> Result<Chunk, DriverError> {
        let channel = self.table().channel_near(self.core).unwrap_or(0);
        self.chunk(bytes, Location::Device { channel }, MemType::MiscDevice)
    }

    fn chunk(
        &self,
        bytes: u64,
        location: Location,
        mem_type: MemType,
    ) -> Result<Chunk, DriverError> {
        let spec = ChunkSpec {
            bytes,
            align: 0,
            location,
            core: self.core,
            mem_type,
        };
        Chunk::allocate(&self.node, spec)
    }

    /// Where a block of a core begins in BAR0, of runs of blocks that are counted by core.
    pub(super) fn block(&self, runs: &'static [arch::Run], index: u32) -> u64 {
        // Every table has a block for each index that is asked for; beyond BAR0 the guards refuse.
        arch::at(runs, index).unwrap_or(u64::MAX)
    }

    pub(super) fn register(&self, offset: u64) -> Result<u32, DriverError> {
        let mut value = [0];
        self.node.read_registers(&[offset], &mut value)?;
        Ok(value[0])
    }
}

/// Reports are sent to people who have to know whether it was a device that answered.
fn kind(node: &Path) -> &'static str {
    match std::fs::metadata(node) {
        Ok(metadata) if metadata.file_type().is_char_device() => "a character device",
        _ => "no character device: what answers is an emulation",
    }
}
