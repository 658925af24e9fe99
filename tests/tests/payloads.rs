//! What a request owns: memory of every kind goes in, and the very same comes out.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use bytes::{Bytes, BytesMut};
use lane_tests::{Meddler, Parts, Rig};
use nrta::simulated::{Fault, Rule, When};
use nrta::{
    Core, Device, Element, Error, HostBuffer, HostBufferError, Runtime, ScheduleError, Status,
    Tensor, TensorOpQueue, bf16, f16,
};
use std::sync::Arc;
use std::time::Duration;
use xu_device::Place;

lane_tests::on_both! {
    f1_numbers_of_every_type_are_shared_and_come_back_themselves,
    f1_bytes_of_every_owner_are_written_and_come_back_themselves,
    f1_bytes_are_read_into_what_was_given,
    f1_a_refused_request_gives_its_memory_back,
    a_host_buffer_is_filled_and_read_inside_its_bounds_only,
    a_host_buffer_moves_without_a_copy_by_the_host,
    a_part_of_a_tensor_is_moved_by_the_length_of_the_buffer,
    dropped_buffers_are_used_again_by_size,
    a_pool_keeps_no_more_than_it_says,
    what_is_free_makes_room_for_another_size,
    f7_a_closed_runtime_keeps_no_host_memory,
    f7_a_buffer_of_another_runtime_is_refused with Parts::two_devices(),
    f1_memory_of_a_queue_that_aborts_comes_back_with_the_end_of_the_runtime with first_transfer(Fault::TransferAborts),
    f1_dropping_everything_gives_all_memory_back,
}

// Behind the driver a core that does not come to rest is reset before its memory is given back, and then opens again.
lane_tests::on_simulated! {
    f1_memory_of_a_queue_that_hangs_does_not_come_back with first_transfer(Fault::TransferHangs),
}

/// A queue, and a tensor to move to and from.
struct Bench {
    moves: TensorOpQueue,
    tensor: Tensor,
    core: Core,
    runtime: Runtime,
}

impl Bench {
    fn of(runtime: Runtime, bytes: u64) -> Self {
        let core = runtime.core(0).unwrap();
        Self {
            moves: core.tensor_op(0).unwrap(),
            tensor: core.allocate(bytes).unwrap(),
            core,
            runtime,
        }
    }

    fn new(rig: &Rig, bytes: u64) -> Self {
        Self::of(rig.builder().open().unwrap(), bytes)
    }

    fn meddled(rig: &Rig, bytes: u64) -> (Arc<Meddler>, Self) {
        let device = rig.meddler();
        let builder = Runtime::builder()
            .device(Arc::clone(&device) as Arc<dyn Device>)
            .exec_timeout(Some(Duration::from_millis(20)));
        (device, Self::of(builder.open().unwrap(), bytes))
    }

    fn content(&self) -> Vec<u8> {
        let bytes = usize::try_from(self.tensor.bytes()).unwrap();
        self.moves
            .read(&self.tensor, 0, vec![0; bytes])
            .unwrap()
            .wait()
            .unwrap()
    }

    /// A buffer that begins with `bytes`, and is as long.
    fn filled(&self, bytes: &[u8]) -> HostBuffer {
        let mut buffer = self.core.host_buffer(bytes.len() as u64).unwrap();
        buffer.copy_from_slice(0, bytes).unwrap();
        buffer
    }
}

