//! What a request lets the sequencer keep: configuration and tables, each cached by itself on each core.

use crate::support::{Bench, FIRST, Model, SECOND};
use std::sync::Arc;
use xu_device::program::Program;
use xu_device::stage::SkipConfig;

/// The three flags of the request that lies in `slot`: model switch, configuration, tables.
fn flags(bench: &Bench, program: &Program, slot: u32) -> [u32; 3] {
    let request = bench.request(program, slot);
    [
        request.do_model_switch.get(),
        request.reload_seq_config.get(),
        request.load_act_dve_tables.get(),
    ]
}

/// Runs `programs` by index one after the other on one core and returns the flags of each execution.
fn flags_of(skip: SkipConfig, models: &[(u8, u8)], order: &[usize]) -> Vec<[u32; 3]> {
    let mut bench = Bench::open(&[FIRST], skip);
    let programs: Vec<Arc<Program>> = models
        .iter()
        .map(|(config, tables)| bench.program(FIRST, 1, *config, *tables))
        .collect();
    let run = |index: &usize| {
        bench.execute(&programs[*index..*index + 1]).unwrap();
        flags(&bench, &programs[*index], 0)
    };
    order.iter().map(run).collect()
}

#[test]
fn the_model_switch_is_set_when_the_previous_execution_ran_another_model() {
    for skip in [SkipConfig::Never, SkipConfig::WhenEqual] {
        let flags = flags_of(skip, &[(1, 1), (1, 1)], &[0, 0, 1, 1, 0, 1]);
        let switches: Vec<u32> = flags.iter().map(|flags| flags[0]).collect();
        assert_eq!(switches, [1, 0, 1, 0, 1, 1]);
    }
}

#[test]
fn configuration_and_tables_are_loaded_every_time_unless_skipping_is_on() {
    let flags = flags_of(SkipConfig::Never, &[(1, 1), (2, 2)], &[0, 0, 1, 0]);
    assert!(flags.iter().all(|flags| flags[1..] == [1, 1]), "{flags:?}");
}

#[test]
fn configuration_and_tables_are_skipped_each_by_itself_when_equal_to_what_is_loaded() {
    let models = [(1, 1), (1, 2), (3, 2), (3, 2)];
    let flags = flags_of(SkipConfig::WhenEqual, &models, &[0, 0, 1, 2, 3, 0, 2, 2]);
    let loads: Vec<[u32; 2]> = flags.iter().map(|flags| [flags[1], flags[2]]).collect();
    let expected = [
        [1, 1],
        [0, 0],
        [0, 1],
        [1, 0],
        // Another model with the same contents: a switch, and nothing to load.
        [0, 0],
        [1, 1],
        [1, 1],
        [0, 0],
    ];
    assert_eq!(loads, expected);
}

/// Flags of the second of two models on one core, with skipping on.
fn flags_after(first: Model, second: Model) -> [u32; 3] {
    let mut bench = Bench::open(&[FIRST], SkipConfig::WhenEqual);
    let [first, second] = [first, second].map(|model| bench.load(FIRST, 1, model));
    bench.execute(&[first]).unwrap();
    bench.execute(std::slice::from_ref(&second)).unwrap();
    flags(&bench, &second, 0)
}

#[test]
fn one_byte_of_52_that_differs_reloads_the_configuration_and_nothing_else() {
    let model = Model::filled(1, 1);
    assert_eq!(flags_after(model, model), [1, 0, 0]);
    for byte in 0..52 {
        let mut other = model;
        other.config[byte] ^= 0x80;
        assert_eq!(flags_after(model, other), [1, 1, 0], "byte {byte}");
    }
}

/// Two hashes of 32 bytes, ACT's and DVE's: either is enough to load both tables, as one flag covers them.
#[test]
fn one_byte_of_either_32_byte_hash_that_differs_loads_the_tables_and_nothing_else() {
    let model = Model::filled(1, 1);
    for byte in 0..64 {
        let mut other = model;
        other.tables[byte] ^= 1;
        assert_eq!(flags_after(model, other), [1, 0, 1], "byte {byte}");
    }
}

/// The cache holds what was loaded last, not what was loaded ever.
#[test]
fn what_was_loaded_before_the_last_is_not_there_any_more() {
    let models = [(1, 1), (2, 1), (1, 2)];
    let flags = flags_of(SkipConfig::WhenEqual, &models, &[0, 1, 0, 2, 0, 1, 2]);
    let loads: Vec<[u32; 2]> = flags.iter().map(|flags| [flags[1], flags[2]]).collect();
    let expected = [[1, 1], [1, 0], [1, 0], [0, 1], [0, 1], [1, 0], [1, 1]];
    assert_eq!(loads, expected);
}

#[test]
fn what_was_forgotten_is_loaded_again_once_on_every_core() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::WhenEqual);
    let programs = [FIRST, SECOND].map(|tpb| bench.program(tpb, 1, 1, 1));
    let mut run = |forget: bool| {
        if forget {
            bench.stager.forget_loaded();
        }
        bench.execute(&programs).unwrap();
        [0, 1].map(|core| flags(&bench, &programs[core], 0))
    };
    assert_eq!(run(false), [[1, 1, 1]; 2]);
    assert_eq!(run(false), [[0, 0, 0]; 2]);
    // The model stays posted: what is unknown is what is loaded.
    assert_eq!(run(true), [[0, 1, 1]; 2]);
    assert_eq!(run(false), [[0, 0, 0]; 2]);
}

#[test]
fn what_one_core_has_loaded_says_nothing_about_the_other() {
    let mut bench = Bench::open(&[FIRST, SECOND], SkipConfig::WhenEqual);
    let load = |tpb, config| bench.program(tpb, 1, config, config);
    let one = [load(FIRST, 1), load(SECOND, 2)];
    let two = [load(FIRST, 2), load(SECOND, 2)];
    bench.execute(&one).unwrap();
    bench.execute(&two).unwrap();
    assert_eq!(flags(&bench, &two[0], 0), [1, 1, 1]);
    assert_eq!(flags(&bench, &two[1], 0), [1, 0, 0]);
}
