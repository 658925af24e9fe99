//! What the device finds when the doorbell rings: the test walks the rings as the hardware does, over the bytes that were
//! written until then and over no others.

use crate::scripted::Call;
use crate::support::{Bench, FIRST, Model, SECOND, TENSORS, at};
use std::collections::HashMap;
use std::sync::Arc;
use xu_abi::descriptor::{DESCRIPTOR_SIZE, Descriptor};
use xu_abi::{DeviceAddr, Engine, TpbIndex};
use xu_device::program::Program;
use xu_device::stage::SkipConfig;
use xu_device::{DmaQueue, map};
use zerocopy::transmute;

/// The bytes of one execution that had been written when the first doorbell rang.
struct AtDoorbell<'a> {
    bench: &'a Bench,
    written: HashMap<u64, u8>,
}

/// What a core has been told.
#[derive(Debug, PartialEq)]
struct Told {
    request: Vec<u8>,
    trailer: u32,
    tensors: Vec<u64>,
    context: Option<Vec<u8>>,
    /// What was added to the Tx and to the Rx tail.
    tails: [u32; 2],
    /// Descriptor pairs walked.
    walked: u64,
}

impl<'a> AtDoorbell<'a> {
    fn of(bench: &'a Bench) -> Self {
        let mut written = HashMap::new();
        for call in bench.scripted.log() {
            match call {
                Call::Write(to, bytes) => written.extend((to.get()..).zip(bytes)),
                Call::Increment(_, map::INFERENCE_START) => break,
                other => panic!("neither a write nor a doorbell: {other:?}"),
            }
        }
        Self { bench, written }
    }

    /// Bytes that this execution must have brought. One that is missing would be a canary, or left from an earlier lap.
    fn fresh(&self, from: DeviceAddr, bytes: u64) -> Vec<u8> {
        let byte = |at| self.written.get(&at).copied();
        (from.get()..from.get() + bytes)
            .map(|at| byte(at).unwrap_or_else(|| panic!("{at:#x} was not written")))
            .collect()
    }

    /// Bytes that were there before, as constants and contexts are.
    fn lasting(&self, from: DeviceAddr, bytes: usize) -> Vec<u8> {
        assert!(
            !self.written.contains_key(&from.get()),
            "{from} was written"
        );
        self.bench.scripted.peek(from, bytes)
    }

    fn descriptors(&self, queue: DmaQueue, index: u64) -> [Descriptor; 2] {
        let (tx, rx) = self.bench.scripted.dma_rings(queue);
        [tx, rx].map(|ring| {
            let bytes = self.fresh(at(ring, index % 32 * DESCRIPTOR_SIZE), DESCRIPTOR_SIZE);
            let bytes: [u8; 16] = bytes.try_into().unwrap();
            transmute!(bytes)
        })
    }

    /// Walks the model-exec rings of a core from the pair `first` until both tails have been moved.
    fn walk(&self, tpb: TpbIndex, program: &Program, slot: u32, first: u64) -> Told {
        let mut told = Told {
            request: Vec::new(),
            trailer: 0,
            tensors: Vec::new(),
            context: None,
            tails: [0; 2],
            walked: 0,
        };
        let (mut event, word) = (false, |bytes: Vec<u8>| {
            u32::from_le_bytes(bytes.try_into().unwrap())
        });
        while told.tails.contains(&0) {
            let [tx, rx] = self.descriptors(map::model_exec_queue(tpb), first + told.walked);
            told.walked += 1;
            assert!(tx.is_plain_copy());
            let (from, to) = (tx.addr(), rx.addr());
            if to == map::AddressMap::Simulated.sequencer_memory(tpb) {
                told.request = self.fresh(from, 52);
                told.trailer = word(self.fresh(at(from, 0x34), 4));
            } else if to == map::AddressMap::Simulated.event_register(tpb, map::REQUEST_LOADED) {
                assert_eq!(told.request.len(), 52, "the event announces a request");
                event = word(self.lasting(from, 4)) == 1;
            } else if to == map::AddressMap::Simulated.collectives_context(tpb) {
                told.context = Some(self.lasting(from, 64));
            } else if to == map::AddressMap::Simulated.tx_tail_increment(tpb) {
                told.tails[0] = word(self.lasting(from, 4));
            } else {
                assert_eq!(to, map::AddressMap::Simulated.rx_tail_increment(tpb));
                told.tails[1] = word(self.lasting(from, 4));
            }
        }
        assert!(event, "no event");
        let table = self.fresh(self.bench.table(program, slot), 16);
        let tensors = table.chunks(8).map(|tensor| tensor.try_into().unwrap());
        told.tensors = tensors.map(u64::from_le_bytes).collect();
        told
    }
}

/// What a core must have been told, word by word.
fn expected(program: &Program, slot: u32, switch: bool, group: Option<u32>) -> Told {
    let entries = Engine::ALL.map(|engine| program.entry(slot, engine).get());
    let mut words = vec![u32::from(switch)];
    // CAST: the halves are cut on purpose.
    words.extend(entries.map(|entry| entry as u32));
    words.extend(entries.map(|entry| (entry >> 32) as u32));
    words.extend([1, 1]);
    let context = group.map(|group| {
        let mut context = vec![0; 64];
        for (place, word) in context.chunks_mut(4).zip([group, 1, 2]) {
            place.copy_from_slice(&u32::to_le_bytes(word));
        }
        context
    });
    let chained = u32::from(context.is_some());
    Told {
        request: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        trailer: chained,
        tensors: TENSORS.map(DeviceAddr::get).to_vec(),
        context,
        tails: [4 + chained; 2],
        walked: u64::from(4 + chained),
    }
}

#[test]
fn d2_at_the_doorbell_all_52_and_4_bytes_are_there_and_the_pairs_that_fetch_them() {
    for tpbs in [&[FIRST][..], &[FIRST, SECOND]] {
        let mut bench = Bench::open(tpbs, SkipConfig::Never);
        let models = [
            Model::filled(1, 1),
            Model::collective(7),
            Model::collective(8),
        ];
        let programs = models.map(|model| -> Vec<Arc<Program>> {
            tpbs.iter().map(|tpb| bench.load(*tpb, 3, model)).collect()
        });
        let (mut last, mut staged, mut first) = (None, [0; 3], [0; 2]);
        for model in [0, 0, 1, 1, 2, 1, 0, 1, 2, 2, 0, 2, 0, 0, 1] {
            bench.stage(&programs[model]).unwrap();
            let switch = last != Some(model);
            let slot = staged[model] % 3;
            let then = AtDoorbell::of(&bench);
            for (core, tpb) in tpbs.iter().enumerate() {
                let program = &programs[model][core];
                let chained = switch && core == 0 && model > 0;
                let group = chained.then_some([0, 7, 8][model]);
                let told = then.walk(*tpb, program, slot, first[core]);
                first[core] += told.walked;
                assert_eq!(told, expected(program, slot, switch, group), "core {core}");
            }
            (last, staged[model]) = (Some(model), staged[model] + 1);
        }
    }
}