fn f1_bytes_of_every_owner_are_written_and_come_back_themselves(rig: &Rig) {
    let bench = Bench::new(rig, 4);
    let write = |bytes: &[u8]| assert_eq!(bench.content(), bytes);

    let (moves, tensor) = (&bench.moves, &bench.tensor);
    let vector = vec![1, 2, 3, 4];
    let at = vector.as_ptr();
    let vector = moves.write(tensor, 0, vector).unwrap().wait().unwrap();
    assert_eq!(vector.as_ptr(), at);
    write(&[1, 2, 3, 4]);

    let boxed: Box<[u8]> = Box::from([5, 6, 7, 8]);
    let at = boxed.as_ptr();
    let boxed = moves.write(tensor, 0, boxed).unwrap().wait().unwrap();
    assert_eq!(boxed.as_ptr(), at);
    write(&[5, 6, 7, 8]);

    let shared: Arc<[u8]> = Arc::from([9, 10, 11, 12]);
    let back = moves.write(tensor, 0, Arc::clone(&shared)).unwrap();
    assert!(Arc::ptr_eq(&back.wait().unwrap(), &shared));
    write(&[9, 10, 11, 12]);

    let constant: &'static [u8] = &[13, 14, 15, 16];
    let back = moves.write(tensor, 0, constant).unwrap().wait().unwrap();
    assert_eq!(back.as_ptr(), constant.as_ptr());
    write(&[13, 14, 15, 16]);

    let bytes = Bytes::copy_from_slice(&[17, 18, 19, 20]);
    let at = bytes.as_ptr();
    let bytes = moves.write(tensor, 0, bytes).unwrap().wait().unwrap();
    assert_eq!(bytes.as_ptr(), at);
    write(&[17, 18, 19, 20]);

    let mutable = BytesMut::from(&[21, 22, 23, 24][..]);
    moves.write(tensor, 0, mutable).unwrap().wait().unwrap();
    write(&[21, 22, 23, 24]);
}

fn f1_bytes_are_read_into_what_was_given(rig: &Rig) {
    let bench = Bench::new(rig, 6);
    let (moves, tensor) = (&bench.moves, &bench.tensor);
    moves.write(tensor, 0, &b"abcdef"[..]).unwrap().detach();

    let boxed: Box<[u8]> = Box::from([0; 3]);
    let at = boxed.as_ptr();
    let boxed = moves.read(tensor, 1, boxed).unwrap().wait().unwrap();
    assert_eq!((&*boxed, boxed.as_ptr()), (&b"bcd"[..], at));

    // As many bytes as it is long, not as it has room for.
    let mut bytes = BytesMut::with_capacity(64);
    bytes.resize(4, 0);
    let at = bytes.as_ptr();
    let bytes = moves.read(tensor, 2, bytes).unwrap().wait().unwrap();
    assert_eq!((&bytes[..], bytes.as_ptr()), (&b"cdef"[..], at));
    assert_eq!(bytes.freeze(), Bytes::from_static(b"cdef"));
}

/// Numbers go in by every owner, and come out by those that can be read into.
fn check_elements<T: Element + PartialEq + std::fmt::Debug>(
    rig: &Rig,
    numbers: &'static [T],
    zero: T,
    bytes: &[u8],
) {
    let bench = Bench::new(rig, bytes.len() as u64);
    let (moves, tensor) = (&bench.moves, &bench.tensor);
    let clear = || {
        let zeroes = vec![0; bytes.len()];
        moves.write(tensor, 0, zeroes).unwrap().detach();
    };
    let check = || assert_eq!(bench.content(), bytes, "{:?}", T::DTYPE);

    let vector = moves.write_elements(tensor, 0, numbers.to_vec()).unwrap();
    assert_eq!(vector.wait().unwrap(), numbers);
    check();
    clear();
    let boxed: Box<[T]> = Box::from(numbers);
    let boxed = moves.write_elements(tensor, 0, boxed).unwrap();
    assert_eq!(&*boxed.wait().unwrap(), numbers);
    check();
    clear();
    let shared: Arc<[T]> = Arc::from(numbers);
    let back = moves
        .write_elements(tensor, 0, Arc::clone(&shared))
        .unwrap();
    assert!(Arc::ptr_eq(&back.wait().unwrap(), &shared));
    check();
    clear();
    let back = moves.write_elements(tensor, 0, numbers).unwrap();
    assert_eq!(back.wait().unwrap().as_ptr(), numbers.as_ptr());
    check();

    let into: Box<[T]> = vec![zero; numbers.len()].into();
    let read = moves.read_elements(tensor, 0, into).unwrap();
    assert_eq!(&*read.wait().unwrap(), numbers);
    // The second alone: elements are counted, not bytes.
    let read = moves.read_elements(tensor, 1, vec![zero]).unwrap();
    assert_eq!(read.wait().unwrap(), numbers[1..2]);
}

