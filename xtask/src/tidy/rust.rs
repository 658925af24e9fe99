//! The rules for Rust files.
//!
//! Called by `tidy` for each of them.

use super::Finding;
use super::source::Source;

/// The longest file that a person still reads as one subject.
const MAX_LINES: usize = 700;

/// A comment belongs to the code when it is at most this many lines above it.
const SAFETY_REACH: usize = 6;
const PAIRS_REACH: usize = 8;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "common", "misc", "helpers", "types"];

const STRONG_ORDERINGS: &[&str] = &[
    "Ordering::Release",
    "Ordering::Acquire",
    "Ordering::AcqRel",
    "Ordering::SeqCst",
];

/// Applies every rule to one file.
pub(super) fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    let mut find = |index: usize, rule: &'static str, message: String| {
        findings.push(Finding {
            path: source.path.to_owned(),
            line: index + 1,
            rule,
            message,
        });
    };
    let in_product = is_product(source.path);

    if (in_product || source.path.starts_with("xtask/src/")) && !source.text.starts_with("//!") {
        find(
            0,
            "opening",
            "the file does not begin with `//!`: say what it is and who calls it".into(),
        );
    }
    if let Some(name) = empty_name(source.path) {
        find(0, "names", format!("`{name}` names no subject"));
    }
    let length = source.text.lines().count();
    if length > MAX_LINES {
        find(
            MAX_LINES,
            "length",
            format!("{length} lines, more than {MAX_LINES}: find the second subject"),
        );
    }

    let test_file = is_test_file(source.path);
    for (index, line) in source.lines.iter().enumerate() {
        let code = line.code.as_str();
        if let Some(name) = EMPTY_NAMES.iter().find(|name| declares_module(code, name)) {
            find(index, "names", format!("`{name}` names no subject"));
        }
        if has_unsafe(code) && !source.has_tag_near(index, SAFETY_REACH, "SAFETY:") {
            find(
                index,
                "safety",
                format!("no `SAFETY:` in the {SAFETY_REACH} lines above this `unsafe`"),
            );
        }
        if in_product && !is_order_file(source.path) {
            if let Some(ordering) = strong_ordering(code)
                && !source.has_tag_near(index, PAIRS_REACH, "PAIRS:")
            {
                let message =
                    format!("no `PAIRS:` in the {PAIRS_REACH} lines above this `{ordering}`");
                find(index, "pairs", message);
            }
            if imports_orderings(code) {
                find(
                    index,
                    "pairs",
                    "write `Ordering::` where it is used, so that `PAIRS:` can be checked".into(),
                );
            }
        }
        if (test_file || line.in_tests) && code.contains("thread::sleep") {
            find(
                index,
                "sleep",
                "a test does not sleep: use a condition, a barrier or virtual time".into(),
            );
        }
        if code.trim_start().starts_with("#[ignore") {
            find(
                index,
                "ignore",
                "a test that cannot run says why under `cfg_attr`, or goes".into(),
            );
        }
    }
}

/// A source file of a product crate, or of the example that people copy.
fn is_product(path: &str) -> bool {
    if path.starts_with("examples/service/src/") {
        return true;
    }
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

/// Everything in a `tests` directory, and a `tests.rs` beside the code.
fn is_test_file(path: &str) -> bool {
    path.split('/')
        .any(|part| part == "tests" || part == "tests.rs")
}

/// The one file of a crate that names its orderings; the argument for each is where it is used.
fn is_order_file(path: &str) -> bool {
    path.ends_with("/order.rs")
}

/// A file or a directory with an empty name.
fn empty_name(path: &str) -> Option<&'static str> {
    path.split('/').find_map(|part| {
        let stem = part.strip_suffix(".rs").unwrap_or(part);
        EMPTY_NAMES.iter().find(|name| **name == stem).copied()
    })
}

fn declares_module(code: &str, name: &str) -> bool {
    let mut words = code.split_whitespace();
    words.any(|word| word == "mod")
        && words
            .next()
            .is_some_and(|word| word.trim_end_matches([';', '{', '}']) == name)
}

fn has_unsafe(code: &str) -> bool {
    code.contains("unsafe {") || code.contains("unsafe impl")
}

/// Written out, or taken from the crate's order file.
fn strong_ordering(code: &str) -> Option<&'static str> {
    STRONG_ORDERINGS
        .iter()
        .copied()
        .find(|ordering| code.contains(ordering))
        .or_else(|| (code.contains("order::") && code.contains("()")).then_some("order::"))
}

