//! What the engines compute, on rows of 32-bit floats.
//!
//! Called by [`compute`](super::compute) with operands that lie in the state buffer; nothing here knows
//! addresses. Plain loops, written so that the compiler vectorises the inner one.

/// Adds the product of a row and a matrix of `out.len()` columns to `out`.
///
/// The inner loop runs along rows of both `b` and `out`.
pub(super) fn multiply_row(a: &[f32], b: &[f32], out: &mut [f32]) {
    for (&factor, row) in a.iter().zip(b.chunks_exact(out.len().max(1))) {
        for (sum, &element) in out.iter_mut().zip(row) {
            *sum += factor * element;
        }
    }
}

/// `a += b`.
pub(super) fn add(a: &mut [f32], b: &[f32]) {
    for (element, &other) in a.iter_mut().zip(b) {
        *element += other;
    }
}

/// `a *= b`.
pub(super) fn multiply(a: &mut [f32], b: &[f32]) {
    for (element, &other) in a.iter_mut().zip(b) {
        *element *= other;
    }
}

/// `a *= factor`.
pub(super) fn scale(a: &mut [f32], factor: f32) {
    for element in a {
        *element *= factor;
    }
}

/// Negative elements become 0; NaN stays NaN.
pub(super) fn relu(a: &mut [f32]) {
    for element in a {
        *element = if *element > 0.0 || element.is_nan() {
            *element
        } else {
            0.0
        };
    }
}

/// Softmax of one row. The largest element is subtracted first, so no finite row overflows.
pub(super) fn softmax(row: &mut [f32]) {
    let largest = max(row);
    let mut total = 0.0;
    for element in row.iter_mut() {
        *element = (*element - largest).exp();
        total += *element;
    }
    for element in row {
        *element /= total;
    }
}

/// Index of the first largest number of a row; NaN is never the largest. 0 when there is no number.
pub(super) fn argmax(row: &[f32]) -> u32 {
    let mut best = (0, f32::NAN);
    for (index, &element) in (0u32..).zip(row) {
        if element > best.1 || best.1.is_nan() && !element.is_nan() {
            best = (index, element);
        }
    }
    best.0
}

/// Sum of a row.
pub(super) fn sum(row: &[f32]) -> f32 {
    row.iter().sum()
}

/// Largest number of a row; NaN when there is none.
pub(super) fn max(row: &[f32]) -> f32 {
    // `f32::max` prefers a number to NaN.
    row.iter().copied().fold(f32::NAN, f32::max)
}

/// Whether an element is not a number.
pub(super) fn any_nan(elements: &[f32]) -> bool {
    // No early return: the common case looks at all of them, and this way it vectorises.
    elements
        .iter()
        .fold(false, |found, element| found | element.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_times_a_matrix() {
        let mut out = [0.0; 2];
        multiply_row(&[1.0, 2.0, 3.0], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &mut out);
        assert_eq!(out, [14.0, 32.0]);
    }

    #[test]
    fn relu_keeps_nan() {
        let mut row = [-1.0, 0.0, 2.0, f32::NAN, f32::NEG_INFINITY];
        relu(&mut row);
        assert_eq!((row[0], row[1], row[2], row[4]), (0.0, 0.0, 2.0, 0.0));
        assert!(row[3].is_nan());
    }

    #[test]
    fn softmax_of_large_elements_is_finite() {
        let mut row = [1000.0, 1000.0];
        softmax(&mut row);
        assert_eq!(row, [0.5, 0.5]);
        let mut row = [f32::NAN, 1.0];
        softmax(&mut row);
        assert!(row.iter().all(|element| element.is_nan()));
    }

    #[test]
    fn nan_never_wins() {
        let nan = f32::NAN;
        assert_eq!(argmax(&[nan, 1.0, 3.0, nan, 3.0]), 2);
        assert_eq!(argmax(&[nan, f32::NEG_INFINITY]), 1);
        assert_eq!(argmax(&[nan, nan]), 0);
        assert_eq!(max(&[nan, -1.0, nan]), -1.0);
        assert!(max(&[nan]).is_nan());
        assert!(any_nan(&[1.0, nan]) && !any_nan(&[1.0, f32::INFINITY]));
    }
}
