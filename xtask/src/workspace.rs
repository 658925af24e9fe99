//! Where the workspace is, and where its build products and logs go.
//!
//! Used by every other file here.

use std::fs;
use std::path::{Path, PathBuf};

/// The directories that the commands work in.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The directory of the workspace's manifest.
    pub(crate) root: PathBuf,
    /// `CARGO_TARGET_DIR` of the caller, or `target` in the root.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Looks upwards from the current directory.
    pub(crate) fn find() -> Result<Self, String> {
        let here = std::env::current_dir().map_err(|e| format!("no current directory: {e}"))?;
        let root = here
            .ancestors()
            .find(|directory| is_workspace(directory))
            .ok_or_else(|| format!("no workspace at or above {}", here.display()))?
            .to_path_buf();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(chosen) if !chosen.is_empty() => here.join(chosen),
            _ => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// The directory of the logs, made if it is missing.
    pub(crate) fn logs(&self) -> Result<PathBuf, String> {
        let logs = self.target.join("verify");
        fs::create_dir_all(&logs).map_err(|e| format!("cannot make {}: {e}", logs.display()))?;
        Ok(logs)
    }

    /// `path` as a person in the root would write it.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

fn is_workspace(directory: &Path) -> bool {
    fs::read_to_string(directory.join("Cargo.toml"))
        .is_ok_and(|manifest| manifest.lines().any(|line| line.trim() == "[workspace]"))
}
