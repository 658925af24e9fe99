//! DMA engines and their queues.
//!
//! Spec `driver.md` sections 3 and 6. Descriptors are in [`crate::descriptor`].

use super::argument::{arguments, named_values};

arguments! {
    /// Of DMA_ENG_SET_STATE.
    DmaEngSetState is "dma_eng_set_state": 8 bytes, align 4 {
        /// →
        0 eng_id: u32,
        /// → [`EngineState`]; anything else is ignored and succeeds.
        4 state: u32,
    }

    /// Of DMA_ENG_GET_STATE.
    DmaEngGetState is "dma_eng_get_state": 16 bytes, align 8 {
        /// →
        0 eng_id: u32,
        4 pad_04: [u8; 4],
        /// → Address of a [`DmaEngState`].
        8 state: u64,
    }

    /// What DMA_ENG_GET_STATE fills.
    DmaEngState is "dma_eng_state": 20 bytes, align 4 {
        /// ← 4.
        0 revision_id: u32,
        /// ← 16.
        4 max_queues: u32,
        /// ←
        8 num_queues: u32,
        /// ← 1 idle, 2 normal, 3 abort.
        12 tx_state: u32,
        /// ← 1 idle, 2 normal, 3 abort.
        16 rx_state: u32,
    }

    /// Of DMA_QUEUE_INIT.
    DmaQueueInit is "dma_queue_init": 48 bytes, align 8 {
        /// →
        0 eng_id: u32,
        /// →
        4 qid: u32,
        /// →
        8 tx_desc_count: u32,
        /// →
        12 rx_desc_count: u32,
        /// → Chunk of the Tx ring.
        16 tx_handle: u64,
        /// → Chunk of the Rx ring.
        24 rx_handle: u64,
        /// → 0: there are no completion rings.
        32 rxc_handle: u64,
        /// → Ignored.
        40 axi_port: u32,
        44 pad_2c: [u8; 4],
    }

    /// Of DMA_QUEUE_INIT_BATCH. All of it is read, whatever the count.
    DmaQueueInitBatch is "dma_queue_init_batch": 12296 bytes, align 8 {
        /// → At most [`DmaQueueInitBatch::MAX_COUNT`].
        0 count: u32,
        4 pad_04: [u8; 4],
        /// →
        8 entries: [DmaQueueInit; 256],
    }

    /// Of DMA_QUEUE_RELEASE, which does nothing.
    DmaQueueRelease is "dma_queue_release": 8 bytes, align 4 {
        /// →
        0 eng_id: u32,
        /// →
        4 qid: u32,
    }

    /// Of DMA_QUEUE_COPY_START.
    DmaQueueCopyStart is "dma_queue_copy_start": 16 bytes, align 4 {
        /// →
        0 eng_id: u32,
        /// →
        4 qid: u32,
        /// → May be 0.
        8 tx_desc_count: u32,
        /// → 0 crashes the kernel.
        12 rx_desc_count: u32,
    }

    /// Of DMA_ACK_COMPLETED.
    DmaAckCompleted is "dma_ack_completed": 12 bytes, align 4 {
        /// →
        0 eng_id: u32,
        /// →
        4 qid: u32,
        /// → Descriptors.
        8 count: u32,
    }

    /// Of DMA_QUEUE_GET_STATE.
    DmaQueueGetState is "dma_queue_get_state": 24 bytes, align 8 {
        /// →
        0 eng_id: u32,
        /// →
        4 qid: u32,
        /// → Address of a [`DmaQueueState`].
        8 tx: u64,
        /// → Address of a [`DmaQueueState`].
        16 rx: u64,
    }

    /// What DMA_QUEUE_GET_STATE fills, once for each direction.
    DmaQueueState is "dma_queue_state": 48 bytes, align 8 {
        /// ← The status register.
        0 hw_status: u32,
        /// ← [`QueueState`].
        4 sw_status: u32,
        /// ← Address of the ring.
        8 base_addr: u64,
        /// ← Descriptors.
        16 length: u32,
        /// ←
        20 head_pointer: u32,
        /// ←
        24 tail_pointer: u32,
        28 pad_1c: [u8; 4],
        /// ←
        32 completion_base_addr: u64,
        /// ←
        40 completion_head: u32,
        44 pad_2c: [u8; 4],
    }

    /// Of DMA_COPY_DESCRIPTORS.
    DmaCopyDescriptors is "dma_copy_descriptors": 32 bytes, align 8 {
        /// → Chunk of the ring.
        0 mem_handle: u64,
        /// → Address of `num_descs` descriptors.
        8 buffer: u64,
        /// →
        16 num_descs: u32,
        /// → Bytes into the ring.
        20 offset: u32,
        /// → [`QueueType`].
        24 queue_type: u32,
        28 pad_1c: [u8; 4],
    }

    /// Of DMA_COPY_DESCRIPTORS64.
    DmaCopyDescriptors64 is "dma_copy_descriptors64": 40 bytes, align 8 {
        /// → Chunk of the ring.
        0 mem_handle: u64,
        /// → Address of `num_descs` descriptors.
        8 buffer: u64,
        /// →
        16 num_descs: u32,
        20 pad_14: [u8; 4],
        /// → Bytes into the ring.
        24 offset: u64,
        /// → [`QueueType`].
        32 queue_type: u32,
        36 pad_24: [u8; 4],
    }

    /// Of DMA_DESCRIPTOR_COPYOUT.
    DmaDescriptorCopyout is "dma_descriptor_copyout": 32 bytes, align 8 {
        /// →
        0 eng_id: u32,
        /// →
        4 qid: u32,
        /// → [`QueueType`].
        8 queue_type: u32,
        /// → Ignored for rings in device memory.
        12 start_index: u32,
        /// → Not 0.
        16 count: u32,
        20 pad_14: [u8; 4],
        /// → Address of `count` descriptors.
        24 buffer: u64,
    }
}

