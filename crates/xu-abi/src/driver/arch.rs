//! What the two architectures consist of, and where their blocks are.
//!
//! Spec `driver.md`, table at the head, sections 1, 3 and 5 to 8. No ioctl says how many cores a device has: it follows
//! from the architecture.
//!
//! ```
//! use xu_abi::driver::Arch;
//! let v3 = Arch::from_raw(3).unwrap().table();
//! assert_eq!((v3.cores, v3.versions.min, v3.h2t(5)), (8, 10, Some((130, 1))));
//! ```

use super::argument::named_values;

named_values! {
    /// The architectures that this project knows.
    Arch(u32), "architecture of a device", "2, 3";
    /// Trn1 and Inf2.
    V2 = 2,
    /// Trn2.
    V3 = 3,
}

impl Arch {
    /// What it consists of.
    #[must_use]
    pub const fn table(self) -> &'static ArchTable {
        match self {
            Self::V2 => &ArchTable::V2,
            Self::V3 => &ArchTable::V3,
        }
    }
}

/// Interface versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

/// Where a run of equal blocks begins, and how far apart they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block.
    pub base: u64,
    /// From one to the next.
    pub stride: u64,
    /// How many there are.
    pub count: u32,
}

impl Run {
    const fn new(base: u64, stride: u64, count: u32) -> Self {
        Self {
            base,
            stride,
            count,
        }
    }
}

/// The block with this index in runs that follow each other.
#[must_use]
pub const fn at(runs: &[Run], mut index: u32) -> Option<u64> {
    let mut run = 0;
    while run < runs.len() {
        if index < runs[run].count {
            // CAST: widening.
            return Some(runs[run].base + runs[run].stride * index as u64);
        }
        index -= runs[run].count;
        run += 1;
    }
    None
}

/// Everything about an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchTable {
    /// Cores of a device.
    pub cores: u8,
    /// PCI ids, of vendor 1d0f.
    pub pci_ids: &'static [u16],
    /// Where each HBM begins, as the DMA engines see it.
    pub hbm: &'static [u64],
    /// Bytes of one HBM.
    pub hbm_bytes: u64,
    /// Distance between two HBMs in BAR4.
    pub hbm_bar4_stride: u64,
    /// Sequencers of collectives.
    pub topsps: u8,
    /// DMA engines that belong to cores, 16 to each.
    pub core_engines: u32,
    /// The driver's own DMA engines; they are numbered from [`ArchTable::first_h2t`].
    pub h2t_engines: u32,
    /// Number of the first of them.
    pub first_h2t: u32,
    /// Cores that share one of them; the queue is the core modulo this.
    pub cores_per_h2t: u32,
    /// Interface versions that the original runtime accepts.
    pub versions: Versions,
    /// The bit of a device address that means host memory.
    pub host_bit: u64,
    /// Bit for each engine, modulo 16, whose queue 14 fetches instructions.
    pub fetching: u16,
    /// Core blocks in BAR0.
    pub core_bar0: &'static [Run],
    /// Core blocks as the DMA engines see them.
    pub core_pa: &'static [Run],
    /// Engine blocks of the cores in BAR0.
    pub engine_bar0: &'static [Run],
    /// Engine blocks of the driver in BAR0.
    pub h2t_bar0: &'static [Run],
    /// Notification blocks of cores in BAR0.
    pub core_nq: &'static [Run],
    /// Notification blocks of TOPSPs in BAR0.
    pub topsp_nq: &'static [Run],
    /// Notification blocks of the SDMA engines in BAR0, 16 to each core.
    pub sdma_nq: &'static [Run],
    /// Miscellaneous RAM in BAR0.
    pub misc_ram: u64,
    /// Seconds within which a reset is acknowledged.
    pub reset_secs: u64,
}

const CORE_STRIDE: u64 = 0x400_0000;
const V2_ENGINE: u64 = 0x4_0000;
const V3_ENGINE: u64 = 0x10_0000;
const V2_SDMA: u64 = 0x7000;

impl ArchTable {
    /// Trn1 and Inf2.
    pub const V2: Self = Self {
        cores: 2,
        pci_ids: &[0x7164, 0x7264],
        hbm: &[0, 0x10_0000_0000],
        hbm_bytes: 16 << 30,
        hbm_bar4_stride: 16 << 30,
        topsps: 6,
        core_engines: 32,
        h2t_engines: 2,
        first_h2t: 32,
        cores_per_h2t: 1,
        versions: Versions { min: 5, max: 7 },
        host_bit: 1 << 44,
        fetching: 0x07FF,
        core_bar0: &[Run::new(0, CORE_STRIDE, 2)],
        core_pa: &[Run::new(0xFFF_C000_0000, CORE_STRIDE, 2)],
        engine_bar0: &[
            Run::new(0x3000_0000, V2_ENGINE, 16),
            Run::new(0x3070_0000, V2_ENGINE, 16),
        ],
        h2t_bar0: &[Run::new(0x3060_0000, 0x70_0000, 2)],
        core_nq: &[Run::new(0x3053_5000, 0x70_0000, 2)],
        topsp_nq: &[Run::new(0x30E0_4000, 0x4_0000, 6)],
        sdma_nq: &[
            Run::new(0x3040_1000, V2_SDMA, 16),
            Run::new(0x30B0_1000, V2_SDMA, 16),
        ],
        misc_ram: 0x30FA_0000,
        reset_secs: 120,
    };

