//! What operations of a transfer queue do, against the same done on host bytes.

use crate::cases;
use lane_tests::Rig;
use proptest::prelude::*;
use std::sync::Arc;
use xu_abi::TpbIndex;
use xu_device::elementwise::{self, Dtype, ReduceOp};
use xu_device::memory::DeviceMemory;
use xu_device::region::Region;
use xu_device::tensor_op::{HostBytes, Operation, OperationError, Progress, TensorDma};
use xu_device::{Device, Place, map};

lane_tests::on_both! {
    what_is_written_is_read_back_and_a_step_moves_at_most_a_chunk,
    a_copy_moves_every_byte_and_no_other,
    a_copy_of_a_range_to_itself_completes_at_once,
    memset_sets_every_byte_and_no_other,
    operations_follow_one_another_on_one_queue_whatever_they_left_in_its_buffers,
    one_source_is_a_copy_bit_by_bit,
    sums_are_made_from_the_first_source_to_the_last,
    d4_a_step_that_is_lent_the_wrong_bytes_refuses_the_operation,
    one_operation_at_a_time,
    casts_are_those_of_the_elements_in_place_or_not,
    computations_are_those_of_the_elements_in_place_or_not,
    multiply_and_add_is_that_of_the_elements_in_place_or_not,
}

const CORE: TpbIndex = TpbIndex::new(0);
const HBM: Place = Place::Hbm(CORE);
const KIB: u64 = 1024;
/// Around the limits of descriptors and chunks, and more than one chunk of everything.
const SIZES: [u64; 9] = [
    0,
    1,
    3,
    64 * KIB - 1,
    64 * KIB,
    64 * KIB + 1,
    256 * KIB,
    256 * KIB + 1,
    700 * KIB + 13,
];

struct Bench {
    device: Arc<dyn Device>,
    dma: TensorDma,
}

impl Bench {
    fn open(rig: &Rig) -> Self {
        Self::on(&rig.device())
    }

    fn on(device: &Arc<dyn Device>) -> Self {
        let queue = map::transfer_queue(CORE, 0);
        let dma = TensorDma::open(device, queue, Some(1_000_000_000)).unwrap();
        Self {
            device: Arc::clone(device),
            dma,
        }
    }

    fn memory(&self, bytes: &[u8]) -> DeviceMemory {
        // Something after the end, which nobody may touch.
        let memory =
            DeviceMemory::allocate(&self.device, HBM, bytes.len() as u64 + 64, 64).unwrap();
        memory.write(0, bytes).unwrap();
        memory.write(bytes.len() as u64, &[0x5A; 64]).unwrap();
        memory
    }

    fn bytes(&self, memory: &DeviceMemory) -> Vec<u8> {
        let mut bytes = vec![0; memory.bytes() as usize];
        memory.read(0, &mut bytes).unwrap();
        let guard = bytes.split_off(bytes.len() - 64);
        assert_eq!(guard, [0x5A; 64]);
        bytes
    }

