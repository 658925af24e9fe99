//! What the hardware of the emulation is decided to be, where nothing public says.
//!
//! One table; nothing outside this file, `xu_device::map` and `xu_abi::driver::unverified` holds such a number.
//!
//! | subject | choice |
//! |---|---|
//! | status register of a queue | as the driver numbers the states of engines: 1 no rings, 2 runs, 3 aborted |
//! | configuration register of a queue | bits 16 and 17 set once it has rings |
//! | head, tail and current pointer of a queue | bits 23:0 index, 31:30 ring id; DMA_QUEUE_GET_STATE has the index alone |
//! | full status of a notification block | bit *n*: queue *n* has dropped a record since it was programmed |
//! | base and size of a ring | programmed when the size is written; the queue is empty then, in its first lap |
//! | notification blocks of TOPSPs and SDMA engines, queues 10 to 15 of a core | registers, but nobody posts there |
//! | state buffers of cores, blocks of TOPSPs | memory, without any effect |
//! | head of a notification queue that cannot be | not taken, and reported |

/// Bytes of the file that backs a device: every address and every offset of a mapping is below.
pub(super) const FILE_BYTES: i64 = 1 << 48;

/// Registers of a notification block that are decoded, bytes from its beginning.
pub(super) const NQ_BLOCK_BYTES: u64 = 0x380;
/// Notification queues of a block that registers are there for.
pub(super) const NQ_SLOTS: u64 = 16;

/// Status register of a queue without rings.
pub(super) const STATUS_IDLE: u32 = 1;
/// Status register of a queue that runs, or seems to.
pub(super) const STATUS_RUNNING: u32 = 2;
/// Status register of a queue that has aborted.
pub(super) const STATUS_ABORTED: u32 = 3;
/// Configuration register of a queue with rings.
pub(super) const CONFIG_ENABLED: u32 = 0b11 << 16;
/// Where the ring id is in a pointer register.
pub(super) const POINTER_ID_SHIFT: u32 = 30;
/// The index in a pointer register.
pub(super) const POINTER_INDEX: u32 = 0xFF_FFFF;

/// Most mistakes of a client that are remembered.
pub(super) const MOST_CLIENT_BUGS: usize = 1000;
