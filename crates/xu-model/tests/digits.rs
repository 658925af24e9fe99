//! The digits example: its container opens, says what its README says, and holds its neighbours verbatim.

use std::path::{Path, PathBuf};
use xu_model::limits::MAX_FILE_BYTES;
use xu_model::{Container, Envelope, Model, ModelError, Op, TensorSpec, ValueType, pack};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/digits")
        .join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).expect("the example is complete")
}

#[test]
fn the_model_has_the_shapes_of_its_readme() {
    let container = Container::open(file("model.xum")).unwrap();
    let model = container.model();
    assert_eq!(model.name(), "digits");

    let facts = |spec: &TensorSpec| {
        (
            spec.name().to_owned(),
            spec.dtype(),
            spec.shape().to_vec(),
            spec.bytes_per_sample(),
        )
    };
    let inputs: Vec<_> = model.inputs().iter().map(facts).collect();
    assert_eq!(inputs, [("image".to_owned(), ValueType::U8, vec![64], 64)]);
    let outputs: Vec<_> = model.outputs().iter().map(facts).collect();
    assert_eq!(
        outputs,
        [
            ("scores".to_owned(), ValueType::F32, vec![10], 40),
            ("label".to_owned(), ValueType::U32, vec![1], 4),
        ]
    );

    let weights: Vec<_> = model
        .weights()
        .iter()
        .map(|weight| (weight.name(), weight.shape(), weight.data().len()))
        .collect();
    let expected: [(&str, &[usize], usize); 6] = [
        ("fc1.weight", &[64, 64], 4_096),
        ("fc1.bias", &[64], 64),
        ("fc2.weight", &[64, 32], 2_048),
        ("fc2.bias", &[32], 32),
        ("fc3.weight", &[32, 10], 320),
        ("fc3.bias", &[10], 10),
    ];
    assert_eq!(weights, expected);
    assert_eq!(model.parameters(), 6_570);
}

#[test]
fn the_layers_form_one_chain() {
    let model = Model::open(file("model.xum")).unwrap();
    assert_eq!(model, Model::parse(&read("model.xum")).unwrap());
    let ops: Vec<_> = model.layers().map(|layer| layer.op().name()).collect();
    let expected = "scale matmul bias relu matmul bias relu matmul bias softmax argmax";
    assert_eq!(ops.join(" "), expected);
    let first = model.layers().next().unwrap();
    assert_eq!(first.op(), Op::Scale { factor: 0.0625 });

    // One input and one layer after the other: each reads the value before its own.
    for (index, layer) in model.layers().enumerate() {
        assert_eq!(layer.inputs().len(), 1);
        assert_eq!(layer.inputs()[0].index(), index);
        assert_eq!(layer.output().index(), index + 1);
    }
    let widths: Vec<_> = model.values().iter().map(xu_model::Value::width).collect();
    assert_eq!(widths, [64, 64, 64, 64, 64, 32, 32, 32, 10, 10, 10, 1]);
    let outputs: Vec<_> = model.output_values().iter().map(|id| id.index()).collect();
    assert_eq!(outputs, [10, 11]);
    assert_eq!(model.input_values().map(|id| id.index()).next(), Some(0));
}

/// There are two copies of the manifest and of the weights, and they must not drift apart.
#[test]
fn the_container_holds_its_neighbours_verbatim() {
    let (container, manifest, weights) = (
        read("model.xum"),
        read("manifest.json"),
        read("weights.safetensors"),
    );
    let envelope = Envelope::read(&container).unwrap();
    assert_eq!(envelope.manifest(), manifest);
    assert_eq!(envelope.weights(), weights);
    assert_eq!(pack(&manifest, &weights).unwrap(), container);
}

#[test]
fn a_path_that_is_no_container_is_named() {
    let missing = file("missing.xum");
    let error = Container::open(&missing).unwrap_err();
    assert!(
        matches!(&error, ModelError::Io { path, .. } if *path == missing),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("missing.xum: No such file"), "{text}");

    let error = Container::open(file("")).unwrap_err();
    assert!(matches!(error, ModelError::NotAFile { .. }), "{error}");

    let error = Container::open(file("manifest.json")).unwrap_err();
    assert!(
        matches!(error.what(), ModelError::BadMagic { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("manifest.json: bad magic"),
        "{error}"
    );
}

/// The file is sparse: it has a length, and nothing is read of it.
#[test]
fn a_file_beyond_the_limit_is_refused_unread() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("beyond-the-limit.xum");
    let sparse = std::fs::File::create(&path).unwrap();
    sparse.set_len(MAX_FILE_BYTES + 1).unwrap();
    let error = Container::open(&path).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(
        matches!(error, ModelError::FileTooLarge { found, .. } if found == MAX_FILE_BYTES + 1),
        "{error}"
    );
    assert!(error.to_string().contains("beyond-the-limit.xum"));
}
