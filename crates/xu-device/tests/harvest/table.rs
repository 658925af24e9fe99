//! The pure functions, walked over all of their inputs and compared with tables that were written from the spec.
//!
//! The matcher's table is the one of section 6 of `xu.md`, the ranks are those of section 2.11.

use crate::support::{Bench, FIRST, SECOND, TICK};
use xu_abi::record::{ErrorKind, Subtype};
use xu_abi::{Engine, Status, StatusRecord};
use xu_device::harvest::matcher::{Effect, EngineState, Mismatch, match_record, retagged};
use xu_device::harvest::verdict::{Verdict, error_status, memory_status};
use xu_device::harvest::{Fault, Progress};
use xu_device::{DeviceError, MemoryErrors};
use zerocopy::little_endian::{U16, U64};

const STATES: [EngineState; 3] = [
    EngineState::StartPending,
    EngineState::EndPending,
    EngineState::Complete,
];
const SUBTYPES: [u16; 17] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 255, 256, 258, 0x7FFF, 0xFFFF,
];
const SUB_IDS: [u16; 17] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 256, 263, 0xFFFF,
];

/// What the spec says about one record.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    /// The engine's next state, and what else.
    Goes(EngineState, &'static str),
    Keeps(&'static str),
    /// Probe the overflow bit: set is 1204, clear is FAILURE.
    Probe,
    /// "other: HW_ERROR 6".
    HardwareError,
    /// "unexpected notification: fault".
    Fault,
}

/// The rows of the table, as subtype, state, what is said. No row: unexpected.
const ROWS: [(u16, EngineState, Said); 15] = {
    use EngineState::{Complete, EndPending, StartPending};
    use Said::{Goes, Keeps, Probe};
    [
        (2, StartPending, Goes(EndPending, "earliest start")),
        (2, EndPending, Probe),
        (2, Complete, Probe),
        (3, StartPending, Probe),
        (3, EndPending, Goes(Complete, "latest end")),
        (3, Complete, Probe),
        (6, StartPending, Keeps("custom")),
        (6, EndPending, Keeps("custom")),
        (6, Complete, Keeps("custom")),
        (7, StartPending, Keeps("earliest cc start")),
        (7, EndPending, Keeps("earliest cc start")),
        (7, Complete, Keeps("earliest cc start")),
        (8, StartPending, Keeps("latest cc end")),
        (8, EndPending, Keeps("latest cc end")),
        (8, Complete, Keeps("latest cc end")),
    ]
};

/// The sub-ids of a custom record. No row: other.
const CUSTOM_ROWS: [(u16, &str); 11] = [
    (0, "out of bounds"),
    (1, "out of bounds"),
    (2, "out of bounds"),
    (3, "out of bounds"),
    (4, "out of bounds"),
    (5, "out of bounds"),
    (6, "debug value"),
    (7, "tensor completion"),
    (8, "debug tensor read"),
    (9, "out of bounds"),
    (10, "out of bounds"),
];

fn said(subtype: u16, state: EngineState, sub_id: u16, hint: u8) -> Said {
    if hint > 1 {
        return Said::Fault;
    }
    let row = ROWS.iter().find(|row| (row.0, row.1) == (subtype, state));
    match row {
        None => Said::Fault,
        Some((_, _, Said::Keeps("custom"))) => CUSTOM_ROWS
            .iter()
            .find(|row| row.0 == sub_id)
            .map_or(Said::HardwareError, |row| Said::Keeps(row.1)),
        Some((_, _, said)) => *said,
    }
}

/// The same in the words of the spec, for what the matcher found.
fn found(state: EngineState, matched: &Result<(EngineState, Effect), Mismatch>) -> Said {
    let (next, effect) = match matched {
        Ok(matched) => matched,
        Err(Mismatch::OutOfOrder(_)) => return Said::Probe,
        Err(Mismatch::UnknownCustom { .. }) => return Said::HardwareError,
        Err(Mismatch::Unexpected { .. }) => return Said::Fault,
    };
    let words = match effect {
        Effect::Started => "earliest start",
        Effect::Ended => "latest end",
        Effect::CollectivesStarted => "earliest cc start",
        Effect::CollectivesEnded => "latest cc end",
        Effect::OutOfBounds { .. } => "out of bounds",
        Effect::DebugValue { .. } => "debug value",
        Effect::TensorDone { .. } => "tensor completion",
        Effect::TensorRead { .. } => "debug tensor read",
    };
    if *next == state {
        Said::Keeps(words)
    } else {
        Said::Goes(*next, words)
    }
}

fn record(subtype: u16, sub_id: u16, hint: u8) -> StatusRecord {
    StatusRecord {
        // All bits of the line, those next to the hint included.
        isa_line_lo: U16::new(0xBEEF),
        hint_and_line_hi: hint << 4 | 0x0A,
        ring_and_tag: 0x05,
        custom_sub_id: U16::new(sub_id),
        subtype: U16::new(subtype),
        device_ts: U64::new(TICK),
    }
}

#[test]
fn d5_every_record_in_every_state_means_what_the_table_says() {
    for arch in [2, 3, 4] {
        for engine in Engine::ALL {
            for state in STATES {
                for subtype in SUBTYPES {
                    for sub_id in SUB_IDS {
                        for hint in 0..16 {
                            let record = record(subtype, sub_id, hint);
                            let matched = match_record(state, engine, arch, record);
                            assert_eq!(
                                found(state, &matched),
                                said(subtype, state, sub_id, hint),
                                "arch {arch} {engine} {state:?} {record:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn d5_a_mismatch_ends_the_unit_with_the_status_of_the_table_for_both_values_of_the_overflow_bit() {
    let reached: [(EngineState, &[u16]); 2] = [
        (EngineState::StartPending, &[]),
        (EngineState::EndPending, &[2]),
    ];
    for (state, history) in reached {
        for subtype in SUBTYPES {
            for sub_id in SUB_IDS {
                for hint in [0, 1, 2, 15] {
                    for overflow in [false, true] {
                        let mut bench = Bench::begun();
                        if overflow {
                            bench.scripted.latch_overflow(FIRST);
                        }
                        for earlier in history {
                            bench.post(FIRST, Engine::Act, record(*earlier, 0, 0));
                        }
                        bench.post(FIRST, Engine::Act, record(subtype, sub_id, hint));
                        let (status, probes) = match said(subtype, state, sub_id, hint) {
                            Said::Goes(..) | Said::Keeps(_) => (None, 0),
                            Said::Probe if overflow => (Some(1204), 1),
                            Said::Probe => (Some(1), 1),
                            Said::HardwareError => (Some(6), 0),
                            Said::Fault => (Some(1), 0),
                        };
                        let found = match bench.look() {
                            Progress::Continue => None,
                            Progress::Fatal(report, _) => Some(report.status.raw()),
                            Progress::Done(report) => panic!("done: {report:?}"),
                        };
                        let case = (state, subtype, sub_id, hint, overflow);
                        assert_eq!(found, status, "{case:?}");
                        assert_eq!(bench.scripted.probes(), probes, "{case:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_number_of_a_custom_record_is_its_instruction_line() {
    let number = 0xA_BEEF;
    for (sub_id, effect) in [
        (0, Effect::OutOfBounds { line: number }),
        (6, Effect::DebugValue { value: number }),
        (7, Effect::TensorDone { id: number }),
        (8, Effect::TensorRead { id: number }),
    ] {
        let state = EngineState::EndPending;
        let matched = match_record(state, Engine::Pe, 2, record(6, sub_id, 1));
        assert_eq!(matched, Ok((state, effect)));
    }
}

#[test]
fn custom_records_of_dve_and_no_others_get_the_tag_0x0e_on_arch_above_2() {
    for arch in 0..=5 {
        for engine in Engine::ALL {
            for subtype in SUBTYPES {
                let mut record = record(subtype, 0, 0);
                // The ring's bits are not the tag's.
                record.ring_and_tag |= 0xE0;
                let expected = if arch > 2 && engine == Engine::Dve && subtype == 6 {
                    0xEE
                } else {
                    0xE5
                };
                let after = retagged(record, engine, arch);
                assert_eq!(after.ring_and_tag, expected);
                record.ring_and_tag = expected;
                assert_eq!(after, record);
            }
        }
    }
}

/// The ranks of section 2.11: 3 critical, 2 high, 1 medium, 0 none.
fn rank(code: i32) -> u8 {
    match code {
        0 => 0,
        5 | 6 | 1200 | 1204 | 1206 => 2,
        1004 | 1201 | 1202 | 1203 | 1205 => 3,
        // "All codes strictly between 1004 and 1205 are critical except 1200 and 1204."
        _ if 1004 < code && code < 1205 => 3,
        _ => 1,
    }
}

/// Section 6, ruling: what is completed with an error leaves the unit usable.
fn leaves_the_unit_usable(code: i32) -> bool {
    [0, 1003, 1004, 1006].contains(&code)
}

/// The code that stands when these were found in this order, and whether the unit is over.
fn resolved(codes: &[i32]) -> (i32, bool) {
    let first_of_the_strongest = |codes: &[i32]| {
        let strongest = codes.iter().map(|code| rank(*code)).max()?;
        codes.iter().copied().find(|code| rank(*code) == strongest)
    };
    let ending: Vec<i32> = codes
        .iter()
        .copied()
        .filter(|code| !leaves_the_unit_usable(*code))
        .collect();
    match first_of_the_strongest(&ending) {
        Some(code) => (code, true),
        None => (first_of_the_strongest(codes).unwrap_or(0), false),
    }
}

fn codes() -> Vec<i32> {
    let named = Status::NAMED.iter().map(|status| status.raw());
    let unnamed = [-1, 8, 100, 1001, 1099, 1101, 1199, 1207, 4711, i32::MAX];
    named.chain(unnamed).collect()
}

#[test]
fn any_three_statuses_of_two_cores_are_resolved_by_the_ranks() {
    let codes = codes();
    for first in &codes {
        for second in &codes {
            for third in &codes {
                let mut verdict = Verdict::default();
                verdict.note(FIRST, Status::from_raw(*first));
                verdict.note(FIRST, Status::from_raw(*second));
                verdict.note(SECOND, Status::from_raw(*third));
                let found = [*first, *second, *third];
                let expected = resolved(&found);
                assert_eq!(verdict.is_success(), found == [0; 3]);
                assert_eq!(verdict.status().raw(), expected.0, "{found:?}");
                assert_eq!(verdict.into_fault().is_some(), expected.1, "{found:?}");
            }
        }
    }
}

/// What may end a wait.
fn faults() -> Vec<Fault> {
    let (tpb, engine) = (FIRST, Engine::Sp);
    vec![
        Fault::Timeout {
            tpb,
            limit: crate::support::LIMIT,
            started: vec![engine],
            not_started: Vec::new(),
        },
        Fault::Overflow { tpb },
        Fault::OutOfOrder {
            tpb,
            engine,
            subtype: Subtype::End,
        },
        Fault::Unexpected {
            tpb,
            engine,
            subtype: Subtype::Unexpected(1),
            sub_id: 0,
            hint: 0,
            tag: 0,
        },
        Fault::UnknownCustom {
            tpb,
            engine,
            sub_id: 11,
        },
        Fault::Device(DeviceError::Lost),
        Fault::Device(DeviceError::DmaAborted { tpb, index: 0 }),
        Fault::UnitEnded,
    ]
}

#[test]
fn d6_the_fault_that_ended_the_wait_stands_unless_something_stronger_ends_the_unit() {
    let statuses = [5, 1204, 1, 1, 6, 6, 1203, 101];
    for (fault, status) in faults().into_iter().zip(statuses) {
        for code in codes() {
            let mut verdict = Verdict::default();
            verdict.end(fault.clone());
            verdict.note(SECOND, Status::from_raw(code));
            let outranked = !leaves_the_unit_usable(code) && rank(code) > rank(status);
            let expected = if outranked { code } else { status };
            assert_eq!(verdict.status().raw(), expected, "{fault} {code}");
            let reported = Fault::Hardware {
                tpb: SECOND,
                status: Status::from_raw(code),
            };
            let expected = if outranked { &reported } else { &fault };
            assert_eq!(verdict.into_fault().as_ref(), Some(expected));
        }
    }
}

#[test]
fn every_kind_of_device_error_has_the_status_of_the_spec() {
    for id in 0..=255 {
        let kind = ErrorKind::from_raw(id);
        let expected = match kind {
            ErrorKind::Transient | ErrorKind::SoftwareSequencer => 1004,
            ErrorKind::Numerical => 1003,
            ErrorKind::EccUncorrectable => 1202,
            ErrorKind::EccCorrectable => 0,
            ErrorKind::Unknown(_) => 6,
        };
        assert_eq!(error_status(kind).raw(), expected);
    }
}

#[test]
fn memory_errors_count_when_they_rise_and_the_worst_of_them_decides() {
    let counts = [0, 1, 7, u64::MAX];
    for before in counts {
        for [hbm, sram, hbm_repairable] in triples(&counts) {
            let now = MemoryErrors {
                sram,
                hbm,
                hbm_repairable,
            };
            let base = MemoryErrors {
                sram: before,
                hbm: before,
                hbm_repairable: before,
            };
            let expected = match (hbm > before, sram > before, hbm_repairable > before) {
                (true, _, _) => 1201,
                (_, true, _) => 1202,
                (_, _, true) => 1205,
                _ => 0,
            };
            assert_eq!(memory_status(base, now).raw(), expected);
        }
    }
}

fn triples(values: &[u64]) -> impl Iterator<Item = [u64; 3]> + '_ {
    values.iter().flat_map(move |a| {
        values
            .iter()
            .flat_map(move |b| values.iter().map(move |c| [*a, *b, *c]))
    })
}
