//! The collectives chain: built once for a model, staged on a switch to it, on the first core only.

use crate::scripted::Call;
use crate::support::{Bench, Copy, FIRST, Model, SECOND};
use std::sync::Arc;
use xu_abi::TpbIndex;
use xu_device::program::Program;
use xu_device::stage::{SkipConfig, Staged};
use xu_device::{DeviceError, map};

/// Writes of the arming of a core with a chain: two bindings, body, trailer, five pairs.
const WRITES_WITH_CHAIN: usize = 14;
const WRITES: usize = 12;

/// What an execution on a core says: trailer, increments of Tx and Rx tail, pairs that were written.
#[derive(Debug, PartialEq)]
struct Published {
    trailer: u32,
    increments: [u32; 2],
    pairs: u64,
}

const PLAIN: Published = Published {
    trailer: 0,
    increments: [4, 4],
    pairs: 4,
};
const CHAINED: Published = Published {
    trailer: 1,
    increments: [5, 5],
    pairs: 5,
};

/// Reads back what was staged last on each core, and where its pairs begin.
struct Watch {
    bench: Bench,
    next: [u64; 2],
}

impl Watch {
    fn open(tpbs: &[TpbIndex]) -> Self {
        Self {
            bench: Bench::open(tpbs, SkipConfig::Never),
            next: [0; 2],
        }
    }

    fn word(&self, copy: Copy) -> u32 {
        let word = self.bench.scripted.peek(copy.from, 4);
        u32::from_le_bytes(word.try_into().unwrap())
    }

    /// The copies of the execution on a core: up to the increment of the Rx tail.
    fn copies(&mut self, core: usize) -> Vec<Copy> {
        let tpb = [FIRST, SECOND][core];
        let mut copies = Vec::new();
        loop {
            let copy = self.bench.pair(tpb, self.next[core] % 32).0;
            self.next[core] += 1;
            copies.push(copy);
            if copy.to == map::AddressMap::Simulated.rx_tail_increment(tpb) {
                return copies;
            }
        }
    }

    fn stage(&mut self, programs: &[Arc<Program>]) -> (Staged, Vec<Published>) {
        let staged = self.bench.stage(programs).unwrap();
        let published = (0..programs.len()).map(|core| self.published(core));
        (staged, published.collect())
    }

    fn published(&mut self, core: usize) -> Published {
        let copies = self.copies(core);
        let [request, .., tx, rx] = copies[..] else {
            panic!("{copies:?}");
        };
        let trailer = request.from.checked_add(0x34).unwrap();
        Published {
            trailer: self.word(Copy {
                from: trailer,
                ..request
            }),
            increments: [tx, rx].map(|copy| self.word(copy)),
            pairs: copies.len() as u64,
        }
    }
}

#[test]
fn the_chain_goes_with_a_switch_and_with_nothing_else() {
    let mut watch = Watch::open(&[FIRST]);
    let models = [
        Model::collective(7),
        Model::filled(1, 1),
        Model::collective(8),
    ];
    let programs = models.map(|model| watch.bench.load(FIRST, 2, model));
    let mut barriers = 0;
    for (model, chained) in [
        (0, true),
        (0, false),
        (0, false),
        (1, false),
        (0, true),
        (2, true),
        (2, false),
        (0, true),
        (1, false),
        (1, false),
        (2, true),
    ] {
        let (staged, published) = watch.stage(&programs[model..=model]);
        barriers += u32::from(chained);
        let expected = if chained { CHAINED } else { PLAIN };
        assert_eq!(published, [expected]);
        // Barriers are counted, so that the harvester knows which one the execution waits for.
        assert_eq!(staged.barriers, [chained.then_some(barriers), None]);
    }
}

#[test]
fn only_the_first_core_gets_the_chain() {
    let mut watch = Watch::open(&[FIRST, SECOND]);
    let load = |watch: &Watch, models: [Model; 2]| {
        [
            watch.bench.load(FIRST, 2, models[0]),
            watch.bench.load(SECOND, 2, models[1]),
        ]
    };
    let both = load(&watch, [Model::collective(7); 2]);
    let second_only = load(&watch, [Model::filled(1, 1), Model::collective(7)]);
    let mut run = |programs: &[Arc<Program>]| {
        let (staged, published) = watch.stage(programs);
        (published, staged.barriers)
    };
    assert_eq!(run(&both), (vec![CHAINED, PLAIN], [Some(1), None]));
    assert_eq!(run(&both), (vec![PLAIN, PLAIN], [None, None]));
    assert_eq!(run(&second_only), (vec![PLAIN, PLAIN], [None, None]));
    assert_eq!(run(&both), (vec![CHAINED, PLAIN], [Some(2), None]));
}

