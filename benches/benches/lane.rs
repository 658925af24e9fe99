//! What one request costs a caller of the facade, round trip: a write of 64 bytes, and an execution of the
//! digits model.

use criterion::{Criterion, criterion_group, criterion_main};
use nrta::{Model, PollPolicy, Runtime};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/model.xum");

fn round_trips(c: &mut Criterion) {
    for policy in [PollPolicy::Adaptive, PollPolicy::Busy] {
        let runtime = Runtime::builder()
            .poll_policy(policy)
            .open()
            .expect("opens");
        let core = runtime.core(0).expect("exists");
        let model = Model::open(MODEL).expect("is committed");
        let loaded = core.load(&model, 1).expect("fits");
        let input = loaded.allocate_input(0).expect("fits");
        let outputs = [0, 1].map(|index| loaded.allocate_output(index).expect("fits"));
        let (moves, compute) = (core.tensor_op(0).expect("exists"), core.compute());
        let mut buffer = Some(vec![0; 64]);
        c.bench_function(&format!("write 64 bytes, {policy:?}"), |b| {
            b.iter(|| {
                let bytes = buffer.take().expect("came back");
                let pending = moves.write(&input, 0, bytes).expect("room");
                buffer = Some(pending.wait().expect("succeeds"));
            });
        });
        let [scores, label] = &outputs;
        c.bench_function(&format!("execute digits, {policy:?}"), |b| {
            b.iter(|| {
                let pending = compute
                    .execute(&loaded, &[&input], &[scores, label])
                    .expect("room");
                pending.wait().expect("succeeds")
            });
        });
    }
}

criterion_group!(benches, round_trips);
criterion_main!(benches);
