//! In a steady state no request takes memory from the heap: not the caller's thread, not the runtime's.
//!
//! One test in a binary of its own: the whole process is counted, but for the threads of the simulated machine, which stand
//! for hardware.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod heap;

use futures::executor::block_on;
use heap::fewest_allocations;
use lane_tests::DIGITS;
use nrta::{Model, Runtime};
#[test]
fn c2_a_steady_state_allocates_nothing() {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let digits = core.load(&model, 1).unwrap();
    let image = digits.input::<u8>("image").unwrap();
    let (scores, label) = (
        digits.output::<f32>("scores").unwrap(),
        digits.output::<u32>("label").unwrap(),
    );
    let bound = digits.bind(&[&image], &[&scores, &label]).unwrap();
    let (moves, compute) = (core.tensor_op(0).unwrap(), core.compute());
    let (mut pixels, mut labels) = (vec![5u8; 64], vec![0u32; 1]);
    let mut round = |rounds: u32| {
        for round in 0..rounds {
            let buffer = std::mem::take(&mut pixels);
            pixels = moves.write_all(&image, buffer).unwrap().wait().unwrap();
            let run = compute.execute_bound(&bound).unwrap();
            if round % 2 == 0 {
                run.detach();
            } else {
                run.wait().unwrap();
            }
            // Several in flight, on a thread that polls and on one that sleeps.
            let buffer = std::mem::take(&mut labels);
            moves.memset(&scores, 0, 4, 0).unwrap().detach();
            labels = moves.read_all_into(&label, buffer).unwrap().wait().unwrap();
            // Reserved and prepared; several at once.
            let place = block_on(moves.reserve()).unwrap();
            let clear = moves.prepare().memset(&scores, 0, 4, 0).unwrap();
            place.schedule(clear).unwrap().wait().unwrap();
            let place = compute.reserve_until(None).unwrap();
            let run = compute.prepare(&bound).unwrap();
            block_on(place.schedule(run).unwrap()).unwrap();
            let mut batch = moves.batch();
            for value in 0..3 {
                let set = moves.prepare().memset(&scores, 0, 4, value).unwrap();
                batch.schedule(set).unwrap().detach();
            }
            let last = moves.prepare().memset(&scores, 0, 4, 3).unwrap();
            let last = batch.schedule(last).unwrap();
            batch.publish();
            last.wait().unwrap();
        }
        compute.wait(compute.last_issued(), None).unwrap();
    };
    // Whatever is taken once, is taken here: boxes, cells, room in vectors.
    round(2_000);
    let taken = fewest_allocations(|| round(1_000));
    assert_eq!(taken, 0, "allocations in 10,000 requests");
}
