//! Read one notification queue in phase mode.
//!
//! Owned by the harvester. A record is valid when its phase bit equals the expected one, which flips each
//! time the reader wraps; validity is loaded first, with acquire, and the rest after it.
//! The head index is private; writing it back frees space, a quarter ring at a time.
//! Rules: spec `xu.md` section 6, `driver.md` section 5.

use crate::device::{Device, DeviceError};
use crate::map;
use std::sync::Arc;
use xu_abi::record::{RECORD_SIZE, ring_bits};
use xu_abi::{DeviceAddr, TpbIndex};

/// Byte of a record that holds the ring's bits.
const RING_BYTE: usize = 3;

/// The consumer of one notification queue.
#[derive(Debug)]
pub struct NqReader {
    device: Arc<dyn Device>,
    tpb: TpbIndex,
    nq: u8,
    base: DeviceAddr,
    entries: u32,
    index: u32,
    phase: bool,
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
            index: 0,
            phase: map::FIRST_PHASE,
            unacknowledged: 0,
            overflow_seen: false,
        })
    }

    /// The next record, if the device has written one.
    ///
    /// # Errors
    /// As [`Device::load_acquire`], [`Device::read`] and [`Device::acknowledge`].
    pub fn next_record(&mut self) -> Result<Option<[u8; 16]>, DeviceError> {
        // A base that the device made up is refused by its read, so overflow only has to stay out of range.
        let offset = u64::from(self.index) * RECORD_SIZE;
        let at = DeviceAddr::new(self.base.get().saturating_add(offset));
        let ring_byte = self.device.load_acquire(at)?.to_le_bytes()[RING_BYTE];
        if (ring_byte & ring_bits::PHASE != 0) != self.phase {
            return Ok(None);
        }
        self.overflow_seen |=
            ring_byte & (ring_bits::RING_OVERFLOW | ring_bits::BUFFER_OVERFLOW) != 0;
        let mut record = [0; 16];
        self.device.read(at, &mut record)?;
        self.advance()?;
        Ok(Some(record))
    }

    /// Tells the device how far this reader has come. Called before waiting.
    ///
    /// # Errors
    /// As [`Device::acknowledge`].
    pub fn acknowledge(&mut self) -> Result<(), DeviceError> {
        if self.unacknowledged > 0 {
            self.device
                .acknowledge(self.tpb, self.nq, u64::from(self.index) * RECORD_SIZE)?;
            self.unacknowledged = 0;
        }
        Ok(())
    }

    /// Whether some record carried an overflow bit since the last call.
    pub fn take_overflow_seen(&mut self) -> bool {
        core::mem::take(&mut self.overflow_seen)
    }

    fn advance(&mut self) -> Result<(), DeviceError> {
        self.index += 1;
        if self.index == self.entries {
            self.index = 0;
            self.phase = !self.phase;
        }
        self.unacknowledged += 1;
        if self.unacknowledged >= self.entries / 4 {
            self.acknowledge()
        } else {
            Ok(())
        }
    }
}
