//! Loaded models: bound once and run often, by name, several on a core, unloaded while they run.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod held;

use held::Held;
use lane_tests::{DIGITS, Parts, Rig};
use nrta::{Core, Dtype, Error, Health, LoadedModel, Model, ScheduleError, Status};

lane_tests::on_both! {
    a_model_says_what_it_takes_and_gives,
    inputs_and_outputs_are_had_by_name_and_type,
    tensors_are_bound_by_name_in_any_order_and_others_are_passed_over,
    a_tensor_that_cannot_be_bound_is_named_by_what_it_is_bound_to with Parts::two_devices(),
    bindings_keep_their_tensors,
    a_model_of_another_core_is_refused,
    unloading_refuses_what_comes_and_finishes_what_is_in_flight,
    an_idle_model_gives_its_memory_back_when_it_is_unloaded,
    d7_a_degraded_queue_keeps_an_unloaded_model with held::fatal(),
    switching_between_models_is_counted,
}

fn digits(core: &Core, batch: u32) -> LoadedModel {
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    core.load(&model, batch).unwrap()
}

fn a_model_says_what_it_takes_and_gives(rig: &Rig) {
    let runtime = rig.builder().tpbs_per_core(2).open().unwrap();
    let core = runtime.core(0).unwrap();
    let info = digits(&core, 6).info();
    assert_eq!(
        (info.name.as_str(), info.core, info.batch),
        ("digits", 0, 6)
    );
    assert_eq!(info.physical_cores, 2);
    assert!(info.device_bytes > 6_570 * 4, "{info:?}");
    let tensors = info.inputs.iter().chain(&info.outputs);
    let tensors: Vec<_> = tensors
        .map(|tensor| (tensor.name.as_str(), tensor.dtype, tensor.bytes))
        .collect();
    assert_eq!(
        tensors,
        [
            ("image", Dtype::Uint8, 384),
            ("scores", Dtype::Float32, 240),
            ("label", Dtype::Uint32, 24)
        ]
    );
    assert_eq!(info.outputs[0].shape.dimensions(), [6, 10]);
}

fn inputs_and_outputs_are_had_by_name_and_type(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = digits(&core, 2);
    assert_eq!(model.input::<u8>("image").unwrap().bytes(), 128);
    assert_eq!(model.output::<f32>("scores").unwrap().elements(), 20);
    let error = model.input::<u8>("picture").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"model digits has no input "picture": it has ["image"]"#
    );
    // An output is no input.
    assert!(matches!(
        model.input::<f32>("scores"),
        Err(Error::NoSuchName { .. })
    ));
    let error = model.output::<i32>("label").unwrap_err();
    assert_eq!(
        error.to_string(),
        "output label of model digits is of Uint32, not of Int32"
    );
}

fn tensors_are_bound_by_name_in_any_order_and_others_are_passed_over(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = digits(&core, 1);
    let image = model.input::<u8>("image").unwrap();
    let scores = model.output::<f32>("scores").unwrap();
    let label = model.output::<u32>("label").unwrap();
    let moves = core.tensor_op(0).unwrap();
    moves
        .write_all(&image, vec![3; 64])
        .unwrap()
        .wait()
        .unwrap();

    let in_order = model.bind(&[&image], &[&scores, &label]).unwrap();
    core.compute()
        .execute_bound(&in_order)
        .unwrap()
        .wait()
        .unwrap();
    let expected = moves.read_all(&label).unwrap().wait().unwrap();

    moves.write_all(&label, vec![99]).unwrap().wait().unwrap();
    let named = model
        .bind_named(
            &[("nonsense", &scores), ("image", &image)],
            &[("label", &label), ("scores", &scores)],
        )
        .unwrap();
    core.compute()
        .execute_bound(&named)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(moves.read_all(&label).unwrap().wait().unwrap(), expected);

    let error = model
        .bind_named(&[("image", &image)], &[("label", &label)])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"model digits has no tensor for output "scores": given were ["label"]"#
    );
    assert_eq!(error.status(), Status::INVALID);
    let error = model.allocate_output(2).unwrap_err();
    let text = r#"model digits has no output 2: it has 2, numbered from 0: ["scores", "label"]"#;
    assert_eq!(error.to_string(), text);
}

fn a_tensor_that_cannot_be_bound_is_named_by_what_it_is_bound_to(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let [here, there] = [0, 1].map(|core| runtime.core(core).unwrap());
    let model = digits(&there, 1);
    let image = model.input::<u8>("image").unwrap();
    let scores = model.output::<f32>("scores").unwrap();
    let label = here.tensor::<u32>(&[1, 1]).unwrap();
    let text = |label: &nrta::Tensor| {
        let refused = model.bind(&[&image], &[&scores, label]).unwrap_err();
        (refused.to_string(), refused.status())
    };
    assert_eq!(
        text(&label),
        (
            "output label of model digits: the tensor is on core 0, the model is on core 1".into(),
            Status::INVALID
        )
    );
    let other = rig.builder_on(1).open().unwrap();
    let label = other.core(0).unwrap().tensor::<u32>(&[1, 1]).unwrap();
    let (text, status) = text(&label);
    assert!(text.ends_with("label of model digits: the tensor belongs to another runtime"));
    assert_eq!(status, Status::INVALID);
}

