//! Every constant of the hardware that the specification leaves open or calls unverified.
//!
//! One table, shared by the stager, the harvester and the simulated machine; nothing outside this file
//! repeats a number from it.
//!
//! | constant | value | standing |
//! |---|---|---|
//! | core block of core *n* of the simulated machine | `0xFFFC0000000 + 0x4000000 n` | that of v2 cores 0 and 1, continued for more |
//! | core blocks of v2 and v3 | [`xu_abi::driver::ArchTable::core_pa`] | documented |
//! | event window, semaphore windows | `+0x2700000`, `+0x2701000` | documented |
//! | sequencer memory | `+0x2800000` | chosen |
//! | tail-increment registers of the model-exec queue | `+0x2900000` (Tx), `+0x2900004` (Rx) | chosen |
//! | HBM of core *n* of the simulated machine | `0x1000000000 n`, first 16 MiB reserved | that of v2, continued for more |
//! | host memory of the simulated machine | bit 45 set | chosen |
//! | DMA queue *i* of core *n* of a chip | engine `16 n + i`, queue 0 of it | chosen; queues 14 and 15 are reserved |
//! | type of a notification queue of a chip | ERROR for queue 2, NOTIFY for the others | chosen; the hardware only knows the queue |
//! | `INFERENCE_START` semaphore | 0 | chosen |
//! | collectives barrier semaphore, and that it counts the barriers that the core has passed | 1 | chosen |
//! | collectives context of a core | sequencer memory `+0x100`, 64 bytes | chosen |
//! | request-load event | 0 | chosen |
//! | model-exec DMA queue, transfer queues, collectives queue | 0; 1 and 2; 3 | chosen |
//! | first phase of a notification ring | 1 | inferred |
//! | engine whose custom records are re-tagged on v3 | DVE | unverified: the analysis says DVE and index 2 |

use crate::device::DmaQueue;
use xu_abi::driver::arch::at;
use xu_abi::driver::{Arch, NqType, unverified};
use xu_abi::{DeviceAddr, Engine, EventIndex, SemIndex, TpbIndex};

/// Bytes at the start of each HBM that belong to firmware.
pub const HBM_RESERVED: u64 = 16 << 20;
/// Distance between the HBMs of two cores of the simulated machine.
pub const HBM_STRIDE: u64 = 0x10_0000_0000;
/// Where host memory of the simulated machine begins, as it sees it.
pub const HOST_BASE: u64 = 1 << 45;
/// Where the block of core 0 of the simulated machine begins.
pub const CORE_BLOCK_BASE: u64 = 0xFFF_C000_0000;
/// Bytes of a core block.
pub const CORE_BLOCK_STRIDE: u64 = 0x400_0000;
/// Event registers inside a core block, 4 bytes each.
pub const EVENT_WINDOW: u64 = 0x270_0000;
/// Memory of the sequencer inside a core block.
pub const SEQUENCER_MEMORY: u64 = 0x280_0000;
/// Where the collectives context lies inside the sequencer's memory.
pub const COLLECTIVES_CONTEXT: u64 = 0x100;
/// Size of the sequencer's memory, bytes.
pub const SEQUENCER_MEMORY_BYTES: u64 = 0x1000;
/// Tail-increment registers of the model-exec queue: Tx, then Rx, 4 bytes each.
pub const TAIL_INCREMENT: u64 = 0x290_0000;

/// The semaphore whose increment starts an execution.
pub const INFERENCE_START: SemIndex = SemIndex::new(0);
/// Counts the collectives barriers that the core has passed since its model-exec queue was opened; wraps.
pub const COLLECTIVES_BARRIER: SemIndex = SemIndex::new(1);
/// First semaphore that programs may use.
pub const FIRST_PROGRAM_SEMAPHORE: u8 = 16;
/// The event that tells the sequencer that a request has arrived in its memory.
pub const REQUEST_LOADED: EventIndex = EventIndex::new(0);

/// Index of the DMA queue that carries execution requests.
pub const MODEL_EXEC_QUEUE: u8 = 0;
/// Index of the first of the two DMA queues that move tensors.
pub const FIRST_TRANSFER_QUEUE: u8 = 1;
/// Index of the DMA queue that carries collectives between cores.
pub const COLLECTIVES_QUEUE: u8 = 3;
/// Number of DMA queues of a core.
pub const DMA_QUEUES: u8 = 4;
/// Number of DMA engines of a core of a chip.
pub const ENGINES_PER_CORE: u32 = 16;

/// Number of hardware notification queues of a core.
pub const NOTIFICATION_QUEUES: u8 = 10;
/// The phase bit of the records that the device writes on the first lap of a ring.
pub const FIRST_PHASE: bool = true;
/// The engine whose custom records need [`RETAGGED_NQ_ID`] on v3 and later.
pub const RETAGGED_ENGINE: Engine = Engine::Dve;
/// The tag that such a record gets.
pub const RETAGGED_NQ_ID: u8 = 0x0E;

/// Far from everything, and from the end of the 64-bit space.
const NOWHERE: u64 = 1 << 63;

