//! What a client sends: the pixels of one image, checked before anything of the device is touched.
//!
//! Made by `http` from the body of a request. Format: `examples/digits/README.md`.

use serde_json::Value;

/// Pixels of an image: 8 rows of 8.
pub const PIXELS: usize = 64;
/// Value of a pixel that is all ink; paper is 0.
pub const INK: u8 = 16;

/// An image that the network can be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pixels: Vec<u8>,
}

/// A body is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// The body is JSON, but no array.
    #[error("the body is {0}, not an array of {PIXELS} pixels")]
    NotAnArray(&'static str),
    /// Too few or too many pixels.
    #[error("{0} pixels, not {PIXELS}")]
    Count(usize),
    /// A pixel that is no number of the range.
    #[error("pixel {index} is {value}, not an integer from 0 to {INK}")]
    Pixel {
        /// Which, counted from 0.
        index: usize,
        /// What it is.
        value: Value,
    },
}

impl Image {
    /// An image of one byte per pixel, row by row.
    ///
    /// # Errors
    /// [`ImageError::Count`], [`ImageError::Pixel`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.len() != PIXELS {
            return Err(ImageError::Count(bytes.len()));
        }
        match bytes.iter().position(|pixel| *pixel > INK) {
            None => Ok(Self {
                pixels: bytes.to_vec(),
            }),
            // PANIC: the position is that of a byte.
            Some(index) => Err(ImageError::Pixel {
                index,
                value: bytes[index].into(),
            }),
        }
    }

    /// An image as an array of JSON, row by row.
    ///
    /// # Errors
    /// [`ImageError`].
    pub fn from_json(text: &[u8]) -> Result<Self, ImageError> {
        let values = match serde_json::from_slice(text)? {
            Value::Array(values) => values,
            other => return Err(ImageError::NotAnArray(kind(&other))),
        };
        if values.len() != PIXELS {
            return Err(ImageError::Count(values.len()));
        }
        let pixels = values.into_iter().enumerate().map(pixel);
        Ok(Self {
            pixels: pixels.collect::<Result<_, _>>()?,
        })
    }

    /// The pixels, as the network takes them.
    #[must_use]
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }
}

fn pixel((index, value): (usize, Value)) -> Result<u8, ImageError> {
    let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
    match number {
        Some(pixel) if pixel <= INK => Ok(pixel),
        _ => Err(ImageError::Pixel { index, value }),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
