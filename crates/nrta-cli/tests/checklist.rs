//! `docs/hardware-checklist.md` against the tables of facts, and the script that asks a device about them.
#![cfg(feature = "real-driver")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use nrta::neuron::abi::unverified::TABLE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The facts that the probe speaks of, with their values.
fn listed() -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_nrta"))
        .args(["probe", "--list"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (name, value) = line.split_once('\t').unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.lines().map(line).collect()
}

/// The rows of the page: name, then all other cells.
fn page() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/hardware-checklist.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ").map(str::to_owned);
        let name = cells.next()?.strip_suffix('`')?.to_owned();
        Some((name, cells.collect()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_page_has_every_fact_with_its_value_and_nothing_else() {
    let (listed, page) = (listed(), page());
    let names = |facts: Vec<&String>| facts.into_iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(page.keys().collect()), names(listed.keys().collect()));
    for (name, value) in &listed {
        let cells = &page[name];
        assert_eq!(cells[0].trim_matches('`'), value, "value of {name}");
        // What it is for, what breaks, how it is seen, what to change.
        assert_eq!(cells.len(), 5, "{name}");
        assert!(cells.iter().all(|cell| !cell.trim().is_empty()), "{name}");
    }
}

#[test]
fn every_unverified_number_is_a_fact() {
    let listed = listed();
    for row in TABLE {
        assert!(listed.contains_key(row.name), "{}", row.name);
    }
}

/// The map is a file of constants; those that name a place or a choice are facts.
#[test]
fn every_constant_of_the_map_is_a_fact() {
    let listed = listed();
    let file = root().join("crates/xu-device/src/map.rs");
    let text = std::fs::read_to_string(file).unwrap();
    let constants: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("pub const "))
        .filter(|line| !line.starts_with("fn "))
        .filter_map(|line| line.split(':').next())
        .collect();
    assert!(constants.len() > 20, "{constants:?}");
    for name in constants {
        assert!(listed.contains_key(name), "{name}");
    }
}

#[test]
fn every_choice_of_the_emulation_is_on_the_page() {
    let subjects = |file: &str, begin: &str, row: &str| -> Vec<String> {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let (_, table) = text.split_once(begin).unwrap();
        let rows = table.lines().map_while(|line| line.strip_prefix(row));
        let cells = rows.filter_map(|row| row.split(" | ").next().map(str::to_owned));
        cells.skip(2).collect()
    };
    let choices = subjects(
        "crates/neuron-emu/src/choices.rs",
        "such a number.\n//!\n",
        "//! |",
    );
    let page = subjects("docs/hardware-checklist.md", "nothing else.\n\n", "|");
    assert!(choices.len() > 10, "{choices:?}");
    assert_eq!(page, choices);
}

#[test]
fn the_script_says_that_there_is_no_device() {
    let out = std::env::temp_dir().join(format!("nrta-report-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let output = Command::new(root().join("scripts/hardware-report"))
        .args(["--nrta", env!("CARGO_BIN_EXE_nrta"), "--out"])
        .arg(&out)
        .arg("--dev")
        .arg(&out)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stdout}");
    assert!(stdout.contains("no Neuron device"), "{stdout}");
    assert!(stdout.contains("the simulated machine works"), "{stdout}");
    let files: Vec<_> = std::fs::read_dir(&out).unwrap().collect();
    assert_eq!(files.len(), 1, "the text alone");
    std::fs::remove_dir_all(&out).unwrap();
}

#[test]
fn the_script_has_help_and_does_nothing_else_then() {
    let output = Command::new(root().join("scripts/hardware-report"))
        .args(["--nrta", "/no/such/program", "--help"])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(
        stdout.contains("usage: scripts/hardware-report"),
        "{stdout}"
    );
    assert!(!stdout.contains("== host"), "{stdout}");
}

#[test]
fn the_script_refuses_what_it_cannot_do() {
    for arguments in [
        &["--out"][..],
        &["--nrta", "true", "--out", "/nowhere/at/all"],
    ] {
        let output = Command::new(root().join("scripts/hardware-report"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
}
