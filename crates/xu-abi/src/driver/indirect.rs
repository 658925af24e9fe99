//! The pointers inside arguments: where they stand, and how many bytes the driver reads or writes behind them.
//!
//! Used to make a call whose buffers are as long as the argument says, and to carry those buffers to a stand-in for the
//! driver. Spec `driver.md` section 3.
//!
//! ```
//! use xu_abi::driver::indirect::{self, Flow};
//! use xu_abi::driver::MemBufCopy64;
//!
//! let mut copy = MemBufCopy64 { size: 100, copy_to_mem_handle: 1, ..MemBufCopy64::ZEROED };
//! let [buffer] = indirect::of(&MemBufCopy64::ABI) else { unreachable!() };
//! assert_eq!((buffer.field, buffer.bytes(&copy.to_bytes())), (8, Some(100)));
//! assert!(buffer.is_read(&copy.to_bytes()));
//! copy.copy_to_mem_handle = 0;
//! assert!(!buffer.is_read(&copy.to_bytes()));
//! ```

use super::{
    BarRw, DmaCopyDescriptors, DmaCopyDescriptors64, DmaDescriptorCopyout, DmaEngGetState,
    DmaEngState, DmaQueueGetState, DmaQueueState, DmabufFd, DumpMemChunks,
    GetLogicalToPhysicalNcMap, MemAlloc, MemAllocV2, MemAllocV2MemType, MemAllocV2MemType64,
    MemBufCopy, MemBufCopy64, MemChunk, MemGetInfo, MemGetPa, NcMapEntry, PostMetric, Printk,
    ProgramEngine, ProgramEngineNc, ProgramEngineNc64, ReadHwCounters,
};
use crate::descriptor::DESCRIPTOR_SIZE;
use crate::layout::StructLayout;

/// A field of an argument that is the address of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indirect {
    /// Offset of the 8-byte address in the argument.
    pub field: usize,
    /// Who writes the buffer.
    pub flow: Flow,
    /// How long it is.
    pub length: Length,
}

/// Who writes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The driver only reads.
    Read,
    /// The driver writes.
    Written,
    /// The driver reads when the 32-bit word at this offset of the argument is not 0, else it writes.
    ReadIf(usize),
}

/// How many bytes a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Always so many.
    Fixed(usize),
    /// A head, and so many bytes for each of a number of items.
    Items {
        /// Bytes before the first item.
        head: usize,
        /// Bytes of an item.
        item: usize,
        /// Where the argument has the number of items.
        count: Word,
    },
    /// The sum of two words.
    Sum(Word, Word),
}

/// Where an argument has an unsigned number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// 32 bits at this offset.
    U32(usize),
    /// 64 bits at this offset.
    U64(usize),
}

impl Indirect {
    /// Bytes of the buffer of this argument; `None` when the argument is too short, or the number too large for 64 bits.
    #[must_use]
    pub fn bytes(&self, argument: &[u8]) -> Option<u64> {
        match self.length {
            // CAST: a size in memory fits 64 bits, here and below.
            Length::Fixed(bytes) => Some(bytes as u64),
            Length::Items { head, item, count } => count
                .read(argument)?
                .checked_mul(item as u64)?
                .checked_add(head as u64),
            Length::Sum(one, other) => one.read(argument)?.checked_add(other.read(argument)?),
        }
    }

    /// Whether the driver only reads the buffer of this argument.
    #[must_use]
    pub fn is_read(&self, argument: &[u8]) -> bool {
        match self.flow {
            Flow::Read => true,
            Flow::Written => false,
            Flow::ReadIf(offset) => Word::U32(offset)
                .read(argument)
                .is_some_and(|word| word != 0),
        }
    }
}

impl Word {
    fn read(self, argument: &[u8]) -> Option<u64> {
        match self {
            Self::U32(offset) => {
                let bytes = argument.get(offset..)?.first_chunk()?;
                Some(u32::from_ne_bytes(*bytes).into())
            }
            Self::U64(offset) => {
                let bytes = argument.get(offset..)?.first_chunk()?;
                Some(u64::from_ne_bytes(*bytes))
            }
        }
    }
}

