//! The dependencies that a manifest names.
//!
//! Used by `layers`.
//! Reads the few forms of TOML that `cargo add` and people write: one dependency on a line, or one in a table
//! of its own.

/// Where a dependency is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the crate itself, or in its build script.
    Product,
    /// In its tests, examples and benches.
    Development,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency<'a> {
    /// The name of the package, also when it is renamed.
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    /// Counted from one.
    pub(super) line: usize,
}

/// The manifest of a crate in `crates/`, of the benches, or of the service among the examples.
pub(super) fn is_of_a_crate(path: &str) -> bool {
    crate_directory(path).is_some()
}

/// `xu-ring` of `crates/xu-ring/Cargo.toml`, `benches` of `benches/Cargo.toml`, and likewise the service.
pub(super) fn crate_directory(path: &str) -> Option<&str> {
    match path {
        "benches/Cargo.toml" => return Some("benches"),
        "examples/service/Cargo.toml" => return Some("examples/service"),
        _ => {}
    }
    let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    (!name.contains('/')).then_some(name)
}

/// What the current table holds.
enum Table {
    Dependencies(Kind),
    /// The one dependency was found when the table was opened.
    Other,
}

pub(super) fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut table = Table::Other;
    for (index, line) in manifest.lines().enumerate() {
        let line_number = index + 1;
        let line = line.trim();
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
        {
            table = match dependency_table(header) {
                Some((kind, "")) => Table::Dependencies(kind),
                Some((kind, name)) => {
                    found.push(Dependency {
                        name,
                        kind,
                        line: line_number,
                    });
                    Table::Other
                }
                None => Table::Other,
            };
        } else if let Table::Dependencies(kind) = table
            && let Some((name, value)) = key_and_value(line)
        {
            let name = renamed(value).unwrap_or(name);
            found.push(Dependency {
                name,
                kind,
                line: line_number,
            });
        }
    }
    found
}

/// The kind, and what follows: nothing, or the name of the one dependency.
fn dependency_table(header: &str) -> Option<(Kind, &str)> {
    for (word, kind) in [
        ("dev-dependencies", Kind::Development),
        ("build-dependencies", Kind::Product),
        ("dependencies", Kind::Product),
    ] {
        // `target."cfg(…)".` may stand before the word.
        let Some((before, after)) = header.split_once(word) else {
            continue;
        };
        if !(before.is_empty() || before.ends_with('.')) {
            return None;
        }
        return match after.strip_prefix('.') {
            Some(name) => Some((kind, name.trim_matches('"'))),
            None if after.is_empty() => Some((kind, "")),
            None => None,
        };
    }
    None
}

/// `serde` and the rest of `serde.workspace = true` or `serde = "1"`; `None` for comments and the lines of an array.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let name = key.split('.').next()?.trim().trim_matches('"');
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, value))
}

/// The package behind a name of the crate's own choice.
fn renamed(value: &str) -> Option<&str> {
    let (_, after) = value.split_once("package")?;
    after
        .trim_start()
        .strip_prefix('=')?
        .trim_start()
        .strip_prefix('"')?
        .split('"')
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Development, Product};

    #[test]
    fn every_form_is_read() {
        let manifest = r#"
[package]
name = "xu-ring"

[features]
default = []

[dependencies]
xu-abi.workspace = true
nix = { workspace = true, features = [
    "event",
] }
# commented = "1"
short = { package = "a-long-name", version = "1" }

[dependencies.serde]
version = "1"

[target."cfg(loom)".dependencies]
loom.workspace = true

[target.'cfg(not(any(loom, miri)))'.dev-dependencies]
proptest = "1"

[build-dependencies]
cc = "1"

[[test]]
name = "model"
"#;
        let found: Vec<_> = dependencies(manifest)
            .iter()
            .map(|found| (found.name, found.kind, found.line))
            .collect();
        assert_eq!(
            found,
            [
                ("xu-abi", Product, 9),
                ("nix", Product, 10),
                ("a-long-name", Product, 14),
                ("serde", Product, 16),
                ("loom", Product, 20),
                ("proptest", Development, 23),
                ("cc", Product, 26),
            ]
        );
    }

    #[test]
    fn only_crates_have_layers() {
        assert_eq!(
            crate_directory("crates/xu-ring/Cargo.toml"),
            Some("xu-ring")
        );
        assert_eq!(crate_directory("Cargo.toml"), None);
        assert_eq!(crate_directory("xtask/Cargo.toml"), None);
        assert_eq!(crate_directory("crates/xu-ring/fuzz/Cargo.toml"), None);
    }
}