fn f1_numbers_of_every_type_are_shared_and_come_back_themselves(rig: &Rig) {
    check_elements::<u8>(rig, &[1, 0xFE], 0, &[1, 0xFE]);
    check_elements::<i8>(rig, &[1, -2], 0, &[1, 0xFE]);
    check_elements::<u16>(rig, &[1, 0xFEDC], 0, &[1, 0, 0xDC, 0xFE]);
    check_elements::<i16>(rig, &[1, -2], 0, &[1, 0, 0xFE, 0xFF]);
    check_elements::<u32>(rig, &[1, 2], 0, &[1, 0, 0, 0, 2, 0, 0, 0]);
    check_elements::<i32>(rig, &[1, -1], 0, &[1, 0, 0, 0, 255, 255, 255, 255]);
    let eight = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    check_elements::<u64>(rig, &[1, 2], 0, &eight);
    check_elements::<i64>(rig, &[1, 2], 0, &eight);
    check_elements::<f32>(rig, &[1.0, -2.0], 0.0, &[0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]);
    check_elements::<f16>(
        rig,
        &[f16::ONE, f16::NEG_ONE],
        f16::ZERO,
        &[0, 0x3C, 0, 0xBC],
    );
    let halves = &[bf16::ONE, bf16::NEG_ONE];
    check_elements::<bf16>(rig, halves, bf16::ZERO, &[0x80, 0x3F, 0x80, 0xBF]);
}

fn f1_a_refused_request_gives_its_memory_back(rig: &Rig) {
    let bench = Bench::new(rig, 4);
    let shared: Arc<[f32]> = Arc::from([0.0; 4]);
    let refused = bench
        .moves
        .write_elements(&bench.tensor, 0, Arc::clone(&shared))
        .unwrap_err();
    assert!(Arc::ptr_eq(&refused.args.unwrap(), &shared));

    let buffer = bench.filled(b"12345");
    let refused = bench
        .moves
        .write_from(&bench.tensor, 0, buffer)
        .unwrap_err();
    assert!(matches!(
        refused.reason,
        ScheduleError::OutOfRange {
            offset: 0,
            bytes: 5,
            size: 4
        }
    ));
    assert_eq!(refused.args.unwrap().bytes(), 5);
}

fn a_host_buffer_is_filled_and_read_inside_its_bounds_only(rig: &Rig) {
    let bench = Bench::new(rig, 4);
    let mut buffer = bench.core.host_buffer(10_000).unwrap();
    assert_eq!((buffer.bytes(), buffer.capacity()), (10_000, 16_384));
    buffer.fill(7).unwrap();
    buffer.copy_from_slice(9_998, &[1, 2]).unwrap();
    let mut back = [0; 4];
    buffer.copy_to_slice(9_996, &mut back).unwrap();
    assert_eq!(back, [7, 7, 1, 2]);

    for (offset, bytes) in [(9_999, 2), (10_001, 0), (u64::MAX, 2)] {
        let error = buffer.copy_from_slice(offset, &vec![0; bytes]).unwrap_err();
        let HostBufferError::OutOfRange(range) = error else {
            panic!("{error}");
        };
        assert_eq!((range.offset, range.size), (offset, 10_000));
        let error = buffer.copy_to_slice(offset, &mut vec![0; bytes]);
        assert_eq!(error, Err(HostBufferError::OutOfRange(range)));
    }
    buffer.resize(16_384).unwrap();
    let (bytes, capacity) = (16_385, 16_384);
    let too_long = HostBufferError::TooLong { bytes, capacity };
    assert_eq!(buffer.resize(bytes), Err(too_long.clone()));
    assert_eq!(too_long.status(), Status::INVALID);
    buffer.copy_to_slice(9_998, &mut back[..2]).unwrap();
    assert_eq!(back[..2], [1, 2]);
}

/// Several chunks, and a rest.
const LARGE: usize = 600_001;

