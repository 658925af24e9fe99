//! Faults of executions, as they show in the raw records of the rings.

use crate::support::{CORE, Client, Posted, Rings, WHOLE, faulty, halting};
use xu_abi::record::{Custom, ErrorKind, Subtype, ring_bits};
use xu_abi::{Engine, StatusRecord};
use xu_device::simulated::{Costs, Fault, Injection, Mark, Rule, When};
use xu_device::{Device, DeviceError, MemoryErrors};
use zerocopy::transmute;

const ENGINE: Engine = Engine::Pool;
const BUSY: Result<(), DeviceError> = Err(DeviceError::Busy { tpb: CORE });
const START: Subtype = Subtype::Start;
const END: Subtype = Subtype::End;

/// The second execution is hit, once.
fn hit_once(fault: Fault) -> Rule {
    Rule {
        when: When {
            core: Some(0),
            from: 1,
            times: Some(1),
            probability: None,
        },
        fault,
    }
}

/// Runs a sound execution and then one that `fault` hits; returns what that one has posted.
fn second(fault: Fault) -> (Client, Posted) {
    let mut client = Client::start(faulty(1, vec![hit_once(fault)]));
    let request = client.request(&halting());
    client.execute(&request).assert_clean();
    assert_eq!(client.machine.injected(), []);
    client.arm(&request, &WHOLE);
    client.fire();
    let posted = client.drain();
    let injected = client.machine.injected();
    assert!(matches!(
        injected[..],
        [Injection {
            core: Some(CORE),
            number: 1,
            rule: 0,
            at_ns: 1_000_000_000..
        }]
    ));
    (client, posted)
}

/// The same, for a fault that does no harm to the third execution.
fn second_of_three(fault: Fault) -> Posted {
    let (mut client, posted) = second(fault);
    assert_eq!(
        client
            .machine
            .quiesce(CORE, std::time::Duration::from_secs(2)),
        Ok(())
    );
    assert_eq!(client.machine.overflow_latched(CORE), Ok(false));
    client.assert_still_works();
    assert_eq!(client.machine.injected().len(), 1);
    posted
}

/// Every other engine has posted START and END.
fn assert_others_are_sound(posted: &Posted) {
    for engine in Engine::ALL {
        if engine != ENGINE {
            assert_eq!(posted.subtypes(engine), [START, END], "{engine}");
        }
    }
}

fn stamps(posted: &Posted, engine: Engine) -> Vec<u64> {
    let records = posted.status[engine.index()].iter();
    records.map(|record| record.device_ts.get()).collect()
}

#[test]
fn d6_an_engine_that_hangs_posts_start_and_keeps_the_core_busy_for_good() {
    let (mut client, posted) = second(Fault::HangEngine { engine: ENGINE });
    assert_others_are_sound(&posted);
    assert_eq!(posted.subtypes(ENGINE), [START]);
    assert_eq!(
        client
            .machine
            .quiesce(CORE, std::time::Duration::from_secs(2)),
        BUSY
    );
    let request = client.request(&halting());
    client.arm(&request, &WHOLE);
    client.fire();
    assert_eq!(client.drain().status.concat(), []);
    assert_eq!(
        client.machine.memory_errors(CORE),
        Ok(MemoryErrors::default())
    );
}

#[test]
fn d4_an_engine_that_cannot_read_hbm_stops_there_and_the_error_is_counted() {
    for repairable in [false, true] {
        let (client, posted) = second(Fault::HbmUncorrectable {
            engine: ENGINE,
            repairable,
        });
        assert_others_are_sound(&posted);
        assert_eq!(posted.subtypes(ENGINE), [START]);
        assert_eq!(posted.errors, []);
        assert_eq!(
            client
                .machine
                .quiesce(CORE, std::time::Duration::from_secs(2)),
            BUSY
        );
        let counted = MemoryErrors {
            sram: 0,
            hbm: u64::from(!repairable),
            hbm_repairable: u64::from(repairable),
        };
        assert_eq!(client.machine.memory_errors(CORE), Ok(counted));
    }
}

#[test]
fn d6_a_slow_engine_ends_later_and_a_late_end_is_posted_later() {
    const BY_NS: u64 = 5_000_000;
    for fault in [
        Fault::SlowEngine {
            engine: ENGINE,
            by_ns: BY_NS,
        },
        Fault::LateEnd {
            engine: ENGINE,
            by_ns: BY_NS,
        },
    ] {
        let posted = second_of_three(fault);
        posted.assert_clean();
        let slow = stamps(&posted, ENGINE);
        assert!(slow[1] - slow[0] >= BY_NS, "{slow:?}");
        for engine in Engine::ALL.into_iter().filter(|engine| *engine != ENGINE) {
            let stamps = stamps(&posted, engine);
            assert!(stamps[1] - stamps[0] < BY_NS / 100, "{engine}: {stamps:?}");
        }
    }
}

