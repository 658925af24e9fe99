//! The inventory lists all that the source of this crate fixes, and prints the same on every run.
#![cfg(not(miri))] // Reads the source.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use xu_abi::inventory::{DRIVER_GROUPS, DRIVER_STRUCTS, GROUPS, Group, Json, Markdown, STRUCTS};
use xu_abi::layout::StructLayout;

/// The text of every source file.
fn sources() -> Vec<String> {
    let mut texts = Vec::new();
    let mut pending = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    assert!(texts.len() > 10);
    texts
}

/// The word before `end` in what follows `start`, for every line that begins with `start`.
fn declared(start: &str, end: char) -> Vec<String> {
    let words = sources().into_iter().flat_map(|text| {
        text.lines()
            .filter_map(|line| line.trim_start().strip_prefix(start))
            .filter_map(|rest| Some(rest.split_once(end)?.0.trim().to_owned()))
            .collect::<Vec<_>>()
    });
    words.collect()
}

/// The structs of the lane, then those of the driver.
fn structs() -> impl Iterator<Item = &'static StructLayout> {
    STRUCTS.iter().chain(DRIVER_STRUCTS)
}

/// The name in a line that asserts a layout: `assert_layout! { Name is "name" in ...`, and in a table of arguments
/// `Name is "name": ...`.
fn asserted_in(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (name, original) = line
        .strip_prefix("assert_layout! { ")
        .unwrap_or(line)
        .split_once(" is \"")?;
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric());
    (plain(name) && original.contains("bytes, align")).then_some(name)
}

#[test]
fn every_asserted_struct_is_listed_once() {
    let texts = sources();
    let lines = texts.iter().flat_map(|text| text.lines());
    let asserted: Vec<_> = lines.filter_map(asserted_in).map(str::to_owned).collect();
    let listed: Vec<_> = structs().map(|layout| layout.name).collect();
    assert_eq!(
        asserted.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        listed.iter().copied().collect()
    );
    assert_eq!(asserted.len(), listed.len());
}

/// Whoever declares a struct with a layout for others has to assert it.
#[test]
fn every_struct_with_a_layout_is_asserted() {
    let laid_out: usize = sources()
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| line.starts_with("#[repr(C"))
        .count();
    assert_eq!(laid_out, STRUCTS.len());
}

/// The constants of the lane, then those of the driver.
fn groups() -> impl Iterator<Item = &'static Group> {
    GROUPS.iter().chain(DRIVER_GROUPS)
}

#[test]
fn every_public_number_is_listed() {
    let listed: BTreeSet<_> = groups()
        .flat_map(|group| group.constants)
        .filter_map(|constant| constant.name.rsplit("::").next())
        .collect();
    let numbers = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "[u8; 4]"];
    let mut found = 0;
    for declaration in declared("pub const ", '=') {
        let Some((name, kind)) = declaration.split_once(": ") else {
            continue;
        };
        if numbers.contains(&kind) {
            found += 1;
            assert!(listed.contains(name), "{name} is not in the inventory");
        }
    }
    assert!(found > 30, "{found}");
}

#[test]
fn names_are_unique() {
    let names: Vec<_> = groups()
        .flat_map(|group| group.constants)
        .map(|constant| constant.name)
        .collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}

#[test]
fn the_dump_is_stable_and_well_formed() {
    let json = Json.to_string();
    assert_eq!(json, Json.to_string());
    assert_eq!(Markdown.to_string(), Markdown.to_string());
    for (open, close) in [('{', '}'), ('[', ']')] {
        // No text of the inventory holds a bracket but those of the structure and of array indices.
        assert_eq!(json.matches(open).count(), json.matches(close).count());
    }
    assert_eq!(json.matches('"').count() % 2, 0);
    assert!(json.starts_with("{\n") && json.ends_with("\n}\n"));
    for trailing in [",]", ",}", ",\n    ]", ",\n  ]"] {
        assert!(!json.contains(trailing), "{trailing}");
    }
    for layout in structs() {
        assert!(json.contains(&format!("\"name\": \"{}\"", layout.name)));
        assert!(Markdown.to_string().contains(&format!("`{}`", layout.name)));
    }
    assert!(
        json.contains(
            r#"{ "name": "scheduled_head", "offset": 128, "size": 8, "padding": false }"#
        )
    );
    assert!(json.contains(r#"{ "name": "TIMEOUT", "value": 5, "priority": 2, "counter": 4 }"#));
    assert!(
        json.lines()
            .chain(Markdown.to_string().lines())
            .all(|line| line == line.trim_end())
    );
}
