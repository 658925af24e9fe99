//! Variables that look like ours and are none: most likely somebody has mistyped one.
//!
//! Only for names that begin with `NRTA_`. Those of the other families belong to others too, and are not scanned for
//! (`env.md` rule P8).

use super::IMPLEMENTED;
use super::notes::Note;
use std::ffi::OsString;

const OURS: &str = "NRTA_";
/// Most bytes of a name or value that the log gets.
const MOST: usize = 128;

/// A note for each variable that begins as ours do and is not known, in the order of their names.
pub(super) fn notes(all: &[(OsString, OsString)]) -> Vec<Note> {
    let mut unknown: Vec<_> = all
        .iter()
        .map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy()))
        .filter(|(name, _)| name.starts_with(OURS) && !IMPLEMENTED.contains(&&**name))
        .collect();
    unknown.sort();
    let notes = unknown.into_iter().map(|(name, value)| Note::Unknown {
        closest: closest(&name),
        variable: beginning(&name),
        given: beginning(&value),
    });
    notes.collect()
}

/// The variable of ours whose name differs in the fewest characters.
fn closest(name: &str) -> &'static str {
    let ours = IMPLEMENTED.iter().filter(|name| name.starts_with(OURS));
    let name = beginning(name);
    ours.min_by_key(|ours| distance(&name, ours))
        .copied()
        .unwrap_or_default()
}

/// How many characters have to be put in, taken out or exchanged to make one of the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // Distances of what there is of `from` so far to each beginning of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (made, given) in from.chars().enumerate() {
        let mut left = made + 1;
        let mut next = vec![left];
        for (wanted, above) in to.iter().zip(row.windows(2)) {
            // PANIC: windows of two.
            let exchanged = above[0] + usize::from(*wanted != given);
            left = exchanged.min(above[1] + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

fn beginning(text: &str) -> String {
    text.chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_that_with_the_fewest_changes() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
        for (given, meant) in [
            ("NRTA_SIM_CORE", "NRTA_SIM_CORES"),
            ("NRTA_SIMCORES", "NRTA_SIM_CORES"),
            ("NRTA_HOST", "NRTA_SIM_HOST"),
            ("NRTA_POLLPOLICY", "NRTA_POLL_POLICY"),
            ("NRTA_CLOSE_WARN", "NRTA_CLOSE_WARN_SECS"),
        ] {
            assert_eq!(closest(given), meant);
        }
    }

    #[test]
    fn only_unknown_names_of_ours_are_noted_and_long_ones_are_shortened() {
        let all = |names: &[&str]| {
            let pairs = names.iter().map(|name| ((*name).into(), "1".into()));
            notes(&pairs.collect::<Vec<_>>())
        };
        assert!(all(&["NRTA_SIM_CORES", "NEURON_RT_NUM_CORE", "PATH", "nrta_x"]).is_empty());
        let long = format!("NRTA_{}", "X".repeat(1 << 20));
        let found = all(&["NRTA_SIM_CORE", &long]);
        assert_eq!(found.len(), 2);
        let Note::Unknown { variable, .. } = &found[1] else {
            panic!("{found:?}");
        };
        assert_eq!(variable.len(), MOST);
    }
}
