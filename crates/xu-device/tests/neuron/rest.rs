//! Whether a core is at rest: what is asked, and what counts as an END.

use super::device::{CORE, NQ_BLOCK, QUEUE, open, with_queue};
use super::script::{BAR0, V2, edit};
use std::time::Duration;
use xu_abi::driver::errno::Answer;
use xu_abi::driver::{DmaQueueState, Semaphore, ioctl};
use xu_abi::record::{StatusRecord, Subtype};
use xu_abi::{DeviceAddr, Engine, SemIndex};
use xu_device::{Device, DeviceError, Head, map};
use zerocopy::IntoBytes;

/// Of a ring of 4096 bytes.
const RECORDS: u64 = 4096 / 16;

#[test]
fn a_core_is_at_rest_when_no_doorbell_waits_and_no_queue_has_anything_left() {
    let (script, device) = open(V2);
    with_queue(&script, &device, QUEUE);
    let tpb = QUEUE.tpb;
    device.quiesce(tpb, Duration::ZERO).unwrap();
    script.reply(&ioctl::SEMAPHORE_READ, |call| {
        edit(call, |semaphore: &mut Semaphore| semaphore.value = 1)
    });
    let busy = Err(DeviceError::Busy { tpb });
    assert_eq!(device.quiesce(tpb, Duration::ZERO), busy);
    script.reply(&ioctl::DMA_QUEUE_GET_STATE, |call| {
        let state = DmaQueueState {
            tail_pointer: 4,
            ..DmaQueueState::ZEROED
        };
        call.buffers()[0]
            .bytes_mut()
            .unwrap()
            .copy_from_slice(state.as_bytes());
        Answer::Done
    });
    assert_eq!(device.quiesce(tpb, Duration::ZERO), busy);
    // It is asked again while there is time.
    script.reply(&ioctl::SEMAPHORE_READ, |call| {
        edit(call, |semaphore: &mut Semaphore| semaphore.value = 1)
    });
    device.quiesce(tpb, Duration::MAX).unwrap();
}

/// An END that is lost cannot be told from one that is to come.
#[test]
fn d7_a_core_is_not_at_rest_while_an_engine_has_not_said_end_for_each_doorbell() {
    let (script, device) = open(V2);
    let nq = Engine::Pe.status_nq();
    let ring = device.open_notification_queue(CORE, nq, 4096).unwrap();
    let tail = BAR0 + NQ_BLOCK + u64::from(nq) * 0x28 + 0x110;
    let mut written = 0_u64;
    let mut post = |subtype, arrives: bool| {
        let record = StatusRecord::new(subtype, 0, 0);
        let mut bytes: [u8; 16] = record.as_bytes().try_into().unwrap();
        // The first lap has the phase bit set, the second has not, and so on.
        let is_set = (written / 256).is_multiple_of(2) == arrives;
        bytes[3] = if is_set {
            bytes[3] | 0x80
        } else {
            bytes[3] & !0x80
        };
        let at = DeviceAddr::new(ring.get() + written % 256 * 16);
        device.write(at, &bytes).unwrap();
        written += 1;
        script.set_register(tail, (written % 256 * 16) as u32);
        written
    };
    let rests = || device.quiesce(CORE, Duration::ZERO);
    let busy = Err(DeviceError::Busy { tpb: CORE });
    assert_eq!(rests(), Ok(()));
    for round in 0..200 {
        device
            .increment_semaphore(CORE, map::INFERENCE_START)
            .unwrap();
        assert_eq!(rests(), busy, "round {round}");
        post(Subtype::Start, true);
        assert_eq!(rests(), busy, "round {round}");
        let written = post(Subtype::End, true);
        assert_eq!(rests(), Ok(()), "round {round}");
        if round % 3 == 0 {
            device
                .acknowledge(CORE, &[Head::new(nq, written % 256 * 16)])
                .unwrap();
            assert_eq!(rests(), Ok(()), "round {round}");
        }
    }
    // Other semaphores start nothing.
    device.increment_semaphore(CORE, SemIndex::new(7)).unwrap();
    assert_eq!(rests(), Ok(()));
    // The tail is no proof that a record has arrived.
    device
        .increment_semaphore(CORE, map::INFERENCE_START)
        .unwrap();
    post(Subtype::End, false);
    assert_eq!(rests(), busy);
    // A ring that is opened anew begins with nothing to wait for.
    device.open_notification_queue(CORE, nq, 4096).unwrap();
    script.set_register(tail, 0);
    assert_eq!(rests(), Ok(()));
}

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
