//! Notification rings that overflow: of four records, which no driver gives, and on a machine that knows that a core rests though an END
//! was lost.

use crate::support::{CORE, Client, WHOLE, halting, small};
use xu_abi::record::{Subtype, ring_bits};
use xu_abi::{Engine, StatusRecord};
use xu_device::simulated::Machine;
use xu_device::{Device, Head};
use zerocopy::transmute;

#[test]
fn a_full_notification_ring_drops_latches_and_says_so() {
    let machine = Machine::start(small(1, 9)).unwrap();
    let mut client = Client::open(&machine, CORE, 64);
    let request = client.request(&halting());
    for _ in 0..2 {
        client.arm(&request, &WHOLE);
        client.fire();
    }
    assert_eq!(
        machine.quiesce(CORE, std::time::Duration::from_secs(2)),
        Ok(())
    );
    // Three of four records fit: the second END of each engine is lost.
    assert_eq!(machine.overflow_latched(CORE), Ok(true));
    client.harvest().assert_clean();
    let reader = &mut client.status[0];
    assert!(reader.next(&machine).is_some());
    assert!(reader.next(&machine).is_none());
    machine
        .acknowledge(CORE, &[Head::new(reader.nq, reader.offset)])
        .unwrap();
    client.arm(&request, &WHOLE);
    client.fire();
    assert_eq!(
        machine.quiesce(CORE, std::time::Duration::from_secs(2)),
        Ok(())
    );
    let record: StatusRecord = transmute!(client.status[0].next(&machine).unwrap());
    assert_eq!(record.subtype(), Subtype::Start);
    assert_ne!(record.ring_and_tag & ring_bits::RING_OVERFLOW, 0);
    let record: StatusRecord = transmute!(client.status[0].next(&machine).unwrap());
    assert_eq!(record.ring_and_tag & ring_bits::RING_OVERFLOW, 0);
    for engine in Engine::ALL {
        machine
            .open_notification_queue(CORE, engine.status_nq(), 64)
            .unwrap();
    }
    assert_eq!(machine.overflow_latched(CORE), Ok(false));
}
