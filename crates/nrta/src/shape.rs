//! The shape of a typed tensor.
//!
//! Row-major: the last dimension is the one whose elements lie side by side. A model's tensors have the batch as their
//! first dimension.

use crate::error::{Error, ScheduleError};
use core::fmt;
use std::sync::Arc;

/// Dimensions of a tensor, the outermost first. No dimension is 0. Clones share it.
///
/// ```
/// use nrta::Shape;
///
/// let shape = Shape::new(&[16, 64])?;
/// assert_eq!(shape.elements(), 1024);
/// assert_eq!(shape.to_string(), "[16, 64]");
/// # Ok::<(), nrta::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    dimensions: Arc<[u64]>,
    /// Their product.
    elements: u64,
}

impl Shape {
    /// A shape of these dimensions; none at all is a single element.
    ///
    /// # Errors
    /// [`Error::Shape`]: a dimension is 0, or the number of elements does not fit 64 bits.
    pub fn new(dimensions: &[u64]) -> Result<Self, Error> {
        let refused = |why| Error::Shape {
            shape: dimensions.to_vec(),
            why,
        };
        if dimensions.contains(&0) {
            return Err(refused("no dimension may be 0"));
        }
        let elements = dimensions
            .iter()
            .try_fold(1u64, |product, dimension| product.checked_mul(*dimension))
            .ok_or_else(|| refused("it has more elements than 64 bits count"))?;
        Ok(Self {
            dimensions: dimensions.into(),
            elements,
        })
    }

    /// A batch of samples, of which loading has checked that it fits the device's memory.
    pub(crate) fn of_batch(batch: u32, sample: &[usize]) -> Self {
        let sample = sample.iter().map(|dimension| *dimension as u64);
        let dimensions: Arc<[u64]> = core::iter::once(u64::from(batch)).chain(sample).collect();
        let elements = dimensions.iter().copied().fold(1, u64::saturating_mul);
        Self {
            dimensions,
            elements,
        }
    }

    /// Its dimensions, the outermost first.
    #[must_use]
    pub fn dimensions(&self) -> &[u64] {
        &self.dimensions
    }

    /// How many elements a tensor of this shape has.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Its outermost dimension: rows, or the samples of a batch; 1 where there is no dimension.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.dimensions.first().copied().unwrap_or(1)
    }

    /// How many elements a row has.
    #[must_use]
    pub fn row_elements(&self) -> u64 {
        self.elements / self.rows()
    }

    /// # Errors
    /// [`ScheduleError::WrongShape`], with the first of `given` that is another shape.
    pub(crate) fn check_same<'s>(
        &self,
        given: impl IntoIterator<Item = &'s Self>,
    ) -> Result<(), ScheduleError> {
        match given.into_iter().find(|given| *given != self) {
            None => Ok(()),
            Some(given) => Err(ScheduleError::WrongShape {
                given: given.clone(),
                expected: self.clone(),
            }),
        }
    }

    /// The same with another number of rows, which is not 0 and no more than there are.
    pub(crate) fn with_rows(&self, rows: u64) -> Self {
        let mut dimensions = self.dimensions.to_vec();
        if let Some(outermost) = dimensions.first_mut() {
            *outermost = rows;
        }
        Self {
            dimensions: dimensions.into(),
            elements: self.row_elements() * rows,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.dimensions, f)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
