//! The nesting depth of an expression, computed from its text before it is parsed.
//!
//! The parser recurses, and so does all code that walks its tree: once for each bracket, and once
//! for each operator and selection of a chain (`a + b + c`, `a.b.c`), since the tree of a chain
//! leans to one side. [`nesting`] counts these. The result is an upper bound of the depth of the
//! tree, and usually equal to it. It is larger if a chain has a deeply nested bracket that is not
//! its first operand; cel-go also counts such a chain this way.

use super::literal;

/// Returns the nesting of an expression: the brackets, operators and selections inside one another.
pub(super) fn nesting(source: &str) -> usize {
    let mut levels = vec![Level::new(None)];
    let mut at = 0;
    // The last byte that is not a space.
    let mut before = b' ';
    while at < source.len() {
        if let Some(end) = literal::end(source, at) {
            (at, before) = (end, b'\'');
            continue;
        }
        let rest = &source[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let byte = source.as_bytes()[at];
        let level = levels.last_mut().expect("the outermost level must stay");
        match byte {
            b'(' | b'[' | b'{' => {
                // An index is a selection, too.
                level.selections += usize::from(byte == b'[');
                levels.push(Level::new(Some(byte)));
            }
            b')' | b']' | b'}' if level.opened_by == Some(opening(byte)) => close(&mut levels),
            b'.' => level.selections += 1,
            // `a.?b` selects.
            b'?' if before == b'.' => {}
            b'?' => {
                level.end_term();
                level.conditions += 1;
            }
            b',' => level.end_expression(),
            b'&' | b'|' | b':' => {
                level.end_term();
                level.junctions += u32::from(byte != b':' && before == byte);
            }
            // The second byte of `==`, `<=` and the like.
            b'=' if matches!(before, b'<' | b'>' | b'=' | b'!') => {}
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' => level.end_operand(),
            b'i' if literal::is_word(source, at, "in") => level.end_operand(),
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    while levels.len() > 1 {
        close(&mut levels);
    }
    levels.pop().map_or(0, |mut level| level.finish())
}

/// The state inside one pair of brackets. It consists of expressions (between commas), which
/// consist of terms (between `&&`, `||`, `?` and `:`), which consist of operands (between other
/// operators).
struct Level {
    /// `None` outside of all brackets.
    opened_by: Option<u8>,
    /// The depth of the deepest expression before the current one.
    deepest: usize,
    /// The number of conditionals in the current expression: `a ? b : c ? d : e` is nested.
    conditions: usize,
    /// The number of `&&` and `||` in the current expression. Their tree is balanced.
    junctions: u32,
    /// The depth of the deepest term of the current expression.
    term: usize,
    /// The number of operators in the current term.
    operators: usize,
    /// The depth of the deepest operand of the current term.
    operand: usize,
    /// The number of selections in the current operand.
    selections: usize,
    /// The depth of the deepest bracket in the current operand.
    bracket: usize,
}

impl Level {
    fn new(opened_by: Option<u8>) -> Self {
        Self {
            opened_by,
            deepest: 0,
            conditions: 0,
            junctions: 0,
            term: 0,
            operators: 0,
            operand: 0,
            selections: 0,
            bracket: 0,
        }
    }

    /// Ends an operand at an operator.
    fn end_operand(&mut self) {
        self.operand = self.operand.max(self.selections + self.bracket);
        (self.selections, self.bracket) = (0, 0);
        self.operators += 1;
    }

    fn end_term(&mut self) {
        let operand = self.operand.max(self.selections + self.bracket);
        self.term = self.term.max(self.operators + operand);
        (self.operators, self.operand, self.selections, self.bracket) = (0, 0, 0, 0);
    }

    fn end_expression(&mut self) {
        self.end_term();
        let junctions = (u32::BITS - self.junctions.leading_zeros()) as usize;
        self.deepest = self.deepest.max(self.conditions + junctions + self.term);
        (self.conditions, self.junctions, self.term) = (0, 0, 0);
    }

    fn finish(&mut self) -> usize {
        self.end_expression();
        self.deepest + 1
    }
}

fn opening(closing: u8) -> u8 {
    match closing {
        b')' => b'(',
        b']' => b'[',
        _ => b'{',
    }
}

/// Closes the innermost level and adds its depth to the level around it.
fn close(levels: &mut Vec<Level>) {
    let depth = levels.pop().map_or(0, |mut level| level.finish());
    if let Some(outer) = levels.last_mut() {
        outer.bracket = outer.bracket.max(depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_operators_and_selections_nest() {
        for (source, depth) in [
            ("a", 1),
            ("a.b.c", 3),
            ("a.?b.?c", 3),
            ("a[0][1][2]", 5),
            ("a + b + c", 3),
            ("a <= b", 2),
            ("a in b in c", 3),
            ("inner.index", 2),
            ("((a))", 3),
            ("a.f(b.g(c))", 5),
            ("a.b + c.d + e.f", 4),
            ("a.b == c && d.e == f || g.h == i", 5),
            ("[a + b, c + d, e + f]", 4),
            ("a ? b : c ? d : e", 3),
            ("{a: b.c, d: e.f}", 3),
            ("'((((' + \"[[[[\" + r'\\' // ((((", 3),
            ("((((", 5),
            ("a))))", 1),
            ("([)", 4),
            ("ä + 'ö' + ü", 3),
        ] {
            assert_eq!(nesting(source), depth, "{source}");
        }
    }
}
