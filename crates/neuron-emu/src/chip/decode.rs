//! Which register is at an offset of BAR0.
//!
//! Called by the chip for every access. Spec `driver.md` sections 5 to 7.

use super::NqBlock;
use crate::choices::NQ_BLOCK_BYTES;
use xu_abi::driver::arch::Run;
use xu_abi::driver::core_window::{
    EVENTS, SEMAPHORE_ADD, SEMAPHORE_READ, SEMAPHORE_SET, SEMAPHORE_SUBTRACT, SEMAPHORES,
};
use xu_abi::driver::queue_register::{QUEUE_STRIDE, RX_BLOCK, TX_BLOCK};
use xu_abi::driver::{Arch, QUEUES_PER_ENGINE};
use xu_device::map::{CORE_BLOCK_STRIDE, ENGINES_PER_CORE};

/// Bytes of a register.
const WORD: u64 = 4;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    /// Of a block of notification queues, bytes from its beginning.
    Notification(NqBlock, u64),
    /// Of a queue of an engine.
    Queue {
        engine: u32,
        queue: u32,
        /// Of the Rx side.
        rx: bool,
        /// Bytes from the beginning of the block of the queue.
        register: u64,
    },
    Event(u8, u8),
    SemaphoreRead(u8, u8),
    SemaphoreSet(u8, u8),
    SemaphoreAdd(u8, u8),
    SemaphoreSubtract(u8, u8),
    /// One that nothing is known of.
    Other,
}

/// The register at `offset`.
pub(super) fn decode(arch: Arch, offset: u64) -> Register {
    let of_core = || {
        let (core, inside) = locate(arch.table().core_bar0, offset, CORE_BLOCK_STRIDE)?;
        core_register(u8::try_from(core).ok()?, inside)
    };
    let register = notification(arch, offset)
        .or_else(|| queue(arch, offset))
        .or_else(of_core);
    register.unwrap_or(Register::Other)
}

/// Where a block of notification queues begins in BAR0.
pub(super) fn notification_base(arch: Arch, block: NqBlock) -> Option<u64> {
    let table = arch.table();
    let (runs, index) = match block {
        NqBlock::Core(core) => (table.core_nq, u32::from(core)),
        NqBlock::Topsp(topsp) => (table.topsp_nq, u32::from(topsp)),
        NqBlock::Sdma(core, engine) => (
            table.sdma_nq,
            u32::from(core) * ENGINES_PER_CORE + u32::from(engine),
        ),
    };
    xu_abi::driver::arch::at(runs, index)
}

fn notification(arch: Arch, offset: u64) -> Option<Register> {
    let table = arch.table();
    let find = |runs| {
        let (index, inside) = locate(runs, offset, NQ_BLOCK_BYTES)?;
        Some((index, inside))
    };
    let (block, inside) = if let Some((core, inside)) = find(table.core_nq) {
        (NqBlock::Core(u8::try_from(core).ok()?), inside)
    } else if let Some((topsp, inside)) = find(table.topsp_nq) {
        (NqBlock::Topsp(u8::try_from(topsp).ok()?), inside)
    } else {
        let (sdma, inside) = find(table.sdma_nq)?;
        let core = u8::try_from(sdma / ENGINES_PER_CORE).ok()?;
        let engine = u8::try_from(sdma % ENGINES_PER_CORE).ok()?;
        (NqBlock::Sdma(core, engine), inside)
    };
    Some(Register::Notification(block, inside))
}

fn queue(arch: Arch, offset: u64) -> Option<Register> {
    let table = arch.table();
    let side = QUEUE_STRIDE * u64::from(QUEUES_PER_ENGINE);
    let bytes = RX_BLOCK + side;
    let (engine, inside) = match locate(table.engine_bar0, offset, bytes) {
        Some(found) => found,
        None => {
            let (index, inside) = locate(table.h2t_bar0, offset, bytes)?;
            (table.first_h2t + index, inside)
        }
    };
    let (rx, inside) = match inside.checked_sub(RX_BLOCK) {
        Some(inside) => (true, inside),
        None => (false, inside.checked_sub(TX_BLOCK)?),
    };
    (inside < side).then_some(Register::Queue {
        engine,
        // CAST: below 16.
        queue: (inside / QUEUE_STRIDE) as u32,
        rx,
        register: inside % QUEUE_STRIDE,
    })
}

