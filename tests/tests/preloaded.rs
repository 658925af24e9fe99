//! The suite over the preloaded library, which is used where seccomp notification is not permitted.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Rig, on_both, preloaded};
use nrta::Model;
use std::process::Command;

/// A whole life of a runtime.
fn a_model_computes(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, 1).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let outputs = [0, 1].map(|index| loaded.allocate_output(index).unwrap());
    let moves = core.tensor_op(0).unwrap();
    let held_out = std::fs::read(format!("{DIGITS}/heldout.xud")).unwrap();
    let pixels = held_out[24..24 + 64].to_vec();
    moves.write(&image, 0, pixels).unwrap().wait().unwrap();
    let outputs = [&outputs[0], &outputs[1]];
    let compute = core.compute();
    compute
        .execute(&loaded, &[&image], &outputs)
        .unwrap()
        .wait()
        .unwrap();
    let label = moves
        .read(outputs[1], 0, vec![0; 4])
        .unwrap()
        .wait()
        .unwrap();
    println!("label {}", label[0]);
    runtime.close();
}

on_both! { a_model_computes }

#[test]
fn the_suite_falls_back_on_the_preloaded_library() {
    let run = |test: &str, front: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
        let output = command.env(preloaded::FRONT, front).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let label = |said: &str| {
        said.lines()
            .find(|line| line.contains("label "))
            .map(str::to_owned)
    };
    let fallen_back = run("neuron::a_model_computes", "preload");
    if fallen_back.contains("skipped: ") {
        println!("{fallen_back}");
        return;
    }
    assert!(fallen_back.contains(preloaded::SAID), "{fallen_back}");
    let expected = label(&run("simulated::a_model_computes", ""));
    assert!(expected.is_some());
    assert_eq!(label(&fallen_back), expected);
}
