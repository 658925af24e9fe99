//! What one request costs the ring on one thread, submit, trigger, take and pop; and what one item costs our queue
//! and its peers, push and pop.

use criterion::{Criterion, criterion_group, criterion_main};
use ringbuf::traits::{Consumer as _, Producer as _, Split as _};
use std::hint::black_box;
use xu_abi::{XuId, XuType};

const CAPACITY: usize = 64;

fn request(c: &mut Criterion) {
    let xu = XuId::new(XuType::Compute, 0, 0).expect("exists");
    let (mut submitter, mut worker, _observer) =
        xu_ring::queue::ring::<u64>(xu, 64).expect("memory");
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

fn item(c: &mut Criterion) {
    let mut group = c.benchmark_group("push, pop, 32 bytes");
    let value = [1_u64, 2, 3, 4];
    let (mut producer, mut consumer) = xu_ring::spsc::channel(CAPACITY).expect("memory");
    group.bench_function("xu_ring::spsc", |b| {
        b.iter(|| {
            let _ = producer.push(black_box(value));
            consumer.pop()
        });
    });
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
    group.bench_function("rtrb", |b| {
        b.iter(|| {
            let _ = producer.push(black_box(value));
            consumer.pop().ok()
        });
    });
    let (mut producer, mut consumer) = ringbuf::HeapRb::new(CAPACITY).split();
    group.bench_function("ringbuf", |b| {
        b.iter(|| {
            let _ = producer.try_push(black_box(value));
            consumer.try_pop()
        });
    });
    group.finish();
}

criterion_group!(benches, request, item);
criterion_main!(benches);
