//! The tests that the lists of this program name are there, wherever they are.

use std::collections::BTreeSet;
use std::path::Path;

/// Those who have lists, from the directory of the package.
const LISTS: [&str; 2] = ["tests/conformance/main.rs", "tests/conformance/crashes.rs"];
/// What is between two backticks and longer than this names a test.
const SHORT: usize = 24;

/// The functions that sources below a directory define.
fn functions(below: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(path).unwrap();
            let names = source
                .split("fn ")
                .skip(1)
                .filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(names.map(str::to_owned));
        }
    }
}

/// Names of tests in the rows of a list, without their modules.
fn named(list: &str) -> Vec<&str> {
    let rows = list.lines().filter(|line| line.starts_with("//! |"));
    let words = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let names = words.filter_map(|word| word.rsplit("::").next());
    names
        .filter(|name| name.len() > SHORT && !name.contains('/'))
        .collect()
}

#[test]
fn every_test_that_a_list_names_exists() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for sources in ["../../tests/tests", "../../tests/src", ".."] {
        functions(&package.join(sources), &mut found);
    }
    for list in LISTS {
        let list = std::fs::read_to_string(package.join(list)).unwrap();
        let named = named(&list);
        assert!(named.len() > 8, "{named:?}");
        let missing: Vec<_> = named
            .iter()
            .filter(|name| !found.contains(**name))
            .collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