    /// Runs an operation to its end; returns the number of steps.
    fn run(&mut self, operation: Operation, mut host: impl FnMut() -> HostBytes<'static>) -> u32 {
        self.dma.begin(operation).unwrap();
        let mut steps = 1;
        loop {
            match self.dma.step(0, host()) {
                Progress::Continue => steps += 1,
                Progress::Done => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(!self.dma.end());
        steps
    }

    fn run_on_device(&mut self, operation: Operation) -> u32 {
        self.run(operation, || HostBytes::None)
    }

    fn write(&mut self, to: Region, bytes: &[u8]) -> u32 {
        self.dma.begin(Operation::write(to).unwrap()).unwrap();
        let mut steps = 1;
        while self.dma.step(0, HostBytes::Source(bytes)) == Progress::Continue {
            steps += 1;
        }
        assert!(!self.dma.end());
        steps
    }

    fn read(&mut self, from: Region) -> Vec<u8> {
        let mut bytes = vec![0xEE; from.bytes() as usize];
        self.dma.begin(Operation::read(from).unwrap()).unwrap();
        while self.dma.step(0, HostBytes::Target(&mut bytes)) == Progress::Continue {}
        assert!(!self.dma.end());
        bytes
    }
}

fn part(memory: &DeviceMemory, bytes: u64) -> Region {
    Region::of(memory).slice(0, bytes).unwrap()
}

fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

fn what_is_written_is_read_back_and_a_step_moves_at_most_a_chunk(rig: &Rig) {
    let mut bench = Bench::open(rig);
    for size in SIZES {
        let bytes = pattern(size, size);
        let memory = bench.memory(&vec![0; size as usize]);
        let steps = bench.write(part(&memory, size), &bytes);
        assert!(u64::from(steps) >= size.div_ceil(256 * KIB), "{size}");
        assert_eq!(bench.bytes(&memory), bytes);
        assert_eq!(bench.read(part(&memory, size)), bytes);
    }
}

fn a_copy_moves_every_byte_and_no_other(rig: &Rig) {
    let mut bench = Bench::open(rig);
    for size in SIZES {
        let bytes = pattern(size, size);
        let (from, to) = (bench.memory(&bytes), bench.memory(&vec![0; size as usize]));
        bench.run_on_device(Operation::copy(part(&from, size), part(&to, size)).unwrap());
        assert_eq!(
            (bench.bytes(&from), bench.bytes(&to)),
            (bytes.clone(), bytes)
        );
    }
}

fn a_copy_of_a_range_to_itself_completes_at_once(rig: &Rig) {
    let mut bench = Bench::open(rig);
    let bytes = pattern(1, 700 * KIB);
    let memory = bench.memory(&bytes);
    let all = part(&memory, 700 * KIB);
    assert_eq!(bench.run_on_device(Operation::copy(all, all).unwrap()), 1);
    let alone = Operation::compute(ReduceOp::Max, Dtype::Int8, vec![all], all, 700 * KIB);
    assert_eq!(bench.run_on_device(alone.unwrap()), 1);
    assert_eq!(bench.bytes(&memory), bytes);
}

fn memset_sets_every_byte_and_no_other(rig: &Rig) {
    let mut bench = Bench::open(rig);
    for (size, value) in SIZES.into_iter().zip(1..) {
        let memory = bench.memory(&vec![0; size as usize]);
        bench.run_on_device(Operation::memset(part(&memory, size), value).unwrap());
        assert_eq!(bench.bytes(&memory), vec![value; size as usize]);
    }
}

fn operations_follow_one_another_on_one_queue_whatever_they_left_in_its_buffers(rig: &Rig) {
    let mut bench = Bench::open(rig);
    let memory = bench.memory(&vec![0; 300]);
    let all = part(&memory, 300);
    for round in 0..50 {
        bench.run_on_device(Operation::memset(all, round).unwrap());
        let half = all.slice(150, 150).unwrap();
        bench.write(half, &[round ^ 0xFF; 150]);
        let mut wanted = vec![round; 150];
        wanted.extend([round ^ 0xFF; 150]);
        assert_eq!(bench.read(all), wanted);
    }
}

fn one_source_is_a_copy_bit_by_bit(rig: &Rig) {
    let mut bench = Bench::open(rig);
    // Signalling NaN included.
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let size = bytes.len() as u64;
    let (from, to) = (bench.memory(&bytes), bench.memory(&vec![0; bytes.len()]));
    let sources = vec![part(&from, size)];
    let operation = Operation::compute(
        ReduceOp::Add,
        Dtype::Float16,
        sources,
        part(&to, size),
        size / 2,
    );
    bench.run_on_device(operation.unwrap());
    assert_eq!(bench.bytes(&to), bytes);
}

fn sums_are_made_from_the_first_source_to_the_last(rig: &Rig) {
    let mut bench = Bench::open(rig);
    let value = |value: f32| value.to_le_bytes().to_vec();
    let sources: Vec<_> = [1e8f32, 1.0, -1e8, 1.0]
        .map(value)
        .iter()
        .map(|bytes| bench.memory(bytes))
        .collect();
    let to = bench.memory(&[0; 4]);
    let regions = |order: [usize; 4]| order.map(|index| part(&sources[index], 4)).to_vec();
    for (order, wanted) in [([0, 1, 2, 3], 1.0f32), ([0, 2, 1, 3], 2.0)] {
        let operation = Operation::compute(
            ReduceOp::Add,
            Dtype::Float32,
            regions(order),
            part(&to, 4),
            1,
        );
        bench.run_on_device(operation.unwrap());
        assert_eq!(bench.bytes(&to), wanted.to_le_bytes());
    }
}

fn d4_a_step_that_is_lent_the_wrong_bytes_refuses_the_operation(rig: &Rig) {
    let mut bench = Bench::open(rig);
    let memory = bench.memory(&[0; 8]);
    let write = Operation::write(part(&memory, 8)).unwrap();
    let refused = |lent| Progress::Refused(OperationError::HostBytes { needed: 8, lent });
    let mut target = [0; 8];
    for (host, lent) in [
        (HostBytes::None, 0),
        (HostBytes::Source(&[1; 7]), 7),
        (HostBytes::Source(&[1; 9]), 9),
        (HostBytes::Target(&mut target), 0),
    ] {
        bench.dma.begin(write.clone()).unwrap();
        assert_eq!(bench.dma.step(0, host), refused(lent));
        assert!(!bench.dma.end());
    }
    bench.write(part(&memory, 8), &[1; 8]);
    assert_eq!(bench.bytes(&memory), [1; 8]);
}

fn one_operation_at_a_time(rig: &Rig) {
    let mut bench = Bench::open(rig);
    let memory = bench.memory(&[0; 8]);
    let operation = Operation::memset(part(&memory, 8), 1).unwrap();
    assert_eq!(bench.dma.step(0, HostBytes::None), Progress::Done);
    bench.dma.begin(operation.clone()).unwrap();
    assert_eq!(
        bench.dma.begin(operation.clone()),
        Err(OperationError::UnderWay)
    );
    assert!(!bench.dma.end());
    bench.run_on_device(operation);
    assert_eq!(bench.bytes(&memory), [1; 8]);
}

/// Bytes of a tensor of `elements` elements.
fn size(dtype: Dtype, elements: u64) -> u64 {
    elements * dtype.bytes() as u64
}

fn dtypes() -> impl Strategy<Value = Dtype> {
    proptest::sample::select(&Dtype::ALL[..])
}

fn elements() -> impl Strategy<Value = u64> {
    prop_oneof![0..40u64, 8_000..70_000u64]
}

fn casts_are_those_of_the_elements_in_place_or_not(rig: &Rig) {
    let device = rig.device();
    proptest!(cases(24), |(
        from in dtypes(), to in dtypes(), elements in elements(), seed: u64, in_place: bool,
    )| {
        let mut bench = Bench::on(&device);
        let source = pattern(seed, size(from, elements));
        let mut wanted = vec![0; size(to, elements) as usize];
        elementwise::cast(from, to, &source, &mut wanted);
        let memory = bench.memory(&source);
        let other = bench.memory(&vec![0; wanted.len()]);
        let same = in_place && from.bytes() == to.bytes();
        let target = if same { &memory } else { &other };
        let operation = Operation::cast(
            part(&memory, source.len() as u64), from, part(target, wanted.len() as u64), to, elements);
        bench.run_on_device(operation.unwrap());
        prop_assert_eq!(bench.bytes(target), wanted);
        if !same {
            prop_assert_eq!(bench.bytes(&memory), source);
        }
    });
}

fn computations_are_those_of_the_elements_in_place_or_not(rig: &Rig) {
    let device = rig.device();
    proptest!(cases(24), |(
        dtype in dtypes(), op in proptest::sample::select(&ReduceOp::ALL[..]), elements in elements(),
        count in 1..6usize, place in 0..6usize, seed: u64,
    )| {
        let mut bench = Bench::on(&device);
        let bytes = size(dtype, elements);
        let sources: Vec<Vec<u8>> = (0..count as u64).map(|index| pattern(seed ^ index, bytes)).collect();
        let mut wanted = sources[0].clone();
        for source in &sources[1..] {
            elementwise::accumulate(op, dtype, &mut wanted, source);
        }
        let mut memories: Vec<_> = sources.iter().map(|source| bench.memory(source)).collect();
        memories.push(bench.memory(&vec![0; bytes as usize]));
        let target = place.min(count);
        let regions = memories[..count].iter().map(|memory| part(memory, bytes)).collect();
        let operation = Operation::compute(op, dtype, regions, part(&memories[target], bytes), elements);
        bench.run_on_device(operation.unwrap());
        prop_assert_eq!(bench.bytes(&memories[target]), wanted);
        for (index, source) in sources.iter().enumerate() {
            if index != target {
                prop_assert_eq!(&bench.bytes(&memories[index]), source);
            }
        }
    });
}

fn multiply_and_add_is_that_of_the_elements_in_place_or_not(rig: &Rig) {
    let device = rig.device();
    proptest!(cases(24), |(
        dtype in dtypes(), elements in elements(), place in 0..4usize, seed: u64,
    )| {
        let mut bench = Bench::on(&device);
        prop_assume!(dtype.is_float());
        let bytes = size(dtype, elements);
        let [a, b, c] = [1, 2, 3].map(|index| pattern(seed ^ index, bytes));
        let mut wanted = a.clone();
        elementwise::fma(dtype, &mut wanted, &b, &c);
        let memories = [&a, &b, &c, &vec![0; bytes as usize]].map(|source| bench.memory(source));
        let [a, b, c, _] = memories.each_ref().map(|memory| part(memory, bytes));
        let operation = Operation::fma(dtype, [a, b, c], part(&memories[place], bytes), elements);
        bench.run_on_device(operation.unwrap());
        prop_assert_eq!(bench.bytes(&memories[place]), wanted);
    });
}
