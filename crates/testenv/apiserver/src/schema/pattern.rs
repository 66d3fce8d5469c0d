//! Regular expressions in Go's dialect, run by the `regex` crate.
//!
//! Both dialects are similar. Patterns are rewritten where common constructs differ: the classes
//! `\d`, `\w` and `\s` are ASCII in Go, a `{` that starts no repetition is a plain character, and
//! classes have no operators. Any other construct that the crate does not know is an error; it
//! never matches something else.

use regex::{Regex, RegexBuilder};

/// The size limit of a compiled pattern: the default of the `regex` crate.
const SIZE_MAX: usize = 10 * (1 << 20);

/// A compiled pattern and its source, for messages.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(super) text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern. The error is one line.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        Self::with_limit(text, SIZE_MAX)
    }

    /// Compiles a pattern with a size limit in bytes.
    pub(crate) fn with_limit(text: &str, bytes: usize) -> Result<Self, String> {
        match RegexBuilder::new(&translate(text)).size_limit(bytes).build() {
            Ok(regex) => Ok(Self { text: text.to_owned(), regex }),
            Err(error) => {
                let text = error.to_string();
                let line = text.lines().last().unwrap_or_default().trim();
                Err(line.trim_start_matches("error: ").to_owned())
            }
        }
    }

    /// Whether the pattern matches anywhere in `value`.
    pub(crate) fn matches(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }

    /// Returns all matches in order.
    pub(crate) fn find_all<'a>(&'a self, value: &'a str) -> impl Iterator<Item = &'a str> {
        self.regex.find_iter(value).map(|found| found.as_str())
    }
}

fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match c {
            '\\' => {
                let escaped = rest[1..].chars().next();
                taken += escaped.map_or(0, char::len_utf8);
                push_escape(&mut out, escaped, in_class);
                if matches!(escaped, Some('p' | 'P' | 'x')) && rest[taken..].starts_with('{') {
                    // The braces of a Unicode class or a code point are part of the escape.
                    let name = rest[taken..].find('}').map_or(0, |end| end + 1);
                    out.push_str(&rest[taken..taken + name]);
                    taken += name;
                }
            }
            '[' if in_class && rest.starts_with("[:") => {
                // A named class such as [:alpha:] is the same in both. Its bracket does not end the
                // class.
                taken = rest.find(":]").map_or(1, |end| end + 2);
                out.push_str(&rest[..taken]);
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '[' => {
                in_class = true;
                // A bracket directly after the opening one is a member of the class.
                taken = class_opening(rest);
                out.push_str(&rest[..taken].replace(']', "\\]"));
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '{' if !in_class => match repetition(rest) {
                0 => out.push_str("\\{"),
                length => {
                    taken = length;
                    out.push_str(&rest[..length]);
                }
            },
            '}' if !in_class => out.push_str("\\}"),
            _ => out.push(c),
        }
        rest = &rest[taken..];
    }
    out
}

fn push_escape(out: &mut String, escaped: Option<char>, in_class: bool) {
    let (members, negated) = match escaped {
        Some('d') => ("0-9", false),
        Some('D') => ("0-9", true),
        Some('w') => ("0-9A-Za-z_", false),
        Some('W') => ("0-9A-Za-z_", true),
        Some('s') => ("\\t\\n\\f\\r ", false),
        Some('S') => ("\\t\\n\\f\\r ", true),
        Some('b') if !in_class => return out.push_str("(?-u:\\b)"),
        Some(other) => {
            out.push('\\');
            out.push(other);
            return;
        }
        None => return out.push('\\'),
    };
    match (in_class, negated) {
        (true, false) => out.push_str(members),
        (_, true) => out.extend(["[^", members, "]"]),
        (false, false) => out.extend(["[", members, "]"]),
    }
}

/// Returns the length of a class's opening, with the bracket that may be its first member.
fn class_opening(rest: &str) -> usize {
    let mut length = 1;
    if rest[length..].starts_with('^') {
        length += 1;
    }
    if rest[length..].starts_with(']') {
        length += 1;
    }
    length
}

/// Returns the length of `{2}`, `{2,}` or `{2,3}`, or 0 for any other brace.
fn repetition(rest: &str) -> usize {
    let Some(end) = rest.find('}') else { return 0 };
    let (least, most) = rest[1..end].split_once(',').unwrap_or((&rest[1..end], ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !least.is_empty() && digits(least) && digits(most) { end + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        Pattern::new(pattern).expect(pattern).matches(value)
    }

    #[test]
    fn patterns_are_read_as_go_reads_them() {
        for (pattern, good, bad) in [
            (r"^\d+$", "12", "١٢"),
            (r"^[\w.-]+$", "a_1.-", "é"),
            (r"^[^\s]\S*$", "\u{a0}x", " x"),
            (r"^{.*}$", "{a}", "a"),
            (r"^a{2,3}$", "aaa", "a"),
            (r"^[[a]+$", "[a[", "b"),
            (r"^[]a]+$", "]a", "["),
            (r"^[[:alpha:]]+$", "ab", "1"),
            (r"^[&&a]$", "&", "b"),
            (r"^\p{L}+$", "éa", "1"),
            (r"^\x{41}$", "A", "B"),
        ] {
            assert!(matches(pattern, good), "{pattern} {good}");
            assert!(!matches(pattern, bad), "{pattern} {bad}");
        }
    }

    #[test]
    fn unsupported_syntax_is_an_error() {
        for pattern in ["(", "a(?=b)", r"(a)\1", "[a", "*"] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(!error.is_empty() && !error.contains('\n'), "{error}");
        }
    }
}
