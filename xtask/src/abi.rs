//! `cargo xtask abi`: every layout and constant of the crate `xu-abi`, as committed files that review can see.
//!
//! ```text
//!   crates/xu-abi/examples/dump.rs ── json ──────> docs/abi.json   for programs
//!                                 └── markdown ──> docs/abi.md     for readers
//! ```
//!
//! Called by `main` to print or to write them, and by the step `abi` of verify to compare them with the code.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::step::{Run, Stop, Verdict};
use crate::workspace::Workspace;

/// What the program is asked for, and the file that keeps the answer.
const FILES: [(&str, &str); 2] = [("json", "docs/abi.json"), ("markdown", "docs/abi.md")];

const BUILD: &str = "cargo build --quiet --package xu-abi --example dump --locked";

/// Lines of a difference that are shown.
const SHOWN: usize = 40;

/// Prints both dumps, or writes them to their files.
///
/// # Errors
/// The program does not build or run, or a file cannot be written.
pub(crate) fn abi(workspace: &Workspace, write: bool) -> Result<(), String> {
    let mut words = BUILD.split_whitespace();
    let built = Command::new(words.next().unwrap_or_default())
        .args(words)
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &workspace.target)
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !built.success() {
        return Err(format!("`{BUILD}` ended with {built}"));
    }
    for (format, file) in FILES {
        let text = dump(workspace, format)?;
        if write {
            let path = workspace.root.join(file);
            fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
            println!("{file}: written");
        } else {
            print(&text)?;
        }
    }
    Ok(())
}

/// Prints a text of many lines; a reader may have seen enough before its end.
fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {e}")),
        _ => Ok(()),
    }
}

/// The step: the committed files say what the code says.
pub(crate) fn verify(run: &mut Run<'_>) -> Verdict {
    run.command(BUILD).run()?;
    let mut stale = Vec::new();
    let mut lines = 0;
    for (format, file) in FILES {
        let text = dump(run.workspace, format).map_err(Stop::Failed)?;
        lines += text.lines().count();
        // A file that is missing differs in every line.
        let committed = fs::read_to_string(run.workspace.root.join(file)).unwrap_or_default();
        if committed == text {
            continue;
        }
        let difference = difference(&committed, &text);
        run.note(&format!("{file} (-) is not what the code says (+):"));
        for line in difference.iter().take(SHOWN) {
            run.note(line);
        }
        if difference.len() > SHOWN {
            run.note(&format!("and {} lines more", difference.len() - SHOWN));
        }
        stale.push(file);
    }
    if stale.is_empty() {
        return Ok(format!("{lines} lines as committed"));
    }
    let stale = stale.join(" and ");
    Err(Stop::Failed(format!(
        "{stale} differ from the code: if the change is meant, `cargo xtask abi --write`"
    )))
}

/// What the program prints, once it has been built.
fn dump(workspace: &Workspace, format: &str) -> Result<String, String> {
    let program: PathBuf = workspace.target.join("debug/examples/dump");
    let output = Command::new(&program)
        .arg(format)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} ended with {}",
            program.display(),
            output.status
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| "the dump is not UTF-8".to_owned())
}

/// Lines that only one side has, in order, each with its number on that side.
fn difference(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let (height, width) = (old.len(), new.len());
    // Length of the longest common subsequence of what begins at a line of each side.
    let mut kept = vec![vec![0_u32; width + 1]; height + 1];
    for row in (0..height).rev() {
        for column in (0..width).rev() {
            kept[row][column] = if old[row] == new[column] {
                kept[row + 1][column + 1] + 1
            } else {
                kept[row + 1][column].max(kept[row][column + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut lines = Vec::new();
    while row < height || column < width {
        if row < height && column < width && old[row] == new[column] {
            row += 1;
            column += 1;
        } else if row < height
            && (column == width || kept[row + 1][column] >= kept[row][column + 1])
        {
            lines.push(format!("-{:<5}{}", row + 1, old[row]));
            row += 1;
        } else {
            lines.push(format!("+{:<5}{}", column + 1, new[column]));
            column += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_do_not_differ() {
        assert!(difference("a\nb\n", "a\nb\n").is_empty());
        assert!(difference("", "").is_empty());
    }

    #[test]
    fn a_difference_names_lines_of_both_sides() {
        assert_eq!(
            difference("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n"),
            ["-2    b", "+2    B", "+5    e"]
        );
        assert_eq!(difference("", "a\n"), ["+1    a"]);
        assert_eq!(difference("a\nb\n", "b\n"), ["-1    a"]);
    }
}
