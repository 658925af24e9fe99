//! Arm and fire at the seam: every call of an execution, in order, and what happens when one of them fails.

use crate::scripted::{CANARY, Call};
use crate::support::{Bench, Copy, DESCRIPTORS, FIRST, SECOND, TENSORS, at};
use std::sync::Arc;
use xu_abi::{DeviceAddr, RequestBuffer, TpbIndex};
use xu_device::program::Program;
use xu_device::stage::SkipConfig;
use xu_device::{DeviceError, map};

/// Writes of one core's arming: two bindings, body, trailer, four pairs.
const WRITES: usize = 12;

/// Where the writes of one core's arming go, and how many bytes each brings.
fn expected_writes(
    bench: &Bench,
    tpb: TpbIndex,
    program: &Program,
    slot: u32,
    pair: u64,
) -> Vec<(DeviceAddr, usize)> {
    let table = bench.table(program, slot);
    let request = program.request(slot);
    let mut writes = vec![
        (table, 8),
        (at(table, 8), 8),
        (request, 52),
        (at(request, RequestBuffer::TRAILER_OFFSET), 4),
    ];
    let (tx, rx) = bench.scripted.dma_rings(map::model_exec_queue(tpb));
    for index in pair..pair + 4 {
        // A source without a destination is never seen.
        writes.push((at(rx, index % DESCRIPTORS * 16), 16));
        writes.push((at(tx, index % DESCRIPTORS * 16), 16));
    }
    writes
}

fn writes(log: &[Call]) -> Vec<(DeviceAddr, usize)> {
    log.iter()
        .map(|call| match call {
            Call::Write(to, bytes) => (*to, bytes.len()),
            other => panic!("not a write: {other:?}"),
        })
        .collect()
}

#[test]
fn d2_bindings_body_trailer_descriptors_and_one_doorbell_are_written_in_this_order_and_nothing_else()
 {
    let mut bench = Bench::open(&[FIRST], SkipConfig::Never);
    let program = bench.program(FIRST, 3, 1, 1);
    let programs = [program];
    for execution in 0..20u32 {
        bench.execute(&programs).unwrap();
        let log = bench.scripted.log();
        let (doorbell, arming) = log.split_last().unwrap();
        assert_eq!(*doorbell, Call::Increment(FIRST, map::INFERENCE_START));
        let pair = u64::from(execution) * 4;
        let expected = expected_writes(&bench, FIRST, &programs[0], execution % 3, pair);
        assert_eq!(writes(arming), expected, "execution {execution}");
    }
}

#[test]
fn d2_the_request_copy_comes_first_and_the_two_tail_increments_last() {
    for tpb in [FIRST, SECOND] {
        let mut bench = Bench::open(&[tpb], SkipConfig::Never);
        let program = bench.program(tpb, 1, 1, 1);
        let programs = [program];
        bench.execute(&programs).unwrap();
        let pairs: Vec<Copy> = (0..4).map(|index| bench.pair(tpb, index).0).collect();
        let (event, increment) = (pairs[1].from, pairs[2].from);
        let copy = |from, to, len| Copy { from, to, len };
        let expected = [
            copy(
                programs[0].request(0),
                map::AddressMap::Simulated.sequencer_memory(tpb),
                52,
            ),
            copy(
                event,
                map::AddressMap::Simulated.event_register(tpb, map::REQUEST_LOADED),
                4,
            ),
            copy(
                increment,
                map::AddressMap::Simulated.tx_tail_increment(tpb),
                4,
            ),
            copy(
                increment,
                map::AddressMap::Simulated.rx_tail_increment(tpb),
                4,
            ),
        ];
        assert_eq!(pairs, expected);
        // The poke sets the event; the increment publishes the four pairs.
        assert_eq!(bench.scripted.peek(event, 4), [1, 0, 0, 0]);
        assert_eq!(bench.scripted.peek(increment, 4), [4, 0, 0, 0]);
    }
}

#[test]
fn d2_body_and_trailer_are_whole_and_nothing_behind_them_is_touched() {
    let mut bench = Bench::open(&[FIRST], SkipConfig::Never);
    let program = bench.program(FIRST, 2, 1, 1);
    bench.execute(std::slice::from_ref(&program)).unwrap();
    let buffer = bench.scripted.peek(program.request(0), 64);
    // Every field of the request is staged, so that no word of it is a canary.
    for word in buffer[..56].chunks(4) {
        assert_ne!(word, [CANARY; 4]);
    }
    assert_eq!(buffer[52..56], [0; 4]);
    assert_eq!(buffer[56..], [CANARY; 8]);
    let table = bench.scripted.peek(bench.table(&program, 0), 16);
    let tensors: Vec<u8> = TENSORS
        .iter()
        .flat_map(|tensor| tensor.get().to_le_bytes())
        .collect();
    assert_eq!(table, tensors);
}

#[test]
fn d8_all_cores_are_armed_before_the_first_doorbell_rings() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 2, 1, 1));
    for execution in 0..10u32 {
        bench.execute(&programs).unwrap();
        let log = bench.scripted.log();
        let (arming, fire) = log.split_at(2 * WRITES);
        let (slot, pair) = (execution % 2, u64::from(execution) * 4);
        let mut expected = expected_writes(&bench, FIRST, &programs[0], slot, pair);
        expected.extend(expected_writes(&bench, SECOND, &programs[1], slot, pair));
        assert_eq!(writes(arming), expected);
        let rung = [FIRST, SECOND].map(|tpb| Call::Increment(tpb, map::INFERENCE_START));
        assert_eq!(fire, rung);
    }
}