fn bindings_keep_their_tensors(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = digits(&core, 1);
    let image = model.input::<u8>("image").unwrap();
    let scores = model.output::<f32>("scores").unwrap();
    let label = model.output::<u32>("label").unwrap();
    let bound = model.bind(&[&image], &[&scores, &label]).unwrap();
    image.free();
    scores.free();
    core.compute()
        .execute_bound(&bound)
        .unwrap()
        .wait()
        .unwrap();
    // The label is still there, and was written.
    let label = core.tensor_op(0).unwrap().read_all(&label);
    assert!(label.unwrap().wait().unwrap()[0] < 10);
}

fn a_model_of_another_core_is_refused(rig: &Rig) {
    let runtime = rig.builder().cores(2).open().unwrap();
    let (here, there) = (runtime.core(0).unwrap(), runtime.core(1).unwrap());
    let model = digits(&here, 1);
    let image = model.input::<u8>("image").unwrap();
    let scores = model.output::<f32>("scores").unwrap();
    let label = model.output::<u32>("label").unwrap();
    let bound = model.bind(&[&image], &[&scores, &label]).unwrap();
    let refused = there.compute().execute_bound(&bound).unwrap_err();
    assert!(matches!(
        refused.reason,
        ScheduleError::WrongCore {
            what: "model",
            on: 0,
            queue: 1
        }
    ));
}

fn unloading_refuses_what_comes_and_finishes_what_is_in_flight(rig: &Rig) {
    let held = Held::new(rig);
    let (model, image) = (held.model.clone(), held.input.clone());
    let outputs = held.outputs.clone();
    let bound = model.bind(&[&image], &[&outputs[0], &outputs[1]]).unwrap();
    let released = held.device.released().len();
    held.device.hold_doorbells();
    let first = held.compute.execute_bound(&bound).unwrap();
    let second = held.compute.execute_bound(&bound).unwrap();

    let other = model.clone();
    let last = model.unload();
    assert_eq!(last, Some(second.seq()));
    assert!(other.is_unloaded());
    let refused = held.compute.execute_bound(&bound).unwrap_err();
    assert_eq!(refused.reason.to_string(), "model digits was unloaded");
    assert_eq!(refused.status(), Status::INVALID_HANDLE);
    assert!(matches!(
        other.bind(&[&image], &[&outputs[0], &outputs[1]]),
        Err(ScheduleError::ModelUnloaded { .. })
    ));
    // The device still reads the program: nothing of it was given back.
    assert_eq!(held.device.released().len(), released);

    held.device.release_doorbells();
    first.wait().unwrap();
    second.wait().unwrap();
    held.compute.wait(last.unwrap(), None).unwrap();
    // Unloading twice is unloading once.
    assert_eq!(other.unload(), last);
    assert!(held.device.released().len() > released);
}

fn an_idle_model_gives_its_memory_back_when_it_is_unloaded(rig: &Rig) {
    let held = Held::new(rig);
    let model = digits(&held.core, 4);
    let clone = model.clone();
    let released = held.device.released().len();
    assert_eq!(model.unload(), None);
    assert!(held.device.released().len() > released);
    assert!(clone.is_unloaded());
}

fn d7_a_degraded_queue_keeps_an_unloaded_model(rig: &Rig) {
    let held = Held::new(rig);
    let [other, dropped] = [4, 4].map(|batch| digits(&held.core, batch));
    held.device.hold_doorbells();
    let fatal = held.execute().unwrap();
    let behind = held.execute().unwrap();
    let released = held.device.released().len();
    held.device.release_doorbells();
    fatal.wait().unwrap_err();
    behind.wait().unwrap_err();
    assert_eq!(held.compute.health(), Health::Degraded);
    held.model.clone().unload();
    // Also one that no request names: the sequencer may have it loaded.
    other.unload();
    // Dropping the last handle is unloading.
    drop(dropped);
    assert_eq!(held.device.released().len(), released);
}

fn switching_between_models_is_counted(rig: &Rig) {
    let runtime = rig.builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let compute = core.compute();
    let bound: Vec<_> = [1, 2]
        .into_iter()
        .map(|batch| {
            let model = digits(&core, batch);
            let image = model.input::<u8>("image").unwrap();
            let scores = model.output::<f32>("scores").unwrap();
            let label = model.output::<u32>("label").unwrap();
            model.bind(&[&image], &[&scores, &label]).unwrap()
        })
        .collect();
    assert_eq!(compute.model_switches(), 0);
    for (of, switches) in [(0, 1), (0, 1), (1, 2), (1, 2), (0, 3), (1, 4)] {
        compute.execute_bound(&bound[of]).unwrap().wait().unwrap();
        assert_eq!(compute.model_switches(), switches);
    }
    // What is refused switches nothing.
    bound[0].model().clone().unload();
    compute.execute_bound(&bound[0]).unwrap_err();
    assert_eq!(compute.model_switches(), 4);
}