#[test]
fn d2_the_chain_copies_the_context_between_event_and_tail_increments() {
    for tpb in [FIRST, SECOND] {
        let mut bench = Bench::open(&[tpb], SkipConfig::Never);
        let program = bench.load(tpb, 1, Model::collective(0x0102_0304));
        bench.stage(std::slice::from_ref(&program)).unwrap();
        let copies: Vec<Copy> = (0..5).map(|index| bench.pair(tpb, index).0).collect();
        let places: Vec<_> = copies.iter().map(|copy| (copy.to, copy.len)).collect();
        let expected = [
            (map::AddressMap::Simulated.sequencer_memory(tpb), 52),
            (
                map::AddressMap::Simulated.event_register(tpb, map::REQUEST_LOADED),
                4,
            ),
            (map::AddressMap::Simulated.collectives_context(tpb), 64),
            (map::AddressMap::Simulated.tx_tail_increment(tpb), 4),
            (map::AddressMap::Simulated.rx_tail_increment(tpb), 4),
        ];
        assert_eq!(places, expected);
        let mut context = [0; 64];
        // Group, rank, ranks.
        context[..12].copy_from_slice(&[4, 3, 2, 1, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bench.scripted.peek(copies[2].from, 64), context);
    }
}

/// What was built at loading is neither built again nor written again.
#[test]
fn the_chain_is_built_once() {
    let mut bench = Bench::open(&[FIRST], SkipConfig::Never);
    let programs = [7, 8].map(|group| bench.load(FIRST, 1, Model::collective(group)));
    let mut sources = Vec::new();
    for execution in 0..6u64 {
        let model = usize::from(execution % 2 == 1);
        bench.stage(&programs[model..=model]).unwrap();
        let log = bench.scripted.log();
        let (doorbell, writes) = log.split_last().unwrap();
        assert_eq!(*doorbell, Call::Increment(FIRST, map::INFERENCE_START));
        assert_eq!(writes.len(), WRITES_WITH_CHAIN);
        for call in writes {
            let Call::Write(_, bytes) = call else {
                panic!("{call:?}");
            };
            assert!(bytes.len() <= 52, "{call:?}");
        }
        sources.push(bench.pair(FIRST, (5 * execution + 2) % 32).0.from);
    }
    assert_ne!(sources[0], sources[1]);
    assert_eq!(sources[..2], sources[2..4]);
    assert_eq!(sources[..2], sources[4..]);
}

#[test]
fn d8_preparing_a_switch_passes_no_barrier() {
    let mut watch = Watch::open(&[FIRST]);
    let programs = [watch.bench.load(FIRST, 2, Model::collective(7))];
    for _ in 0..3 {
        watch
            .bench
            .stager
            .prepare(&programs, &crate::support::TENSORS)
            .unwrap();
    }
    let (staged, published) = watch.stage(&programs);
    assert_eq!(published, [CHAINED]);
    assert_eq!(staged.barriers, [Some(1), None]);
}

#[test]
fn d8_whichever_write_of_a_switch_fails_no_doorbell_rings() {
    for failing in 0..WRITES_WITH_CHAIN + WRITES {
        let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
        let programs = [FIRST, SECOND].map(|tpb| bench.load(tpb, 2, Model::collective(7)));
        let mut count = 0;
        bench.scripted.fail(move |call| {
            let write = matches!(call, Call::Write(..));
            let fails = write && count == failing;
            count += usize::from(write);
            fails.then_some(DeviceError::Lost)
        });
        assert_eq!(bench.execute(&programs), Err(DeviceError::Lost));
        assert_eq!(bench.doorbells(), [], "write {failing}");
        // Nothing follows the write that failed.
        assert_eq!(bench.scripted.log().len(), failing + 1);
    }
}

/// Executions that are switches all the time need five pairs each: as many as the depth says fit, and their ring ids
/// advance at each wrap.
#[test]
fn d1_ring_ids_advance_when_every_execution_is_a_switch() {
    let mut bench = Bench::open(&[FIRST], SkipConfig::Never);
    let programs = [7, 8].map(|group| bench.load(FIRST, 1, Model::collective(group)));
    for execution in 0..64u64 {
        let model = usize::from(execution % 2 == 1);
        bench.stage(&programs[model..=model]).unwrap();
        for pair in 5 * execution..5 * execution + 5 {
            // 1, 2, 3, 0, 1, ...
            let expected = (pair / 32 + 1) % 4;
            assert_eq!(
                u64::from(bench.pair(FIRST, pair % 32).1),
                expected,
                "pair {pair}"
            );
        }
    }
}
