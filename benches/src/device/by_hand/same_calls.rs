//! By hand, through the calls that stager and harvester use.

use std::hint::black_box;
use std::sync::Arc;
use xu_abi::{DeviceAddr, TpbIndex};
use xu_device::{Device, Head, Place, map};

use super::{Memory, RECORD, RECORDS};
use crate::device::null::{Doorbell, NullDevice};

/// Through the calls that stager and harvester use.
pub(crate) struct SameCalls {
    null: Arc<NullDevice<false>>,
    device: Arc<dyn Device>,
    /// Whether a call has failed.
    failed: bool,
}

impl Memory for SameCalls {
    fn open(doorbell: Doorbell) -> Self {
        let null = Arc::new(NullDevice::new(doorbell));
        let device: Arc<dyn Device> = Arc::clone(&null) as _;
        Self {
            // The compiler must not look through the seam.
            device: black_box(device),
            null,
            failed: false,
        }
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        let reserved = self.device.allocate(Place::Host, bytes, 256);
        self.failed |= reserved.is_err();
        reserved.map_or(0, DeviceAddr::get)
    }

    fn open_notifications(&mut self, tpb: usize, nq: u8) -> u64 {
        let bytes = u64::from(RECORDS) * RECORD;
        let opened = self.device.open_notification_queue(core(tpb), nq, bytes);
        self.failed |= opened.is_err();
        opened.map_or(0, DeviceAddr::get)
    }

    #[inline]
    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.failed |= self.device.write(DeviceAddr::new(at), bytes).is_err();
    }

    #[inline]
    fn word(&mut self, at: u64) -> u32 {
        let loaded = self.device.load_acquire(DeviceAddr::new(at));
        self.failed |= loaded.is_err();
        loaded.unwrap_or(0)
    }

    #[inline]
    fn record(&mut self, at: u64) -> [u8; 16] {
        let mut record = [0; 16];
        let read = self.device.read(DeviceAddr::new(at), &mut record);
        self.failed |= read.is_err();
        record
    }

    #[inline]
    fn ring_doorbell(&mut self, tpb: usize) {
        let rung = self
            .device
            .increment_semaphore(core(tpb), map::INFERENCE_START);
        self.failed |= rung.is_err();
    }

    #[inline]
    fn acknowledge(&mut self, tpb: usize, nq: u8, head: u64) {
        self.failed |= self
            .device
            .acknowledge(core(tpb), &[Head::new(nq, head)])
            .is_err();
    }

    fn run_execution(&mut self, tpb: usize) {
        self.null.run_execution(core(tpb));
    }

    fn is_sound(&self) -> bool {
        !self.failed
    }
}

fn core(tpb: usize) -> TpbIndex {
    // CAST: one or two cores.
    TpbIndex::new(tpb as u16)
}
