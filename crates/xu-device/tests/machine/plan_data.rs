//! The plan of faults as data: what can be written down, what is refused, and when a rule applies.

use crate::support::{CORE, Client, WHOLE, faulty, halting, small};
use proptest::prelude::*;
use xu_abi::Engine;
use xu_device::DeviceError;
use xu_device::simulated::{Fault, FaultPlan, Machine, MachineConfig, Mark, Rule, When};

fn always(fault: Fault) -> Rule {
    Rule {
        when: When::default(),
        fault,
    }
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let engine = || proptest::sample::select(Engine::ALL.to_vec());
    let record = || proptest::sample::select(vec![Mark::Start, Mark::End]);
    let timed = (engine(), any::<u64>());
    let marked = (engine(), record());
    prop_oneof![
        engine().prop_map(|engine| Fault::HangEngine { engine }),
        timed
            .clone()
            .prop_map(|(engine, by_ns)| Fault::SlowEngine { engine, by_ns }),
        timed.prop_map(|(engine, by_ns)| Fault::LateEnd { engine, by_ns }),
        marked
            .clone()
            .prop_map(|(engine, record)| Fault::DropRecord { engine, record }),
        marked.prop_map(|(engine, record)| Fault::DuplicateRecord { engine, record }),
        engine().prop_map(|engine| Fault::ReorderRecords { engine }),
        (engine(), record(), 0u8..16, any::<u8>()).prop_map(|(engine, record, byte, with)| {
            Fault::CorruptRecord {
                engine,
                record,
                byte,
                with,
            }
        }),
        (engine(), any::<u16>())
            .prop_map(|(engine, subtype)| Fault::UnknownSubtype { engine, subtype }),
        (engine(), 0u8..16).prop_map(|(engine, hint)| Fault::BadDebugHint { engine, hint }),
        (engine(), any::<u16>()).prop_map(|(engine, sub_id)| Fault::Custom { engine, sub_id }),
        (engine(), any::<bool>()).prop_map(|(engine, latched)| Fault::Overflow { engine, latched }),
        any::<u8>().prop_map(|id| Fault::UnknownError { id }),
        (engine(), any::<bool>())
            .prop_map(|(engine, repairable)| Fault::HbmUncorrectable { engine, repairable }),
        (1i32..4096).prop_map(|errno| Fault::DoorbellFails { errno }),
        proptest::sample::select(vec![
            Fault::Numerical,
            Fault::Transient,
            Fault::Sequencer,
            Fault::EccCorrectable,
            Fault::EccUncorrectable,
            Fault::DmaAbort,
            Fault::DoorbellLost,
            Fault::AllocationFails,
            Fault::TransferAborts,
            Fault::TransferHangs,
            Fault::DeviceLost,
        ]),
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let when = (
        proptest::option::of(0u16..2),
        0u64..4,
        proptest::option::of(0u64..4),
        // Fractions that decimal notation keeps.
        proptest::option::of((0u8..=64).prop_map(|part| f64::from(part) / 64.0)),
    );
    (when, any_fault()).prop_map(|((core, from, times, probability), fault)| Rule {
        when: When {
            core,
            from,
            times,
            probability,
        },
        fault,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_plan_survives_a_round_trip_through_json(
        rules in prop::collection::vec(any_rule(), 0..8),
    ) {
        let plan = FaultPlan { rules };
        let json = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(serde_json::from_str::<FaultPlan>(&json).unwrap(), plan);
    }

    /// Whatever goes wrong together, the machine comes to a stop by itself and is not lost unless the plan says so.
    #[test]
    fn no_plan_panics_the_machine_or_keeps_it_from_coming_to_a_stop(
        seed in any::<u64>(),
        rules in prop::collection::vec(any_rule(), 0..8),
    ) {
        let goes = rules.iter().any(|rule| rule.fault == Fault::DeviceLost);
        let refuses = |rule: &Rule| matches!(
            rule.fault,
            Fault::AllocationFails | Fault::DoorbellFails { .. } | Fault::DeviceLost
        );
        let mut config = faulty(2, rules.clone());
        config.seed = seed;
        if rules.iter().any(refuses) {
            // The client of these tests insists on success.
            config.faults.rules.retain(|rule| !refuses(rule) );
        }
        let mut client = Client::start(config);
        let request = client.request(&halting());
        for _ in 0..6 {
            client.arm(&request, &WHOLE);
            client.fire();
            let posted = client.drain();
            prop_assert!(posted.errors.len() <= 9);
        }
        prop_assert!(goes || client.machine.injected().len() <= 48);
    }
}

#[test]
fn what_a_plan_does_not_know_is_refused() {
    for json in [
        r#"{ "rule": [] }"#,
        r#"{ "rules": [{ "fault": "earthquake" }] }"#,
        r#"{ "rules": [{ "fault": "transient", "how": 1 }] }"#,
        r#"{ "rules": [{ "when": { "form": 1 }, "fault": "transient" }] }"#,
        r#"{ "rules": [{ "fault": { "hang_engine": { "engine": "gpu" } } }] }"#,
        r#"{ "rules": [{ "fault": { "hang_engine": { "engine": "pe", "for": 1 } } }] }"#,
        r#"{ "rules": [{ "when": {} }] }"#,
    ] {
        assert!(serde_json::from_str::<FaultPlan>(json).is_err(), "{json}");
    }
}

#[test]
fn a_plan_out_of_range_is_refused_with_rule_and_value() {
    let probability = |probability| Rule {
        when: When {
            probability: Some(probability),
            ..When::default()
        },
        fault: Fault::Transient,
    };
    let core = Rule {
        when: When {
            core: Some(2),
            ..When::default()
        },
        fault: Fault::Transient,
    };
    let engine = Engine::Sp;
    let record = Mark::End;
    let corrupt = Fault::CorruptRecord {
        engine,
        record,
        byte: 16,
        with: 1,
    };
    for (rule, names) in [
        (probability(1.5), "probability: 1.5"),
        (probability(-0.25), "probability: -0.25"),
        (probability(f64::NAN), "probability: NaN"),
        (core, "core: 2"),
        (always(corrupt), "byte: 16"),
        (always(Fault::BadDebugHint { engine, hint: 16 }), "hint: 16"),
        (always(Fault::DoorbellFails { errno: 0 }), "errno: 0"),
        (always(Fault::DoorbellFails { errno: -5 }), "errno: -5"),
    ] {
        let rules = vec![always(Fault::Transient), rule];
        let refused = Machine::start(faulty(2, rules)).unwrap_err();
        assert!(
            matches!(refused, DeviceError::BadPlan { rule: 1, .. }),
            "{refused}"
        );
        let text = refused.to_string();
        assert!(text.contains(names), "{text}");
    }
}

/// Which of `count` executions of each core are hit.
fn hit(rules: Vec<Rule>, count: u64) -> Vec<(u16, u64)> {
    let machine = Machine::start(faulty(2, rules)).unwrap();
    let mut clients = [0, 1].map(|tpb| Client::open(&machine, xu_abi::TpbIndex::new(tpb), 4096));
    for client in &mut clients {
        let request = client.request(&halting());
        for _ in 0..count {
            client.execute(&request);
        }
    }
    let place = |one: &xu_device::simulated::Injection| (one.core.unwrap().get(), one.number);
    machine.injected().iter().map(place).collect()
}

#[test]
fn a_rule_applies_where_from_when_and_as_often_as_it_says() {
    let when = |core, from, times| Rule {
        when: When {
            core,
            from,
            times,
            probability: None,
        },
        fault: Fault::Numerical,
    };
    assert_eq!(
        hit(vec![when(None, 2, None)], 4),
        [(0, 2), (0, 3), (1, 2), (1, 3)]
    );
    assert_eq!(hit(vec![when(Some(1), 0, Some(2))], 4), [(1, 0), (1, 1)]);
    assert_eq!(
        hit(vec![when(None, 1, Some(4))], 4),
        [(0, 1), (0, 2), (0, 3), (1, 1)]
    );
    assert_eq!(hit(vec![when(None, 0, Some(0))], 4), []);
}

#[test]
fn what_a_rule_draws_depends_neither_on_other_rules_nor_on_other_cores() {
    let drawn = |probability| Rule {
        when: When {
            probability: Some(probability),
            ..When::default()
        },
        fault: Fault::EccCorrectable,
    };
    let alone = hit(vec![drawn(0.3)], 200);
    assert!((60..180).contains(&alone.len()), "{}", alone.len());
    assert_eq!(hit(vec![drawn(0.3), drawn(0.0)], 200), alone);
    assert_eq!(hit(vec![drawn(1.0)], 3).len(), 6);
    let first = |hits: &[(u16, u64)]| -> Vec<u64> {
        hits.iter()
            .filter(|(core, _)| *core == 0)
            .map(|(_, number)| *number)
            .collect()
    };
    let second = |hits: &[(u16, u64)]| -> Vec<u64> {
        hits.iter()
            .filter(|(core, _)| *core == 1)
            .map(|(_, number)| *number)
            .collect()
    };
    assert_ne!(first(&alone), second(&alone));

    // In real time, too: the drawn numbers are those of virtual time.
    let config = MachineConfig {
        faults: FaultPlan {
            rules: vec![drawn(0.3)],
        },
        ..small(1, 1)
    };
    let mut client = Client::start(config);
    let request = client.request(&halting());
    for _ in 0..200 {
        client.execute(&request);
    }
    let numbers: Vec<u64> = client
        .machine
        .injected()
        .iter()
        .map(|one| one.number)
        .collect();
    assert_eq!(numbers, first(&alone));
    assert_eq!(client.tpb, CORE);
}
