//! Where a report goes when it is not printed.

use std::fs;
use std::path::Path;

/// Writes files, given by name and text.
///
/// # Errors
/// One of them cannot be written.
pub(crate) fn write(directory: &Path, files: &[(String, String)]) -> Result<(), String> {
    fs::create_dir_all(directory)
        .map_err(|fault| format!("cannot make {}: {fault}", directory.display()))?;
    for (name, text) in files {
        let path = directory.join(name);
        fs::write(&path, text)
            .map_err(|fault| format!("cannot write {}: {fault}", path.display()))?;
    }
    Ok(())
}