/// The word that a transfer copies behind its data to say that the data has arrived.
pub const COMPLETION_MARKER: u32 = 0xABCD_EF01;

/// Where the blocks of the cores are, as DMA engines see them. A part of [`Shape`](crate::Shape).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMap {
    /// Of the simulated machine: any number of cores, one behind the other.
    Simulated,
    /// Of a chip.
    Chip(Arch),
}

impl AddressMap {
    /// Where the block of a core begins; for a core that does not exist an address at which nothing is.
    #[must_use]
    pub const fn core_block(self, tpb: TpbIndex) -> u64 {
        // CAST: widening, here and below.
        match self {
            Self::Simulated => CORE_BLOCK_BASE + CORE_BLOCK_STRIDE * tpb.get() as u64,
            Self::Chip(arch) => match at(arch.table().core_pa, tpb.get() as u32) {
                Some(base) => base,
                None => NOWHERE,
            },
        }
    }

    /// The core in whose block an address lies, and how far from its beginning.
    #[must_use]
    pub fn core_at(self, addr: DeviceAddr) -> Option<(TpbIndex, u64)> {
        let inside = |base: u64| {
            let offset = addr.get().checked_sub(base)?;
            (offset < CORE_BLOCK_STRIDE).then_some(offset)
        };
        match self {
            Self::Simulated => {
                let above = addr.get().checked_sub(CORE_BLOCK_BASE)?;
                let tpb = u16::try_from(above / CORE_BLOCK_STRIDE).ok()?;
                Some((TpbIndex::new(tpb), above % CORE_BLOCK_STRIDE))
            }
            Self::Chip(arch) => (0..u16::from(arch.table().cores))
                .map(TpbIndex::new)
                .find_map(|tpb| Some((tpb, inside(self.core_block(tpb))?))),
        }
    }

    /// The register of one event.
    #[must_use]
    pub const fn event_register(self, tpb: TpbIndex, event: EventIndex) -> DeviceAddr {
        DeviceAddr::new(self.core_block(tpb) + EVENT_WINDOW + 4 * event.get() as u64)
    }

    /// Where a core's sequencer expects its request.
    #[must_use]
    pub const fn sequencer_memory(self, tpb: TpbIndex) -> DeviceAddr {
        DeviceAddr::new(self.core_block(tpb) + SEQUENCER_MEMORY)
    }

    /// Where a core's sequencer expects the collectives context of a model.
    #[must_use]
    pub const fn collectives_context(self, tpb: TpbIndex) -> DeviceAddr {
        DeviceAddr::new(self.core_block(tpb) + SEQUENCER_MEMORY + COLLECTIVES_CONTEXT)
    }

    /// The tail-increment register of a core's model-exec Tx ring.
    #[must_use]
    pub const fn tx_tail_increment(self, tpb: TpbIndex) -> DeviceAddr {
        DeviceAddr::new(self.core_block(tpb) + TAIL_INCREMENT)
    }

    /// The tail-increment register of a core's model-exec Rx ring.
    #[must_use]
    pub const fn rx_tail_increment(self, tpb: TpbIndex) -> DeviceAddr {
        DeviceAddr::new(self.core_block(tpb) + TAIL_INCREMENT + 4)
    }
}

/// The DMA engine of a chip that queue `index` of a core is, and the queue of that engine.
#[must_use]
pub const fn engine_of(queue: DmaQueue) -> (u32, u32) {
    // CAST: widening.
    let engine = ENGINES_PER_CORE * queue.tpb.get() as u32 + queue.index as u32;
    (engine, 0)
}

/// The queue of a core that queue `queue` of an engine of a chip is, if it is one of the four that this project uses. The
/// core may be one that the chip does not have.
#[must_use]
pub fn queue_of(engine: u32, queue: u32) -> Option<DmaQueue> {
    let index = u8::try_from(engine % ENGINES_PER_CORE).ok()?;
    let tpb = TpbIndex::new(u16::try_from(engine / ENGINES_PER_CORE).ok()?);
    (queue == 0 && index < DMA_QUEUES).then_some(DmaQueue { tpb, index })
}

/// The type by which the driver keeps a notification queue of a core of a chip.
#[must_use]
pub const fn nq_type(nq: u8) -> NqType {
    // CAST: widening.
    if nq as u64 == unverified::NQ_OF_ERRORS {
        NqType::Error
    } else {
        NqType::Notify
    }
}

/// The DMA queue that carries a core's execution requests.
#[must_use]
pub const fn model_exec_queue(tpb: TpbIndex) -> DmaQueue {
    DmaQueue {
        tpb,
        index: MODEL_EXEC_QUEUE,
    }
}

/// One of a core's two tensor-moving DMA queues.
#[must_use]
pub const fn transfer_queue(tpb: TpbIndex, queue: u8) -> DmaQueue {
    DmaQueue {
        tpb,
        index: FIRST_TRANSFER_QUEUE + queue,
    }
}

/// The DMA queue over which a core takes part in collectives.
#[must_use]
pub const fn collectives_queue(tpb: TpbIndex) -> DmaQueue {
    DmaQueue {
        tpb,
        index: COLLECTIVES_QUEUE,
    }
}
