//! What a request says: engine addresses, slots, ring ids and indices; and what is refused.

use crate::scripted::{Call, Scripted};
use crate::support::{Bench, ENTRY_BYTES, FIRST, SECOND, TENSORS, at};
use xu_abi::{DeviceAddr, Engine, TpbIndex};
use xu_device::DeviceError;
use xu_device::stage::{PrepareError, SkipConfig, Stager};

#[test]
fn engine_addresses_are_the_entries_of_the_slot() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 3, 1, 1));
    for slot in 0..3 {
        bench.execute(&programs).unwrap();
        for program in &programs {
            let request = bench.request(program, slot);
            for engine in Engine::ALL {
                let entry = program.entry(slot, engine);
                assert_eq!(request.engine_address(engine), entry);
                let offset = (u64::from(slot) * 5 + engine.index() as u64) * ENTRY_BYTES;
                assert_eq!(entry, at(program.entry(0, Engine::Pe), offset));
                let owner = bench.scripted.peek(entry, 8);
                assert_eq!(owner, (engine.index() as u64).to_le_bytes());
            }
        }
    }
}

/// Entries that lie around the end of a 4 GiB page: low halves wrap, and the high halves carry.
#[test]
fn halves_of_engine_addresses_carry_at_every_4_gib() {
    const PAGE: u64 = 1 << 32;
    let mut carries = 0;
    for before_the_end in [64, 128, 320, 960, 4_096, 9_536] {
        let mut bench = Bench::open(&[FIRST], SkipConfig::Never);
        let load = |bench: &Bench| bench.program(FIRST, 30, 1, 1);
        let [one, two] = [0; 2].map(|_| load(&bench).entry(0, Engine::Pe).get());
        let next = two + (two - one);
        bench
            .scripted
            .skip_addresses(PAGE - next % PAGE - before_the_end);
        let programs = [load(&bench)];
        let base = programs[0].entry(0, Engine::Pe).get();
        for slot in 0..30u64 {
            bench.execute(&programs).unwrap();
            // CAST: less than 30.
            let at = programs[0].request(slot as u32);
            let words: Vec<u32> = bench
                .scripted
                .peek(at, 52)
                .chunks(4)
                .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
                .collect();
            for engine in 0..5 {
                let address = base + (5 * slot + engine as u64) * ENTRY_BYTES;
                let halves = [words[1 + engine], words[6 + engine]].map(u64::from);
                assert_eq!(halves, [address % PAGE, address / PAGE], "{address:#x}");
                let owner = bench.scripted.peek(DeviceAddr::new(address), 8);
                assert_eq!(owner, (engine as u64).to_le_bytes());
                carries += u32::from(address / PAGE != base / PAGE);
            }
        }
    }
    assert!(
        carries > 600,
        "only {carries} entries lay behind the end of a page"
    );
}

#[test]
fn slots_go_round_and_each_program_counts_its_own() {
    let mut bench = Bench::open(&[FIRST], SkipConfig::Never);
    let programs = [3, 2].map(|slots| bench.program(FIRST, slots, 1, 1));
    let mut pair = 0;
    for (model, slot) in [0, 0, 1, 0, 1, 0, 1, 0]
        .into_iter()
        .zip([0, 1, 0, 2, 1, 0, 0, 1])
    {
        bench.execute(&programs[model..=model]).unwrap();
        let copied = bench.pair(FIRST, pair % 32).0.from;
        assert_eq!(copied, programs[model].request(slot));
        let written = Call::Write(
            bench.table(&programs[model], slot),
            TENSORS[0].get().to_le_bytes().to_vec(),
        );
        assert_eq!(bench.scripted.log()[0], written);
        pair += 4;
    }
}

#[test]
fn d1_ring_ids_advance_at_every_wrap_for_five_laps() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 1, 1, 1));
    for (lap, ring_id) in [1, 2, 3, 0, 1].into_iter().enumerate() {
        for execution in 0..8u64 {
            bench.execute(&programs).unwrap();
            for tpb in [FIRST, SECOND] {
                for index in 4 * execution..4 * execution + 4 {
                    assert_eq!(bench.pair(tpb, index).1, ring_id, "lap {lap}, pair {index}");
                }
            }
        }
    }
}

#[test]
fn two_cores_have_one_compute_index_that_counts_executions() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 2, 1, 1));
    for expected in 0..10 {
        assert_eq!(bench.execute(&programs), Ok(expected));
    }
}

#[test]
fn d8_a_wrong_number_of_programs_or_tensors_is_refused_and_nothing_is_written() {
    let bench = Bench::open(&[FIRST, SECOND], SkipConfig::Never);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 2, 1, 1));
    for count in [0, 1] {
        let refused = bench.stager.prepare(&programs[..count], &TENSORS);
        let expected = PrepareError::Cores {
            programs: count,
            cores: 2,
        };
        assert_eq!(refused.err(), Some(expected));
    }
    for given in [0, 1, 3, 1_000] {
        let tensors = vec![DeviceAddr::new(64); given];
        let refused = bench.stager.prepare(&programs, &tensors);
        let expected = PrepareError::Bindings { given, expected: 2 };
        assert_eq!(refused.err(), Some(expected));
    }
    assert_eq!(bench.scripted.log(), []);
}

#[test]
fn a_stager_serves_one_or_two_cores() {
    let (scripted, device) = Scripted::new(2);
    for count in [0, 3, 4] {
        let tpbs: Vec<TpbIndex> = (0..count).map(TpbIndex::new).collect();
        let refused = Stager::open(&device, &tpbs, 4, SkipConfig::Never);
        assert_eq!(
            refused.err(),
            Some(DeviceError::BadArgument {
                what: "physical cores of a logical core",
                value: u64::from(count),
                allowed: "1 or 2",
            })
        );
    }
    assert_eq!(scripted.log(), []);
}

#[test]
fn d1_the_rings_hold_every_outstanding_execution_and_one_more() {
    // Five pairs each: four, and one of a collectives chain.
    for (depth, descriptors) in [(0, 32), (5, 32), (6, 48), (8, 48), (63, 320), (64, 336)] {
        let (scripted, device) = Scripted::new(2);
        Stager::open(&device, &[FIRST], depth, SkipConfig::Never).unwrap();
        let opened = scripted.log().into_iter().find_map(|call| match call {
            Call::OpenDma(_, _, _, descriptors) => Some(descriptors),
            _ => None,
        });
        assert_eq!(opened, Some(descriptors), "depth {depth}");
    }
}

#[test]
fn d4_a_depth_that_no_ring_can_hold_is_refused_without_a_panic() {
    let (scripted, device) = Scripted::new(2);
    let refused = Stager::open(&device, &[FIRST], u32::MAX, SkipConfig::Never);
    assert!(
        matches!(refused, Err(DeviceError::BadArgument { .. })),
        "{refused:?}"
    );
    assert_eq!(scripted.log(), []);
}
