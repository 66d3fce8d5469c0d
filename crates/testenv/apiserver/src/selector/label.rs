//! Label selectors: `app=web,tier in (a,b),!canary`.
//!
//! A selector is a list of requirements, and all of them must hold. The grammar has odd cases (`in`
//! may be a value, a list may have empty members, a NUL ends the text). They are kept because the
//! real server's messages follow from them.

use crate::field_error::{self, FieldError, NO_FIELD};
use crate::metadata::names;

/// A parsed label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses the text of a query. The error is the message of a 400.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: scan(text.as_bytes()), position: 0 };
        let mut requirements = Vec::new();
        loop {
            match parser.peek() {
                Token::Word(_) | Token::Not => {}
                Token::End => return Ok(Self { requirements }),
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement = parser
                .requirement()
                .map_err(|error| format!("unable to parse requirement: {error}"))?;
            requirements.push(requirement);
            match parser.take() {
                Token::End => return Ok(Self { requirements }),
                Token::Comma => {
                    let next = parser.peek();
                    if !matches!(next, Token::Word(_) | Token::Not) {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            next.text()
                        ));
                    }
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    /// Whether the selector is empty, so that it selects every object.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is selected. The labels are sorted by key.
    pub(crate) fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels
                .binary_search_by(|(key, _)| key.cmp(&requirement.key))
                .ok()
                .map(|index| &*labels[index].1);
            requirement.test.holds(value)
        })
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |values: &[Box<str>], value| values.iter().any(|one| &**one == value);
        match (self, value) {
            (Self::In(values), Some(value)) => listed(values, value),
            (Self::NotIn(values), Some(value)) => !listed(values, value),
            (Self::Exists, value) => value.is_some(),
            (Self::NotIn(_) | Self::Absent, None) => true,
            (Self::Greater(bound), Some(value)) => value.parse().is_ok_and(|n: i64| n > *bound),
            (Self::Less(bound), Some(value)) => value.parse().is_ok_and(|n: i64| n < *bound),
            (Self::In(_) | Self::Greater(_) | Self::Less(_), None) | (Self::Absent, Some(_)) => {
                false
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    End,
    /// A key or a value. Also `in` and `notin`, which are operators only by their position.
    Word(String),
    Comma,
    Open,
    Close,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::End => "",
            Self::Word(word) => word,
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
        }
    }
}

