//! A request allocates nothing, whatever memory it owns, and whether it is skipped or chained.
//!
//! One test in a binary of its own: allocations are counted per process.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod heap;

use bytes::{Bytes, BytesMut};
use heap::fewest_allocations;
use nrta::{HostBuffer, Runtime, Tensor, TensorOpQueue};
use std::sync::Arc;

const ROUNDS: u64 = 300;

/// Allocations of a process for so many rounds, after as many that do not count.
fn counted(mut round: impl FnMut()) -> u64 {
    let mut rounds = || (0..ROUNDS).for_each(|_| round());
    rounds();
    fewest_allocations(rounds)
}

struct Bench {
    moves: TensorOpQueue,
    other: TensorOpQueue,
    tensor: Tensor,
    runtime: Runtime,
}

#[test]
fn no_request_allocates() {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let bench = Bench {
        moves: core.tensor_op(0).unwrap(),
        other: core.tensor_op(1).unwrap(),
        tensor: core.allocate(64).unwrap(),
        runtime,
    };
    let (moves, tensor) = (&bench.moves, &bench.tensor);

    let mut vector = Some(vec![0; 64]);
    let of_vectors = counted(|| {
        let bytes = vector.take().unwrap();
        vector = Some(moves.write(tensor, 0, bytes).unwrap().wait().unwrap());
    });
    assert_eq!(of_vectors, 0);

    let numbers: Arc<[f32]> = Arc::from([0.0; 16]);
    let of_numbers = counted(|| {
        let numbers = Arc::clone(&numbers);
        let write = moves.write_elements(tensor, 0, numbers).unwrap();
        write.wait().unwrap();
    });
    let shared = Bytes::from_static(&[0; 64]);
    let of_bytes = counted(|| {
        let write = moves.write(tensor, 0, shared.clone()).unwrap();
        write.wait().unwrap();
    });
    let mut mutable = Some(BytesMut::zeroed(64));
    let of_reads = counted(|| {
        let into = mutable.take().unwrap();
        mutable = Some(moves.read(tensor, 0, into).unwrap().wait().unwrap());
    });
    assert_eq!((of_numbers, of_bytes, of_reads), (0, 0, 0));

    // From the pool and back to it, each time.
    let core = bench.runtime.core(0).unwrap();
    let of_host_buffers = counted(|| {
        let buffer: HostBuffer = core.host_buffer(64).unwrap();
        let buffer = moves.write_from(tensor, 0, buffer).unwrap().wait().unwrap();
        let buffer = moves.read_into(tensor, 0, buffer).unwrap();
        buffer.wait().unwrap();
    });
    assert_eq!(of_host_buffers, 0);

    let mut vector = Some(vec![0; 64]);
    let of_skips = counted(|| {
        let bytes = vector.take().unwrap();
        let write = moves.write(tensor, 0, bytes).unwrap();
        let _ = write.skip();
        vector = Some(match write.wait() {
            Ok(bytes) => bytes,
            Err(error) => error.value.unwrap(),
        });
    });
    let mut vector = Some(vec![0; 64]);
    let of_chains = counted(|| {
        let write = moves.write(tensor, 0, vector.take().unwrap()).unwrap();
        let chain = write.then(|bytes| bench.other.read(tensor, 0, bytes));
        vector = Some(chain.wait().unwrap());
    });
    assert_eq!((of_skips, of_chains), (0, 0));
}
