//! Read one notification queue.
//!
//! Owned by the harvester. A record is valid when its phase bit equals the expected one, which flips each time the
//! reader wraps; validity is loaded first, with acquire, and the rest after it.
//! In [`Mode::Tail`] the tail register says how far the device has come, and the phase says that a record has
//! arrived in memory. A tail that cannot be true is a protocol fault: [`NqError`].
//! The head index is private; writing it back frees space, a quarter ring at a time and before any wait.
//! Rules: spec `xu.md` section 6, `driver.md` section 5.
//!
//! ```text
//!    acknowledged head       index                       tail
//!          v                   v                           v
//!   | free | read, not given back | ahead: written, unread | free ...    one slot always stays free
//! ```

use crate::device::{Device, DeviceError, Head};
use crate::map;
use std::sync::Arc;
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{DeviceAddr, Status, TpbIndex};

/// Byte of a record that holds the ring's bits.
const RING_BYTE: usize = 3;

/// How a reader learns that there is a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By the phase bit alone. For rings in host memory: looking costs one load.
    Phase,
    /// By the tail register, then by the phase bit. For rings that are slow to look at.
    Tail,
}

/// Why a notification queue could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NqError {
    /// The device refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The tail lies between two records.
    #[error("core {tpb}: the tail of queue {nq} is {tail}, not a multiple of 16")]
    TailBetweenRecords {
        /// The core.
        tpb: TpbIndex,
        /// The queue.
        nq: u8,
        /// The tail, byte offset.
        tail: u64,
    },
    /// The tail lies outside of the ring.
    #[error("core {tpb}: the tail of queue {nq} is {tail}, the ring ends at {bytes}")]
    TailOutsideRing {
        /// The core.
        tpb: TpbIndex,
        /// The queue.
        nq: u8,
        /// The tail, byte offset.
        tail: u64,
        /// Size of the ring, bytes.
        bytes: u64,
    },
    /// The tail has passed records whose space was not given back.
    #[error(
        "core {tpb}: the tail of queue {nq} is {tail}, {ahead} records ahead with room for {room}"
    )]
    TailTooFarAhead {
        /// The core.
        tpb: TpbIndex,
        /// The queue.
        nq: u8,
        /// The tail, byte offset.
        tail: u64,
        /// Unread records up to there.
        ahead: u32,
        /// Most records that the device had room for.
        room: u32,
    },
}

impl NqError {
    /// The status of an execution that could not be followed because of this.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Device(error) => error.status_in_flight(),
            // A register that says what cannot be is broken hardware.
            _ => Status::HW_ERROR,
        }
    }
}

/// The consumer of one notification queue.
#[derive(Debug)]
pub struct NqReader {
    device: Arc<dyn Device>,
    tpb: TpbIndex,
    nq: u8,
    base: DeviceAddr,
    entries: u32,
    mode: Mode,
    /// The next record to read, below `entries`.
    index: u32,
    phase: bool,
    /// Unread records that the tail has vouched for; [`Mode::Tail`] only.
    ahead: u32,
    unacknowledged: u32,
    overflow_seen: bool,
}

impl NqReader {
    /// Opens queue `nq` of `tpb` with room for `entries` records, empty.
    ///
    /// # Errors
    /// [`DeviceError::BadArgument`] when `entries` is not a power of two from 4; as
    /// [`Device::open_notification_queue`].
    pub fn open(
        device: &Arc<dyn Device>,
        tpb: TpbIndex,
        nq: u8,
        entries: u32,
        mode: Mode,
    ) -> Result<Self, DeviceError> {
        if !entries.is_power_of_two() || entries < 4 {
            return Err(DeviceError::BadArgument {
                what: "records of a notification queue",
                value: u64::from(entries),
                allowed: "a power of two from 4",
            });
        }
        let base = device.open_notification_queue(tpb, nq, u64::from(entries) * RECORD_SIZE)?;
        Ok(Self {
            device: Arc::clone(device),
            tpb,
            nq,
            base,
            entries,
            mode,
            index: 0,
            phase: map::FIRST_PHASE,
            ahead: 0,
            unacknowledged: 0,
            overflow_seen: false,
        })
    }

