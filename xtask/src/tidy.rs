//! The workspace's own rules, which no other tool knows.
//!
//! Called by the step of the same name, and by `cargo xtask tidy`.
//! `docs/verifying.md` lists the rules for a reader; here each has a function and a test.

mod layers;
mod manifest;
mod paths;
mod rust;
mod source;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use source::Source;

/// One violation of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the root.
    path: String,
    /// Counted from one.
    line: usize,
    rule: &'static str,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            message,
        } = self;
        write!(f, "{path}:{line}: [{rule}] {message}")
    }
}

/// What a check of the whole tree found.
pub(crate) struct Tidied {
    files: usize,
    pub(crate) findings: Vec<Finding>,
}

impl Tidied {
    pub(crate) fn summary(&self) -> String {
        format!("{} findings in {} files", self.findings.len(), self.files)
    }
}

/// Checks every file that is tracked, or would be.
pub(crate) fn check(root: &Path) -> Result<Tidied, String> {
    let files = text_files(root)?;
    let mut findings = Vec::new();
    for (path, text) in &files {
        paths::check(path, text, &mut findings);
        if path.ends_with(".rs") {
            rust::check(&Source::new(path, text), &mut findings);
        }
    }
    let manifests = files
        .iter()
        .filter(|(path, _)| manifest::is_of_a_crate(path));
    layers::check(
        manifests.map(|(path, text)| (path.as_str(), text.as_str())),
        &mut findings,
    );
    findings.sort();
    Ok(Tidied {
        files: files.len(),
        findings,
    })
}

/// Paths, with `/` between their parts, and contents of the text files.
fn text_files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let paths = match listed_by_git(root) {
        Some(paths) => paths,
        None => found_on_disk(root)?,
    };
    let mut files = Vec::new();
    for path in paths {
        // A file that is deleted but still tracked is gone; one that is not UTF-8 is no text.
        if let Ok(text) = fs::read_to_string(root.join(&path)) {
            files.push((path, text));
        }
    }
    if files.is_empty() {
        return Err(format!("no file found below {}", root.display()));
    }
    Ok(files)
}

/// Tracked files, and new ones that are not ignored; `None` outside a checkout.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let mut paths: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    // A file in conflict is listed once for each side.
    paths.dedup();
    (!paths.is_empty()).then_some(paths)
}

/// For a copy without its history: everything but hidden and built files.
fn found_on_disk(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        let complain = |e| format!("cannot list {}: {e}", root.join(&directory).display());
        for entry in fs::read_dir(root.join(&directory)).map_err(complain)? {
            let entry = entry.map_err(complain)?;
            let path = directory.join(entry.file_name());
            let kind = entry.file_type().map_err(complain)?;
            let name = entry.file_name();
            if kind.is_dir() && name != "target" && name != ".git" {
                pending.push(path);
            } else if kind.is_file() {
                paths.push(path.to_string_lossy().into_owned());
            }
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compilers_message() {
        let finding = Finding {
            path: "crates/xu-ring/src/lib.rs".to_owned(),
            line: 7,
            rule: "safety",
            message: "why".to_owned(),
        };
        assert_eq!(
            finding.to_string(),
            "crates/xu-ring/src/lib.rs:7: [safety] why"
        );
    }

    #[test]
    fn the_rules_find_this_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let on_disk = found_on_disk(root).unwrap();
        assert!(on_disk.iter().any(|path| path == "xtask/src/tidy.rs"));
        if let Some(listed) = listed_by_git(root) {
            assert!(listed.iter().any(|path| path == "xtask/src/tidy.rs"));
        }
    }
}
