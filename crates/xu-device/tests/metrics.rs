//! The counters of a device against the tables of the specification, `xu.md` section 7 and `driver.md` section 9,
//! written here by hand.
#![allow(clippy::unwrap_used, reason = "functions of tests")]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use xu_abi::metric::{CoreCounter, ErrorFlag};
use xu_abi::{Status, TpbIndex};
use xu_device::metrics::{ErrorFlags, Finished, Metrics, NoSuchCore};

const COUNTERS: u8 = 95;
const CORE: TpbIndex = TpbIndex::new(0);

/// Status, ordinal of the counter that it moves, name.
const STATUS_ROWS: [(i32, u8, &str); 10] = [
    (0, 1, "INFER_COMPLETED"),
    (1004, 2, "INFER_COMPLETED_WITH_ERR"),
    (5, 4, "INFER_TIMED_OUT"),
    (7, 6, "INFER_FAILED_TO_QUEUE"),
    (6, 11, "ERR_HW"),
    (1, 16, "GENERIC_FAIL"),
    (2, 19, "ERR_INVALID"),
    (1006, 30, "OOB"),
    (1201, 32, "HW_ERR_HBM_UE"),
    (1202, 33, "HW_ERR_NC_UE"),
];

fn counter(ordinal: u8) -> CoreCounter {
    CoreCounter::new(ordinal).unwrap()
}

fn finished(status: i32) -> Finished {
    Finished {
        status: Status::from_raw(status),
        ..Finished::default()
    }
}

fn flag(index: u8) -> ErrorFlag {
    ErrorFlag::new(index).unwrap()
}

fn micros(value: u64) -> Option<Duration> {
    Some(Duration::from_micros(value))
}

/// Every counter of a core that is not zero, by ordinal.
fn moved(metrics: &Metrics, tpb: TpbIndex) -> BTreeMap<u8, u64> {
    (0..COUNTERS)
        .map(|ordinal| (ordinal, metrics.counter(tpb, counter(ordinal)).unwrap()))
        .filter(|(_, value)| *value != 0)
        .collect()
}

