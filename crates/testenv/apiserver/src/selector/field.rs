//! Field selectors: `metadata.name=web,spec.nodeName!=`.
//!
//! A selector is a list of terms, and all of them must hold. The caller checks which paths the kind
//! supports.

/// A parsed field selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    /// The terms, sorted by their text, in which order the real server checks them.
    pub(crate) terms: Vec<FieldTerm>,
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    /// The dotted path, as in `spec.nodeName`.
    pub(crate) path: Box<str>,
    /// How the field and the value compare.
    pub(crate) op: FieldOp,
    /// The unescaped value.
    pub(crate) value: Box<str>,
}

/// How a field and a value compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldOp {
    /// `=` or `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

impl FieldSelector {
    /// Parses the text of a query. The error is the message of a 400.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((path, op, value)) = split_term(part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            let value = unescape(value)?;
            // A term of nothing but an operator is ignored.
            if !path.is_empty() || !value.is_empty() {
                terms.push(FieldTerm { path: path.into(), op, value: value.into() });
            }
        }
        Ok(Self { terms })
    }

    /// Whether the selector is empty, so that it selects every object.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the object is selected. `value_of` returns its fields, and a missing field is empty.
    pub(crate) fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = value_of(&term.path).unwrap_or_default() == &*term.value;
            equal == (term.op == FieldOp::Equals)
        })
    }
}

/// Splits at commas that are not escaped by a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term at its first operator: paths have no escapes.
fn split_term(term: &str) -> Option<(&str, FieldOp, &str)> {
    let at = term.find('=')?;
    // A `!` directly before the first `=` belongs to the operator.
    if let Some(path) = term[..at].strip_suffix('!') {
        return Some((path, FieldOp::NotEquals, &term[at + 1..]));
    }
    let value = &term[at + 1..];
    Some((&term[..at], FieldOp::Equals, value.strip_prefix('=').unwrap_or(value)))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            // The real server prints the character as its number.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn term(path: &str, op: FieldOp, value: &str) -> FieldTerm {
        FieldTerm { path: path.into(), op, value: value.into() }
    }

    #[test]
    fn terms_are_path_operator_and_value() {
        let selector =
            FieldSelector::parse(r"spec.nodeName!=,metadata.name==a\,b\=c\\,,x=1").expect("valid");
        assert_eq!(
            selector.terms,
            [
                term("metadata.name", FieldOp::Equals, r"a,b=c\"),
                term("spec.nodeName", FieldOp::NotEquals, ""),
                term("x", FieldOp::Equals, "1"),
            ]
        );
        for nothing in ["", ",", "=", "!="] {
            assert!(FieldSelector::parse(nothing).expect("valid").is_empty(), "{nothing}");
        }
    }

    #[test]
    fn errors_of_invalid_selectors_are_as_recorded() {
        for (text, message) in [
            ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
            ("a=1,foo", "invalid selector: 'a=1,foo'; can't understand 'foo'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(FieldSelector::parse(text), Err(message.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in r"([a-c.=!,\\ü]{0,12}|\PC{0,20})") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                selector.matches(|_| None);
            }
        }
    }

    #[test]
    fn a_missing_field_is_empty() {
        let selector = FieldSelector::parse("a=1,b!=2,c=").expect("valid");
        assert!(selector.matches(|path| (path == "a").then_some("1")));
        assert!(!selector.matches(|path| match path {
            "a" => Some("1"),
            "b" => Some("2"),
            _ => None,
        }));
    }
}
