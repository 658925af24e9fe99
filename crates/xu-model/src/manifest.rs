//! The manifest's text, turned into a raw manifest: JSON of the right form, with nothing resolved.
//!
//! Called by [`Container`](crate::Container) before the resolver.
//! Rules: names stay slices of the text, lists stop growing at their limit (the rest is only counted), and a
//! layer is read field by field whatever its operation is, so that the resolver can say which operation of
//! which layer it does not know.

use crate::error::ModelError;
use crate::limits::{MAX_LAYERS, MAX_MANIFEST_STRING_BYTES, MAX_RANK, MAX_TENSORS};
use core::fmt;
use core::marker::PhantomData;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;

/// A manifest whose form is right. Counts and names are still to be judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawManifest<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) inputs: Counted<Object<RawTensor<'a>>, MAX_TENSORS>,
    #[serde(borrow)]
    pub(crate) outputs: Counted<Object<RawTensor<'a>>, MAX_TENSORS>,
    #[serde(borrow)]
    pub(crate) layers: Counted<RawLayer<'a>, MAX_LAYERS>,
}

/// An entry of `inputs` or `outputs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTensor<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) dtype: Cow<'a, str>,
    pub(crate) shape: Counted<usize, MAX_RANK>,
}

/// A struct written as a JSON object. Left alone, serde also takes a list of the fields' values.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

/// The first `LIMIT` items of a list, and how many it has.
#[derive(Debug)]
pub(crate) struct Counted<T, const LIMIT: usize> {
    items: Vec<T>,
    total: usize,
}

impl<T, const LIMIT: usize> Counted<T, LIMIT> {
    /// The items, or the length of a list that is too long.
    pub(crate) fn within_limit(&self) -> Result<&[T], usize> {
        if LIMIT < self.total {
            Err(self.total)
        } else {
            Ok(&self.items)
        }
    }
}

/// Names of the fields of a layer. The order is that of [`Field`].
const FIELDS: [&str; 8] = [
    "op", "input", "a", "b", "weight", "bias", "factor", "output",
];

/// A field that some operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Op,
    Input,
    A,
    B,
    Weight,
    Bias,
    Factor,
    Output,
}

impl Field {
    pub(crate) const ALL: [Self; FIELDS.len()] = [
        Self::Op,
        Self::Input,
        Self::A,
        Self::B,
        Self::Weight,
        Self::Bias,
        Self::Factor,
        Self::Output,
    ];

    pub(crate) const fn name(self) -> &'static str {
        FIELDS[self as usize]
    }
}

/// An entry of `layers`: the fields that are there.
#[derive(Debug, Default)]
pub(crate) struct RawLayer<'a> {
    fields: [Option<Content<'a>>; FIELDS.len()],
    /// The first field whose name no operation knows.
    unknown: Option<Cow<'a, str>>,
}

impl<'a> RawLayer<'a> {
    pub(crate) fn field(&self, field: Field) -> Option<&Content<'a>> {
        self.fields[field as usize].as_ref()
    }

    pub(crate) fn unknown_field(&self) -> Option<&str> {
        self.unknown.as_deref()
    }
}

/// What a field of a layer holds.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    /// Something that no field takes; only its kind is kept.
    Other(&'static str),
}

impl Content<'_> {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Other(kind) => kind,
        }
    }
}

/// Reads the text of a manifest.
///
/// # Errors
/// [`ModelError::ManifestNotUtf8`], [`ModelError::StringTooLong`], [`ModelError::ManifestSyntax`].
pub(crate) fn read(text: &[u8]) -> Result<RawManifest<'_>, ModelError> {
    let text = core::str::from_utf8(text).map_err(|error| ModelError::ManifestNotUtf8 {
        offset: error.valid_up_to(),
    })?;
    check_strings(text)?;
    let Object(manifest) =
        serde_json::from_str(text).map_err(|source| ModelError::ManifestSyntax {
            line: source.line(),
            column: source.column(),
            source,
        })?;
    Ok(manifest)
}

/// Refuses long strings before the JSON reader copies one into a buffer or into a message.
fn check_strings(text: &str) -> Result<(), ModelError> {
    let mut opened_at = None;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match (opened_at, byte) {
            (None, b'"') => opened_at = Some(at),
            (None, _) => {}
            (Some(_), b'"') if !escaped => opened_at = None,
            (Some(start), _) if MAX_MANIFEST_STRING_BYTES < at - start => {
                return Err(ModelError::StringTooLong { offset: start });
            }
            (Some(_), _) => escaped = byte == b'\\' && !escaped,
        }
    }
    Ok(())
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Map(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>, const LIMIT: usize> Deserialize<'de> for Counted<T, LIMIT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const LIMIT: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const LIMIT: usize> Visitor<'de> for List<T, LIMIT> {
            type Value = Counted<T, LIMIT>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while items.len() < LIMIT {
                    match seq.next_element()? {
                        Some(item) => items.push(item),
                        None => {
                            return Ok(Counted {
                                total: items.len(),
                                items,
                            });
                        }
                    }
                }
                let mut total = items.len();
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    total += 1;
                }
                Ok(Counted { items, total })
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawLayer<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawLayer<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layer")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut layer = RawLayer::default();
                while let Some(Text(name)) = map.next_key()? {
                    let Some(field) = Field::ALL.into_iter().find(|field| field.name() == name)
                    else {
                        map.next_value::<IgnoredAny>()?;
                        layer.unknown.get_or_insert(name);
                        continue;
                    };
                    let content = map.next_value()?;
                    // PANIC: there is one place per field.
                    if layer.fields[field as usize].replace(content).is_some() {
                        return Err(A::Error::duplicate_field(field.name()));
                    }
                }
                Ok(layer)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A string that stays a slice of the text unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Content<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Anything;

        impl<'de> Visitor<'de> for Anything {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Content::Number(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                // CAST: rounds to the nearest double, as JSON numbers do.
                Ok(Content::Number(number as f64))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                // CAST: rounds to the nearest double, as JSON numbers do.
                Ok(Content::Number(number as f64))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Content::Other("a boolean"))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Content::Other("null"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Content::Other("a list"))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Content::Other("an object"))
            }
        }

        deserializer.deserialize_any(Anything)
    }
}
