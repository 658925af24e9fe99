//! The weights section: which tensors it has, and their elements.
//!
//! Called by the resolver. The `safetensors` crate is the judge of the format; [`scan`] goes first, because
//! that crate alone accepts a JSON header of 100 MB, keeps the last of two tensors with one name, and adds
//! offsets from the file without a check.

use crate::error::{ModelError, quote};
use crate::limits::{MAX_NAME_BYTES, MAX_RANK, MAX_TENSORS, MAX_WEIGHTS_HEADER_BYTES};
use core::fmt;
use safetensors::tensor::TensorView;
use safetensors::{SafeTensorError, SafeTensors};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, de};
use std::borrow::Cow;
use std::collections::HashSet;

/// Size of the length in front of the JSON header.
const LENGTH_BYTES: usize = 8;

/// Longest name of an element type that is looked up.
const MAX_DTYPE_BYTES: usize = 16;

/// Longest message of the JSON reader that is kept whole.
const MAX_MESSAGE_BYTES: usize = 512;

/// The key of the header that holds annotations, not a tensor.
const ANNOTATIONS: &str = "__metadata__";

/// A weights section whose header is right. Its elements are still to be judged.
#[derive(Debug)]
pub(crate) struct WeightsFile<'a> {
    tensors: SafeTensors<'a>,
}

impl<'a> WeightsFile<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ModelError::WeightsHeaderLength`], [`ModelError::Safetensors`], and the limits and names that
    /// [`scan`] checks.
    pub(crate) fn read(section: &'a [u8]) -> Result<Self, ModelError> {
        let section_len = section.len() as u64;
        let Some((length, rest)) = section.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(ModelError::WeightsHeaderLength {
                found: 0,
                section: section_len,
            });
        };
        let found = u64::from_le_bytes(*length);
        // The comparisons come first, so that the cast loses nothing.
        if MAX_WEIGHTS_HEADER_BYTES < found || (rest.len() as u64) < found {
            return Err(ModelError::WeightsHeaderLength {
                found,
                section: section_len,
            });
        }
        let (header, data) = rest.split_at(found as usize);
        scan(header, data.len() as u64)?;
        let tensors = SafeTensors::deserialize(section)
            .map_err(|source| ModelError::Safetensors { source })?;
        Ok(Self { tensors })
    }

    /// The tensor called `name`.
    pub(crate) fn tensor(&self, name: &str) -> Option<TensorView<'a>> {
        self.tensors.tensor(name).ok()
    }
}

/// The elements of an F32 tensor.
///
/// # Errors
/// [`ModelError::WeightNotFinite`].
pub(crate) fn elements(name: &str, tensor: &TensorView<'_>) -> Result<Vec<f32>, ModelError> {
    let (words, _) = tensor.data().as_chunks::<{ size_of::<f32>() }>();
    let not_finite = |word: &[u8; 4]| !f32::from_le_bytes(*word).is_finite();
    match words.iter().position(not_finite) {
        Some(index) => Err(ModelError::WeightNotFinite {
            name: name.to_owned(),
            index,
        }),
        None => Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect()),
    }
}

/// Walks over the JSON header once, keeping nothing but the names.
///
/// Afterwards: at most [`MAX_TENSORS`] tensors, names that differ and are not too long, at most [`MAX_RANK`]
/// dimensions, no field that the format does not have, and no tensor that ends after the data.
fn scan(header: &[u8], available: u64) -> Result<(), ModelError> {
    let mut scan = Scan {
        available,
        names: HashSet::new(),
        annotations: 0,
        refusal: None,
    };
    let mut reader = serde_json::Deserializer::from_slice(header);
    let outcome = reader
        .deserialize_map(Header(&mut scan))
        .and_then(|()| reader.end());
    match (scan.refusal, outcome) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(error)) => Err(ModelError::Safetensors {
            source: SafeTensorError::InvalidHeaderDeserialization(shortened(error)),
        }),
        (None, Ok(())) => Ok(()),
    }
}

/// `error`, without the megabyte of text that it may quote.
fn shortened(error: serde_json::Error) -> serde_json::Error {
    let message = error.to_string();
    if message.len() <= MAX_MESSAGE_BYTES {
        return error;
    }
    serde_json::Error::custom(quote(&message))
}

