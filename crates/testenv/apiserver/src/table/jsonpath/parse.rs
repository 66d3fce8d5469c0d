//! Parses a path into nodes, character by character like client-go's parser.

use serde_json::Value;

use super::{Node, Slice, Test};

/// The limit on nested filters and unions. The syntax itself allows fewer.
const DEPTH_MAX: usize = 8;

/// Parses a path as if it were in braces. Returns `None` if it is invalid.
pub(super) fn parse(path: &str) -> Option<Vec<Vec<Node>>> {
    let mut parser = Parser { text: format!("{{{path}}}").chars().collect(), at: 0, depth: 0 };
    parser.template()
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    /// Parses the parts in braces. The text between them has no meaning in a column.
    fn template(&mut self) -> Option<Vec<Vec<Node>>> {
        let mut actions = Vec::new();
        while let Some(character) = self.next() {
            if character == '{' {
                actions.push(self.action()?);
            }
        }
        Some(actions)
    }

    /// Parses a part of the path on its own, such as one side of a filter.
    fn part(&self, text: &str) -> Option<Vec<Node>> {
        let text = format!("{{{text}}}").chars().collect();
        let mut parser = Self { text, at: 0, depth: self.depth + 1 };
        let actions = if parser.depth > DEPTH_MAX { None } else { parser.template() };
        actions?.into_iter().next()
    }

    /// Parses everything up to the closing brace.
    fn action(&mut self) -> Option<Vec<Node>> {
        let mut nodes = Vec::new();
        loop {
            if self.takes("[?(") {
                nodes.push(self.filter()?);
                continue;
            }
            if self.takes("..") {
                if nodes.last() == Some(&Node::Recursive) {
                    return None;
                }
                nodes.push(Node::Recursive);
                if self.peek().is_some_and(is_word) {
                    nodes.push(self.field());
                }
                continue;
            }
            match self.next()? {
                '}' => return Some(nodes),
                // Every path starts at the current object anyway.
                ' ' | '@' | '$' => {}
                '[' => self.array(&mut nodes)?,
                quote @ ('"' | '\'') => nodes.push(self.quoted(quote)?),
                '.' => nodes.push(self.field()),
                first if first == '+' || first == '-' || first.is_ascii_digit() => {
                    self.at -= 1;
                    nodes.push(self.number()?);
                }
                first if is_word(first) => {
                    self.at -= 1;
                    nodes.push(self.word());
                }
                _ => return None,
            }
        }
    }

    fn field(&mut self) -> Node {
        let start = self.at;
        while let Some(character) = self.peek() {
            if character == '\\' {
                self.at += 1;
            } else if is_end(character) {
                break;
            }
            self.at = (self.at + 1).min(self.text.len());
        }
        let name: String = self.text[start..self.at].iter().filter(|c| **c != '\\').collect();
        let starred = self.text[start..self.at] == ['*'];
        if starred { Node::Wildcard } else { Node::Field(name) }
    }

    fn word(&mut self) -> Node {
        let word = self.take_while(|character| !is_end(character));
        match word.as_str() {
            "true" => Node::Constant(true.into()),
            "false" => Node::Constant(false.into()),
            _ => Node::Word,
        }
    }

    fn number(&mut self) -> Option<Node> {
        let sign: String = self.next_if(&['+', '-']).into_iter().collect();
        let digits = self.take_while(|character| character == '.' || character.is_ascii_digit());
        let text = format!("{sign}{digits}");
        let whole = text.parse::<i64>().ok().map(Value::from);
        whole.or_else(|| text.parse::<f64>().ok().map(Value::from)).map(Node::Constant)
    }

    fn quoted(&mut self, quote: char) -> Option<Node> {
        let start = self.at;
        loop {
            let character = self.next().filter(|character| *character != '\n')?;
            let escaped = self.at >= 2 && self.text[self.at - 2] == '\\';
            if character == quote && !escaped {
                break;
            }
        }
        let inside = &self.text[start..self.at - 1];
        unquote(inside, quote).map(|text| Node::Constant(text.into()))
    }

    /// Parses an index, a slice, a quoted key, or a list of them.
    fn array(&mut self, nodes: &mut Vec<Node>) -> Option<()> {
        let start = self.at;
        while self.next().filter(|character| *character != '\n')? != ']' {}
        let inside: String = self.text[start..self.at - 1].iter().collect();
        let inside = if inside == "*" { ":" } else { &inside };
        let several: Vec<&str> = inside.split(',').collect();
        if several.len() > 1 {
            let parts =
                several.iter().map(|one| self.part(&format!("[{}]", one.trim_matches(' '))));
            nodes.push(Node::Union(parts.collect::<Option<_>>()?));
            return Some(());
        }
        let key = inside.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        match key.filter(|key| !key.contains('\'')) {
            // Its dots are separators, as outside of quotes.
            Some(key) => nodes.extend(self.part(&format!(".{key}"))?),
            None => nodes.push(Node::Slice(slice(inside)?)),
        }
        Some(())
    }

    fn filter(&mut self) -> Option<Node> {
        let start = self.at;
        let mut quote = None;
        let mut closed = false;
        loop {
            match self.next().filter(|character| *character != '\n')? {
                character @ ('"' | '\'') => match quote {
                    None => quote = Some(character),
                    Some(open) if open == character && self.text[self.at - 2] != '\\' => {
                        closed = true;
                    }
                    Some(_) => {}
                },
                ')' if quote.is_some() == closed => break,
                _ => {}
            }
        }
        let inside: String = self.text[start..self.at - 1].iter().collect();
        if self.next()? != ']' {
            return None;
        }
        let is_operator = |character: char| "!<>=".contains(character);
        // Both sides must be non-empty; otherwise it is no comparison.
        let compared = inside.find(is_operator).filter(|place| *place > 0).and_then(|place| {
            let (left, rest) = inside.split_at(place);
            let mut end = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
            if end == rest.len() {
                // The last character of the operator is the right side.
                end -= 1;
            }
            (end > 0).then(|| (left, &rest[..end], &rest[end..]))
        });
        let Some((left, operator, right)) = compared else {
            let left = self.part(&inside)?;
            return Some(Node::Filter { left, test: Test::Exists, right: Vec::new() });
        };
        let (left, right) = (self.part(left)?, self.part(right)?);
        Some(Node::Filter { left, test: test(operator), right })
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn next_if(&mut self, any: &[char]) -> Option<char> {
        any.contains(&self.peek()?).then(|| self.next()).flatten()
    }

    fn takes(&mut self, prefix: &str) -> bool {
        let found = prefix
            .chars()
            .enumerate()
            .all(|(index, character)| self.text.get(self.at + index) == Some(&character));
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }
}

fn test(operator: &str) -> Test {
    match operator {
        "==" => Test::Equal,
        "!=" => Test::NotEqual,
        "<" => Test::Less,
        "<=" => Test::LessOrEqual,
        ">" => Test::Greater,
        ">=" => Test::GreaterOrEqual,
        _ => Test::Unknown,
    }
}

fn slice(text: &str) -> Option<Slice> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    let number = |index: usize| match parts.get(index) {
        None | Some(&"") => Some(None),
        // Indices have no plus sign.
        Some(text) if text.starts_with('+') => None,
        Some(text) => text.parse::<i64>().ok().map(Some),
    };
    let (start, end, step) = (number(0)?, number(1)?, number(2)?);
    let is_index = parts.len() == 1;
    let after = start.unwrap_or_default().wrapping_add(1);
    Some(Slice { start, end: if is_index { Some(after) } else { end }, is_index, step })
}

