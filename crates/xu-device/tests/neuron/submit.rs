//! A submit is stores to mapped memory and one doorbell for each core: no other call, and nothing from the heap.

use super::counting::allocations_during;
use super::script::{Script, V2, V3};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use xu_abi::driver::errno::Answer;
use xu_abi::{DeviceAddr, Engine, TpbIndex};
use xu_device::memory::DeviceMemory;
use xu_device::neuron::{Access, Call, Descriptor, Grain, Kernel, NeuronDevice, Options, Pages};
use xu_device::program::{Blocks, Membership, Program};
use xu_device::stage::{SkipConfig, Stager};
use xu_device::{Device, Place};

/// Counts system calls, and answers doorbells itself, without remembering them.
#[derive(Debug)]
struct Counting {
    script: Arc<Script>,
    doorbells: AtomicUsize,
    others: AtomicUsize,
}

impl Counting {
    fn take(&self) -> (usize, usize) {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        (take(&self.doorbells), take(&self.others))
    }

    fn count(&self) {
        self.others.fetch_add(1, Ordering::Relaxed);
    }
}

impl Kernel for Counting {
    fn open(&self, path: &Path, access: Access) -> Result<Descriptor, i32> {
        self.count();
        Kernel::open(&*self.script, path, access)
    }

    fn ioctl(&self, descriptor: &Descriptor, call: &mut Call<'_, '_>) -> Answer {
        if call.ioctl().name == "SEMAPHORE_INCREMENT" {
            self.doorbells.fetch_add(1, Ordering::Relaxed);
            return Answer::Done;
        }
        self.count();
        self.script.ioctl(descriptor, call)
    }

    fn map(
        &self,
        descriptor: &Descriptor,
        offset: u64,
        bytes: usize,
        access: Access,
        grain: Grain,
    ) -> Result<Pages, i32> {
        self.count();
        self.script.map(descriptor, offset, bytes, access, grain)
    }

    fn unmap(&self, pages: Pages) -> Result<(), i32> {
        self.count();
        self.script.unmap(pages)
    }

    fn close(&self, descriptor: Descriptor) {
        self.count();
        self.script.close(descriptor);
    }
}

fn program(device: &Arc<dyn Device>, tpb: TpbIndex, group: Option<u32>) -> Arc<Program> {
    let place = Place::Hbm(tpb);
    let blocks = Blocks {
        bodies: Engine::ALL.map(|_| vec![0xB0; 64]),
        arena: DeviceMemory::allocate(device, place, 64, 64).unwrap(),
        bindings: 2,
        entry_bytes: 64,
        entry: |_, _| vec![0xE0; 64],
        sequencer_config: [1; 52],
        table_hash: [1; 64],
        collectives: group.map(|group| Membership {
            group,
            rank: 0,
            ranks: 1,
        }),
    };
    Arc::new(Program::load(device, tpb, 2, blocks).unwrap())
}

#[test]
fn a_submit_makes_one_call_for_each_core_and_takes_nothing_from_the_heap() {
    for (driver, tpbs) in [(V2, 1), (V2, 2), (V3, 2)] {
        let script = Script::new(driver);
        let counting = Arc::new(Counting {
            script: Arc::clone(&script),
            doorbells: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
        });
        let kernel: Arc<dyn Kernel> = Arc::clone(&counting) as _;
        let options = Options {
            directory: script.root().to_owned(),
            ..Options::default()
        };
        let device: Arc<dyn Device> = NeuronDevice::open(&kernel, &options).unwrap();
        let cores: Vec<TpbIndex> = (0..tpbs).map(TpbIndex::new).collect();
        let mut stager = Stager::open(&device, &cores, 2, SkipConfig::Never).unwrap();
        let models = [None, Some(1)].map(|group| -> Vec<Arc<Program>> {
            let program = |tpb: &TpbIndex| program(&device, *tpb, group);
            cores.iter().map(program).collect()
        });
        let tensors = [DeviceAddr::new(1), DeviceAddr::new(2)];
        counting.take();
        for execution in 0..100 {
            let programs = &models[execution % 3 % 2];
            let allocations = allocations_during(|| {
                let prepared = stager.prepare(programs, &tensors).unwrap();
                stager.commit(programs, &tensors, &prepared).unwrap();
            });
            assert_eq!(
                counting.take(),
                (usize::from(tpbs), 0),
                "execution {execution}"
            );
            // A lock that is taken for the first time on a thread may allocate.
            assert!(allocations == 0 || execution == 0, "execution {execution}");
        }
    }
}