/// What the scan knows so far.
struct Scan<'de> {
    available: u64,
    names: HashSet<Cow<'de, str>>,
    annotations: usize,
    /// Why it stopped, when the JSON is not to blame.
    refusal: Option<ModelError>,
}

impl Scan<'_> {
    /// Stops the JSON reader; the text is never seen.
    fn refuse<E: de::Error>(&mut self, refusal: ModelError) -> E {
        self.refusal = Some(refusal);
        E::custom("refused")
    }
}

struct Header<'s, 'de>(&'s mut Scan<'de>);

impl<'de> Visitor<'de> for Header<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let scan = self.0;
        while let Some(Text(name)) = map.next_key()? {
            if name == ANNOTATIONS {
                map.next_value_seed(Annotations(scan))?;
                continue;
            }
            if name.is_empty() || MAX_NAME_BYTES < name.len() {
                let what = format!(
                    "the name of tensor {} of the weights section",
                    scan.names.len()
                );
                return Err(scan.refuse(ModelError::NameLength {
                    what,
                    found: name.len(),
                }));
            }
            if scan.names.contains(&name) {
                let weight = name.into_owned();
                return Err(scan.refuse(ModelError::DuplicateWeight { weight }));
            }
            if scan.names.len() == MAX_TENSORS {
                let found = MAX_TENSORS + 1;
                return Err(scan.refuse(ModelError::TooManyTensors {
                    what: "tensors",
                    found,
                }));
            }
            map.next_value_seed(Entry { scan, name: &name })?;
            scan.names.insert(name);
        }
        Ok(())
    }
}

/// `"__metadata__": {"key": "text", ...}`
struct Annotations<'s, 'de>(&'s mut Scan<'de>);

impl<'de> DeserializeSeed<'de> for Annotations<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Annotations<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, Text<'de>>()?.is_some() {
            self.0.annotations += 1;
            if MAX_TENSORS < self.0.annotations {
                let found = self.0.annotations;
                return Err(self.0.refuse(ModelError::TooManyTensors {
                    what: "annotations",
                    found,
                }));
            }
        }
        Ok(())
    }
}

/// `"name": {"dtype": "F32", "shape": [64, 10], "data_offsets": [0, 2560]}`
struct Entry<'s, 'de> {
    scan: &'s mut Scan<'de>,
    name: &'s str,
}

impl<'de> DeserializeSeed<'de> for Entry<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(field)) = map.next_key()? {
            match &*field {
                "dtype" => {
                    let Text(dtype) = map.next_value()?;
                    if MAX_DTYPE_BYTES < dtype.len() {
                        return Err(A::Error::custom(format_args!(
                            "unknown dtype {:?}",
                            quote(&dtype)
                        )));
                    }
                }
                "shape" => {
                    if let Rank::TooHigh = map.next_value()? {
                        let tensor = self.name.to_owned();
                        return Err(self.scan.refuse(ModelError::TooManyDimensions { tensor }));
                    }
                }
                "data_offsets" => {
                    let (begin, end) = map.next_value::<(u64, u64)>()?;
                    let (end, available) = (begin.max(end), self.scan.available);
                    if available < end {
                        let weight = self.name.to_owned();
                        let refusal = ModelError::WeightOutside {
                            weight,
                            end,
                            available,
                        };
                        return Err(self.scan.refuse(refusal));
                    }
                }
                other => {
                    return Err(A::Error::custom(format_args!(
                        "unknown field {:?}",
                        quote(other)
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Whether a shape is short enough; its numbers are left to the judge.
enum Rank {
    Fits,
    TooHigh,
}

impl<'de> Deserialize<'de> for Rank {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dimensions;

        impl<'de> Visitor<'de> for Dimensions {
            type Value = Rank;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rank, A::Error> {
                let mut rank = 0usize;
                while seq.next_element::<u64>()?.is_some() {
                    rank += 1;
                }
                Ok(if MAX_RANK < rank {
                    Rank::TooHigh
                } else {
                    Rank::Fits
                })
            }
        }

        deserializer.deserialize_seq(Dimensions)
    }
}

/// A string that stays a slice of the header unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
