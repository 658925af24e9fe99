//! Which paths are nodes: `neuron0` to `neuron63` of one directory, which need not exist.
//!
//! Used by both front ends. A path is compared as text and, where its directory exists, as the directory it leads to.

use std::path::{Component, Path, PathBuf};
use xu_abi::driver::MAX_DEVICES;

/// The directory of the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    directory: PathBuf,
}

impl Nodes {
    /// Nodes in this directory, an absolute path.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: normal(directory),
        }
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The device that a path names; `base` is what a relative path starts from, asked only when it matters.
    pub(crate) fn find(&self, path: &Path, base: impl FnOnce() -> Option<PathBuf>) -> Option<u32> {
        let index = index(path.file_name()?.to_str()?)?;
        let absolute = absolute(path, base)?;
        self.is_directory(absolute.parent()?).then_some(index)
    }

    /// Whether an absolute path is the directory.
    pub(crate) fn is_directory(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        normal(path) == self.directory
            || real(path).is_some_and(|real_path| Some(real_path) == real(&self.directory))
    }
}

/// The path from the root.
pub(crate) fn absolute(path: &Path, base: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    if path.is_absolute() {
        Some(path.to_owned())
    } else {
        Some(base()?.join(path))
    }
}

/// The index in the name of a node.
fn index(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("neuron")?;
    let index: u32 = digits.parse().ok()?;
    (index < MAX_DEVICES && index.to_string() == digits).then_some(index)
}

/// Without `.` and `..`, as text.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_however_it_is_written() {
        let nodes = Nodes::new(Path::new("/dev"));
        let find = |path: &str, base: &str| {
            let base = Some(PathBuf::from(base));
            nodes.find(Path::new(path), || base)
        };
        assert_eq!(find("/dev/neuron0", "/"), Some(0));
        assert_eq!(find("/dev//./neuron3", "/"), Some(3));
        assert_eq!(find("/dev/../dev/neuron63", "/"), Some(63));
        assert_eq!(find("neuron1", "/dev"), Some(1));
        assert_eq!(find("../dev/neuron1", "/proc"), Some(1));
        for other in [
            "/dev/neuron64",
            "/dev/neuron00",
            "/dev/neuron",
            "/dev/null",
            "/tmp/neuron0",
            "/",
        ] {
            assert_eq!(find(other, "/"), None, "{other}");
        }
    }

    #[test]
    fn the_directory_need_not_exist() {
        let nodes = Nodes::new(Path::new("/no/such/place/"));
        assert_eq!(
            nodes.find(Path::new("/no/such/place/neuron2"), || None),
            Some(2)
        );
        assert!(nodes.is_directory(Path::new("/no/such/./place")));
    }
}
