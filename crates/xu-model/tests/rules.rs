//! The rules of a model, one test each: what is legal and how it resolves, and what is refused.

#[macro_use]
mod fixture;

use fixture::{floats, manifest_of, parse, parse_weights, parse_with, safetensors, seal};
use xu_model::limits::{
    MAX_ELEMENTS, MAX_FILE_BYTES, MAX_LAYERS, MAX_MANIFEST_BYTES, MAX_MANIFEST_STRING_BYTES,
    MAX_NAME_BYTES, MAX_RANK, MAX_TENSORS, MAX_WEIGHTS_BYTES, MAX_WEIGHTS_HEADER_BYTES,
};
use xu_model::{Container, Model, ModelError, Op, ValueType};

fn small() -> Model {
    Container::parse(&fixture::small())
        .expect("the small container is valid")
        .into_model()
}

// ---------------------------------------------------------------- what is legal

#[test]
fn names_become_places() {
    let model = small();
    let steps: Vec<_> = model
        .layers()
        .map(|layer| {
            let inputs: Vec<_> = layer.inputs().iter().map(|id| id.index()).collect();
            (layer.op().name(), inputs, layer.output().index())
        })
        .collect();
    let expected = [
        ("scale", vec![0], 2),
        ("matmul", vec![2], 3),
        ("bias", vec![3], 4),
        ("relu", vec![4], 5),
        ("mul", vec![5, 1], 6),
        ("add", vec![6, 5], 7),
        ("softmax", vec![7], 8),
        ("argmax", vec![8], 9),
        ("sum", vec![8], 10),
        ("max", vec![8], 11),
    ];
    assert_eq!(steps, expected);
    let outputs: Vec<_> = model.output_values().iter().map(|id| id.index()).collect();
    assert_eq!(outputs, [8, 9, 11]);

    let value = |index: usize| {
        let value = &model.values()[index];
        (
            value.name(),
            value.dtype(),
            value.width(),
            value.bytes_per_sample(),
        )
    };
    assert_eq!(value(0), ("image", ValueType::U8, 4, 4));
    assert_eq!(value(1), ("mask", ValueType::F32, 3, 12));
    assert_eq!(value(2), ("x", ValueType::F32, 4, 16));
    assert_eq!(value(3), ("pre", ValueType::F32, 3, 12));
    assert_eq!(value(9), ("label", ValueType::U32, 1, 4));
    assert_eq!(value(11), ("largest", ValueType::F32, 1, 4));
    for (index, id) in model.input_values().enumerate() {
        assert_eq!(model.value(id).name(), model.inputs()[index].name());
        assert_eq!(model.value(id).width(), model.inputs()[index].elements());
    }
}

#[test]
fn weights_are_row_major() {
    let model = small();
    let matrix = model.layers().find_map(|layer| match layer.op() {
        Op::MatMul { weight } => Some(model.weight(weight)),
        _ => None,
    });
    let matrix = matrix.unwrap();
    assert_eq!((matrix.name(), matrix.shape()), ("w", &[4, 3][..]));
    let (row, column) = (2, 1);
    assert_eq!(matrix.data()[row * 3 + column], 7.0);
    assert_eq!(model.weights()[1].data(), [12.0, 13.0, 14.0]);
}

#[test]
fn a_weight_that_is_used_twice_is_held_once() {
    let layers = r#"{"op":"bias","input":"x","bias":"b","output":"once"},
        {"op":"bias","input":"once","bias":"b","output":"y"}"#;
    let container = parse(&manifest_of(layers)).unwrap();
    assert_eq!(container.model().weights().len(), 1);
    let used: Vec<_> = container
        .model()
        .layers()
        .map(|layer| layer.op().weight())
        .collect();
    assert_eq!(used[0], used[1]);
}

#[test]
fn a_value_may_be_both_inputs_of_a_layer() {
    let square = r#"{"op":"mul","a":"x","b":"x","output":"y"}"#;
    let container = parse(&manifest_of(square)).unwrap();
    let layer = container.model().layers().next().unwrap();
    assert_eq!(layer.inputs()[0], layer.inputs()[1]);
}

#[test]
fn unused_inputs_results_and_tensors_are_legal() {
    let model = parse_with(r#""b": "mask""#, r#""b": "h""#)
        .unwrap()
        .into_model();
    assert_eq!(model.inputs()[1].name(), "mask");
    assert!(model.values().iter().any(|value| value.name() == "total"));

    // A tensor that no layer uses may have any type, and is not looked at.
    let header = r#"{"w":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},
        "b":{"dtype":"F32","shape":[3],"data_offsets":[48,60]},
        "half":{"dtype":"BF16","shape":[2],"data_offsets":[60,64]},
        "nan":{"dtype":"F32","shape":[1],"data_offsets":[64,68]},
        "none":{"dtype":"F32","shape":[0],"data_offsets":[68,68]}}"#;
    let data = floats([0.0; 16].into_iter().chain([f32::NAN]));
    let model = parse_weights(header, &data).unwrap().into_model();
    assert_eq!(model.weights().len(), 2);
}

