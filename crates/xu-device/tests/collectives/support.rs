//! Ranks on a device, one core each, stepped one by one on one thread in an order that a seed decides.
//!
//! The tests on a scripted device and those on both machines, in `tests/tests/device`, have them in common.
#![allow(
    dead_code,
    reason = "every test crate includes this file and uses a part of it"
)]

use std::sync::Arc;
use xu_abi::TpbIndex;
use xu_device::collectives::{
    Collective, CollectiveDma, Communicator, Plan, PlanError, Progress, Rank, WARN_AFTER_NS,
};
use xu_device::elementwise::Dtype;
use xu_device::memory::DeviceMemory;
use xu_device::region::Region;
use xu_device::{Device, Place, map};

/// Nanoseconds that a chunk may take.
pub(crate) const LIMIT: u64 = 1_000_000;

/// The ranks of one communicator.
pub(crate) struct Bench {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) communicator: Communicator,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) dmas: Vec<CollectiveDma>,
}

impl Bench {
    pub(crate) fn on(device: Arc<dyn Device>, ranks: u32) -> Self {
        let communicator = Communicator::new(ranks, WARN_AFTER_NS).unwrap();
        let open = |rank| {
            let queue = map::collectives_queue(TpbIndex::new(rank as u16));
            CollectiveDma::open(&device, queue, Some(LIMIT)).unwrap()
        };
        Self {
            dmas: (0..ranks).map(open).collect(),
            ranks: (0..ranks)
                .map(|rank| communicator.join(rank).unwrap())
                .collect(),
            communicator,
            device,
        }
    }

    pub(crate) fn tensor(&self, rank: usize, bytes: &[u8]) -> Tensor {
        Tensor::new(&self.device, rank, bytes)
    }

    /// A plan of `rank` over tensors that it keeps.
    pub(crate) fn plan(
        &self,
        rank: usize,
        collective: Collective,
        dtype: Dtype,
        inputs: &[Region],
        outputs: &[Region],
    ) -> Result<Plan, PlanError> {
        let keep = Arc::new(());
        Plan::prepare(
            &self.device,
            &self.ranks[rank],
            collective,
            dtype,
            inputs,
            outputs,
            keep,
        )
    }

    pub(crate) fn begin(&mut self, rank: usize, plan: Plan) {
        self.dmas[rank].begin(plan).unwrap();
    }

    /// Steps the ranks in an order drawn from `seed` until each has an outcome, which it returns.
    pub(crate) fn run(&mut self, seed: u64) -> Vec<Progress> {
        let mut random = Random(seed);
        let mut outcomes: Vec<Option<Progress>> = vec![None; self.dmas.len()];
        let mut steps = 0;
        while outcomes.contains(&None) {
            steps += 1;
            assert!(steps < 1_000_000, "nobody comes to an end: {outcomes:?}");
            let rank = random.below(self.dmas.len());
            // Some ranks get a run of steps, so that one is far ahead of another.
            for _ in 0..=random.below(6) {
                match self.dmas[rank].step(0) {
                    Progress::Continue => {}
                    outcome => {
                        outcomes[rank].get_or_insert(outcome);
                    }
                }
            }
        }
        for dma in &mut self.dmas {
            assert!(dma.end().is_none());
        }
        outcomes.into_iter().flatten().collect()
    }
}

/// Memory of a core with guards around it.
pub(crate) struct Tensor {
    memory: DeviceMemory,
    bytes: u64,
}

const GUARD: usize = 64;

impl Tensor {
    pub(crate) fn new(device: &Arc<dyn Device>, rank: usize, bytes: &[u8]) -> Self {
        let place = Place::Hbm(TpbIndex::new(rank as u16));
        let all = (bytes.len() + 2 * GUARD) as u64;
        let memory = DeviceMemory::allocate(device, place, all, 64).unwrap();
        let framed = [&[0x5A; GUARD], bytes, &[0x5A; GUARD]].concat();
        memory.write(0, &framed).unwrap();
        let bytes = bytes.len() as u64;
        Self { memory, bytes }
    }

    pub(crate) fn region(&self) -> Region {
        Region::of(&self.memory)
            .slice(GUARD as u64, self.bytes)
            .unwrap()
    }

    pub(crate) fn part(&self, offset: u64, bytes: u64) -> Region {
        self.region().slice(offset, bytes).unwrap()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut framed = vec![0; self.memory.bytes() as usize];
        self.memory.read(0, &mut framed).unwrap();
        let end = framed.len() - GUARD;
        assert_eq!(
            (&framed[..GUARD], &framed[end..]),
            (&[0x5A; GUARD][..], &[0x5A; GUARD][..])
        );
        framed[GUARD..end].to_vec()
    }
}

/// A small generator: the same seed, the same numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ mixed >> 29
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
