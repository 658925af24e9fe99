//! The rule that no file names a place on the machine of the person who wrote it.
//!
//! Called by `tidy` for every text file.

use super::Finding;

/// Put together here, so that this file keeps the rule too.
const PRIVATE: &[&str] = &[
    concat!("/", "home/"),
    concat!("/", "work/"),
    concat!("/", "root/"),
];

pub(super) fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (index, line) in text.lines().enumerate() {
        if let Some(place) = PRIVATE.iter().find(|place| names(line, place)) {
            findings.push(Finding {
                path: path.to_owned(),
                line: index + 1,
                rule: "paths",
                message: format!("an absolute path below `{place}` is true on one machine only"),
            });
        }
    }
}

/// Whether `place` occurs in `line` as the beginning of a path, rather than in the middle of one.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/}*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check("docs/book.md", text, &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn absolute_paths_are_found_anywhere_in_a_line() {
        for place in PRIVATE {
            assert_eq!(
                lines_found(&format!("\nsee `{place}x`, and\n({place}y)\n")),
                [2, 3]
            );
            assert_eq!(lines_found(&format!("{place}x")), [1]);
        }
    }

    #[test]
    fn relative_paths_are_left_alone() {
        for place in PRIVATE {
            assert_eq!(
                lines_found(&format!(
                    "docs{place}x, ~{place}x, .{place}x, ${{HERE}}{place}x"
                )),
                []
            );
        }
    }
}