/// Where the driver looks for counter `k` of core `c`.
fn place(c: usize, k: usize) -> usize {
    if c >= 4 {
        57_984 + 8 * (96 * (c - 4) + k)
    } else if k < 31 {
        256 + 8 * (31 * c + k)
    } else {
        55_936 + 8 * (64 * c + k - 31)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn each_status_of_the_table_adds_one_to_its_counter_and_to_no_other() {
    for (status, ordinal, name) in STATUS_ROWS {
        let metrics = Metrics::new(1);
        for total in 1..=3 {
            metrics.record(CORE, &finished(status)).unwrap();
            let expected = BTreeMap::from([(ordinal, total)]);
            assert_eq!(moved(&metrics, CORE), expected, "{status} {name}");
        }
        assert_eq!(counter(ordinal).name(), Some(name));
    }
}

#[test]
fn a_status_without_a_row_moves_nothing() {
    let metrics = Metrics::new(1);
    let rows = STATUS_ROWS.map(|(status, ..)| status);
    let unnamed = [-1, 8, 999, i32::MIN, i32::MAX];
    let others = Status::NAMED.iter().map(|status| status.raw());
    for status in others
        .chain(unnamed)
        .filter(|status| !rows.contains(status))
    {
        metrics.record(CORE, &finished(status)).unwrap();
        assert_eq!(moved(&metrics, CORE), BTreeMap::new(), "{status}");
    }
}

#[test]
fn error_flags_5_to_8_add_one_to_counters_36_to_39_and_the_others_nothing() {
    for index in 0..9 {
        let metrics = Metrics::new(1);
        let finished = Finished {
            flags: ErrorFlags::NONE.with(flag(index)),
            ..finished(999)
        };
        metrics.record(CORE, &finished).unwrap();
        metrics.record(CORE, &finished).unwrap();
        let expected: &[(u8, u64)] = match index {
            5 => &[(36, 2)],
            6 => &[(37, 2)],
            7 => &[(38, 2)],
            8 => &[(39, 2)],
            _ => &[],
        };
        let expected = expected.iter().copied().collect();
        assert_eq!(moved(&metrics, CORE), expected, "flag {index}");
    }
}

#[test]
fn each_latency_sets_its_counter_in_microseconds() {
    let finished = |value| Finished {
        device: micros(value),
        total: micros(value + 1),
        core: micros(value + 2),
        cc: micros(value + 3),
        ..finished(999)
    };
    let metrics = Metrics::new(1);
    for value in [100, 7_000, 50] {
        metrics.record(CORE, &finished(value)).unwrap();
        let expected = [
            (13, value),
            (14, value + 1),
            (15, value + 2),
            (21, value + 3),
        ];
        assert_eq!(moved(&metrics, CORE), BTreeMap::from(expected));
    }
}

#[test]
fn a_latency_that_is_not_known_stays_as_it_was() {
    let metrics = Metrics::new(1);
    let all = Finished {
        device: micros(1),
        total: micros(2),
        core: micros(3),
        cc: micros(4),
        ..finished(999)
    };
    metrics.record(CORE, &all).unwrap();
    let one = Finished {
        core: micros(30),
        ..finished(999)
    };
    metrics.record(CORE, &one).unwrap();
    let expected = BTreeMap::from([(13, 1), (14, 2), (15, 30), (21, 4)]);
    assert_eq!(moved(&metrics, CORE), expected);
}

#[test]
fn w8_latencies_are_rounded_up_and_saturate() {
    let metrics = Metrics::new(1);
    let most = Duration::from_micros(u64::MAX);
    let table = [
        (Duration::ZERO, 0),
        (Duration::from_nanos(1), 1),
        (Duration::from_nanos(1_000), 1),
        (Duration::from_nanos(1_001), 2),
        (most, u64::MAX),
        (most + Duration::from_nanos(1), u64::MAX),
        (Duration::MAX, u64::MAX),
    ];
    for (time, expected) in table {
        let finished = Finished {
            total: Some(time),
            ..Finished::default()
        };
        metrics.record(CORE, &finished).unwrap();
        let value = metrics.counter(CORE, CoreCounter::LATENCY_TOTAL);
        assert_eq!(value, Ok(expected), "{time:?}");
    }
}

#[test]
fn every_core_has_counters_of_its_own() {
    let metrics = Metrics::new(256);
    for core in 0..256 {
        for _ in 0..=core {
            metrics.record(TpbIndex::new(core), &finished(0)).unwrap();
        }
        let flags = Finished {
            flags: [flag(8)].into_iter().collect(),
            device: micros(u64::from(core) + 1_000),
            ..finished(999)
        };
        metrics.record(TpbIndex::new(core), &flags).unwrap();
    }
    for core in 0..256 {
        let value = u64::from(core);
        let expected = BTreeMap::from([(1, value + 1), (13, value + 1_000), (39, 1)]);
        assert_eq!(moved(&metrics, TpbIndex::new(core)), expected, "{core}");
    }
}

#[test]
fn d4_a_core_that_does_not_exist_is_refused_by_name_and_nothing_is_counted() {
    for cores in [0, 1, 15, 16, 17, 256] {
        let metrics = Metrics::new(cores);
        let empty = metrics.datastore_bytes();
        for core in [cores, cores + 1, u16::MAX] {
            let tpb = TpbIndex::new(core);
            let refused = NoSuchCore { tpb, cores };
            assert_eq!(metrics.record(tpb, &finished(0)), Err(refused));
            assert_eq!(metrics.counter(tpb, CoreCounter::OOB), Err(refused));
            let snapshot = metrics.snapshot();
            assert_eq!(snapshot.counter(tpb, CoreCounter::OOB), Err(refused));
        }
        assert_eq!(metrics.datastore_bytes(), empty);
    }
}

/// Counter `k` of core `c` gets a value of its own; the driver finds each where it looks for it, and nothing elsewhere.
#[test]
fn the_datastore_has_signature_version_and_each_counter_at_its_place() {
    let metrics = Metrics::new(20);
    let mut expected = vec![0u8; 67_200];
    expected[..8].copy_from_slice(&[b'n', b'd', b's', 0, 1, 0, 0, 0]);
    for core in 0..20u16 {
        let times = |base: u64| micros(base + u64::from(core) * 10);
        let finished = Finished {
            flags: (5..9).map(flag).collect(),
            device: times(1_000),
            total: times(2_000),
            core: times(3_000),
            cc: times(4_000),
            ..finished(1202)
        };
        metrics.record(TpbIndex::new(core), &finished).unwrap();
        let values = [
            (33, 1),
            (36, 1),
            (37, 1),
            (38, 1),
            (39, 1),
            (13, 1_000 + u64::from(core) * 10),
            (14, 2_000 + u64::from(core) * 10),
            (15, 3_000 + u64::from(core) * 10),
            (21, 4_000 + u64::from(core) * 10),
        ];
        for (k, value) in values.into_iter().filter(|_| core < 16) {
            let at = place(usize::from(core), k);
            expected[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
        }
    }
    let bytes = metrics.datastore_bytes();
    let wrong = (0..67_200).find(|at| bytes.get(*at) != expected.get(*at));
    assert_eq!((bytes.len(), wrong), (67_200, None));
}

#[test]
fn the_words_of_the_datastore_leave_the_legacy_area_alone_and_come_once_each() {
    let metrics = Metrics::new(2);
    let mut expected: Vec<usize> = vec![0];
    expected.extend((0..31).map(|k| 8 + 8 * k));
    expected.extend((0..16).flat_map(|c| (0..95).map(move |k| place(c, k))));
    let mut offsets: Vec<usize> = metrics
        .datastore_words()
        .map(|(offset, _)| offset as usize)
        .collect();
    for list in [&mut offsets, &mut expected] {
        list.sort_unstable();
    }
    assert_eq!(offsets, expected);
    offsets.dedup();
    assert_eq!(offsets.len(), expected.len());
    assert!(!offsets.iter().any(|at| (1_248..55_936).contains(at)));
}

#[test]
fn a_snapshot_is_what_was_counted_and_does_not_change() {
    let metrics = Metrics::new(18);
    for core in 0..18 {
        metrics.record(TpbIndex::new(core), &finished(5)).unwrap();
    }
    let snapshot = metrics.snapshot();
    assert_eq!((snapshot.cores(), metrics.cores()), (18, 18));
    metrics.record(CORE, &finished(5)).unwrap();
    for core in 0..18 {
        let value = snapshot.counter(TpbIndex::new(core), CoreCounter::INFER_TIMED_OUT);
        assert_eq!(value, Ok(1), "{core}");
    }
    assert_ne!(metrics.snapshot(), snapshot);
    assert!(format!("{snapshot:?}").contains("INFER_TIMED_OUT 4"));
}

/// The halves of each value are the same: a torn one is seen.
#[test]
fn d2_readers_see_no_torn_value_and_sums_never_go_back() {
    const ROUNDS: u64 = 20_000;
    let metrics = Metrics::new(17);
    // One core that the datastore has, one that it has not.
    let cores = [0, 16].map(TpbIndex::new);
    let patterns = [0x1111_1111_1111_1111, 0xEEEE_EEEE_EEEE_EEEE];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let mut before = [0; 2];
            while !done.load(Ordering::Acquire) {
                for (tpb, before) in cores.into_iter().zip(&mut before) {
                    let time = metrics.counter(tpb, CoreCounter::CC_TIME).unwrap();
                    assert!(time == 0 || patterns.contains(&time), "{time:#x}");
                    let count = metrics.counter(tpb, CoreCounter::INFER_COMPLETED).unwrap();
                    assert!(*before <= count && count <= ROUNDS);
                    *before = count;
                }
            }
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for round in 0..ROUNDS {
            let finished = Finished {
                // CAST: 0 or 1.
                cc: micros(patterns[(round % 2) as usize]),
                ..finished(0)
            };
            for tpb in cores {
                metrics.record(tpb, &finished).unwrap();
            }
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    for tpb in cores {
        let count = metrics.counter(tpb, CoreCounter::INFER_COMPLETED);
        assert_eq!(count, Ok(ROUNDS));
    }
}

/// A submitter may count what was refused while the worker counts what has finished.
#[test]
fn two_threads_that_count_on_one_core_lose_nothing() {
    const EACH: u64 = 200_000;
    let metrics = Metrics::new(1);
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..EACH {
                    metrics.record(CORE, &finished(7)).unwrap();
                }
            });
        }
    });
    assert_eq!(moved(&metrics, CORE), BTreeMap::from([(6, 2 * EACH)]));
}