/// Unquotes a string with Go's escapes.
fn unquote(inside: &[char], quote: char) -> Option<String> {
    let mut text = String::new();
    let mut rest = inside;
    while let Some((&character, after)) = rest.split_first() {
        rest = after;
        if character == quote {
            return None;
        }
        text.push(if character == '\\' { unescape(&mut rest, quote)? } else { character });
    }
    Some(text)
}

/// Returns the character after a backslash.
fn unescape(rest: &mut &[char], quote: char) -> Option<char> {
    let (&kind, after) = rest.split_first()?;
    let (digits, radix) = match kind {
        'x' => (after.get(..2)?, 16),
        'u' => (after.get(..4)?, 16),
        'U' => (after.get(..8)?, 16),
        '0'..='7' => (rest.get(..3)?, 8),
        _ => {
            *rest = after;
            return match kind {
                'a' => Some('\x07'),
                'b' => Some('\x08'),
                'f' => Some('\x0c'),
                'n' => Some('\n'),
                'r' => Some('\r'),
                't' => Some('\t'),
                'v' => Some('\x0b'),
                '\\' => Some('\\'),
                other => (other == quote).then_some(quote),
            };
        }
    };
    let skipped = digits.len() + usize::from(radix == 16);
    let code = digits
        .iter()
        .try_fold(0, |code: u32, digit| Some(code.checked_mul(radix)? + digit.to_digit(radix)?))?;
    *rest = &rest[skipped..];
    char::from_u32(code)
}

/// Whether the character ends a name.
fn is_end(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}
