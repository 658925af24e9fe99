//! What hardware and driver of the emulation are decided to be, where nothing public says.
//!
//! Used by the chip and by the driver.
//!
//! One table; nothing outside this file, `xu_device::map` and `xu_abi::driver::unverified` holds such a number.
//!
//! | subject | choice |
//! |---|---|
//! | an engine that is disabled | its queues take what they are given, and move it when the engine runs again; the sequencer waits for a request that such a queue brings; copies of the driver's own time out |
//! | an engine that aborts | its queues stop as on a bad descriptor, until the engine runs and they are initialised again |
//! | an engine after a reset of its core | runs; what its queues had been given and not moved is lost |
//! | scratchpads that are not freed in reverse order | freed, and a warning |
//! | status register of a queue | as the driver numbers the states of engines: 1 no rings, 2 runs, 3 aborted |
//! | configuration register of a queue | bits 16 and 17 set once it has rings |
//! | head, tail and current pointer of a queue | bits 23:0 index, 31:30 ring id; DMA_QUEUE_GET_STATE has the index alone |
//! | full status of a notification block | bit *n*: queue *n* has dropped a record since it was programmed |
//! | base and size of a ring | programmed when the size is written; the queue is empty then, in its first lap |
//! | notification blocks of TOPSPs and SDMA engines, queues 10 to 15 of a core | registers, but nobody posts there |
//! | state buffers of cores, blocks of TOPSPs | memory, without any effect |
//! | head of a notification queue that cannot be | not taken, and reported |
//! | BAR0 | 4 GiB; that of the next device 64 GiB further |
//! | handle after MEM_GET_EXTENDED_INFO | looks like an address of the kernel |
//! | firmware and small pool of a small HBM | a sixteenth of it each, at most |
//! | arrays of registers | as long as the kernel can allocate at once, 4 MiB |
//! | a host in no pod | node -1 |
//! | devices | connected in a ring |

/// Bytes of the file that backs a device: every address and every offset of a mapping is below.
pub(crate) const FILE_BYTES: i64 = 1 << 48;

/// Registers of a notification block that are decoded, bytes from its beginning.
pub(crate) const NQ_BLOCK_BYTES: u64 = 0x380;
/// Notification queues of a block that registers are there for.
pub(crate) const NQ_SLOTS: u64 = 16;

/// Status register of a queue without rings.
pub(crate) const STATUS_IDLE: u32 = 1;
/// Status register of a queue that runs, or seems to.
pub(crate) const STATUS_RUNNING: u32 = 2;
/// Status register of a queue that has aborted.
pub(crate) const STATUS_ABORTED: u32 = 3;
/// Configuration register of a queue with rings.
pub(crate) const CONFIG_ENABLED: u32 = 0b11 << 16;
/// Where the ring id is in a pointer register.
pub(crate) const POINTER_ID_SHIFT: u32 = 30;
/// The index in a pointer register.
pub(crate) const POINTER_INDEX: u32 = 0xFF_FFFF;

/// Most mistakes of a client that are remembered.
pub(crate) const MOST_CLIENT_BUGS: usize = 1000;

/// Bytes of BAR0: every register of both architectures lies below.
pub(crate) const BAR0_BYTES: u64 = 1 << 32;
/// From the BAR0 of a device to that of the next, so that an address of one is none of another.
pub(crate) const BAR0_DISTANCE: u64 = 1 << 36;
/// What MEM_GET_EXTENDED_INFO leaves in place of the handle: looks like an address of the kernel, and is no handle.
pub(crate) const GARBAGE_HANDLE: u64 = 0xFFFF_8880_0000_0000;
/// The part of an HBM that firmware has, and the part that is the small pool, at most: on a device of full size neither
/// limit is reached before the constants of the driver are.
pub(crate) const LARGEST_SHARE: u64 = 16;
/// Most registers whose addresses fit what the kernel can allocate at once, 4 MiB.
pub(crate) const MOST_REGISTERS: u32 = (4 << 20) / 8;
/// The node of a host that is in no pod.
pub(crate) const NO_NODE: i8 = -1;
