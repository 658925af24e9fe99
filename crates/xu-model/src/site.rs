//! One layer of a raw manifest, once its operation is known: exactly the operation's fields, of the right kind.
//!
//! Made by [`Scope`](crate::scope::Scope), which asks it for names and constants.

use crate::error::{ModelError, quote};
use crate::manifest::{Content, Field, RawLayer};

/// A layer whose operation is known and whose fields are those of the operation.
#[derive(Clone, Copy)]
pub(crate) struct Site<'r, 'a> {
    pub(crate) index: usize,
    pub(crate) op: &'static str,
    raw: &'r RawLayer<'a>,
}

impl<'r, 'a> Site<'r, 'a> {
    /// `fields` are the fields beside `op` and `output`.
    pub(crate) fn new(
        index: usize,
        op: &'static str,
        raw: &'r RawLayer<'a>,
        fields: &[Field],
    ) -> Result<Self, ModelError> {
        let taken =
            |field: &Field| fields.contains(field) || [Field::Op, Field::Output].contains(field);
        let known = Field::ALL
            .into_iter()
            .filter(|&field| raw.field(field).is_some());
        let superfluous = known
            .into_iter()
            .find(|field| !taken(field))
            .map(Field::name);
        if let Some(field) = superfluous.or(raw.unknown_field()) {
            return Err(ModelError::UnexpectedField {
                layer: index,
                op,
                field: quote(field),
            });
        }
        Ok(Self { index, op, raw })
    }

    fn content(self, field: Field) -> Result<&'r Content<'a>, ModelError> {
        let missing = || ModelError::MissingField {
            layer: self.index,
            op: self.op,
            field: field.name(),
        };
        self.raw.field(field).ok_or_else(missing)
    }

    pub(crate) fn text(self, field: Field) -> Result<&'r str, ModelError> {
        match self.content(field)? {
            Content::Text(text) => Ok(text),
            other => Err(wrong_type(self.index, field, "a string", other)),
        }
    }

    pub(crate) fn factor(self) -> Result<f32, ModelError> {
        match self.content(Field::Factor)? {
            Content::Number(found) => {
                // CAST: rounds to the nearest float; what is too large becomes infinite and is refused.
                let factor = *found as f32;
                if factor.is_finite() {
                    return Ok(factor);
                }
                Err(ModelError::FactorNotFinite {
                    layer: self.index,
                    found: *found,
                })
            }
            other => Err(wrong_type(self.index, Field::Factor, "a number", other)),
        }
    }
}

pub(crate) fn wrong_type(
    layer: usize,
    field: Field,
    expected: &'static str,
    found: &Content<'_>,
) -> ModelError {
    ModelError::FieldType {
        layer,
        field: field.name(),
        expected,
        found: found.kind(),
    }
}
