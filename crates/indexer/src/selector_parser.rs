//! Parses label selectors: `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (a, b)`,
//! `key notin (a, b)`. Commas separate requirements. White space is allowed everywhere.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::selector::{Operator, Selector};

/// A text that is not a selector. The error shows the position and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError {
    text: String,
    /// The position in the text.
    at: usize,
    problem: String,
}

/// The longest name of a label, and the longest value.
const NAME_MAX: usize = 63;

/// The longest prefix of a label's key.
const PREFIX_MAX: usize = 253;

/// A position in the text.
struct Rest<'a> {
    text: &'a str,
    at: usize,
}

type Fails = (usize, String);

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut rest = Rest { text, at: 0 };
        rest.selector().map_err(|(at, problem)| SelectorError {
            text: text.to_owned(),
            at,
            problem,
        })
    }
}

impl<'a> Rest<'a> {
    fn selector(&mut self) -> Result<Selector, Fails> {
        let mut selector = Selector::everything();
        if self.peek().is_none() {
            return Ok(selector);
        }
        loop {
            let (key, operator) = self.requirement()?;
            selector = selector.and(key, operator);
            match self.peek() {
                None => return Ok(selector),
                Some(',') => self.at += 1,
                Some('<' | '>') => {
                    return self
                        .fail("`<` and `>` are not supported here: list the values with `in`");
                }
                Some(_) => return self.fail("requirements are separated by commas"),
            }
        }
    }

    fn requirement(&mut self) -> Result<(&'a str, Operator), Fails> {
        if self.take("!") {
            return Ok((self.key()?, Operator::Lacks));
        }
        let key = self.key()?;
        if self.take("!=") {
            return Ok((key, Operator::EqualsNot(self.value()?)));
        }
        if self.take("==") || self.take("=") {
            return Ok((key, Operator::Equals(self.value()?)));
        }
        let before = self.at;
        match self.word() {
            "in" => Ok((key, Operator::In(self.list(key, "in")?))),
            "notin" => Ok((key, Operator::NotIn(self.list(key, "notin")?))),
            "" => Ok((key, Operator::Exists)),
            _ => {
                self.at = before;
                self.fail("a key may be followed by `=`, `==`, `!=`, `in (…)` or `notin (…)`")
            }
        }
    }

    fn key(&mut self) -> Result<&'a str, Fails> {
        self.peek();
        let at = self.at;
        let key = self.word();
        if key.is_empty() {
            return self.fail("a label's key is expected, as in `app=web`");
        }
        let (prefix, name) =
            key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
        if let Some(prefix) = prefix
            && !(is_dns(prefix) && prefix.len() <= PREFIX_MAX)
        {
            let problem = "the part of a key before the `/` is a DNS name in lower case, \
                           as in `example.com/team`";
            return Err((at, problem.to_owned()));
        }
        if !is_name(name) {
            let problem = format!(
                "a key is 1 to {NAME_MAX} letters, digits, `-`, `_` or `.`, \
                 with a letter or digit at both ends"
            );
            return Err((at, problem));
        }
        Ok(key)
    }

    /// A value may be empty.
    fn value(&mut self) -> Result<String, Fails> {
        self.peek();
        let at = self.at;
        let value = self.word();
        if value.is_empty() || is_name(value) {
            return Ok(value.to_owned());
        }
        let problem = format!(
            "a value is empty, or up to {NAME_MAX} letters, digits, `-`, `_` or `.`, \
             with a letter or digit at both ends"
        );
        Err((at, problem))
    }

    fn list(&mut self, key: &str, operator: &str) -> Result<BTreeSet<String>, Fails> {
        if !self.take("(") {
            return self.fail(&format!(
                "`{operator}` takes a list in brackets, as in `{key} {operator} (a, b)`"
            ));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return self.fail("a list continues with a comma or ends with `)`");
            }
        }
    }

    /// The next character that is not white space, without taking it.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches(is_space).len();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        self.peek();
        let is_next = self.text[self.at..].starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    /// Everything up to the next white space or character of the grammar.
    fn word(&mut self) -> &'a str {
        self.peek();
        let rest = &self.text[self.at..];
        let is_end = |c: char| is_space(c) || ",()=!<>".contains(c);
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn fail<T>(&mut self, problem: &str) -> Result<T, Fails> {
        self.peek();
        Err((self.at, problem.to_owned()))
    }
}

fn is_name(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let bytes = text.as_bytes();
    bytes.len() <= NAME_MAX
        && ends(bytes.first())
        && ends(bytes.last())
        && text.bytes().all(is_inside)
}

fn is_dns(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.starts_with('-')
            && !label.ends_with('-')
            && !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.split('.').all(is_label)
}

impl std::error::Error for SelectorError {}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "selector {:?}, ", self.text)?;
        match &self.text[self.at..] {
            "" => write!(f, "at its end: {}", self.problem),
            rest => write!(f, "at {rest:?}: {}", self.problem),
        }
    }
}

/// White space as Kubernetes defines it for selectors.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_kubernetes_reads_them() {
        for (text, wanted) in [
            ("", ""),
            ("  ", ""),
            ("a", "a"),
            ("!a", "!a"),
            ("a=b", "a=b"),
            ("a == b", "a=b"),
            ("a=", "a="),
            ("a!=b", "a!=b"),
            ("a , b=c", "a,b=c"),
            ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
            ("example.com/team in(a)", "example.com/team in (a)"),
            ("in in (in)", "in in (in)"),
        ] {
            let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(selector.to_string(), wanted);
            assert_eq!(wanted.parse(), Ok(selector), "it comes back");
        }
    }

    #[test]
    fn errors_say_where_and_what_to_write() {
        let long = "a".repeat(64);
        for (text, at, remedy) in [
            ("a b", "at \"b\"", "followed by"),
            ("a=b c", "at \"c\"", "separated by commas"),
            ("a=b,", "at its end", "key is expected"),
            (",a", "at \",a\"", "key is expected"),
            ("a>1", "at \">1\"", "with `in`"),
            ("a in (b", "at its end", "ends with `)`"),
            ("a notin b", "at \"b\"", "a notin (a, b)"),
            ("-a", "at \"-a\"", "at both ends"),
            ("a=b/c", "at \"b/c\"", "a value is empty"),
            ("Ex/a", "at \"Ex/a\"", "DNS name"),
            (&long, "at \"aaa", "1 to 63"),
            ("a=é", "at \"é\"", "a value is empty"),
        ] {
            let error = text.parse::<Selector>().expect_err(text).to_string();
            assert!(error.contains(at) && error.contains(remedy), "{error}");
        }
    }
}
