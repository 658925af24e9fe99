//! What one request costs the ring on one thread: submit, trigger, peek, pop.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use xu_abi::{XuId, XuType};

fn one_thread(c: &mut Criterion) {
    let xu = XuId::new(XuType::Compute, 0, 0).expect("exists");
    let (mut submitter, mut worker, _observer) = xu_ring::ring::<u64>(xu, 64).expect("memory");
    let mut item = Some(Box::new(0));
    c.bench_function("submit, trigger, take, pop", |b| {
        b.iter(|| {
            let boxed = item.take().expect("came back");
            submitter.submit(boxed).expect("room");
            submitter.trigger_next().expect("one held back");
            item = worker.take().expect("visible");
            let _ = black_box(worker.pop().expect("visible"));
        });
    });
}

criterion_group!(benches, one_thread);
criterion_main!(benches);
