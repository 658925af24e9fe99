//! The step `package`: the crates that stand on their own can be published as they are.
//!
//! Called by `steps`. Packs them, builds what was packed, and looks at what a registry and its readers would get: the
//! list of files, and the example in each README.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::step::{Run, Stop, Verdict};
use crate::workspace::Workspace;

/// The crates, each with the file of its documentation that has the README's example.
const CRATES: [(&str, &str); 2] = [("xu-abi", "src/lib.rs"), ("xu-ring", "src/spsc/mod.rs")];

/// What cargo says when a registry would want more about the crate.
const INCOMPLETE: &str = "warning: manifest has no";

/// Files of the root of a package.
const ROOT_FILES: &[&str] = &[
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];

/// Directories that may have Rust files and nothing else.
const SOURCES: &[&str] = &["examples/", "src/", "tests/"];

/// Offline, so that it needs no more of the registry than the lock file does.
pub(crate) fn verify(run: &mut Run<'_>) -> Verdict {
    run.command("cargo fetch --locked").run()?;
    let mut packed = DefaultHasher::new();
    let mut count = 0;
    for (name, documentation) in CRATES {
        example_is_documented(run.workspace, name, documentation).map_err(Stop::Failed)?;
        let listed = run
            .command(&format!(
                "cargo package -p {name} --list --locked --offline --allow-dirty"
            ))
            .run()?;
        let files = files(&listed).map_err(Stop::Failed)?;
        count += files.len();
        for file in files {
            // Those that cargo writes itself are not there, and follow from the others.
            let content = fs::read(run.workspace.root.join("crates").join(name).join(file));
            (file, content.ok()).hash(&mut packed);
        }
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::read(run.workspace.root.join(file))
            .ok()
            .hash(&mut packed);
    }
    // Cargo takes a published version for unchangeable, and xu-ring is built with the packed xu-abi as if that were
    // published: in a directory that was used before, it would be built with the xu-abi of that time.
    let directory = format!("packages/{:016x}", packed.finish());
    if !run.workspace.target.join(&directory).exists() {
        // The first time there is nothing to remove.
        let _ = fs::remove_dir_all(run.workspace.target.join("packages"));
    }
    let output = run
        .command("cargo package -p xu-abi -p xu-ring --locked --offline --allow-dirty")
        .target_subdirectory(&directory)
        .run()?;
    if let Some(line) = output.lines().find(|line| line.starts_with(INCOMPLETE)) {
        return Err(Stop::Failed(line.to_owned()));
    }
    Ok(format!("xu-abi and xu-ring build as packed, {count} files"))
}

/// The files that would be packed, if none of them is out of place.
fn files(listed: &str) -> Result<Vec<&str>, String> {
    let names = listed.lines().filter(|line| !is_message(line));
    let (expected, others): (Vec<&str>, Vec<&str>) = names.partition(|name| is_expected(name));
    match others.first() {
        Some(file) => Err(format!("{file} would be packed")),
        None if expected.is_empty() => Err("nothing would be packed".to_owned()),
        None => Ok(expected),
    }
}

/// Cargo's warnings and their notes are in the same log.
fn is_message(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with(' ') || line.contains(": ")
}

fn is_expected(name: &str) -> bool {
    ROOT_FILES.contains(&name)
        || (name.ends_with(".rs") && SOURCES.iter().any(|source| name.starts_with(source)))
}

/// The README's example is compiled nowhere: it must be one that the documentation has, which the step `doc-tests` runs.
fn example_is_documented(
    workspace: &Workspace,
    name: &str,
    documentation: &str,
) -> Result<(), String> {
    let directory = workspace.root.join("crates").join(name);
    let read = |file: &str| {
        fs::read_to_string(directory.join(file))
            .map_err(|e| format!("cannot read {file} of {name}: {e}"))
    };
    let example = example(&read("README.md")?)
        .ok_or_else(|| format!("the README of {name} has no example"))?;
    if visible(&read(documentation)?).contains(&example) {
        Ok(())
    } else {
        Err(format!(
            "the example in the README of {name} is not the one in {documentation}"
        ))
    }
}

/// The first block of Rust in a text of Markdown.
fn example(markdown: &str) -> Option<String> {
    let (_, after) = markdown.split_once("```rust\n")?;
    let (block, _) = after.split_once("```")?;
    Some(block.to_owned())
}

/// The documentation of a source file as a reader of the page sees it: without lines that rustdoc hides.
fn visible(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let shown = lines.filter(|line| *line != "#" && !line.starts_with("# "));
    shown.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_manifests_are_packed_and_nothing_else() {
        let listed = "\
warning: manifest has no documentation, homepage or repository
  |
  = note: see the reference
.cargo_vcs_info.json
Cargo.toml
src/spsc/mod.rs
tests/rows.rs
";
        assert_eq!(files(listed).map(|files| files.len()), Ok(4));
        for junk in ["notes.txt", "src/lib.rs.bk", "target/debug/a.rs"] {
            let listed = format!("{listed}{junk}\n");
            assert_eq!(files(&listed), Err(format!("{junk} would be packed")));
        }
        assert!(files("").is_err());
    }

    #[test]
    fn example_is_compared_with_what_the_page_shows() {
        let readme = "# xu-ring\n\n```rust\nlet a = 1;\n    a();\n```\nText.\n";
        let source = "//! ```\n//! # fn main() {\n//! let a = 1;\n//!     a();\n//! # }\n//! ```\n";
        let example = example(readme).unwrap();
        assert_eq!(example, "let a = 1;\n    a();\n");
        assert!(visible(source).contains(&example));
        assert!(!visible(&source.replace('1', "2")).contains(&example));
    }
}
