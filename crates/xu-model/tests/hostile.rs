//! What a hostile file may try: each attempt is refused by name, and nothing panics.

#[macro_use]
mod fixture;

use fixture::{MANIFEST, floats, header, no_weights, parse, parse_with, safetensors, seal, small};
use proptest::prelude::*;
use xu_model::limits::{MAX_LAYERS, MAX_MANIFEST_BYTES, MAX_WEIGHTS_BYTES};
use xu_model::{Container, ModelError, pack};

// ---------------------------------------------------------------- the envelope

#[test]
fn the_small_container_is_valid() {
    let container = Container::parse(&small()).unwrap();
    assert_eq!(container.model().layers().len(), 10);
    assert_eq!(
        pack(MANIFEST.as_bytes(), &fixture::weights()).unwrap(),
        small()
    );
}

#[test]
fn truncation_at_every_offset_is_refused() {
    let bytes = small();
    for length in 0..bytes.len() {
        refused!(
            Container::parse(&bytes[..length]),
            ModelError::Truncated { found, .. } if found == length as u64
        );
    }
}

#[test]
fn truncated_sections_with_a_right_checksum_are_refused() {
    let (manifest, weights) = (MANIFEST.trim_end().as_bytes(), fixture::weights());
    for length in 0..manifest.len() {
        let bytes = seal(&manifest[..length], &weights);
        refused!(Container::parse(&bytes), ModelError::ManifestSyntax { .. });
    }
    for length in 0..weights.len() {
        let bytes = seal(manifest, &weights[..length]);
        refused!(
            Container::parse(&bytes),
            ModelError::WeightsHeaderLength { .. } | ModelError::WeightOutside { .. }
        );
    }
}

#[test]
fn wrong_magic_version_and_reserved_word_are_refused() {
    let with = |at: usize, byte: u8| {
        let mut bytes = small();
        bytes[at] = byte;
        Container::parse(&bytes)
    };
    refused!(with(0, b'x'), ModelError::BadMagic { .. });
    refused!(
        with(8, 2),
        ModelError::UnsupportedVersion {
            found: 2,
            supported: 1
        }
    );
    refused!(with(8, 0), ModelError::UnsupportedVersion { found: 0, .. });
    refused!(
        with(0x1F, 1),
        ModelError::ReservedNotZero { found: 0x0100_0000 }
    );
}

#[test]
fn lengths_that_lie_are_refused() {
    let lie = |manifest_len, weights_len| Container::parse(&header(manifest_len, weights_len, 0));
    refused!(
        lie(0, u64::MAX),
        ModelError::WeightsTooLarge { found: u64::MAX }
    );
    refused!(
        lie(u32::MAX, 0),
        ModelError::ManifestTooLarge { found: 0xFFFF_FFFF }
    );
    // Both at their limits: the sum is right, the bytes are not there.
    let needed = 0x20 + MAX_MANIFEST_BYTES + MAX_WEIGHTS_BYTES;
    let result = lie(
        u32::try_from(MAX_MANIFEST_BYTES).unwrap(),
        MAX_WEIGHTS_BYTES,
    );
    refused!(result, ModelError::Truncated { needed: n, found: 0x20 } if n == needed);
    refused!(
        lie(1, 0),
        ModelError::Truncated {
            needed: 0x21,
            found: 0x20
        }
    );
}

#[test]
fn trailing_bytes_are_refused() {
    let mut bytes = small();
    let declared = bytes.len() as u64;
    bytes.push(0);
    refused!(
        Container::parse(&bytes),
        ModelError::LengthMismatch { declared: d, found } if d == declared && found == declared + 1
    );
}

#[test]
fn every_flipped_bit_is_refused() {
    let mut bytes = small();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert!(Container::parse(&bytes).is_err(), "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
    }
    Container::parse(&bytes).unwrap();
}

// ---------------------------------------------------------------- the manifest