fn imports_orderings(code: &str) -> bool {
    code.contains("Ordering::*")
        || code.split("Ordering::{").nth(1).is_some_and(|names| {
            ["Release", "Acquire", "AcqRel", "SeqCst"]
                .iter()
                .any(|name| names.contains(name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "crates/xu-ring/src/lib.rs";

    /// The rules and lines of what is found in a file.
    fn found(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let mut findings = Vec::new();
        check(&Source::new(path, text), &mut findings);
        findings
            .iter()
            .map(|finding| (finding.rule, finding.line))
            .collect()
    }

    #[test]
    fn a_file_opens_with_its_documentation() {
        assert_eq!(found(LIB, "// no\n"), [("opening", 1)]);
        assert_eq!(found("crates/xu-ring/tests/threads.rs", "// no\n"), []);
        assert_eq!(found(LIB, "//! yes\n"), []);
    }

    #[test]
    fn empty_names_are_refused() {
        assert_eq!(found("crates/nrta/src/utils.rs", "//! x\n"), [("names", 1)]);
        assert_eq!(found("tests/tests/common/mod.rs", "\n"), [("names", 1)]);
        assert_eq!(
            found(LIB, "//! x\nmod misc;\npub(crate) mod helpers {}\n"),
            [("names", 2), ("names", 3)]
        );
        assert_eq!(
            found("crates/nrta/src/commons.rs", "//! x\nmod typeset;\n"),
            []
        );
    }

    #[test]
    fn unsafe_needs_its_argument() {
        assert_eq!(
            found(LIB, "//! x\nlet a = unsafe { b };\n"),
            [("safety", 2)]
        );
        assert_eq!(
            found(LIB, "//! x\nunsafe impl Send for A {}\n"),
            [("safety", 2)]
        );
        assert_eq!(
            found(
                LIB,
                "//! x\n// SAFETY: y\n#[inline]\nunsafe impl Send for A {}\n"
            ),
            []
        );
        let far = format!("//! x\n// SAFETY: y\n{}unsafe {{ b }}\n", "\n".repeat(6));
        assert_eq!(found(LIB, &far), [("safety", 9)]);
        assert_eq!(
            found(
                LIB,
                "//! unsafe { x }\nlet a = \"unsafe {\";\nunsafe fn f() {}\n"
            ),
            []
        );
    }

    #[test]
    fn strong_orderings_name_their_partner() {
        assert_eq!(
            found(LIB, "//! x\na.store(1, Ordering::Release);\n"),
            [("pairs", 2)]
        );
        assert_eq!(
            found(LIB, "//! x\n// PAIRS: y\na.store(1, Ordering::Release);\n"),
            []
        );
        assert_eq!(found(LIB, "//! x\na.store(1, Ordering::Relaxed);\n"), []);
        assert_eq!(
            found(
                LIB,
                "//! x\nuse core::sync::atomic::Ordering::{Acquire, Relaxed};\n"
            ),
            [("pairs", 2)]
        );
        assert_eq!(
            found(LIB, "//! x\nuse core::cmp::Ordering::{Less, Greater};\n"),
            []
        );
        assert_eq!(
            found(
                LIB,
                "//! x\nuse crate::order;\na.load(order::submitted_load());\n"
            ),
            [("pairs", 3)]
        );
        assert_eq!(
            found("crates/xu-ring/src/order.rs", "//! x\nOrdering::Release\n"),
            []
        );
        assert_eq!(
            found("crates/xu-ring/tests/threads.rs", "Ordering::SeqCst\n"),
            []
        );
    }

    #[test]
    fn tests_neither_sleep_nor_hide() {
        let sleep = "std::thread::sleep(pause);\n";
        assert_eq!(found("crates/nrta/tests/run.rs", sleep), [("sleep", 1)]);
        assert_eq!(found("tests/tests/run.rs", sleep), [("sleep", 1)]);
        assert_eq!(
            found(
                LIB,
                &format!("//! x\n{sleep}#[cfg(test)]\nmod tests {{\n{sleep}}}\n")
            ),
            [("sleep", 5)]
        );
        assert_eq!(found("tests/tests/run.rs", "#[ignore]\n"), [("ignore", 1)]);
        assert_eq!(
            found("tests/tests/run.rs", "    #[ignore = \"slow\"]\n"),
            [("ignore", 1)]
        );
        assert_eq!(
            found(
                "tests/tests/run.rs",
                "#[cfg_attr(miri, ignore = \"mmap\")]\n"
            ),
            []
        );
    }

    #[test]
    fn a_file_has_an_end() {
        let lines = |count: usize| format!("//! x\n{}", "\n".repeat(count - 1));
        assert_eq!(found(LIB, &lines(700)), []);
        assert_eq!(found(LIB, &lines(701)), [("length", 701)]);
    }
}
