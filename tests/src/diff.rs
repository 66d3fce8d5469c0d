//! A line diff of two texts, for whoever has to fix the difference.
//!
//! The texts are single steps of a transcript, at most a few hundred lines, so the plain table of
//! longest common subsequences is fast enough.

/// Marks lines only in `expected` with `-`, lines only in `got` with `+`, and indents common lines.
#[must_use]
pub fn lines(expected: &str, got: &str) -> String {
    let (left, right): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let common = common_lengths(&left, &right);
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            out.push(format!("      {}", left[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == right.len() || (i < left.len() && common[i + 1][j] >= common[i][j + 1]) {
            out.push(format!("    - {}", left[i]));
            i += 1;
        } else {
            out.push(format!("    + {}", right[j]));
            j += 1;
        }
    }
    out.join("\n")
}

/// Returns for every pair of positions how many lines the remainders have in common, in order.
fn common_lengths(left: &[&str], right: &[&str]) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            table[i][j] = if left[i] == right[j] {
                table[i + 1][j + 1] + 1
            } else {
                table[i + 1][j].max(table[i][j + 1])
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_line_is_shown_as_expected_then_got_between_common_lines() {
        assert_eq!(lines("a\nb\nc", "a\nx\nc"), "      a\n    - b\n    + x\n      c");
    }

    #[test]
    fn missing_and_additional_lines_are_marked() {
        assert_eq!(lines("a\nb", "b\nc"), "    - a\n      b\n    + c");
    }
}
