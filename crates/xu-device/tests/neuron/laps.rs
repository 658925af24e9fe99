//! Rings that are full to the last record: the tail is where the head is, as in one that is empty.

use super::device::{CORE, open};
use super::script::{BAR0, V2};
use std::time::Duration;
use xu_abi::record::{StatusRecord, Subtype};
use xu_abi::{DeviceAddr, Engine};
use xu_device::{Device, DeviceError, Head, map};
use zerocopy::IntoBytes;

/// The notification block of core 0 of v2.
const NQ_BLOCK: u64 = 0x3053_5000;
const RECORDS: u64 = 4096 / 16;

/// Whether a device keeps one place free, so that this cannot be, is not known.
#[test]
fn d7_a_core_is_at_rest_when_its_ends_fill_a_ring_to_the_last_record() {
    let (script, device) = open(V2);
    let nq = Engine::Pe.status_nq();
    let ring = device.open_notification_queue(CORE, nq, 4096).unwrap();
    let tail = BAR0 + NQ_BLOCK + u64::from(nq) * 0x28 + 0x110;
    let ring_doorbell = || device.increment_semaphore(CORE, map::INFERENCE_START);
    let post = |number: u64, subtype| {
        let mut record = StatusRecord::new(subtype, 0, 0);
        let is_first_lap = number < RECORDS;
        record.ring_and_tag = u8::from(is_first_lap) << 7 | record.ring_and_tag & 0x7F;
        let at = DeviceAddr::new(ring.get() + number % RECORDS * 16);
        device.write(at, record.as_bytes()).unwrap();
        let behind = (number + 1) % RECORDS * 16;
        script.set_register(tail, behind.try_into().unwrap());
    };
    let rests = || device.quiesce(CORE, Duration::ZERO);
    let busy = Err(DeviceError::Busy { tpb: CORE });
    for execution in 0..RECORDS / 2 {
        ring_doorbell().unwrap();
        post(2 * execution, Subtype::Start);
        assert_eq!(rests(), busy, "execution {execution}");
        post(2 * execution + 1, Subtype::End);
        assert_eq!(rests(), Ok(()), "execution {execution}");
    }
    // One more, and nothing of it is there: what is there was counted.
    ring_doorbell().unwrap();
    assert_eq!(rests(), busy);
    // Half of it was read. The rest of the lap, and the next one up to there, are a whole lap again.
    device.acknowledge(CORE, &[Head::new(nq, 2048)]).unwrap();
    post(RECORDS, Subtype::Start);
    assert_eq!(rests(), busy);
    post(RECORDS + 1, Subtype::End);
    assert_eq!(rests(), Ok(()));
    for execution in 1..RECORDS / 4 {
        ring_doorbell().unwrap();
        post(RECORDS + 2 * execution, Subtype::Start);
        assert_eq!(rests(), busy, "execution {execution} of the second lap");
        post(RECORDS + 2 * execution + 1, Subtype::End);
        assert_eq!(rests(), Ok(()), "execution {execution} of the second lap");
    }
}