    /// The next record, if the device has written one. Looks at one record of the ring at most, and never waits.
    ///
    /// # Errors
    /// [`NqError`]: a refusal of [`Device::load_acquire`], [`Device::read`], [`Device::acknowledge`] or
    /// [`Device::notification_tail`], or a tail that cannot be true.
    pub fn next_record(&mut self) -> Result<Option<[u8; 16]>, NqError> {
        let Some(record) = self.peek_record()? else {
            return Ok(None);
        };
        let overflow = ring_bits::RING_OVERFLOW | ring_bits::BUFFER_OVERFLOW;
        self.overflow_seen |= record[RING_BYTE] & overflow != 0;
        self.advance()?;
        Ok(Some(record))
    }

    /// As [`NqReader::next_record`], but the record stays the next one.
    ///
    /// # Errors
    /// As [`NqReader::next_record`].
    pub fn peek_record(&mut self) -> Result<Option<[u8; 16]>, NqError> {
        if self.mode == Mode::Tail && self.ahead == 0 {
            self.ahead = self.records_ahead()?;
            if self.ahead == 0 {
                return Ok(None);
            }
        }
        // A base that the device made up is refused by its read, so overflow only has to stay out of range.
        let offset = u64::from(self.index) * RECORD_SIZE;
        let at = DeviceAddr::new(self.base.get().saturating_add(offset));
        let first_word = self.device.load_acquire(at)?.to_le_bytes();
        if (first_word[RING_BYTE] & ring_bits::PHASE != 0) != self.phase {
            return Ok(None);
        }
        let mut record = [0; 16];
        self.device.read(at, &mut record)?;
        // The word that was found valid is the word that is decoded, whatever the device writes meanwhile.
        record[..first_word.len()].copy_from_slice(&first_word);
        Ok(Some(record))
    }

    /// Tells the device how far this reader has come. Called before waiting.
    ///
    /// # Errors
    /// As [`Device::acknowledge`].
    pub fn acknowledge(&mut self) -> Result<(), DeviceError> {
        if let Some(head) = self.unacknowledged() {
            self.device.acknowledge(self.tpb, &[head])?;
            self.acknowledged();
        }
        Ok(())
    }

    /// How far this reader has come, unless the device knows. For whoever tells it about several queues at once, and then calls
    /// [`NqReader::acknowledged`].
    #[must_use]
    pub fn unacknowledged(&self) -> Option<Head> {
        (self.unacknowledged > 0).then(|| Head::new(self.nq, u64::from(self.index) * RECORD_SIZE))
    }

    /// The device was told what [`NqReader::unacknowledged`] says.
    pub fn acknowledged(&mut self) {
        self.unacknowledged = 0;
    }

    /// Whether some record carried an overflow bit since the last call.
    pub fn take_overflow_seen(&mut self) -> bool {
        core::mem::take(&mut self.overflow_seen)
    }

    /// How many unread records the tail register vouches for.
    fn records_ahead(&self) -> Result<u32, NqError> {
        let (tpb, nq) = (self.tpb, self.nq);
        let tail = self.device.notification_tail(tpb, nq)?;
        let bytes = u64::from(self.entries) * RECORD_SIZE;
        if tail >= bytes {
            return Err(NqError::TailOutsideRing {
                tpb,
                nq,
                tail,
                bytes,
            });
        }
        if !tail.is_multiple_of(RECORD_SIZE) {
            return Err(NqError::TailBetweenRecords { tpb, nq, tail });
        }
        // CAST: below `entries`, which has 32 bits.
        let tail_index = (tail / RECORD_SIZE) as u32;
        // `entries` is a power of two, so wrapping in 32 bits is wrapping in the ring.
        let ahead = tail_index.wrapping_sub(self.index) & (self.entries - 1);
        // One slot stays free.
        let room = (self.entries - 1).saturating_sub(self.unacknowledged);
        if ahead > room {
            return Err(NqError::TailTooFarAhead {
                tpb,
                nq,
                tail,
                ahead,
                room,
            });
        }
        Ok(ahead)
    }

    fn advance(&mut self) -> Result<(), DeviceError> {
        self.index += 1;
        if self.index == self.entries {
            self.index = 0;
            self.phase = !self.phase;
        }
        self.ahead = self.ahead.saturating_sub(1);
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        if self.unacknowledged >= self.entries / 4 {
            self.acknowledge()
        } else {
            Ok(())
        }
    }
}
