//! Semaphores and events: what names no core is not asked for.

use super::script::{Script, V2, V3, refused};
use xu_abi::driver::{Event, Semaphore};
use xu_abi::{EventIndex, SemIndex};

/// Trap 21: the driver does not look at the core of an event.
#[test]
fn d4_a_core_beyond_the_last_is_refused() {
    for (driver, beyond) in [(V2, 2), (V3, 8)] {
        let (script, node) = Script::node(driver);
        let (event, semaphore) = (EventIndex::new(0), SemIndex::new(0));
        for core in [beyond, 255] {
            let text = refused(&script, node.set_event(core, event, true));
            let last = beyond - 1;
            assert_eq!(
                text,
                format!("EVENT_SET: core is {core}, allowed: 0 to {last}")
            );
            refused(&script, node.is_event_set(core, event));
            refused(&script, node.increment_semaphore(core, semaphore, 1));
            refused(&script, node.decrement_semaphore(core, semaphore, 1));
            refused(&script, node.write_semaphore(core, semaphore, 1));
            refused(&script, node.read_semaphore(core, semaphore));
        }
        node.set_event(beyond - 1, event, true).unwrap();
        assert_eq!(script.names(), ["EVENT_SET"]);
    }
}

#[test]
fn a_doorbell_is_one_call() {
    let (script, node) = Script::node(V2);
    node.increment_semaphore(1, SemIndex::new(255), 1).unwrap();
    let calls = script.calls();
    let [made] = &*calls else { panic!("{calls:?}") };
    assert_eq!(made.name, "SEMAPHORE_INCREMENT");
    assert_eq!(
        made.argument::<Semaphore>(),
        Semaphore {
            nc_id: 1,
            semaphore_index: 255,
            value: 1
        }
    );
}

#[test]
fn an_event_is_set_or_not() {
    let (script, node) = Script::node(V2);
    node.set_event(0, EventIndex::new(255), true).unwrap();
    assert_eq!(node.is_event_set(0, EventIndex::new(255)), Ok(false));
    let calls = script.calls();
    let set: Event = calls[0].argument();
    assert_eq!((set.event_index, set.value), (255, 1));
}