    /// Trn2.
    pub const V3: Self = Self {
        cores: 8,
        pci_ids: &[0x7364],
        hbm: &[0, 0x40_0000_0000, 0x8000_0000_0000, 0x8040_0000_0000],
        hbm_bytes: 24 << 30,
        hbm_bar4_stride: 64 << 30,
        topsps: 16,
        core_engines: 128,
        h2t_engines: 4,
        first_h2t: 128,
        cores_per_h2t: 2,
        versions: Versions { min: 10, max: 11 },
        host_bit: 1 << 46,
        fetching: 0b1_1001_1111,
        core_bar0: &[Run::new(0xD000_0000, CORE_STRIDE, 8)],
        core_pa: &[
            Run::new(0x20_0000_0000, 0x10_0000_0000, 2),
            Run::new(0x60_0000_0000, 0x10_0000_0000, 2),
            Run::new(0x8020_0000_0000, 0x10_0000_0000, 2),
            Run::new(0x8060_0000_0000, 0x10_0000_0000, 2),
        ],
        engine_bar0: &[
            Run::new(0x8200_0000, V3_ENGINE, 32),
            Run::new(0x9400_0000, V3_ENGINE, 32),
            Run::new(0xA200_0000, V3_ENGINE, 32),
            Run::new(0xB400_0000, V3_ENGINE, 32),
        ],
        h2t_bar0: &[
            Run::new(0x0680_0000, 0x10_0000, 2),
            Run::new(0x4680_0000, 0x10_0000, 2),
        ],
        core_nq: &[
            Run::new(0x0600_1000, 0x18_0000, 2),
            Run::new(0x0640_1000, 0x18_0000, 2),
            Run::new(0x4600_1000, 0x18_0000, 2),
            Run::new(0x4640_1000, 0x18_0000, 2),
        ],
        topsp_nq: &[
            Run::new(0x06A0_0000, 0x4_0000, 8),
            Run::new(0x46A0_0000, 0x4_0000, 8),
        ],
        sdma_nq: &[
            Run::new(0x8204_1000, V3_ENGINE, 16),
            Run::new(0x8304_1000, V3_ENGINE, 16),
            Run::new(0x9404_1000, V3_ENGINE, 16),
            Run::new(0x9504_1000, V3_ENGINE, 16),
            Run::new(0xA204_1000, V3_ENGINE, 16),
            Run::new(0xA304_1000, V3_ENGINE, 16),
            Run::new(0xB404_1000, V3_ENGINE, 16),
            Run::new(0xB504_1000, V3_ENGINE, 16),
        ],
        misc_ram: 0x06C8_4000,
        reset_secs: 480,
    };

    /// The driver's own engine and queue that serve a core; `None` when there is no such core.
    #[must_use]
    pub const fn h2t(&self, core: u8) -> Option<(u32, u32)> {
        if core < self.cores {
            // CAST: widening.
            let core = core as u32;
            Some((
                self.first_h2t + core / self.cores_per_h2t,
                core % self.cores_per_h2t,
            ))
        } else {
            None
        }
    }

    /// DMA engines of a device, the driver's own included: the first number that names none.
    #[must_use]
    pub const fn engines(&self) -> u32 {
        self.first_h2t + self.h2t_engines
    }

    /// Whether instructions are fetched through queue 14 of an engine.
    #[must_use]
    pub const fn fetches_instructions(&self, engine: u32) -> bool {
        engine < self.core_engines && self.fetching >> (engine % 16) & 1 == 1
    }

    /// A core that is local to a memory channel: its copy queue is the near one.
    #[must_use]
    pub const fn core_near(&self, channel: u8) -> Option<u8> {
        // CAST: at most 4 channels.
        let channels = self.hbm.len() as u8;
        if channel < channels {
            Some(channel * (self.cores / channels))
        } else {
            None
        }
    }

    /// The memory channel that is local to a core.
    #[must_use]
    pub const fn channel_near(&self, core: u8) -> Option<u8> {
        if core < self.cores {
            // CAST: at most 4 channels.
            Some(core / (self.cores / self.hbm.len() as u8))
        } else {
            None
        }
    }
}

