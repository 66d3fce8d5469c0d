//! Compile errors and their positions, as cel-go prints them.

use std::fmt::Write as _;

/// A compile error.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub(super) place: Position,
    pub(super) text: String,
}

/// A line and a column of a source, starting at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    line: isize,
    column: isize,
}

impl Position {
    /// The position of an error without a place, as in cel-go.
    pub(super) const UNKNOWN: Self = Self { line: -1, column: 0 };

    pub(super) fn new(line: isize, column: isize) -> Self {
        Self { line, column }
    }

    /// Returns the position of the character at this byte.
    pub(super) fn at(source: &str, index: usize) -> Self {
        let (mut line, mut column) = (1, 1);
        for (_, c) in source.char_indices().take_while(|(at, _)| *at < index) {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        Self { line, column }
    }

    /// Returns the text before the position in its line.
    pub(super) fn before(self, source: &str) -> &str {
        let line =
            usize::try_from(self.line - 1).ok().and_then(|line| source.split('\n').nth(line));
        let line = line.unwrap_or_default();
        let column = usize::try_from(self.column - 1).unwrap_or(0);
        let end = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        &line[..end]
    }
}

/// Formats all issues with their source lines.
pub(super) fn describe(issues: &[Issue], source: &str) -> String {
    let mut sorted: Vec<&Issue> = issues.iter().collect();
    sorted.sort_by_key(|issue| issue.place);
    let shown: Vec<String> = sorted.into_iter().map(|issue| describe_one(issue, source)).collect();
    shown.join("\n")
}

fn describe_one(issue: &Issue, source: &str) -> String {
    let Position { line, column } = issue.place;
    let mut text = format!("ERROR: <input>:{line}:{column}: {}", issue.text);
    let lines = usize::try_from(line - 1).ok().and_then(|index| source.split('\n').nth(index));
    if let Some(snippet) = lines {
        let snippet = snippet.replace('\t', " ");
        let _ = write!(text, "\n | {snippet}\n | ");
        let mut marked = snippet.chars();
        for c in marked.by_ref().take(usize::try_from(column - 1).unwrap_or(0)) {
            text.push(if c.is_ascii() { '.' } else { '．' });
        }
        text.push(if marked.next().is_none_or(|c| c.is_ascii()) { '^' } else { '＾' });
    }
    text
}