#[test]
fn d6_no_doorbell_is_served_before_a_late_end() {
    let late = Fault::LateEnd {
        engine: ENGINE,
        by_ns: 1_000_000,
    };
    let mut client = Client::start(faulty(
        1,
        vec![Rule {
            when: When::default(),
            fault: late,
        }],
    ));
    let request = client.request(&halting());
    for _ in 0..2 {
        client.arm(&request, &WHOLE);
        client.fire();
    }
    let posted = client.drain();
    let first_end = stamps(&posted, ENGINE)[1];
    for engine in Engine::ALL {
        assert!(stamps(&posted, engine)[2] > first_end, "{engine}");
    }
}

#[test]
fn d5_a_record_can_be_lost_or_come_twice() {
    for (record, left, doubled) in [
        (Mark::Start, [END], [START, START, END]),
        (Mark::End, [START], [START, END, END]),
    ] {
        let posted = second_of_three(Fault::DropRecord {
            engine: ENGINE,
            record,
        });
        assert_others_are_sound(&posted);
        assert_eq!(posted.subtypes(ENGINE), left);
        let posted = second_of_three(Fault::DuplicateRecord {
            engine: ENGINE,
            record,
        });
        assert_others_are_sound(&posted);
        assert_eq!(posted.subtypes(ENGINE), doubled);
    }
}

#[test]
fn d5_start_and_end_can_change_places() {
    let posted = second_of_three(Fault::ReorderRecords { engine: ENGINE });
    assert_others_are_sound(&posted);
    assert_eq!(posted.subtypes(ENGINE), [END, START]);
    let stamps = stamps(&posted, ENGINE);
    assert!(stamps[0] < stamps[1]);
}

#[test]
fn d4_a_byte_is_altered_but_the_bits_of_the_ring_are_its_own() {
    let bytes = |posted: &Posted| -> Vec<[u8; 16]> {
        let records = posted.status[ENGINE.index()].iter();
        records.map(|record| transmute!(*record)).collect()
    };
    for (index, record) in [(0, Mark::Start), (1, Mark::End)] {
        let corrupt = |byte, with| {
            let fault = Fault::CorruptRecord {
                engine: ENGINE,
                record,
                byte,
                with,
            };
            second_of_three(fault)
        };
        let sound = corrupt(0, 0);
        sound.assert_clean();
        for byte in 0..16 {
            let posted = corrupt(byte, 0xFF);
            assert_others_are_sound(&posted);
            let mut expected = bytes(&sound);
            expected[index][usize::from(byte)] ^= if byte == 3 { ring_bits::TAG } else { 0xFF };
            assert_eq!(bytes(&posted), expected, "{byte}");
        }
    }
}

#[test]
fn d4_an_unknown_subtype_and_a_bad_hint_stand_in_the_place_of_end() {
    let posted = second_of_three(Fault::UnknownSubtype {
        engine: ENGINE,
        subtype: 0xBEEF,
    });
    assert_others_are_sound(&posted);
    assert_eq!(
        posted.subtypes(ENGINE),
        [START, Subtype::Unexpected(0xBEEF)]
    );
    let posted = second_of_three(Fault::BadDebugHint {
        engine: ENGINE,
        hint: 15,
    });
    posted.assert_clean();
    let hints: Vec<u8> = posted.status[ENGINE.index()]
        .iter()
        .map(StatusRecord::debug_hint)
        .collect();
    assert_eq!(hints, [0, 15]);
}

#[test]
fn d4_a_custom_record_stands_between_start_and_end() {
    for sub_id in [0, 6, 10, 0xFFFF] {
        let posted = second_of_three(Fault::Custom {
            engine: ENGINE,
            sub_id,
        });
        assert_others_are_sound(&posted);
        assert_eq!(posted.subtypes(ENGINE), [START, Subtype::Custom, END]);
        let custom = posted.status[ENGINE.index()][1].custom();
        assert_eq!(custom, Custom::from_raw(sub_id));
    }
}

