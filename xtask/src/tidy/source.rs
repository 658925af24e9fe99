//! A Rust file, each line split into code and comment, with the insides of literals blanked.
//!
//! Used by the rules in `rust`, so that a word in a string or in a comment is not taken for code.
//! Not a parser: it knows comments, strings, characters and braces, and that is all that the rules need.

/// One line of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Without comments; strings and characters are empty.
    pub(super) code: String,
    /// The text of comments, documentation included.
    pub(super) comment: String,
    /// Inside an item under `#[cfg(test)]`.
    pub(super) in_tests: bool,
}

/// A file ready for the rules.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Relative to the root, with `/` between its parts.
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    pub(super) lines: Vec<Line>,
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &'a str, text: &'a str) -> Self {
        let mut lines = split(text);
        mark_tests(&mut lines);
        Self { path, text, lines }
    }

    /// Whether the comments of line `index`, or of one of the `above` lines before it, contain `tag`.
    pub(super) fn has_tag_near(&self, index: usize, above: usize, tag: &str) -> bool {
        self.lines[index.saturating_sub(above)..=index]
            .iter()
            .any(|line| line.comment.contains(tag))
    }
}

/// What the splitter is inside of.
enum Inside {
    Code,
    LineComment,
    BlockComment { depth: usize },
    String,
    RawString { hashes: usize },
}

fn split(text: &str) -> Vec<Line> {
    let characters: Vec<char> = text.chars().collect();
    let mut lines = Vec::new();
    let mut line = Line::default();
    let mut inside = Inside::Code;
    let mut at = 0;
    while let Some(&character) = characters.get(at) {
        if character == '\n' {
            lines.push(std::mem::take(&mut line));
            if matches!(inside, Inside::LineComment) {
                inside = Inside::Code;
            }
            at += 1;
            continue;
        }
        let next = characters.get(at + 1).copied();
        at += match inside {
            Inside::Code => match (character, next) {
                ('/', Some('/')) => {
                    inside = Inside::LineComment;
                    2
                }
                ('/', Some('*')) => {
                    inside = Inside::BlockComment { depth: 1 };
                    2
                }
                ('"', _) => {
                    line.code.push('"');
                    inside = Inside::String;
                    1
                }
                ('r', Some('"' | '#')) if starts_literal(&line.code) => {
                    match raw_string(&characters[at + 1..]) {
                        Some(hashes) => {
                            line.code.push('"');
                            inside = Inside::RawString { hashes };
                            2 + hashes
                        }
                        None => {
                            line.code.push(character);
                            1
                        }
                    }
                }
                ('\'', _) => {
                    line.code.push('\'');
                    character_literal(&characters[at..]).unwrap_or(1)
                }
                _ => {
                    line.code.push(character);
                    1
                }
            },
            Inside::LineComment => {
                line.comment.push(character);
                1
            }
            Inside::BlockComment { depth } => match (character, next) {
                ('*', Some('/')) => {
                    inside = match depth {
                        1 => Inside::Code,
                        _ => Inside::BlockComment { depth: depth - 1 },
                    };
                    2
                }
                ('/', Some('*')) => {
                    inside = Inside::BlockComment { depth: depth + 1 };
                    2
                }
                _ => {
                    line.comment.push(character);
                    1
                }
            },
            // An escaped line end is left to the next round, which counts the line.
            Inside::String => match (character, next) {
                ('\\', Some(escaped)) if escaped != '\n' => 2,
                ('"', _) => {
                    line.code.push('"');
                    inside = Inside::Code;
                    1
                }
                _ => 1,
            },
            Inside::RawString { hashes } => {
                let closing = &characters[at + 1..];
                if character == '"' && closing.iter().take_while(|c| **c == '#').count() >= hashes {
                    line.code.push('"');
                    inside = Inside::Code;
                    1 + hashes
                } else {
                    1
                }
            }
        };
    }
    lines.push(line);
    lines
}

/// The `r` of a raw string is a prefix, alone or after `b` or `c`, and not the end of a name.
fn starts_literal(code_before: &str) -> bool {
    let name: String = code_before
        .chars()
        .rev()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    matches!(name.as_str(), "" | "b" | "c")
}

