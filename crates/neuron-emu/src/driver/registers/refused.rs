//! Which registers BAR_WRITE refuses.
//!
//! Spec `driver.md` section 3, registers: the mailbox of the firmware, and in every DMA queue the bases of its rings and its
//! doorbell.

use xu_abi::driver::arch::Run;
use xu_abi::driver::queue_register::{BLOCKED, QUEUE_STRIDE, RX_BLOCK, TX_BLOCK};
use xu_abi::driver::{ArchTable, MAILBOX_BLOCKED, QUEUES_PER_ENGINE};

/// Bytes of the queues of an engine, in one direction.
// CAST: widening.
const QUEUES: u64 = QUEUE_STRIDE * QUEUES_PER_ENGINE as u64;

/// Whether this register of BAR0 is one of them.
pub(super) fn is_refused(table: &ArchTable, offset: u64) -> bool {
    is_of_mailbox(table, offset) || is_of_queue(table, offset)
}

fn is_of_mailbox(table: &ArchTable, offset: u64) -> bool {
    let inside = offset.checked_sub(table.misc_ram);
    inside.is_some_and(|inside| MAILBOX_BLOCKED.contains(&inside))
}

fn is_of_queue(table: &ArchTable, offset: u64) -> bool {
    [table.engine_bar0, table.h2t_bar0]
        .into_iter()
        .flatten()
        .filter_map(|run| offset_in_block(run, offset))
        .flat_map(|inside| [TX_BLOCK, RX_BLOCK].map(|block| inside.checked_sub(block)))
        .flatten()
        .any(|inside| inside < QUEUES && BLOCKED.contains(&(inside % QUEUE_STRIDE)))
}

/// How far from the beginning of a block of the run an address lies.
fn offset_in_block(run: &Run, address: u64) -> Option<u64> {
    let above = address.checked_sub(run.base)?;
    (above / run.stride < run.count.into()).then_some(above % run.stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mailbox_the_bases_and_the_doorbell_are_refused() {
        let (v2, v3) = (&ArchTable::V2, &ArchTable::V3);
        for (table, offset) in [
            (v2, 0x30FA_0000 + 0x1F0),
            (v2, 0x30FA_0000 + 0x800),
            (v3, 0x06C8_4000 + 0x1FC),
            // Tx queue 0 of engine 0, Rx queue 15 of engine 31, the driver's own.
            (v2, 0x3000_0000 + 0x1000 + 0x28),
            (
                v2,
                0x3070_0000 + 15 * 0x4_0000 + 0x2_1000 + 15 * 0x1000 + 0x38,
            ),
            (v2, 0x30D0_0000 + 0x1000 + 0x48),
            (v3, 0xB400_0000 + 31 * 0x10_0000 + 0x2_1000 + 0x2C),
            (v3, 0x4690_0000 + 0x1_0000 + 0x44),
        ] {
            assert!(is_refused(table, offset), "{offset:#x}");
        }
    }

    #[test]
    fn everything_else_may_be_written() {
        let v2 = &ArchTable::V2;
        for offset in [
            // A semaphore, the head of a notification ring, the mailbox's neighbour.
            0x270_1800,
            0x3053_5000 + 0x10C,
            0x30FA_0000 + 0x1EC,
            // Length and head of a queue; behind the last queue; before the first.
            0x3000_0000 + 0x1000 + 0x30,
            0x3000_0000 + 0x1000 + 0x34,
            0x3000_0000 + 0x1000 + 16 * 0x1000 + 0x28,
            0x3000_0000 + 0x28,
            // Behind the last engine.
            0x3070_0000 + 16 * 0x4_0000 + 0x1028,
        ] {
            assert!(!is_refused(v2, offset), "{offset:#x}");
        }
    }
}
