//! A line diff of two texts, by their longest common subsequence of lines.

use std::fmt;

/// How many removed and how many added lines of a hunk are shown at most. The rest is shown as a
/// count.
const SHOWN_MAX: usize = 6;

/// How many cells the table of [`common_lengths`] may have: 32 MB. Larger differences, about 2,000
/// lines on both sides, are shown as one hunk.
const CELLS_MAX: usize = 4_000_000;

/// Consecutive changed lines: the removed ones and their replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The number of the first line in the new text, from 1.
    pub(crate) line: usize,
    pub(crate) removed: Vec<String>,
    pub(crate) added: Vec<String>,
}

/// Returns the differences between two texts, from top to bottom.
pub(crate) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // Skipping equal lines at both ends keeps the table below small.
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let ends = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = ends.take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    if old.len().saturating_mul(new.len()) > CELLS_MAX {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        return vec![Hunk { line: start + 1, removed: owned(old), added: owned(new) }];
    }

    let common = common_lengths(old, new);
    let (mut hunks, mut from, mut to): (Vec<Hunk>, usize, usize) = (Vec::new(), 0, 0);
    let mut is_open = false;
    while from < old.len() || to < new.len() {
        if from < old.len() && to < new.len() && old[from] == new[to] {
            (from, to, is_open) = (from + 1, to + 1, false);
            continue;
        }
        if !is_open {
            hunks.push(Hunk { line: start + to + 1, removed: Vec::new(), added: Vec::new() });
            is_open = true;
        }
        let hunk = hunks.last_mut().expect("one must be open");
        if to == new.len() || (from < old.len() && common[from + 1][to] >= common[from][to + 1]) {
            hunk.removed.push(old[from].to_owned());
            from += 1;
        } else {
            hunk.added.push(new[to].to_owned());
            to += 1;
        }
    }
    hunks
}

/// `[from][to]` is the length of the longest common subsequence of `old[from..]` and `new[to..]`.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for from in (0..old.len()).rev() {
        for to in (0..new.len()).rev() {
            common[from][to] = if old[from] == new[to] {
                common[from + 1][to + 1] + 1
            } else {
                common[from + 1][to].max(common[from][to + 1])
            };
        }
    }
    common
}

impl fmt::Display for Hunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (sign, lines) in [('-', &self.removed), ('+', &self.added)] {
            let shown = if lines.len() > SHOWN_MAX { SHOWN_MAX - 1 } else { lines.len() };
            for (index, line) in lines[..shown].iter().enumerate() {
                match sign {
                    '+' => writeln!(f, "  {:>4} + {line}", self.line + index)?,
                    _ => writeln!(f, "  {:>4} - {line}", "")?,
                }
            }
            if shown < lines.len() {
                writeln!(f, "  {:>4} {sign} … and {} more lines", "", lines.len() - shown)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        hunks(old, new).iter().map(Hunk::to_string).collect()
    }

    #[test]
    fn added_and_replaced_lines_are_shown_with_their_numbers() {
        assert_eq!(shown("a\nb\nc\n", "a\nb\nc\n"), "");
        assert_eq!(
            shown("a\nb\nc\nd\n", "a\nx\nb\nC\nd\ne\n"),
            "     2 + x\n       - c\n     4 + C\n     6 + e\n"
        );
    }

    #[test]
    fn texts_that_differ_in_too_many_lines_are_one_hunk() {
        let text = |sign: char| {
            let lines = (0..2_500).map(|line| format!("{sign}{line}\nsame\n"));
            lines.collect::<String>()
        };
        let hunks = hunks(&text('a'), &text('b'));
        assert_eq!(hunks.len(), 1);
        // The last line is the same in both.
        assert_eq!(
            (hunks[0].line, hunks[0].removed.len(), hunks[0].added.len()),
            (1, 4_999, 4_999)
        );
    }

    #[test]
    fn many_lines_are_shortened() {
        let new = "line\n".repeat(10);
        let shown = shown("", &new);
        assert_eq!(shown.lines().count(), 6, "{shown}");
        assert!(shown.ends_with("       + … and 5 more lines\n"), "{shown}");
    }
}
