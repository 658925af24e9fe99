//! Which devices there are: the nodes `neuron0` to `neuron63` of a directory.
//!
//! The number is a routing id and not the order on the bus, and there may be gaps. Spec `driver.md` section 1.

use super::error::DriverError;
use std::path::{Path, PathBuf};
use xu_abi::driver::{MAX_DEVICES, errno};

/// Where the nodes are.
pub const ROOT: &str = "/dev";

/// The indices of the devices whose nodes are in `root`, in order. Nothing is opened.
///
/// # Errors
/// [`DriverError::Directory`] when it cannot be read; [`DriverError::Open`] when there is no descriptor left to read it with.
pub fn devices(root: &Path) -> Result<Vec<u32>, DriverError> {
    let unreadable = |error: std::io::Error| match error.raw_os_error() {
        Some(errno @ (errno::EMFILE | errno::ENFILE)) => DriverError::Open {
            path: root.to_owned(),
            errno,
        },
        _ => DriverError::Directory {
            root: root.to_owned(),
            reason: error.to_string(),
        },
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        found.extend(name.to_str().and_then(index));
    }
    found.sort_unstable();
    Ok(found)
}

/// The node of a device.
#[must_use]
pub fn node(root: &Path, index: u32) -> PathBuf {
    root.join(format!("neuron{index}"))
}

/// The index in the name of a node; `None` for other names, such as `neuron_monitor` or `neuron007`.
fn index(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("neuron")?;
    let index: u32 = digits.parse().ok()?;
    (index < MAX_DEVICES && index.to_string() == digits).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_name_of_its_index() {
        assert_eq!(index("neuron0"), Some(0));
        assert_eq!(index("neuron63"), Some(63));
        for other in [
            "neuron64",
            "neuron",
            "neuron007",
            "neuron+1",
            "neuron_1",
            "null",
        ] {
            assert_eq!(index(other), None, "{other}");
        }
    }
}
