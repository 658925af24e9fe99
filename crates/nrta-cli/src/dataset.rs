//! Labelled images and the result that an independent program has computed for them.
//!
//! Formats: `examples/digits/README.md`.

use nrta::ValueType;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"XUDIGITS";
const VERSION: u32 = 1;
const HEADER: usize = 24;
/// Largest file that is read.
const MAX_FILE: u64 = 64 << 20;

/// Images of one size, with their labels.
#[derive(Debug)]
pub(crate) struct Dataset {
    pixels: Vec<u8>,
    labels: Vec<u8>,
    image_bytes: usize,
}

/// Why a data file is not acceptable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {what}", path.display())]
    Format { path: PathBuf, what: String },
}

impl Dataset {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let bytes = read(path)?;
        Self::parse(&bytes).map_err(|what| DataError::Format {
            path: path.into(),
            what,
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (header, body) = bytes
            .split_first_chunk::<HEADER>()
            .ok_or("shorter than its header of 24 bytes")?;
        if &header[..8] != MAGIC {
            return Err("not an image file: wrong magic".into());
        }
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        if word(8) != VERSION {
            return Err(format!(
                "version {} is not supported, only {VERSION}",
                word(8)
            ));
        }
        let (count, image_bytes) = (word(12) as usize, half(16) * half(18));
        let expected = count.checked_mul(image_bytes + 1);
        if count == 0 || image_bytes == 0 || expected != Some(body.len()) {
            return Err(format!(
                "{count} images of {image_bytes} bytes with labels do not make {} bytes",
                body.len()
            ));
        }
        let (pixels, labels) = body.split_at(count * image_bytes);
        Ok(Self {
            pixels: pixels.to_vec(),
            labels: labels.to_vec(),
            image_bytes,
        })
    }

    /// Number of images.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The pixels of images `first..first + count`.
    pub(crate) fn pixels(&self, first: usize, count: usize) -> &[u8] {
        &self.pixels[first * self.image_bytes..(first + count) * self.image_bytes]
    }

    pub(crate) fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Which input and output of `model` take images and give labels, or why it has none.
    pub(crate) fn fit(&self, model: &nrta::Model) -> Result<usize, String> {
        let [input] = model.inputs() else {
            return Err(format!("model {} does not take one input", model.name()));
        };
        if input.dtype() != ValueType::U8 || input.bytes_per_sample() != self.image_bytes {
            return Err(format!(
                "input {} of model {} does not take images of {} bytes",
                input.name(),
                model.name(),
                self.image_bytes
            ));
        }
        model
            .outputs()
            .iter()
            .position(|output| output.dtype() == ValueType::U32 && output.bytes_per_sample() == 4)
            .ok_or_else(|| format!("model {} gives no label (one u32 per image)", model.name()))
    }
}

/// What the training script found with its own forward pass.
#[derive(Debug)]
pub(crate) struct Expected {
    images: u64,
    correct: u64,
    predictions_crc32: String,
}

/// How a run compares with [`Expected`].
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) equal: bool,
    pub(crate) expected_correct: u64,
    pub(crate) expected_images: u64,
    pub(crate) expected_crc32: String,
    pub(crate) crc32: String,
}

impl Expected {
    /// `None` when there is no such file.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, DataError> {
        let bytes = match read(path) {
            Err(DataError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            other => other?,
        };
        let format = |what: String| DataError::Format {
            path: path.into(),
            what,
        };
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| format(error.to_string()))?;
        let number = |key: &str| {
            value[key]
                .as_u64()
                .ok_or_else(|| format(format!("{key} is missing or not a number")))
        };
        let crc32 = value["predictions_crc32"]
            .as_str()
            .filter(|crc32| {
                crc32.len() == 8 && crc32.bytes().all(|digit| digit.is_ascii_hexdigit())
            })
            .ok_or_else(|| format("predictions_crc32 is missing or not 8 hex digits".into()))?;
        Ok(Some(Self {
            images: number("images")?,
            correct: number("correct")?,
            predictions_crc32: crc32.to_owned(),
        }))
    }

    pub(crate) fn compare(&self, predictions: &[u8]) -> Verdict {
        let crc32 = format!("{:08x}", crc32fast::hash(predictions));
        Verdict {
            equal: crc32 == self.predictions_crc32 && predictions.len() as u64 == self.images,
            expected_correct: self.correct,
            expected_images: self.images,
            expected_crc32: self.predictions_crc32.clone(),
            crc32,
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    let io = |source| DataError::Io {
        path: path.into(),
        source,
    };
    // Asked before opening: opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(DataError::Format {
            path: path.into(),
            what: "not a regular file".into(),
        });
    }
    let size = metadata.len();
    if size > MAX_FILE {
        let what = format!("{size} bytes, more than {MAX_FILE}");
        return Err(DataError::Format {
            path: path.into(),
            what,
        });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}
