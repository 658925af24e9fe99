//! A container, opened: the door through which every model comes.
//!
//! Called by the loader of a runtime and by tools. The order of work is envelope, manifest, weights header,
//! model; each step allocates in proportion to what the step before it has bounded.

use crate::envelope::Envelope;
use crate::error::ModelError;
use crate::limits::MAX_FILE_BYTES;
use crate::manifest;
use crate::model::Model;
use crate::resolve::resolve;
use crate::weights::WeightsFile;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A container whose checksum is right and whose model is valid. Owns everything that it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    model: Model,
    checksum: u32,
}

impl Container {
    /// Parses the bytes of a container. The checksum is always verified.
    ///
    /// # Errors
    /// [`ModelError`], with the first thing that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        let envelope = Envelope::read(bytes)?;
        let manifest = manifest::read(envelope.manifest())?;
        let weights = WeightsFile::read(envelope.weights())?;
        let model = resolve(&manifest, &weights)?;
        Ok(Self {
            model,
            checksum: envelope.checksum(),
        })
    }

    /// Reads and parses a container file.
    ///
    /// # Errors
    /// [`ModelError::Io`], [`ModelError::NotAFile`] and [`ModelError::FileTooLarge`], which are found before
    /// anything is read; otherwise [`ModelError::InFile`], with what [`Container::parse`] says. All name the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let io = |source| ModelError::Io {
            path: path.to_owned(),
            source,
        };
        // Asked before opening as well: opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(ModelError::NotAFile {
                path: path.to_owned(),
            });
        }
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(ModelError::NotAFile {
                path: path.to_owned(),
            });
        }
        let found = metadata.len();
        if MAX_FILE_BYTES < found {
            return Err(ModelError::FileTooLarge {
                path: path.to_owned(),
                found,
            });
        }
        let mut bytes = Vec::new();
        // CAST: at most MAX_FILE_BYTES.
        bytes
            .try_reserve_exact(found as usize)
            .map_err(|error| io(error.into()))?;
        // A file that grows meanwhile is read up to its old length, and its header decides.
        file.take(found).read_to_end(&mut bytes).map_err(io)?;
        Self::parse(&bytes).map_err(|error| error.in_file(path))
    }

    /// The model.
    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// Gives the model up.
    #[must_use]
    pub fn into_model(self) -> Model {
        self.model
    }

    /// CRC-32 of the sections: tells one container from another in a log.
    #[must_use]
    pub const fn checksum(&self) -> u32 {
        self.checksum
    }
}