impl DmaQueueInitBatch {
    /// Most entries that are accepted, one less than there is room for.
    pub const MAX_COUNT: u32 = 255;
}

named_values! {
    /// Direction of a ring.
    QueueType(u32), "type of a DMA ring", "0, 1";
    /// Source side.
    Tx = 0,
    /// Destination side.
    Rx = 1,
}

named_values! {
    /// What an engine can be told to do.
    EngineState(u32), "state of a DMA engine", "0, 2, 3";
    /// Stop.
    Disable = 0,
    /// Run.
    Normal = 2,
    /// Give up what it does.
    Abort = 3,
}

named_values! {
    /// What the driver says of a queue.
    QueueState(u32), "state of a DMA queue", "1 to 3";
    /// Not initialised, or stopped.
    Disabled = 1,
    /// Runs.
    Enabled = 2,
    /// Has stopped on a descriptor that it could not execute.
    Aborted = 3,
}

/// DMA engines that the driver has room for.
pub const DMA_ENGINES: u32 = 132;
/// Queues of an engine.
pub const QUEUES_PER_ENGINE: u32 = 16;
/// The queue of each engine that collectives use.
pub const COLLECTIVES_QUEUE: u32 = 15;
/// The queue of some engines from which instructions are fetched; [`super::ArchTable::fetches_instructions`].
pub const FETCH_QUEUE: u32 = 14;

/// Registers of one queue, from its block.
pub mod queue_register {
    /// Where the block of Tx queue 0 begins in an engine.
    pub const TX_BLOCK: u64 = 0x1000;
    /// Where the block of Rx queue 0 begins in an engine.
    pub const RX_BLOCK: u64 = 0x2_1000;
    /// Distance between the blocks of two queues.
    pub const QUEUE_STRIDE: u64 = 0x1000;
    /// Bits 16 and 17 enable prefetch and scheduling.
    pub const CONFIG: u64 = 0x20;
    /// The state of the queue.
    pub const QUEUE_STATUS: u64 = 0x24;
    /// Address of the ring, low half. Not for BAR_WRITE.
    pub const RING_BASE_LOW: u64 = 0x28;
    /// Address of the ring, high half. Not for BAR_WRITE.
    pub const RING_BASE_HIGH: u64 = 0x2C;
    /// Descriptors of the ring.
    pub const RING_LENGTH: u64 = 0x30;
    /// Bits 23:0 index, 31:30 ring id.
    pub const HEAD_POINTER: u64 = 0x34;
    /// The doorbell. Not for BAR_WRITE.
    pub const TAIL_INCREMENT: u64 = 0x38;
    /// As the head pointer.
    pub const TAIL_POINTER: u64 = 0x3C;
    /// The descriptor at work.
    pub const CURRENT_POINTER: u64 = 0x40;
    /// Address of the completion ring, low half. Not for BAR_WRITE.
    pub const COMPLETION_BASE_LOW: u64 = 0x44;
    /// Address of the completion ring, high half. Not for BAR_WRITE.
    pub const COMPLETION_BASE_HIGH: u64 = 0x48;
    /// Where the completion ring is written next.
    pub const COMPLETION_HEAD: u64 = 0x4C;

    /// The registers that BAR_WRITE refuses, in every queue of every engine.
    pub const BLOCKED: [u64; 5] = [
        RING_BASE_LOW,
        RING_BASE_HIGH,
        TAIL_INCREMENT,
        COMPLETION_BASE_LOW,
        COMPLETION_BASE_HIGH,
    ];
}
