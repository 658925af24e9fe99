//! Rows of tables, and how a number looks in them.

use std::fmt::{self, Write};

use crate::session::Measured;
use crate::statistics::{Ratio, Summary};

pub(crate) fn row(text: &mut String, name: &str, entries: impl Iterator<Item = String>) {
    let _ = write!(text, "| {name} |");
    for entry in entries {
        let _ = write!(text, " {entry} |");
    }
    text.push('\n');
}

/// The first row of a table, and the line below it.
pub(crate) fn head(text: &mut String, first: &str, columns: impl Iterator<Item = String>) {
    let columns: Vec<String> = columns.collect();
    let count = columns.len();
    row(text, first, columns.into_iter());
    text.push_str("|---|");
    text.push_str(&"---|".repeat(count));
    text.push('\n');
}

/// All names in these cells, in their order.
pub(crate) fn names<K>(cells: &[&Measured<K>]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for row in cells.iter().flat_map(|cell| &cell.rows) {
        if !names.contains(&row.name) {
            names.push(row.name);
        }
    }
    names
}

/// Says which rows have too few samples to say anything.
pub(crate) fn notice<K: fmt::Display>(text: &mut String, cell: &Measured<K>) {
    if let Some(silent) = silent(cell) {
        let _ = write!(
            text,
            "\nSkipped ({}), for want of good samples: {silent}.\n",
            cell.key
        );
    }
}

/// The rows with too few samples to say anything, if there are any.
pub(crate) fn silent<K>(cell: &Measured<K>) -> Option<String> {
    let silent: Vec<&str> = cell
        .rows
        .iter()
        .filter(|row| Summary::of(&row.samples).is_none())
        .map(|row| row.name)
        .collect();
    (!silent.is_empty()).then(|| silent.join("; "))
}

pub(crate) fn median_with_quartiles<K>(cell: &Measured<K>, name: &str) -> String {
    match Summary::of(cell.samples(name)) {
        Some(summary) => format!(
            "**{}** {}-{} ({}{})",
            short(summary.median),
            short(summary.lower),
            short(summary.upper),
            summary.count,
            cell.way(name)
                .map_or_else(String::new, |way| format!(", {way}"))
        ),
        None => "-".to_owned(),
    }
}

/// A median and quartiles of samples that are no row of a cell.
pub(crate) fn quartiles(samples: &[f64], number: fn(f64) -> String) -> String {
    match Summary::of(samples) {
        Some(summary) => format!(
            "**{}** {}-{}",
            number(summary.median),
            number(summary.lower),
            number(summary.upper)
        ),
        None => "-".to_owned(),
    }
}

pub(crate) fn ratio_with_interval(above: &[f64], below: &[f64]) -> String {
    ratio_text(Ratio::of_medians(above, below))
}

pub(crate) fn ratio_text(ratio: Option<Ratio>) -> String {
    match ratio {
        Some(ratio) => format!("**{}** {}", times(ratio.value), interval(ratio)),
        None => "-".to_owned(),
    }
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

pub(crate) fn interval(ratio: Ratio) -> String {
    format!("{:.2}-{:.2}", ratio.low, ratio.high)
}

/// Three digits are more than the machine can tell.
pub(crate) fn short(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [short(123.4), short(12.34), short(1.234)],
            ["123", "12.3", "1.23"]
        );
    }
}