/// The counters of a core as the specification's tables have them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Oracle(BTreeMap<(u16, u8), u64>);

impl Oracle {
    fn record(&mut self, core: u16, record: &Record) {
        for (status, ordinal, _) in STATUS_ROWS {
            if record.status == status {
                *self.0.entry((core, ordinal)).or_default() += 1;
            }
        }
        for index in 5..9u8 {
            if record.flags[usize::from(index)] {
                *self.0.entry((core, index + 31)).or_default() += 1;
            }
        }
        for (ordinal, time) in [13, 14, 15, 21].into_iter().zip(record.micros) {
            if let Some(value) = time {
                self.0.insert((core, ordinal), value);
            }
        }
    }
}

/// One finished execution in plain numbers.
#[derive(Clone, Debug)]
struct Record {
    status: i32,
    flags: [bool; 9],
    micros: [Option<u64>; 4],
}

impl Record {
    fn finished(&self) -> Finished {
        let raised = (0..9).filter(|index| self.flags[usize::from(*index)]);
        let [device, total, core, cc] = self.micros.map(|time| time.map(Duration::from_micros));
        Finished {
            status: Status::from_raw(self.status),
            flags: raised.map(flag).collect(),
            device,
            total,
            core,
            cc,
        }
    }
}

fn records() -> impl Strategy<Value = Record> {
    let rows: Vec<i32> = STATUS_ROWS.iter().map(|(status, ..)| *status).collect();
    let status = prop_oneof![4 => prop::sample::select(rows), 1 => any::<i32>(), 1 => 0..1_210];
    (status, any::<[bool; 9]>(), any::<[Option<u64>; 4]>()).prop_map(|(status, flags, micros)| {
        Record {
            status,
            flags,
            micros,
        }
    })
}

/// The border of the datastore, and far beyond it.
fn cores() -> impl Strategy<Value = u16> {
    prop_oneof![0..20u16, 250..256u16]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn counters_are_those_of_the_oracle(history in prop::collection::vec((cores(), records()), 0..100)) {
        let metrics = Metrics::new(256);
        let mut oracle = Oracle::default();
        for (core, record) in &history {
            metrics.record(TpbIndex::new(*core), &record.finished()).unwrap();
            oracle.record(*core, record);
        }
        let snapshot = metrics.snapshot();
        let bytes = metrics.datastore_bytes();
        for core in 0..256 {
            for ordinal in 0..COUNTERS {
                let expected = oracle.0.get(&(core, ordinal)).copied().unwrap_or(0);
                let tpb = TpbIndex::new(core);
                prop_assert_eq!(metrics.counter(tpb, counter(ordinal)), Ok(expected));
                prop_assert_eq!(snapshot.counter(tpb, counter(ordinal)), Ok(expected));
                if core < 16 {
                    let at = place(usize::from(core), usize::from(ordinal));
                    prop_assert_eq!(u64_at(&bytes, at), expected);
                }
            }
        }
    }
}
