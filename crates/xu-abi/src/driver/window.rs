//! What can be mapped besides chunks: windows of registers and of whole memories, by cookie.
//!
//! Spec `driver.md` section 4. RESOURCE_MMAP_INFO says the same of a real device.

use super::arch::Arch;
use super::argument::named_values;

named_values! {
    /// What a window belongs to.
    Block(u32), "block of a window", "0 to 2";
    /// A core.
    Tpb = 0,
    /// A sequencer of collectives.
    Topsp = 1,
    /// A memory.
    Hbm = 2,
}

named_values! {
    /// What a window shows.
    Resource(u32), "resource of a window", "0 to 3";
    /// Events and semaphores.
    Semaphores = 0,
    /// The whole block, of a TOPSP only; cannot be written.
    All = 1,
    /// The state buffer of a core.
    StateBuffer = 2,
    /// The memory.
    DeviceMemory = 3,
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The cookie for mmap. On v3 it is no device address.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// In which BAR it lies.
    pub bar: u8,
    /// Where in that BAR.
    pub bar_offset: u64,
}

/// Bytes of events and semaphores.
pub const SEMAPHORE_WINDOW: u64 = 0x2000;
/// Bytes of a state buffer.
pub const STATE_BUFFER: u64 = 0x200_0000;
/// Bytes of a TOPSP block.
pub const TOPSP_BLOCK: u64 = 0x40_0000;

const SEMAPHORES_IN_CORE: u64 = super::core_window::EVENTS;
const CORE_STRIDE: u64 = 0x400_0000;

impl Window {
    /// The window of a block, if the architecture has it.
    #[must_use]
    pub const fn of(arch: Arch, block: Block, id: u32, resource: Resource) -> Option<Self> {
        // CAST: widening.
        let wide = id as u64;
        match block {
            Block::Tpb => Self::of_core(arch, id, resource),
            Block::Topsp => {
                let bytes = match resource {
                    Resource::Semaphores => SEMAPHORE_WINDOW,
                    Resource::All => TOPSP_BLOCK,
                    _ => return None,
                };
                let (offset, bar_offset) = match (arch, id) {
                    (Arch::V2, 0..6) => (
                        0xFFF_D000_0000 + TOPSP_BLOCK * wide,
                        0x1000_0000 + TOPSP_BLOCK * wide,
                    ),
                    (Arch::V3, 0..8) => (
                        0x82_8000_0000 + 0x4000_0000 * wide,
                        0xF000_0000 + TOPSP_BLOCK * wide,
                    ),
                    (Arch::V3, 8..16) => (
                        0x8082_8000_0000 + 0x4000_0000 * (wide - 8),
                        0xF280_0000 + TOPSP_BLOCK * (wide - 8),
                    ),
                    _ => return None,
                };
                Some(Self {
                    offset,
                    bytes,
                    bar: 0,
                    bar_offset,
                })
            }
            Block::Hbm => match (arch, resource) {
                (Arch::V3, Resource::DeviceMemory) => {
                    let table = arch.table();
                    // CAST: widening. PANIC: compared first.
                    if (id as usize) < table.hbm.len() {
                        Some(Self {
                            offset: table.hbm[id as usize],
                            bytes: table.hbm_bytes,
                            bar: 4,
                            bar_offset: table.hbm_bar4_stride * wide,
                        })
                    } else {
                        None
                    }
                }
                _ => None,
            },
        }
    }

    const fn of_core(arch: Arch, id: u32, resource: Resource) -> Option<Self> {
        // CAST: widening, twice.
        if id >= arch.table().cores as u32 {
            return None;
        }
        let core = CORE_STRIDE * id as u64;
        let (cookies, bar) = match arch {
            Arch::V2 => (0xFFF_C000_0000, 0),
            Arch::V3 => (0x20_0000_0000, 0xD000_0000),
        };
        let (inside, bytes) = match resource {
            Resource::Semaphores => (SEMAPHORES_IN_CORE, SEMAPHORE_WINDOW),
            Resource::StateBuffer => (0, STATE_BUFFER),
            _ => return None,
        };
        Some(Self {
            offset: cookies + core + inside,
            bytes,
            bar: 0,
            bar_offset: bar + core + inside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(arch: Arch, block: Block, id: u32, resource: Resource) -> (u64, u64, u64) {
        let window = Window::of(arch, block, id, resource).unwrap();
        (window.offset, window.bar_offset, window.bytes)
    }

    #[test]
    fn windows_are_those_of_the_table() {
        use {Arch::*, Block::*, Resource::*};
        let semaphores = window(V2, Tpb, 1, Semaphores);
        assert_eq!(semaphores, (0xFFF_C670_0000, 0x670_0000, 0x2000));
        let buffer = window(V3, Tpb, 7, StateBuffer);
        assert_eq!(buffer, (0x20_1C00_0000, 0xEC00_0000, 0x200_0000));
        let topsp = window(V2, Topsp, 5, All);
        assert_eq!(topsp, (0xFFF_D140_0000, 0x1140_0000, 0x40_0000));
        let topsp = window(V3, Topsp, 15, Semaphores);
        assert_eq!(topsp, (0x8084_4000_0000, 0xF440_0000, 0x2000));
        let hbm = window(V3, Hbm, 3, DeviceMemory);
        assert_eq!(hbm, (0x8040_0000_0000, 0x30_0000_0000, 0x6_0000_0000));
    }

    #[test]
    fn there_is_nothing_beyond_the_last() {
        for (arch, block, id, resource) in [
            (Arch::V2, Block::Tpb, 2, Resource::Semaphores),
            (Arch::V3, Block::Tpb, 8, Resource::StateBuffer),
            (Arch::V2, Block::Tpb, 0, Resource::All),
            (Arch::V2, Block::Topsp, 6, Resource::All),
            (Arch::V3, Block::Topsp, 16, Resource::Semaphores),
            (Arch::V3, Block::Topsp, 0, Resource::StateBuffer),
            (Arch::V2, Block::Hbm, 0, Resource::DeviceMemory),
            (Arch::V3, Block::Hbm, 4, Resource::DeviceMemory),
        ] {
            assert_eq!(Window::of(arch, block, id, resource), None);
        }
    }
}
