//! Notification rings that wrap.

use crate::client::{CORE, Client, halting};
use lane_tests::{Kind, Rig};
use xu_abi::record::RECORD_SIZE;

lane_tests::on_both! {
    notification_rings_wrap_for_five_laps,
}

fn notification_rings_wrap_for_five_laps(rig: &Rig) {
    let machine = rig.device();
    // The shortest that there are.
    let bytes = match rig.kind() {
        Kind::Simulated => 64,
        Kind::Neuron => 4096,
    };
    let mut client = Client::open(&machine, CORE, bytes);
    let request = client.request(&halting());
    // Each posts a START and an END.
    for _ in 0..5 * bytes / RECORD_SIZE / 2 {
        client.execute(&request).assert_clean();
    }
    assert_eq!(client.status[0].offset, 0);
    assert_eq!(machine.overflow_latched(CORE), Ok(false));
}