/// The pointers of an argument; none for a structure that has none.
#[must_use]
pub fn of(layout: &StructLayout) -> &'static [Indirect] {
    TABLE
        .iter()
        .find(|(owner, _)| owner.name == layout.name)
        .map_or(&[], |(_, pointers)| pointers)
}

const fn written(field: usize, bytes: usize) -> Indirect {
    Indirect {
        field,
        flow: Flow::Written,
        length: Length::Fixed(bytes),
    }
}

const fn items(field: usize, flow: Flow, item: usize, count: Word) -> Indirect {
    Indirect {
        field,
        flow,
        length: Length::Items {
            head: 0,
            item,
            count,
        },
    }
}

const fn program(field: usize, size: Word, offset: Word) -> Indirect {
    Indirect {
        field,
        flow: Flow::Read,
        length: Length::Sum(size, offset),
    }
}

/// Bytes of a handle, and of a device address.
const WORD: usize = 8;
/// Bytes of a register.
const REGISTER: usize = 4;
// CAST: a size that is small.
const DESCRIPTOR: usize = DESCRIPTOR_SIZE as usize;

/// Every argument with pointers. The data of BAR_READ and BAR_WRITE is one entry: memory that may be written.
pub const TABLE: &[(StructLayout, &[Indirect])] = &[
    (MemAlloc::ABI, &[written(24, WORD)]),
    (MemAllocV2::ABI, &[written(32, WORD)]),
    (MemAllocV2MemType::ABI, &[written(40, WORD)]),
    (MemAllocV2MemType64::ABI, &[written(40, WORD)]),
    (MemGetPa::ABI, &[written(8, WORD)]),
    (MemGetInfo::ABI, &[written(8, WORD), written(16, WORD)]),
    (
        MemBufCopy::ABI,
        &[items(8, Flow::ReadIf(24), 1, Word::U32(16))],
    ),
    (
        MemBufCopy64::ABI,
        &[items(8, Flow::ReadIf(32), 1, Word::U64(16))],
    ),
    (
        ProgramEngine::ABI,
        &[program(8, Word::U32(16), Word::U32(20))],
    ),
    (
        ProgramEngineNc::ABI,
        &[program(16, Word::U32(24), Word::U32(28))],
    ),
    (
        ProgramEngineNc64::ABI,
        &[program(16, Word::U64(24), Word::U64(32))],
    ),
    (DmabufFd::ABI, &[written(16, REGISTER)]),
    (
        DumpMemChunks::ABI,
        &[items(16, Flow::Written, MemChunk::ABI.size, Word::U32(4))],
    ),
    (
        GetLogicalToPhysicalNcMap::ABI,
        &[Indirect {
            field: 0,
            flow: Flow::Written,
            length: Length::Items {
                head: 4,
                item: NcMapEntry::ABI.size,
                count: Word::U32(8),
            },
        }],
    ),
    (DmaEngGetState::ABI, &[written(8, DmaEngState::ABI.size)]),
    (
        DmaQueueGetState::ABI,
        &[
            written(8, DmaQueueState::ABI.size),
            written(16, DmaQueueState::ABI.size),
        ],
    ),
    (
        DmaCopyDescriptors::ABI,
        &[items(8, Flow::Read, DESCRIPTOR, Word::U32(16))],
    ),
    (
        DmaCopyDescriptors64::ABI,
        &[items(8, Flow::Read, DESCRIPTOR, Word::U32(16))],
    ),
    (
        DmaDescriptorCopyout::ABI,
        &[items(24, Flow::Written, DESCRIPTOR, Word::U32(16))],
    ),
    (
        BarRw::ABI,
        &[
            items(8, Flow::Read, WORD, Word::U32(24)),
            items(16, Flow::Written, REGISTER, Word::U32(24)),
        ],
    ),
    (
        ReadHwCounters::ABI,
        &[
            items(0, Flow::Read, WORD, Word::U32(16)),
            items(8, Flow::Written, REGISTER, Word::U32(16)),
        ],
    ),
    (PostMetric::ABI, &[items(0, Flow::Read, 1, Word::U32(8))]),
    (Printk::ABI, &[items(0, Flow::Read, 1, Word::U32(8))]),
];
