//! Random records end an execution at most once and never panic; a correct execution ends well however its records
//! are spread over sweeps.

use crate::support::{Bench, FIRST, LIMIT, SECOND, STAGED, TICK, end, start};
use proptest::prelude::*;
use xu_abi::device::ERROR_NQ;
use xu_abi::{Engine, Status, StatusRecord};
use xu_device::harvest::Progress;
use xu_device::map;
use zerocopy::little_endian::{U16, U64};

#[derive(Clone, Debug)]
enum Op {
    /// Any bytes on a status ring.
    Noise(usize, usize, [u8; 16]),
    /// A record that is nearly sound.
    Record(usize, usize, StatusRecord),
    /// Any bytes on an error ring.
    Error(usize, [u8; 16]),
    Latch(usize),
    Barrier(usize, i32),
    Step(u64),
    Begin(bool),
}

fn any_record() -> impl Strategy<Value = StatusRecord> {
    (
        prop_oneof![8 => Just(2u16), 8 => Just(3u16), 2 => 6u16..9, 1 => any::<u16>()],
        prop_oneof![8 => 0u16..11, 1 => any::<u16>()],
        prop_oneof![20 => Just(0u8), 1 => any::<u8>()],
        any::<u64>(),
    )
        .prop_map(|(subtype, sub_id, hint, at)| StatusRecord {
            subtype: U16::new(subtype),
            custom_sub_id: U16::new(sub_id),
            hint_and_line_hi: hint,
            device_ts: U64::new(at),
            ..StatusRecord::default()
        })
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (0usize..2, 0usize..5, any::<[u8; 16]>()).prop_map(|(tpb, engine, bytes)| Op::Noise(tpb, engine, bytes)),
        12 => (0usize..2, 0usize..5, any_record()).prop_map(|(tpb, engine, record)| Op::Record(tpb, engine, record)),
        1 => (0usize..2, any::<[u8; 16]>()).prop_map(|(tpb, bytes)| Op::Error(tpb, bytes)),
        1 => (0usize..2).prop_map(Op::Latch),
        1 => (0usize..2, -1i32..2).prop_map(|(tpb, value)| Op::Barrier(tpb, value)),
        6 => (0u64..1_000_000_000).prop_map(Op::Step),
        2 => any::<bool>().prop_map(Op::Begin),
    ]
}

/// The records of a correct execution, in an order that a device may post them in: per engine START, then END.
fn interleaving() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let queues: Vec<(usize, usize)> = (0..2)
        .flat_map(|tpb| (0..5).flat_map(move |engine| [(tpb, engine), (tpb, engine)]))
        .collect();
    Just(queues).prop_shuffle()
}

proptest! {
    // A case that fails is shrunk and belongs here as a named test, not in a file of seeds.
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn d4_random_records_never_panic_and_an_execution_ends_at_most_once(
        arch in 2u8..4,
        ops in prop::collection::vec(any_op(), 1..200),
    ) {
        let tpbs = [FIRST, SECOND];
        let mut bench = Bench::open(arch, &tpbs);
        let mut now = 0;
        let mut running = false;
        for op in ops {
            match op {
                Op::Noise(tpb, engine, bytes) => {
                    bench.scripted.post(tpbs[tpb], Engine::ALL[engine].status_nq(), bytes);
                }
                Op::Record(tpb, engine, record) => bench.post(tpbs[tpb], Engine::ALL[engine], record),
                Op::Error(tpb, bytes) => bench.scripted.post(tpbs[tpb], ERROR_NQ, bytes),
                Op::Latch(tpb) => bench.scripted.latch_overflow(tpbs[tpb]),
                Op::Barrier(tpb, value) => {
                    bench.scripted.set_semaphore(tpbs[tpb], map::COLLECTIVES_BARRIER, value);
                }
                Op::Step(ns) => {
                    now += ns;
                    match bench.harvester.step(now, &mut ()) {
                        Progress::Continue => {}
                        Progress::Done(report) => {
                            prop_assert!(running);
                            prop_assert!(report.ended_ns.is_some());
                            running = false;
                        }
                        Progress::Fatal(report, _) => {
                            prop_assert!(running);
                            prop_assert!(!report.status.is_success());
                            running = false;
                        }
                    }
                }
                Op::Begin(limited) => {
                    bench.harvester.begin(now, STAGED, limited.then_some(LIMIT));
                    running = true;
                }
            }
        }
    }

    #[test]
    fn d5_a_correct_execution_succeeds_however_its_records_are_spread_over_sweeps(
        executions in prop::collection::vec(interleaving(), 1..4),
        sweeps in prop::collection::vec(any::<bool>(), 60),
    ) {
        let tpbs = [FIRST, SECOND];
        let mut bench = Bench::open(2, &tpbs);
        let mut sweeps = sweeps.into_iter();
        for (round, order) in (1u64..).zip(&executions) {
            bench.harvester.begin(0, STAGED, Some(LIMIT));
            let mut started = [[false; 5]; 2];
            let (last, others) = order.split_last().unwrap();
            let mut post = |bench: &Bench, (tpb, engine): (usize, usize)| {
                let at = round * TICK;
                let record = if started[tpb][engine] { end(at + 5) } else { start(at) };
                started[tpb][engine] = true;
                bench.post(tpbs[tpb], Engine::ALL[engine], record);
            };
            for queue in others {
                post(&bench, *queue);
                if sweeps.next() == Some(true) {
                    prop_assert_eq!(bench.look(), Progress::Continue);
                }
            }
            post(&bench, *last);
            match bench.look() {
                Progress::Done(report) => prop_assert_eq!(report.status, Status::SUCCESS),
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert_eq!(bench.look(), Progress::Continue);
        }
        prop_assert_eq!(bench.scripted.probes(), 0);
    }
}