fn a_host_buffer_moves_without_a_copy_by_the_host(rig: &Rig) {
    let (device, bench) = Bench::meddled(rig, LARGE as u64);
    let pattern: Vec<u8> = (0..LARGE).map(|index| (index % 251) as u8).collect();
    let buffer = bench.filled(&pattern);

    let (written, read) = device.touched();
    let written_by_the_move = bench.moves.write_from(&bench.tensor, 0, buffer).unwrap();
    let mut buffer = written_by_the_move.wait().unwrap();
    let after = device.touched();
    // Descriptors and markers, and none of the bytes.
    assert!(after.0 - written < 10_000, "{} bytes", after.0 - written);
    assert_eq!(after.1, read);
    assert_eq!(bench.content(), pattern);

    buffer.fill(0).unwrap();
    let (written, read) = device.touched();
    let buffer = bench.moves.read_into(&bench.tensor, 0, buffer).unwrap();
    let buffer = buffer.wait().unwrap();
    let after = device.touched();
    assert!(after.0 - written < 10_000, "{} bytes", after.0 - written);
    assert_eq!(after.1, read);
    let mut back = vec![0; LARGE];
    buffer.copy_to_slice(0, &mut back).unwrap();
    assert_eq!(back, pattern);

    // The same by way of the heap is copied, so the count would have shown it.
    let read = device.touched().1;
    assert_eq!(bench.content(), pattern);
    assert_eq!(device.touched().1 - read, LARGE as u64);
}

fn a_part_of_a_tensor_is_moved_by_the_length_of_the_buffer(rig: &Rig) {
    let bench = Bench::new(rig, 8);
    bench
        .moves
        .write(&bench.tensor, 0, vec![0; 8])
        .unwrap()
        .detach();
    let buffer = bench.filled(b"xyz");
    let mut buffer = bench
        .moves
        .write_from(&bench.tensor, 4, buffer)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(bench.content(), b"\0\0\0\0xyz\0");
    // Nothing is a length, too.
    buffer.resize(0).unwrap();
    let moved = bench.moves.read_into(&bench.tensor, 8, buffer).unwrap();
    assert_eq!(moved.wait().unwrap().bytes(), 0);
}

/// Reservations of host memory so far.
fn host_blocks(device: &Meddler) -> usize {
    let allocated = device.allocated();
    let host = allocated.iter().filter(|(place, _)| *place == Place::Host);
    host.count()
}

fn dropped_buffers_are_used_again_by_size(rig: &Rig) {
    let (device, bench) = Bench::meddled(rig, 4);
    let before = host_blocks(&device);
    drop(bench.core.host_buffer(5_000).unwrap());
    assert_eq!(host_blocks(&device), before + 1);
    // The same size, whatever the length.
    let again = bench.core.host_buffer(8_192).unwrap();
    assert_eq!((host_blocks(&device), again.bytes()), (before + 1, 8_192));
    // Another size, and one that is in use.
    let other = bench.core.host_buffer(4_096).unwrap();
    let second = bench.core.host_buffer(8_192).unwrap();
    assert_eq!(host_blocks(&device), before + 3);
    // One that nobody has taken from a request comes back as well.
    bench
        .moves
        .write_from(&bench.tensor, 0, {
            let mut short = other;
            short.resize(4).unwrap();
            short
        })
        .unwrap()
        .detach();
    assert_eq!(bench.content().len(), 4, "the request before is complete");
    drop(bench.core.host_buffer(1).unwrap());
    assert_eq!(host_blocks(&device), before + 3);
    drop((again, second));
}

fn a_pool_keeps_no_more_than_it_says(rig: &Rig) {
    let (device, bench) = Bench::meddled(rig, 4);
    let released = |device: &Meddler| device.released().len();
    let before = released(&device);
    let most = HostBuffer::MOST_POOLED;
    let buffers: Vec<_> = (0..5)
        .map(|_| bench.core.host_buffer(most).unwrap())
        .collect();
    drop(buffers);
    // Four of them are all that may wait.
    assert_eq!(released(&device), before + 1);
    drop(bench.core.host_buffer(most + 1).unwrap());
    assert_eq!(released(&device), before + 2, "too large to be kept");
}

fn what_is_free_makes_room_for_another_size(rig: &Rig) {
    let (device, bench) = Bench::meddled(rig, 4);
    let free: Vec<_> = (0..4)
        .map(|_| bench.core.host_buffer(HostBuffer::MOST_POOLED).unwrap())
        .collect();
    drop(free);
    let in_use = device.in_use();
    let host_bytes = Parts::default().host_bytes;
    let large = bench.core.host_buffer(host_bytes / 4 * 3).unwrap();
    assert_eq!(device.in_use(), in_use - 4 + 1);
    // What does not fit, does not fit.
    let refused = bench.core.host_buffer(host_bytes).unwrap_err();
    assert_eq!(refused.status(), Status::RESOURCE);
    assert!(bench.core.host_buffer(u64::MAX).is_err());
    drop(large);
    assert!(bench.core.host_buffer(host_bytes / 4 * 3).is_ok());
}