/// The number of hashes, when what follows the `r` opens a raw string; `r#name` does not.
fn raw_string(after: &[char]) -> Option<usize> {
    let hashes = after.iter().take_while(|c| **c == '#').count();
    (after.get(hashes) == Some(&'"')).then_some(hashes)
}

/// The length of a character literal; `None` for a lifetime or a label.
fn character_literal(from: &[char]) -> Option<usize> {
    match (from.get(1)?, from.get(2)) {
        ('\\', _) => {
            // Behind the backslash and what it escapes, a closing quote ends the literal.
            let closing = from.iter().skip(3).position(|c| *c == '\'')?;
            Some(closing + 4)
        }
        (_, Some('\'')) => Some(3),
        _ => None,
    }
}

/// Marks the lines of items under `#[cfg(test)]`, by counting braces from the attribute on.
fn mark_tests(lines: &mut [Line]) {
    let mut index = 0;
    while index < lines.len() {
        if !is_test_attribute(&lines[index].code) {
            index += 1;
            continue;
        }
        let mut depth = 0_usize;
        let mut opened = false;
        'item: while let Some(line) = lines.get_mut(index) {
            line.in_tests = true;
            index += 1;
            // A `;` before any brace ends an item that has no body, such as `use x;`.
            for character in line.code.chars() {
                match character {
                    '{' => {
                        opened = true;
                        depth += 1;
                    }
                    '}' => depth = depth.saturating_sub(1),
                    ';' if !opened => break 'item,
                    _ => {}
                }
                if opened && depth == 0 {
                    break 'item;
                }
            }
        }
    }
}

/// `#[cfg(test)]` and `#[cfg(all(test, ...))]`, but not `#[cfg(not(test))]`.
fn is_test_attribute(code: &str) -> bool {
    let code = code.trim_start();
    code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<String> {
        split(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_are_kept_apart_from_code() {
        let lines = split("let a = 1; // SAFETY: one\n/* two\n/* three */ */ let b;\n");
        assert_eq!(lines[0].code, "let a = 1; ");
        assert_eq!(lines[0].comment, " SAFETY: one");
        assert_eq!(lines[1].code, "");
        assert_eq!(lines[2].code, " let b;");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn literals_are_blanked() {
        for (text, code) in [
            (r#"f("unsafe { // \" }")"#, r#"f("")"#),
            (r##"f(r#"unsafe " {"#)"##, r#"f("")"#),
            (r##"f(br#"unsafe {"#, b"{")"##, r#"f(b"", b"")"#),
            (r"f('{', '\'', '\u{7b}', '\\')", "f(', ', ', ')"),
            (
                r"fn f<'a>(x: &'a str) { 'outer: loop {} }",
                "fn f<'a>(x: &'a str) { 'outer: loop {} }",
            ),
            ("let r#type = bar(r, br);", "let r#type = bar(r, br);"),
        ] {
            assert_eq!(codes(text), [code], "{text}");
        }
    }

    #[test]
    fn a_string_may_span_lines() {
        assert_eq!(
            codes("f(\"one \\\n  // two\n\");\n"),
            ["f(\"", "", "\");", ""]
        );
    }

    #[test]
    fn items_under_test_end_with_their_brace() {
        let text = "\
fn a() {}
#[cfg(test)]
mod tests {
    fn b() { { } }
}
fn c() {}
#[cfg(all(test, not(loom)))]
use x;
#[cfg(not(test))]
fn d() {}
";
        let source = Source::new("a.rs", text);
        let marks: Vec<bool> = source.lines.iter().map(|line| line.in_tests).collect();
        assert_eq!(
            marks,
            [
                false, true, true, true, true, false, true, true, false, false, false
            ]
        );
    }

    #[test]
    fn tags_are_looked_for_above_and_on_the_line() {
        let source = Source::new("a.rs", "// SAFETY: why\n\n\nunsafe {}\n");
        assert!(source.has_tag_near(3, 3, "SAFETY:"));
        assert!(!source.has_tag_near(3, 2, "SAFETY:"));
        assert!(source.has_tag_near(0, 6, "SAFETY:"));
    }
}