#[test]
fn a_model_without_weights_is_legal() {
    let manifest = manifest_of(r#"{"op":"relu","input":"x","output":"y"}"#);
    let container = Container::parse(&seal(manifest.as_bytes(), &fixture::no_weights())).unwrap();
    assert_eq!(container.model().parameters(), 0);
    // Its weights section is a safetensors file all the same.
    let bytes = seal(manifest.as_bytes(), &[]);
    refused!(
        Container::parse(&bytes),
        ModelError::WeightsHeaderLength {
            found: 0,
            section: 0
        }
    );
}

#[test]
fn scale_takes_bytes_and_floats() {
    for dtype in ["u8", "f32"] {
        let from = r#""name": "image", "dtype": "u8""#;
        parse_with(from, &from.replace("u8", dtype)).unwrap();
    }
    let factor = |text: &str| parse_with("0.0625", text);
    for (text, expected) in [
        ("2", 2.0),
        ("-3", -3.0),
        ("1e-3", 0.001),
        ("18446744073709551615", 1.8446744e19),
    ] {
        let model = factor(text).unwrap().into_model();
        let op = model.layers().next().unwrap().op();
        assert_eq!(op, Op::Scale { factor: expected });
    }
    refused!(factor("1e39"), ModelError::FactorNotFinite { layer: 0, .. });
    refused!(factor("1e999"), ModelError::ManifestSyntax { .. });
    refused!(factor("NaN"), ModelError::ManifestSyntax { .. });
}

#[test]
fn names_may_be_escaped_and_are_compared_decoded() {
    parse_with(r#""output": "x""#, r#""output": "\u0078""#).unwrap();
    refused!(
        parse_with(r#""output": "x""#, r#""output": "\u0069mage""#),
        ModelError::DuplicateValue { .. }
    );
}

#[test]
fn a_string_may_end_in_a_backslash() {
    // Taken for an escape of the closing mark, it would open a string of spaces.
    let spaces = " ".repeat(2 * MAX_MANIFEST_STRING_BYTES);
    let container = parse_with(r#""small","#, &format!(r#""small\\",{spaces}"#)).unwrap();
    assert_eq!(container.model().name(), r"small\");
}

// ---------------------------------------------------------------- names and types

#[test]
fn names_have_a_length() {
    let long = |bytes: usize| "n".repeat(bytes);
    for (from, to) in [
        (r#""name": "small""#, r#""name": "NAME""#),
        (r#""name": "mask""#, r#""name": "NAME""#),
        (r#""output": "total""#, r#""output": "NAME""#),
    ] {
        for length in [0, MAX_NAME_BYTES + 1] {
            refused!(
                parse_with(from, &to.replace("NAME", &long(length))),
                ModelError::NameLength { found, .. } if found == length
            );
        }
    }
    let name = long(MAX_NAME_BYTES);
    parse_with("small", &name).unwrap();
    // Each byte as an escape of six characters is the longest way to write it.
    let escaped = r"\u006e".repeat(MAX_NAME_BYTES);
    assert_eq!(escaped.len(), MAX_MANIFEST_STRING_BYTES);
    assert_eq!(parse_with("small", &escaped).unwrap().model().name(), name);
    refused!(
        parse_with("small", &format!("{escaped}n")),
        ModelError::StringTooLong { offset: 12 }
    );
}

#[test]
fn element_types_are_known() {
    refused!(
        parse_with(r#""mask", "dtype": "f32""#, r#""mask", "dtype": "bf16""#),
        ModelError::UnknownValueType { .. }
    );
    let text = refused!(
        parse_with(r#""mask", "dtype": "f32""#, r#""mask", "dtype": "u8""#),
        ModelError::DTypeMismatch {
            layer: 4,
            found: ValueType::U8,
            ..
        }
    );
    assert_eq!(
        text,
        r#"layer 4 (mul) reads "mask" of type u8, it takes f32"#
    );
    refused!(
        parse_with(r#""image", "dtype": "u8""#, r#""image", "dtype": "u32""#),
        ModelError::DTypeMismatch {
            layer: 0,
            expected: "u8 or f32",
            ..
        }
    );
    refused!(
        parse_with(r#""sum", "input": "scores""#, r#""sum", "input": "label""#),
        ModelError::DTypeMismatch {
            layer: 8,
            found: ValueType::U32,
            ..
        }
    );
}

#[test]
fn both_inputs_have_one_width() {
    let text = refused!(
        parse_with(r#""b": "mask""#, r#""b": "x""#),
        ModelError::ShapeMismatch {
            layer: 4,
            expected: 3,
            found: 4,
            ..
        }
    );
    assert_eq!(
        text,
        r#"layer 4 (mul) reads "x" of width 4, its other input has width 3"#
    );
}

// ---------------------------------------------------------------- the form of the manifest

#[test]
fn a_layer_has_exactly_its_fields() {
    refused!(
        parse_with(r#""op": "relu", "#, ""),
        ModelError::MissingOp { layer: 3 }
    );
    refused!(
        parse_with(r#""op": "relu""#, r#""op": 7"#),
        ModelError::FieldType {
            layer: 3,
            field: "op",
            found: "a number",
            ..
        }
    );
    refused!(
        parse_with(r#", "factor": 0.0625"#, ""),
        ModelError::MissingField {
            layer: 0,
            field: "factor",
            ..
        }
    );
    refused!(
        parse_with("0.0625", r#""0.0625""#),
        ModelError::FieldType {
            field: "factor",
            found: "a string",
            ..
        }
    );
    refused!(
        parse_with(r#", "output": "total""#, ""),
        ModelError::MissingField {
            layer: 8,
            op: "sum",
            field: "output"
        }
    );
    for extra in [r#""weight": "w""#, r#""axis": 1"#] {
        let from = r#""op": "relu""#;
        let text = refused!(
            parse_with(from, &format!("{from}, {extra}")),
            ModelError::UnexpectedField { layer: 3, .. }
        );
        assert!(text.starts_with("layer 3 (relu) has the field"), "{text}");
    }
    for wrong in ["null", "true", "[1]", r#"{"a": 1}"#] {
        refused!(
            parse_with(r#""input": "pre""#, &format!(r#""input": {wrong}"#)),
            ModelError::FieldType {
                layer: 2,
                field: "input",
                ..
            }
        );
    }
}

#[test]
fn a_manifest_has_exactly_its_fields() {
    refused!(
        parse_with(r#""name": "small","#, ""),
        ModelError::ManifestSyntax { .. }
    );
    refused!(
        parse_with(
            r#""name": "small","#,
            r#""name": "small", "author": "nobody","#
        ),
        ModelError::ManifestSyntax { line: 2, .. }
    );
    refused!(
        parse_with(r#""shape": [3]}"#, r#""shape": [3], "layout": "nchw"}"#),
        ModelError::ManifestSyntax { line: 5, .. }
    );
    // Objects are not written as lists of their fields' values.
    let entry = r#"{"name": "mask", "dtype": "f32", "shape": [3]}"#;
    refused!(
        parse_with(entry, r#"["mask", "f32", [3]]"#),
        ModelError::ManifestSyntax { line: 5, .. }
    );
    refused!(
        parse(r#"["m", [], [], []]"#),
        ModelError::ManifestSyntax { .. }
    );
    refused!(
        parse(&format!("{} x", fixture::MANIFEST)),
        ModelError::ManifestSyntax { .. }
    );
}

// ---------------------------------------------------------------- outputs and weights

#[test]
fn outputs_are_results_of_layers() {
    let output = r#"{"name":"y","dtype":"f32","shape":[3]}"#;
    let relu = manifest_of(r#"{"op":"relu","input":"x","output":"y"}"#);
    refused!(parse(&relu.replace(output, "")), ModelError::NoOutputs);
    for other in ["x", "z"] {
        let manifest = relu.replace(output, &output.replace(r#""y""#, &format!("{other:?}")));
        refused!(parse(&manifest), ModelError::OutputNotProduced { .. });
    }
    refused!(
        parse(&relu.replace(output, &output.replace("f32", "u32"))),
        ModelError::OutputMismatch {
            declared: ValueType::U32,
            computed: ValueType::F32,
            ..
        }
    );
    refused!(
        parse(&relu.replace(output, &output.replace("[3]", "[4]"))),
        ModelError::OutputMismatch {
            declared_elements: 4,
            computed_elements: 3,
            ..
        }
    );
    // The shape of an output is free as long as the number of elements is right.
    parse(&relu.replace(output, &output.replace("[3]", "[1,3,1]"))).unwrap();
}

#[test]
fn weights_are_floats_with_elements() {
    let header =
        |b: &str| format!(r#"{{"w":{{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]}}{b}}}"#);
    let text = refused!(
        parse_weights(&header(""), &[0; 48]),
        ModelError::MissingWeight { layer: 2, .. }
    );
    assert_eq!(
        text,
        r#"layer 2 (bias) uses the weight "b", which the weights section lacks"#
    );
    let half = r#","b":{"dtype":"BF16","shape":[3],"data_offsets":[48,54]}"#;
    refused!(
        parse_weights(&header(half), &[0; 54]),
        ModelError::WeightValueType { layer: 2, ref found, .. } if found == "BF16"
    );
    let empty = r#","b":{"dtype":"F32","shape":[0],"data_offsets":[48,48]}"#;
    refused!(
        parse_weights(&header(empty), &[0; 48]),
        ModelError::EmptyShape { .. }
    );
    let unknown = r#","b":{"dtype":"F31","shape":[3],"data_offsets":[48,60]}"#;
    refused!(
        parse_weights(&header(unknown), &[0; 60]),
        ModelError::Safetensors { .. }
    );
}

/// The largest result comes from the smallest matrix: one row.
#[test]
fn a_result_has_a_limit_too() {
    let columns = MAX_ELEMENTS + 1;
    let header = format!(
        r#"{{"w":{{"dtype":"F32","shape":[1,{columns}],"data_offsets":[0,{}]}}}}"#,
        columns * 4
    );
    let manifest = manifest_of(
        r#"{"op":"sum","input":"x","output":"s"},{"op":"matmul","input":"s","weight":"w","output":"y"}"#,
    );
    let weights = safetensors(&header, &vec![0; columns * 4]);
    refused!(
        Container::parse(&seal(manifest.as_bytes(), &weights)),
        ModelError::TooManyElements { found, .. } if found == columns
    );
}

#[test]
fn counts_and_sizes_are_judged_without_use() {
    let relu = manifest_of(r#"{"op":"relu","input":"x","output":"y"}"#);
    let with_input = |shape: &str| {
        let unused = format!(r#""inputs":[{{"name":"unused","dtype":"u8","shape":{shape}}},"#);
        parse(&relu.replace(r#""inputs":["#, &unused))
    };
    with_input(&format!("[{MAX_ELEMENTS}]")).unwrap();
    refused!(
        with_input(&format!("[{MAX_ELEMENTS},2]")),
        ModelError::TooManyElements { .. }
    );

    let listed = |count: usize, item: &dyn Fn(usize) -> String| {
        let items: Vec<_> = (0..count).map(item).collect();
        items.join(",")
    };
    let inputs = |count: usize| {
        let item = |i| format!(r#"{{"name":"i{i}","dtype":"u8","shape":[1]}},"#);
        let items: String = (0..count).map(item).collect();
        parse(&relu.replace(r#""inputs":["#, &format!(r#""inputs":[{items}"#)))
    };
    inputs(MAX_TENSORS - 1).unwrap();
    refused!(
        inputs(MAX_TENSORS),
        ModelError::TooManyTensors { what: "inputs", found } if found == MAX_TENSORS + 1
    );

    let section =
        |header: &str| Container::parse(&seal(relu.as_bytes(), &safetensors(header, &[])));
    let annotations = |count| {
        let text = listed(count, &|i| format!(r#""{i}":"""#));
        section(&format!(r#"{{"__metadata__":{{{text}}}}}"#))
    };
    annotations(MAX_TENSORS).unwrap();
    refused!(
        annotations(MAX_TENSORS + 1),
        ModelError::TooManyTensors {
            what: "annotations",
            ..
        }
    );
    let tensors = |count| {
        let entry = |i| format!(r#""{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#);
        section(&format!("{{{}}}", listed(count, &entry)))
    };
    tensors(MAX_TENSORS).unwrap();
    refused!(
        tensors(MAX_TENSORS + 1),
        ModelError::TooManyTensors {
            what: "tensors",
            ..
        }
    );
}

// ---------------------------------------------------------------- the document

/// Each limit stands in the document with the number that the code uses.
#[test]
fn the_document_states_the_limits() {
    let document = include_str!("../../../docs/model-container.md");
    for (what, limit) in [
        ("manifest, bytes", MAX_MANIFEST_BYTES),
        (
            "string in the text of a manifest, bytes",
            MAX_MANIFEST_STRING_BYTES as u64,
        ),
        ("weights, bytes", MAX_WEIGHTS_BYTES),
        (
            "JSON header of the weights, bytes",
            MAX_WEIGHTS_HEADER_BYTES,
        ),
        ("file, bytes", MAX_FILE_BYTES),
        ("layers", MAX_LAYERS as u64),
        (
            "inputs; outputs; tensors of the weights; their annotations",
            MAX_TENSORS as u64,
        ),
        ("dimensions of a shape", MAX_RANK as u64),
        ("name, bytes", MAX_NAME_BYTES as u64),
        ("elements of a value, per sample", MAX_ELEMENTS as u64),
    ] {
        let digits: Vec<_> = limit
            .to_string()
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|group| String::from_utf8_lossy(group).into_owned())
            .collect();
        let row = format!("| {what} | {} |", digits.join(","));
        assert!(document.contains(&row), "the document lacks: {row}");
    }
}
