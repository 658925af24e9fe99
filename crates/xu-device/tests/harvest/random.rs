//! Any bytes taken for a device; and a correct execution, which ends well however its records are spread over sweeps.

use crate::hostile;
use crate::support::{Bench, FIRST, LIMIT, SECOND, STAGED, TICK, end, start};
use proptest::prelude::*;
use xu_abi::{Engine, Status};
use xu_device::harvest::Progress;

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
    fn d4_whatever_a_device_says_an_execution_ends_at_most_once_and_never_well_without_every_end(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        hostile::any_device(&bytes);
    }

    #[test]
    fn d4_whatever_a_ring_and_its_tail_hold_one_record_inside_it_is_looked_at(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        hostile::any_ring(&bytes);
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