#[test]
fn d3_a_queue_that_finds_no_room_loses_the_records_of_one_execution() {
    for latched in [false, true] {
        let (mut client, posted) = second(Fault::Overflow {
            engine: ENGINE,
            latched,
        });
        assert_others_are_sound(&posted);
        assert_eq!(posted.status[ENGINE.index()], []);
        assert_eq!(client.machine.overflow_latched(CORE), Ok(latched));
        assert_eq!(
            client
                .machine
                .quiesce(CORE, std::time::Duration::from_secs(2)),
            Ok(())
        );
        // The next record that fits says that some are missing, whether or not the cause is latched.
        let third = client.run(&halting());
        third.assert_clean();
        for engine in Engine::ALL {
            let lost = third.status[engine.index()]
                .iter()
                .map(|record| record.ring_and_tag & ring_bits::RING_OVERFLOW != 0);
            let expected = [engine == ENGINE, false];
            assert_eq!(lost.collect::<Vec<_>>(), expected, "{engine}");
        }
    }
}

#[test]
fn d4_errors_of_the_core_are_reported_before_the_last_end() {
    for (fault, kind) in [
        (Fault::Numerical, ErrorKind::Numerical),
        (Fault::Transient, ErrorKind::Transient),
        (Fault::Sequencer, ErrorKind::SoftwareSequencer),
        (Fault::EccCorrectable, ErrorKind::EccCorrectable),
        (Fault::EccUncorrectable, ErrorKind::EccUncorrectable),
        (Fault::UnknownError { id: 200 }, ErrorKind::Unknown(200)),
    ] {
        let sram = u64::from(fault == Fault::EccUncorrectable);
        let (mut client, posted) = second(fault);
        posted.assert_start_and_end_only();
        assert_eq!(posted.kinds(), [kind]);
        let stamps = Engine::ALL.map(|engine| stamps(&posted, engine)[1]);
        assert!(Some(&posted.errors[0].device_ts.get()) < stamps.iter().max());
        let counted = MemoryErrors {
            sram,
            ..MemoryErrors::default()
        };
        assert_eq!(client.machine.memory_errors(CORE), Ok(counted));
        client.assert_still_works();
    }
}

#[test]
fn d5_an_error_is_never_later_than_the_last_end_whatever_the_seed() {
    for seed in 0..64 {
        let transient = Rule {
            when: When::default(),
            fault: Fault::Transient,
        };
        let mut config = faulty(1, vec![transient; 3]);
        config.seed = seed;
        // Otherwise nothing competes with the reports while instructions take their time.
        config.costs = Costs::FREE;
        let posted = Client::start(config).run(&halting());
        let ends = Engine::ALL.map(|engine| stamps(&posted, engine)[1]);
        // None is forgotten either.
        assert_eq!(posted.errors.len(), 3, "{seed}");
        let errors = posted.errors.iter().map(|error| error.device_ts.get());
        assert!(errors.max() < ends.into_iter().max(), "{seed}");
    }
}

#[test]
fn d7_an_error_of_a_request_that_was_given_up_is_not_reported_for_the_next() {
    let transient = Rule {
        when: When {
            times: Some(1),
            ..When::default()
        },
        fault: Fault::Transient,
    };
    let mut client = Client::start(faulty(1, vec![transient]));
    let request = client.request(&halting());
    client.arm(&request, &WHOLE);
    client.fire();
    assert!(client.machine.step());
    assert_eq!(client.machine.injected().len(), 1);
    client.rings = Rings::open(&client.machine, client.rings.queue);
    assert_eq!(client.drain().errors, []);
    client.assert_still_works();
}

#[test]
fn several_faults_hit_the_same_execution() {
    let rules = [
        Fault::Custom {
            engine: ENGINE,
            sub_id: 7,
        },
        Fault::ReorderRecords { engine: ENGINE },
        Fault::DuplicateRecord {
            engine: ENGINE,
            record: Mark::End,
        },
        Fault::Transient,
        Fault::Numerical,
        Fault::Custom {
            engine: ENGINE,
            sub_id: 8,
        },
        Fault::HangEngine { engine: Engine::Pe },
    ];
    let rules = rules.map(|fault| Rule {
        when: When::default(),
        fault,
    });
    let mut client = Client::start(faulty(1, rules.to_vec()));
    let request = client.request(&halting());
    client.arm(&request, &WHOLE);
    client.fire();
    let posted = client.drain();
    let custom = Subtype::Custom;
    assert_eq!(posted.subtypes(ENGINE), [END, custom, custom, START, START]);
    assert_eq!(posted.subtypes(Engine::Pe), [START]);
    assert_eq!(posted.kinds(), [ErrorKind::Transient, ErrorKind::Numerical]);
    let rules: Vec<usize> = client
        .machine
        .injected()
        .iter()
        .map(|injection| injection.rule)
        .collect();
    assert_eq!(rules, [0, 1, 2, 3, 4, 5, 6]);
}