#[test]
fn a_manifest_that_is_not_utf8_is_refused() {
    let mut manifest = MANIFEST.as_bytes().to_vec();
    let at = MANIFEST.find("small").unwrap();
    manifest[at] = 0xFF;
    let result = Container::parse(&seal(&manifest, &fixture::weights()));
    refused!(result, ModelError::ManifestNotUtf8 { offset } if offset == at);
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let depth = 80_000;
        let nest = format!("{}0{}", open.repeat(depth), close.repeat(depth));
        refused!(parse(&nest), ModelError::ManifestSyntax { .. });
        let layer = format!(r#"{{"op":"relu","input":{nest},"output":"y"}}"#);
        refused!(
            parse(&fixture::manifest_of(&layer)),
            ModelError::FieldType { .. }
        );
        let layer = format!(r#"{{"op":"relu","input":"x","extra":{nest},"output":"y"}}"#);
        refused!(
            parse(&fixture::manifest_of(&layer)),
            ModelError::UnexpectedField { .. }
        );
        // The same in front of the names of tensors, where the header of the weights nests.
        let bytes = seal(MANIFEST.as_bytes(), &safetensors(&nest, &[]));
        refused!(Container::parse(&bytes), ModelError::Safetensors { .. });
    }
}

#[test]
fn a_million_layers_are_refused() {
    let million = fixture::manifest_of(&vec!["{}"; 1_000_000].join(","));
    let long = million.len() as u64;
    let bytes = seal(million.as_bytes(), &no_weights());
    refused!(Container::parse(&bytes), ModelError::ManifestTooLarge { found } if found == long);

    let many = 340_000;
    let manifest = fixture::manifest_of(&vec!["{}"; many].join(","));
    refused!(parse(&manifest), ModelError::TooManyLayers { found } if found == many);

    let chain = |layers: usize| {
        let text: Vec<_> = (0..layers)
            .map(|i| match i {
                0 => r#"{"op":"relu","input":"x","output":"y"}"#.to_owned(),
                1 => r#"{"op":"relu","input":"y","output":"z1"}"#.to_owned(),
                _ => format!(r#"{{"op":"relu","input":"z{}","output":"z{i}"}}"#, i - 1),
            })
            .collect();
        parse(&fixture::manifest_of(&text.join(",")))
    };
    assert_eq!(
        chain(MAX_LAYERS).unwrap().model().values().len(),
        MAX_LAYERS + 1
    );
    refused!(chain(MAX_LAYERS + 1), ModelError::TooManyLayers { found } if found == MAX_LAYERS + 1);
}

#[test]
fn an_unknown_op_names_the_layer() {
    let message = refused!(
        parse_with(r#""relu", "input""#, r#""conv2d", "kernel": 3, "input""#),
        ModelError::UnknownOp { layer: 3, .. }
    );
    assert_eq!(message, r#"layer 3: unknown op "conv2d""#);
    // Even when its fields hold what no field of ours holds.
    let concat = r#"{"op": "concat", "input": ["x", "x"], "output": {"a": 1}}"#;
    refused!(
        parse(&fixture::manifest_of(concat)),
        ModelError::UnknownOp { layer: 0, .. }
    );
}

#[test]
fn duplicate_names_are_refused() {
    let place = refused!(
        parse_with(r#""name": "mask""#, r#""name": "image""#),
        ModelError::DuplicateValue { .. }
    );
    assert!(place.starts_with("input 1 "), "{place}");
    refused!(
        parse_with(r#""output": "pre""#, r#""output": "x""#),
        ModelError::DuplicateValue { .. }
    );
    refused!(
        parse_with(r#""output": "pre""#, r#""output": "image""#),
        ModelError::DuplicateValue { .. }
    );
    let output = r#"{"name": "scores", "dtype": "f32", "shape": [3]},"#;
    refused!(
        parse_with(output, &output.repeat(2)),
        ModelError::DuplicateValue { .. }
    );
    let field = r#""op": "relu","#;
    refused!(
        parse_with(field, &field.repeat(2)),
        ModelError::ManifestSyntax { .. }
    );
    let tensor = r#""w":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]}"#;
    refused!(
        fixture::parse_weights(&format!("{{{tensor},{tensor}}}"), &[0; 48]),
        ModelError::DuplicateWeight { .. }
    );
}

#[test]
fn undefined_values_are_refused() {
    let text = refused!(
        parse_with(r#""input": "pre""#, r#""input": "nothing""#),
        ModelError::UndefinedValue { layer: 2, .. }
    );
    assert!(text.contains(r#"layer 2 (bias) reads "nothing""#), "{text}");
    // Defined, but later; and by itself.
    refused!(
        parse_with(r#""input": "pre""#, r#""input": "h""#),
        ModelError::UndefinedValue { layer: 2, .. }
    );
    refused!(
        parse_with(r#""input": "pre""#, r#""input": "biased""#),
        ModelError::UndefinedValue { layer: 2, .. }
    );
}

#[test]
fn sizes_that_overflow_are_refused() {
    let shape = |shape: &str| parse_with("[2, 2]", shape);
    let half = "4294967296";
    refused!(
        shape(&format!("[{half}, {half}]")),
        ModelError::Overflow { .. }
    );
    refused!(
        shape("[18446744073709551615, 2]"),
        ModelError::Overflow { .. }
    );
    refused!(
        shape("[18446744073709551616]"),
        ModelError::ManifestSyntax { .. }
    );
    refused!(shape("[-1]"), ModelError::ManifestSyntax { .. });
    refused!(
        shape("[16777217]"),
        ModelError::TooManyElements {
            found: 16_777_217,
            ..
        }
    );
    refused!(
        shape("[1, 1, 1, 1, 1, 1, 1, 1, 4]"),
        ModelError::TooManyDimensions { .. }
    );
    refused!(shape("[]"), ModelError::EmptyShape { .. });
    refused!(shape("[4, 0]"), ModelError::EmptyShape { .. });
}

// ---------------------------------------------------------------- the weights

#[test]
fn weights_that_are_not_finite_are_refused() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for index in [0usize, 5, 11] {
            let mut weights = fixture::weights();
            let data = weights.len() - 60;
            weights[data + index * 4..][..4].copy_from_slice(&bad.to_le_bytes());
            let text = refused!(
                pack(MANIFEST.as_bytes(), &weights),
                ModelError::WeightNotFinite { index: i, .. } if i == index
            );
            assert_eq!(
                text,
                format!("weight \"w\" is not finite at element {index}")
            );
        }
    }
}

#[test]
fn weights_whose_shape_does_not_fit_are_refused() {
    let header = |w: &str, b: &str| {
        format!(
            r#"{{"w":{{"dtype":"F32","shape":{w},"data_offsets":[0,48]}},"b":{{"dtype":"F32","shape":{b},"data_offsets":[48,60]}}}}"#
        )
    };
    let parse = |w, b| fixture::parse_weights(&header(w, b), &[0; 60]);
    parse("[4,3]", "[3]").unwrap();
    for wrong in ["[3,4]", "[12]", "[2,2,3]"] {
        let text = refused!(
            parse(wrong, "[3]"),
            ModelError::WeightShape { layer: 1, .. }
        );
        assert!(text.contains("with shape [4, any]"), "{text}");
    }
    for wrong in ["[1,3]", "[3,1]"] {
        let text = refused!(
            parse("[4,3]", wrong),
            ModelError::WeightShape { layer: 2, .. }
        );
        assert!(text.contains("with shape [3]"), "{text}");
    }
    // The judge of the format compares shapes with lengths.
    refused!(parse("[4,4]", "[3]"), ModelError::Safetensors { .. });
    refused!(parse("[4,3]", "[]"), ModelError::Safetensors { .. });
}

#[test]
fn a_safetensors_header_that_lies_is_refused() {
    let section = |length: u64, rest: &[u8]| {
        let weights = [&length.to_le_bytes()[..], rest].concat();
        Container::parse(&seal(MANIFEST.as_bytes(), &weights))
    };
    for length in [3, 100_000_000, 1 << 20, (1 << 20) + 1, 1 << 32, u64::MAX] {
        refused!(
            section(length, b"{}"),
            ModelError::WeightsHeaderLength { found, section: 10 } if found == length
        );
    }
    refused!(section(0, b"{}"), ModelError::Safetensors { .. });
    refused!(section(1, b"{}"), ModelError::Safetensors { .. });
    refused!(
        section(2, b"{}"),
        ModelError::MissingWeight { layer: 1, .. }
    );
    refused!(section(2, b"{}x"), ModelError::Safetensors { .. });
}

#[test]
fn offsets_that_overflow_are_refused() {
    // Eight tensors of 2^61 - 1 bytes: shapes and offsets agree, and with the length of the header the end
    // does not fit 64 bits.
    let step = (1u64 << 61) - 1;
    let entries: Vec<_> = (0..8)
        .map(|i| {
            let (begin, end) = (step * i, step * (i + 1));
            format!(r#""t{i}":{{"dtype":"U8","shape":[{step}],"data_offsets":[{begin},{end}]}}"#)
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    refused!(
        fixture::parse_weights(&header, &[]),
        ModelError::WeightOutside { available: 0, .. }
    );
    let holes = r#"{"w":{"dtype":"F32","shape":[4,3],"data_offsets":[4,52]}}"#;
    refused!(
        fixture::parse_weights(holes, &[0; 52]),
        ModelError::Safetensors { .. }
    );
    let backwards = r#"{"w":{"dtype":"F32","shape":[4,3],"data_offsets":[48,0]}}"#;
    refused!(
        fixture::parse_weights(backwards, &[0; 48]),
        ModelError::Safetensors { .. }
    );
    let shape = r#"{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,48]}}"#;
    refused!(
        fixture::parse_weights(shape, &[0; 48]),
        ModelError::Safetensors { .. }
    );
}

#[test]
fn messages_do_not_repeat_a_megabyte() {
    let long = "x".repeat(500_000);
    let length = |result: Result<Container, ModelError>| {
        let error = result.expect_err("must be refused");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        error.to_string().len() + source.map_or(0, |text| text.len())
    };
    let layer = format!(r#"{{"op":"relu","input":"{long}","output":"y"}}"#);
    assert!(length(parse(&fixture::manifest_of(&layer))) < 1_000);
    assert!(length(parse(&format!(r#"{{"{long}":0}}"#))) < 1_000);
    for header in [
        format!(r#"{{"{long}":0}}"#),
        format!(r#"{{"w":"{long}"}}"#),
        format!(r#"{{"w":{{"{long}":0}}}}"#),
        format!(r#"{{"w":{{"dtype":"{long}","shape":[],"data_offsets":[0,0]}}}}"#),
        format!(r#"{{"w":{{"dtype":"F32","shape":"{long}","data_offsets":[0,0]}}}}"#),
    ] {
        assert!(length(fixture::parse_weights(&header, &[])) < 1_000);
    }
}

// ---------------------------------------------------------------- at random

/// What a mutation does to a section.
#[derive(Clone, Debug)]
enum Edit {
    Replace(u8),
    Insert(u8),
    Remove,
    /// Repeats the bytes from here to the place so many bytes later.
    Repeat(u8),
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, Edit)>> {
    // Digits and punctuation reach deeper into a parser than noise does.
    let byte = || {
        prop_oneof![
            prop::sample::select(b"0123456789[]{}\",:.-e\\ ".to_vec()),
            any::<u8>()
        ]
    };
    let edit = prop_oneof![
        byte().prop_map(Edit::Replace),
        byte().prop_map(Edit::Insert),
        Just(Edit::Remove),
        any::<u8>().prop_map(Edit::Repeat),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), edit), 1..5)
}

fn apply(edits: &[(prop::sample::Index, Edit)], bytes: &mut Vec<u8>) {
    for (at, edit) in edits {
        let at = at.index(bytes.len());
        match *edit {
            Edit::Replace(byte) => bytes[at] = byte,
            Edit::Insert(byte) => bytes.insert(at, byte),
            Edit::Remove => drop(bytes.remove(at)),
            Edit::Repeat(length) => {
                let end = bytes.len().min(at + usize::from(length));
                bytes.extend_from_within(at..end);
                bytes[at..].rotate_right(end - at);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// A changed file with the old checksum is refused, whatever was changed.
    #[test]
    fn changed_bytes_are_refused(edits in edits()) {
        let mut bytes = small();
        apply(&edits, &mut bytes);
        prop_assert!(bytes == small() || Container::parse(&bytes).is_err());
    }

    /// A changed section under a right checksum parses or is refused, and does not panic.
    /// What parses packs into the same bytes.
    #[test]
    fn changed_sections_never_panic(manifest_edits in edits(), weights_edits in edits(), which in 0..3) {
        let (mut manifest, mut weights) = (MANIFEST.as_bytes().to_vec(), fixture::weights());
        if which != 1 {
            apply(&manifest_edits, &mut manifest);
        }
        if which != 0 {
            // Only the header; the data is covered by the tests on elements.
            let mut header = weights[8..weights.len() - 60].to_vec();
            apply(&weights_edits, &mut header);
            weights = [&(header.len() as u64).to_le_bytes()[..], &header, &floats([0.0; 15])].concat();
        }
        let bytes = seal(&manifest, &weights);
        if Container::parse(&bytes).is_ok() {
            prop_assert_eq!(pack(&manifest, &weights).unwrap(), bytes);
        }
    }

    /// Noise in place of any part is refused.
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..256)) {
        prop_assert!(Container::parse(&noise).is_err());
        prop_assert!(Container::parse(&seal(&noise, &fixture::weights())).is_err());
        prop_assert!(Container::parse(&seal(MANIFEST.as_bytes(), &noise)).is_err());
    }
}