#[test]
fn d8_preparing_touches_neither_the_device_nor_the_next_execution() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::WhenEqual);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 2, 1, 1));
    for _ in 0..5 {
        bench.stager.prepare(&programs, &TENSORS).unwrap();
    }
    assert_eq!(bench.scripted.log(), []);
    // What was abandoned took no slot and left nothing loaded.
    assert_eq!(bench.execute(&programs), Ok(0));
    for (tpb, program) in [FIRST, SECOND].into_iter().zip(&programs) {
        assert_eq!(bench.pair(tpb, 0).0.from, program.request(0));
        let request = bench.request(program, 0);
        assert_eq!(request.do_model_switch.get(), 1);
        assert_eq!(request.reload_seq_config.get(), 1);
    }
}

#[test]
fn d8_what_was_prepared_for_something_else_is_refused_and_nothing_is_written() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
    let [ours, others] =
        [1, 2].map(|config| [FIRST, SECOND].map(|tpb| bench.program(tpb, 3, config, 1)));
    let prepared = bench.stager.prepare(&ours, &TENSORS).unwrap();
    let mixed = [Arc::clone(&ours[0]), Arc::clone(&others[1])];
    let refused = |bench: &mut Bench, programs: &[_], tensors: &[_]| {
        let refused = bench.stager.commit(programs, tensors, &prepared).err();
        assert!(
            matches!(refused, Some(DeviceError::BadArgument { .. })),
            "{refused:?}"
        );
        assert_eq!(bench.scripted.log(), []);
    };
    // A core that is left out is not fired; nor does a core run what another was prepared for.
    refused(&mut bench, &ours[..1], &TENSORS);
    refused(&mut bench, &[], &TENSORS);
    refused(&mut bench, &others, &TENSORS);
    refused(&mut bench, &mixed, &TENSORS);
    refused(&mut bench, &ours, &TENSORS[..1]);
    // Another execution has taken the slot.
    assert_eq!(bench.execute(&ours), Ok(0));
    bench.scripted.forget();
    refused(&mut bench, &ours, &TENSORS);
    assert_eq!(bench.execute(&ours), Ok(1));
}

#[test]
fn d8_whichever_write_of_whichever_core_fails_no_doorbell_rings() {
    for failing in 0..2 * WRITES {
        let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
        let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 2, 1, 1));
        let mut count = 0;
        bench.scripted.fail(move |call| {
            let write = matches!(call, Call::Write(..));
            let fails = write && count == failing;
            count += usize::from(write);
            fails.then_some(DeviceError::Lost)
        });
        assert_eq!(bench.execute(&programs), Err(DeviceError::Lost));
        assert_eq!(bench.doorbells(), [], "write {failing}");
        // Nothing follows the write that failed.
        assert_eq!(bench.scripted.log().len(), failing + 1);
    }
}

#[test]
fn d8_after_a_doorbell_that_fails_nothing_is_staged_any_more() {
    for failing in [FIRST, SECOND] {
        let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
        let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 2, 1, 1));
        bench.scripted.fail(move |call| {
            (*call == Call::Increment(failing, map::INFERENCE_START)).then_some(DeviceError::Lost)
        });
        assert_eq!(bench.execute(&programs), Err(DeviceError::Lost));
        assert_eq!(bench.doorbells().last(), Some(&failing));
        bench.scripted.fail(|_| None);
        let ended = DeviceError::Failed { what: "stager" };
        assert_eq!(bench.execute(&programs), Err(ended));
        assert_eq!(bench.scripted.log(), []);
    }
}

#[test]
fn d8_a_preparation_that_was_overtaken_by_another_model_is_refused_and_nothing_is_written() {
    let mut bench = Bench::open(&[FIRST], SkipConfig::WhenEqual);
    let (a, b) = (
        [bench.program(FIRST, 4, 1, 1)],
        [bench.program(FIRST, 4, 2, 2)],
    );
    bench.execute(&a).unwrap();
    let early = bench.stager.prepare(&a, &TENSORS).unwrap();
    bench.execute(&b).unwrap();
    bench.scripted.forget();
    let refused = bench.stager.commit(&a, &TENSORS, &early);
    assert!(
        matches!(refused, Err(DeviceError::BadArgument { .. })),
        "{refused:?}"
    );
    // Also when only what is loaded has become unknown.
    let early = bench.stager.prepare(&a, &TENSORS).unwrap();
    bench.stager.forget_loaded();
    let refused = bench.stager.commit(&a, &TENSORS, &early);
    assert!(
        matches!(refused, Err(DeviceError::BadArgument { .. })),
        "{refused:?}"
    );
    assert_eq!(bench.scripted.log(), []);
}

#[test]
fn d8_a_preparation_of_another_stager_is_refused_and_no_doorbell_rings() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 2, 1, 1));
    let one = Bench::open(&[FIRST], SkipConfig::Never);
    let foreign = one.stager.prepare(&programs[..1], &TENSORS).unwrap();
    bench.scripted.forget();
    let refused = bench.stager.commit(&programs, &TENSORS, &foreign);
    assert!(
        matches!(refused, Err(DeviceError::BadArgument { .. })),
        "{refused:?}"
    );
    assert_eq!(bench.scripted.log(), []);
}