/// Makes a register of a core and an index.
type Make = fn(u8, u8) -> Register;

fn core_register(core: u8, inside: u64) -> Option<Register> {
    let index = |window: u64| {
        let index = inside.checked_sub(window)? / WORD;
        if index >= SEMAPHORES {
            return None;
        }
        u8::try_from(index).ok()
    };
    let windows: [(u64, Make); 5] = [
        (EVENTS, Register::Event),
        (SEMAPHORE_READ, Register::SemaphoreRead),
        (SEMAPHORE_SET, Register::SemaphoreSet),
        (SEMAPHORE_ADD, Register::SemaphoreAdd),
        (SEMAPHORE_SUBTRACT, Register::SemaphoreSubtract),
    ];
    if !inside.is_multiple_of(WORD) {
        return None;
    }
    windows
        .iter()
        .find_map(|(window, register)| Some(register(core, index(*window)?)))
}

/// Which of the blocks of `bytes` bytes an offset is in, and how far from its beginning.
fn locate(runs: &[Run], offset: u64, bytes: u64) -> Option<(u32, u64)> {
    let mut first = 0;
    for run in runs {
        if let Some(above) = offset.checked_sub(run.base)
            && let Ok(index) = u32::try_from(above / run.stride)
            && index < run.count
            && above % run.stride < bytes
        {
            return Some((first + index, above % run.stride));
        }
        first += run.count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_where_the_specification_says() {
        use Register::*;
        let core = |offset| decode(Arch::V2, offset);
        assert_eq!(core(0x30C3_5014), Notification(NqBlock::Core(1), 0x14));
        assert_eq!(core(0x30E0_410C), Notification(NqBlock::Topsp(0), 0x10C));
        let sdma = decode(Arch::V3, 0xB504_1000 + 15 * 0x10_0000 + 0x100);
        assert_eq!(sdma, Notification(NqBlock::Sdma(7, 15), 0x100));
        let tx = core(0x3000_0000 + 3 * 0x4_0000 + 0x1000 + 2 * 0x1000 + 0x34);
        let (engine, queue) = (3, 2);
        assert_eq!(
            tx,
            Queue {
                engine,
                queue,
                rx: false,
                register: 0x34
            }
        );
        let rx = decode(Arch::V3, 0x4690_0000 + 0x2_1000 + 0x24);
        assert_eq!(
            rx,
            Queue {
                engine: 131,
                queue: 0,
                rx: true,
                register: 0x24
            }
        );
        assert_eq!(core(0x400_0000 + 0x270_0000 + 4 * 255), Event(1, 255));
        assert_eq!(core(0x270_1800), SemaphoreAdd(0, 0));
        assert_eq!(
            decode(Arch::V3, 0xD000_0000 + 0x270_1C04),
            SemaphoreSubtract(0, 1)
        );
        for nothing in [
            0,
            0x270_0400,
            0x270_1801,
            0x30FA_0000,
            0x3053_5380,
            u64::MAX,
        ] {
            assert_eq!(core(nothing), Other, "{nothing:#x}");
        }
    }

    #[test]
    fn every_block_of_notification_queues_is_found_where_it_begins() {
        for arch in [Arch::V2, Arch::V3] {
            let cores = (0..arch.table().cores).map(NqBlock::Core);
            let topsps = (0..arch.table().topsps).map(NqBlock::Topsp);
            let sdma =
                (0..arch.table().cores).flat_map(|c| (0..16).map(move |e| NqBlock::Sdma(c, e)));
            for block in cores.chain(topsps).chain(sdma) {
                let base = notification_base(arch, block).unwrap();
                assert_eq!(decode(arch, base), Register::Notification(block, 0));
            }
        }
    }
}