/// Physical cores of v3 by logical core, for a device whose place in its group of 8 is even or odd, and below 4 or not.
pub const V3_CORE_ORDER: [[u8; 8]; 4] = [
    [4, 5, 6, 7, 2, 3, 0, 1],
    [2, 3, 0, 1, 4, 5, 6, 7],
    [0, 1, 2, 3, 6, 7, 4, 5],
    [6, 7, 4, 5, 0, 1, 2, 3],
];

/// What the index of a device is combined with, by exclusive or, on nodes 1 and 3 of a pod.
pub const V3_POD_INDEX_XOR: u32 = 6;

/// The order of the cores of device `index` of v3.
#[must_use]
pub const fn v3_core_order(index: u32, odd_pod_node: bool) -> [u8; 8] {
    let index = if odd_pod_node {
        index ^ V3_POD_INDEX_XOR
    } else {
        index
    };
    let place = index % 8;
    // CAST: 0 or 1 and 0 or 2. PANIC: at most 3.
    let row = (place % 2) as usize + if place < 4 { 0 } else { 2 };
    V3_CORE_ORDER[row]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_where_the_specification_says() {
        let (v2, v3) = (&ArchTable::V2, &ArchTable::V3);
        assert_eq!(at(v2.core_nq, 1), Some(0x30C3_5000));
        assert_eq!(at(v2.h2t_bar0, 1), Some(0x30D0_0000));
        assert_eq!(at(v2.engine_bar0, 31), Some(0x3070_0000 + 15 * 0x4_0000));
        assert_eq!(at(v2.engine_bar0, 32), None);
        let nqs = [0x0600_1000, 0x0618_1000, 0x0640_1000, 0x0658_1000];
        for (core, base) in (0..4).zip(nqs) {
            assert_eq!(at(v3.core_nq, core), Some(base));
            assert_eq!(at(v3.core_nq, core + 4), Some(base + 0x4000_0000));
        }
        let blocks = [0x20, 0x30, 0x60, 0x70, 0x8020, 0x8030, 0x8060, 0x8070];
        for (core, base) in (0..8).zip(blocks) {
            assert_eq!(at(v3.core_pa, core), Some(base << 32));
        }
        assert_eq!(at(v3.h2t_bar0, 3), Some(0x4690_0000));
        assert_eq!(at(v3.topsp_nq, 15), Some(0x46A0_0000 + 7 * 0x4_0000));
        assert_eq!(at(v3.sdma_nq, 127), Some(0xB504_1000 + 15 * 0x10_0000));
    }

    #[test]
    fn every_block_that_is_counted_has_a_place() {
        for table in [&ArchTable::V2, &ArchTable::V3] {
            let total = |runs: &[Run]| runs.iter().map(|run| run.count).sum::<u32>();
            let cores = u32::from(table.cores);
            for runs in [table.core_bar0, table.core_pa, table.core_nq] {
                assert_eq!(total(runs), cores);
            }
            assert_eq!(table.core_engines, 16 * cores);
            assert_eq!(total(table.engine_bar0), table.core_engines);
            assert_eq!(total(table.sdma_nq), table.core_engines);
            assert_eq!(total(table.h2t_bar0), table.h2t_engines);
            assert_eq!(total(table.topsp_nq), u32::from(table.topsps));
            for core in 0..table.cores {
                let channel = table.channel_near(core).unwrap();
                let near = table.core_near(channel).unwrap();
                assert_eq!(table.channel_near(near), Some(channel));
            }
        }
        assert_eq!(ArchTable::V3.engines(), super::super::DMA_ENGINES);
    }

    #[test]
    fn the_fetching_engines_are_those_of_the_list() {
        let fetching = |table: &ArchTable| -> usize {
            (0..16).filter(|e| table.fetches_instructions(*e)).count()
        };
        assert_eq!(fetching(&ArchTable::V2), 11);
        assert_eq!(fetching(&ArchTable::V3), 7);
        for engine in [0, 1, 2, 3, 4, 7, 8, 16, 120] {
            assert!(ArchTable::V3.fetches_instructions(engine), "{engine}");
        }
        assert!(!ArchTable::V2.fetches_instructions(11));
        assert!(!ArchTable::V2.fetches_instructions(32));
    }

    #[test]
    fn every_core_order_is_a_permutation() {
        for index in 0..16 {
            let mut seen = v3_core_order(index, false);
            assert_eq!(seen, v3_core_order(index ^ 6, true));
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
        assert_eq!(v3_core_order(13, false), [6, 7, 4, 5, 0, 1, 2, 3]);
    }
}