/// Splits the text into tokens. The last one is always [`Token::End`].
fn scan(text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = skip_space(rest);
        let (token, length) = match rest {
            [] | [0, ..] => {
                tokens.push(Token::End);
                return tokens;
            }
            [b'=', b'=', ..] => (Token::DoubleEquals, 2),
            [b'!', b'=', ..] => (Token::NotEquals, 2),
            [b'=', ..] => (Token::Equals, 1),
            [b'!', ..] => (Token::Not, 1),
            [b'(', ..] => (Token::Open, 1),
            [b')', ..] => (Token::Close, 1),
            [b',', ..] => (Token::Comma, 1),
            [b'>', ..] => (Token::Greater, 1),
            [b'<', ..] => (Token::Less, 1),
            _ => word(rest),
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

/// Returns the word at the start of `rest` and its length. A NUL ends the word and is skipped.
fn word(rest: &[u8]) -> (Token, usize) {
    let ends = |b: &u8| *b == 0 || is_space(*b) || b"=!(),><".contains(b);
    let length = rest.iter().position(ends).unwrap_or(rest.len());
    let swallowed = usize::from(rest.get(length) == Some(&0));
    (Token::Word(String::from_utf8_lossy(&rest[..length]).into_owned()), length + swallowed)
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

/// Skips white space: fewer characters than in ASCII.
fn skip_space(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|b| !is_space(*b)).unwrap_or(text.len());
    &text[start..]
}

enum Operator {
    In,
    NotIn,
    Equals,
    NotEquals,
    Greater,
    Less,
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.position).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.take();
        let negated = token == Token::Not;
        if negated {
            token = self.take();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let wrong = names::qualified_name(&key);
        if !wrong.is_empty() {
            return Err(FieldError::invalid_str(NO_FIELD, &key, &wrong.join("; ")).to_string());
        }
        let key: Box<str> = key.into();
        if negated {
            return Ok(Requirement { key, test: Test::Absent });
        }
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let operator = self.operator()?;
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        values.sort_unstable();
        values.dedup();
        let test = test(&key, &operator, values)?;
        Ok(Requirement { key, test })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.take() {
            Token::Word(word) if word == "in" => Ok(Operator::In),
            Token::Word(word) if word == "notin" => Ok(Operator::NotIn),
            Token::Equals | Token::DoubleEquals => Ok(Operator::Equals),
            Token::NotEquals => Ok(Operator::NotEquals),
            Token::Greater => Ok(Operator::Greater),
            Token::Less => Ok(Operator::Less),
            other => {
                Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()))
            }
        }
    }

    fn values(&mut self) -> Result<Vec<Box<str>>, String> {
        let open = self.take();
        if open != Token::Open {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        match self.peek() {
            Token::Word(_) | Token::Comma => self.list(),
            Token::Close => {
                self.take();
                Ok(vec!["".into()])
            }
            other => Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
    }

    /// Parses the members of a list up to its closing parenthesis. Two commas in a row have an
    /// empty member between them.
    fn list(&mut self) -> Result<Vec<Box<str>>, String> {
        let mut values: Vec<Box<str>> = Vec::new();
        loop {
            match self.take() {
                Token::Word(word) => {
                    values.push(word.into());
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => {
                            self.take();
                            return Ok(values);
                        }
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.push("".into());
                    }
                    match self.peek() {
                        Token::Close => {
                            self.take();
                            values.push("".into());
                            return Ok(values);
                        }
                        Token::Comma => values.push("".into()),
                        _ => {}
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: ',', or identifier", other.text()));
                }
            }
        }
    }

    fn exact_value(&mut self) -> Result<Box<str>, String> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok("".into());
        }
        match self.take() {
            Token::Word(word) => Ok(word.into()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }
}

/// Checks the values and returns the test. Errors have the paths of the real server.
fn test(key: &str, operator: &Operator, mut values: Vec<Box<str>>) -> Result<Test, String> {
    let mut errors = Vec::new();
    let mut bound = 0;
    if matches!(operator, Operator::Greater | Operator::Less) {
        match values[0].parse() {
            Ok(number) => bound = number,
            Err(_) => errors.push(FieldError::invalid_str(
                "values[0]",
                &values[0],
                "for 'Gt', 'Lt' operators, the value must be an integer",
            )),
        }
    }
    for (index, value) in values.iter().enumerate() {
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            let field = format!("values[{index}][{key}]");
            errors.push(FieldError::invalid_str(field, value, &wrong.join("; ")));
        }
    }
    if !errors.is_empty() {
        return Err(field_error::join(&errors));
    }
    values.shrink_to_fit();
    Ok(match operator {
        Operator::In | Operator::Equals => Test::In(values),
        Operator::NotIn | Operator::NotEquals => Test::NotIn(values),
        Operator::Greater => Test::Greater(bound),
        Operator::Less => Test::Less(bound),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(Box<str>, Box<str>)> {
        let mut labels: Vec<_> = pairs.iter().map(|&(k, v)| (k.into(), v.into())).collect();
        labels.sort_unstable();
        labels
    }

    #[test]
    fn requirements_select_as_kubernetes_does() {
        let object = labels(&[("app", "web"), ("tier", "b"), ("n", "7"), ("empty", "")]);
        for (text, selected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("! gone", true),
            ("app=web", true),
            ("app == web , tier!=a", true),
            ("app!=web", false),
            ("gone!=web", true),
            ("gone=", false),
            ("empty=", true),
            ("tier in (a, b)", true),
            ("tier notin (a,b)", false),
            ("gone notin (a)", true),
            ("gone in (a)", false),
            ("empty in ()", true),
            ("empty in (a,)", true),
            ("empty in (,)", true),
            ("n>6", true),
            ("n<7", false),
            ("app>1", false),
            ("in in (in)", false),
            ("app=web,gone", false),
        ] {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.matches(&object), selected, "{text}");
        }
    }

    #[test]
    fn errors_of_invalid_selectors_are_those_of_the_real_server() {
        for (text, message) in [
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            ("a,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the \
                 value must be an integer",
            ),
        ] {
            assert_eq!(LabelSelector::parse(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn errors_of_invalid_keys_and_values_are_those_of_the_real_server() {
        let error = LabelSelector::parse("a@b=c").expect_err("bad key");
        assert!(
            error.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"a@b\": name part must consist of"
            ),
            "{error}"
        );
        let error = LabelSelector::parse("a in (x,b@c)").expect_err("bad value");
        assert!(
            error.starts_with(
                "unable to parse requirement: values[0][a]: Invalid value: \"b@c\": a valid label must be"
            ),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in r"(([a-c/.=!,()<> \x00ü]|in|notin){0,12}|\PC{0,20})") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                selector.matches(&[]);
            }
        }
    }
}