fn f7_a_closed_runtime_keeps_no_host_memory(rig: &Rig) {
    let (device, bench) = Bench::meddled(rig, 4);
    let (free, outlives) = (bench.filled(b"free"), bench.filled(b"kept"));
    drop(free);
    let (core, in_use) = (bench.core.clone(), device.in_use());
    bench.runtime.close();
    assert!(device.in_use() < in_use, "the free one is given back");
    assert!(matches!(core.host_buffer(4), Err(Error::Closed)));
    let mut back = [0; 4];
    outlives.copy_to_slice(0, &mut back).unwrap();
    assert_eq!(&back, b"kept");
    let in_use = device.in_use();
    drop(outlives);
    assert_eq!(device.in_use(), in_use - 1, "it does not wait in the pool");
    drop((core, bench.core, bench.moves, bench.tensor));
    assert_eq!(device.in_use(), 0);
}

fn f7_a_buffer_of_another_runtime_is_refused(rig: &Rig) {
    let bench = Bench::new(rig, 4);
    let other = Bench::of(rig.builder_on(1).open().unwrap(), 4);
    let buffer = other.filled(b"1234");
    let refused = bench
        .moves
        .write_from(&bench.tensor, 0, buffer)
        .unwrap_err();
    assert!(matches!(
        refused.reason,
        ScheduleError::WrongRuntime {
            what: "host buffer"
        }
    ));
    assert!(refused.args.is_some());
}

/// The first transfer ends so.
fn first_transfer(fault: Fault) -> Parts {
    let when = When {
        times: Some(1),
        ..When::default()
    };
    Parts::failing(vec![Rule { when, fault }])
}

fn f1_memory_of_a_queue_that_hangs_does_not_come_back(rig: &Rig) {
    memory_that_the_device_may_still_touch_does_not_come_back(rig, Status::TIMEOUT, false);
}

fn f1_memory_of_a_queue_that_aborts_comes_back_with_the_end_of_the_runtime(rig: &Rig) {
    let status = Status::EXEC_HW_ERR_DMA_ABORT;
    memory_that_the_device_may_still_touch_does_not_come_back(rig, status, true);
}

/// A queue that has aborted comes to rest, one that hangs does not.
fn memory_that_the_device_may_still_touch_does_not_come_back(
    rig: &Rig,
    status: Status,
    rests: bool,
) {
    let (device, bench) = Bench::meddled(rig, 4);
    let buffer = bench.filled(b"1234");
    let (_, addr) = *device.allocated().last().unwrap();
    let behind = bench.filled(b"5678");
    let head = bench.moves.read_into(&bench.tensor, 0, buffer).unwrap();
    let behind = bench.moves.write_from(&bench.tensor, 0, behind);

    let error = head.wait().unwrap_err();
    assert_eq!(error.status, status);
    assert!(error.value.is_none(), "the device may still write there");
    if let Ok(behind) = behind {
        let error = behind.wait().unwrap_err();
        assert_eq!(error.status, Status::EXEC_UNIT_UNRECOVERABLE);
        // It never began.
        assert!(error.value.is_some());
        drop(error);
    }
    let before = host_blocks(&device);
    drop([0; 2].map(|_| bench.core.host_buffer(4).unwrap()));
    assert!(host_blocks(&device) > before, "the pool has one at most");
    assert!(!device.released().contains(&addr));

    bench.runtime.close();
    drop((bench.core, bench.moves, bench.tensor));
    assert_eq!(device.released().contains(&addr), rests);
}

fn f1_dropping_everything_gives_all_memory_back(rig: &Rig) {
    let (device, bench) = Bench::meddled(rig, LARGE as u64);
    for round in 0..50u8 {
        let mut buffer = bench.core.host_buffer(LARGE as u64).unwrap();
        buffer.fill(round).unwrap();
        let pending = bench.moves.write_from(&bench.tensor, 0, buffer).unwrap();
        if round % 2 == 0 {
            pending.detach();
        } else {
            drop(pending.wait().unwrap());
        }
    }
    assert!(bench.content().iter().all(|byte| *byte == 49));
    drop(bench);
    assert_eq!(device.in_use(), 0);
}
