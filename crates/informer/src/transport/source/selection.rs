//! Checks the namespace and the selectors of a source.
//!
//! They are checked when they are set, so that a mistake is a clear error at the start, and not a
//! 400 that is retried for ever.

use windlass_indexer::SelectorError;

use crate::resource::Resource;

/// A namespace or a selector that no server would accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// The label selector is invalid.
    #[error("label {0}")]
    Labels(#[from] SelectorError),
    /// The field selector is invalid.
    #[error("field selector {text:?}, at {part:?}: {problem}")]
    Fields {
        /// The whole selector.
        text: String,
        /// The requirement that is wrong.
        part: String,
        /// What to write instead.
        problem: &'static str,
    },
    /// No namespace can have this name.
    #[error(
        "{0:?} is no name of a namespace: they are 1 to 63 lower case letters, digits and `-`, \
        with a letter or digit at both ends"
    )]
    Namespace(String),
    /// The resource is cluster-wide.
    #[error("{resource} is cluster-wide, so it cannot be limited to the namespace {namespace:?}")]
    NotNamespaced {
        /// The resource, as in `nodes.v1`.
        resource: String,
        /// The namespace that was asked for.
        namespace: String,
    },
}

/// The longest name of a namespace.
const NAMESPACE_MAX: usize = 63;

pub(super) fn check_namespace(resource: &Resource, name: &str) -> Result<(), SelectionError> {
    if !resource.is_namespaced() {
        let resource = resource.to_string();
        let namespace = name.to_owned();
        return Err(SelectionError::NotNamespaced { resource, namespace });
    }
    if !is_namespace(name) {
        return Err(SelectionError::Namespace(name.to_owned()));
    }
    Ok(())
}

pub(super) fn check_fields(text: &str) -> Result<(), SelectionError> {
    for part in split_at_commas(text) {
        check_field(part).map_err(|problem| SelectionError::Fields {
            text: text.to_owned(),
            part: part.to_owned(),
            problem,
        })?;
    }
    Ok(())
}

fn is_namespace(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAMESPACE_MAX).contains(&name.len())
        && name.bytes().all(is_inside)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// The requirements of a field selector. A comma behind a backslash belongs to a value.
fn split_at_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |char| {
        let is_comma = char == ',' && !is_escaped;
        is_escaped = char == '\\' && !is_escaped;
        is_comma
    })
    // The server ignores empty parts, too.
    .filter(|part| !part.is_empty())
}

/// One requirement: `field=value`, `field==value` or `field!=value`. The server has no others.
fn check_field(part: &str) -> Result<(), &'static str> {
    const FORM: &str = "write `field=value` or `field!=value`, as in `spec.nodeName=node-1`";
    const ESCAPE: &str = r"in a value, `=`, `,` and `\` are escaped by a `\`, as in `a\=b`";
    let (field, value) = part.split_once('=').ok_or(FORM)?;
    let field = field.strip_suffix('!').unwrap_or(field);
    let is_path = |c: char| c.is_ascii_alphanumeric() || ".-_/[]'\"".contains(c);
    if field.is_empty() || !field.chars().all(is_path) {
        return Err(FORM);
    }
    let value = value.strip_prefix('=').unwrap_or(value);
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' if !matches!(chars.next(), Some('\\' | ',' | '=')) => return Err(ESCAPE),
            '=' => return Err(ESCAPE),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_field_selectors_are_accepted() {
        for text in [
            "",
            "spec.nodeName=node-1",
            "metadata.name==web,status.phase!=Running",
            "metadata.namespace=",
            r"a=b\,c\=d\\,e=f",
        ] {
            assert_eq!(check_fields(text), Ok(()));
        }
    }

    #[test]
    fn invalid_field_selector_is_an_error_with_the_remedy() {
        for (text, at, remedy) in [
            ("spec.nodeName", r#"at "spec.nodeName""#, "write `field=value`"),
            ("a=b,c>d", r#"at "c>d""#, "write `field=value`"),
            ("a in (b)", r#"at "a in (b)""#, "write `field=value`"),
            ("=b", r#"at "=b""#, "write `field=value`"),
            ("a=b=c", r#"at "a=b=c""#, "in a value"),
            (r"a=\b", r#"at "a=\\b""#, "in a value"),
        ] {
            let error = check_fields(text).expect_err(text).to_string();
            assert!(error.contains(at) && error.contains(remedy), "{error}");
        }
    }

    #[test]
    fn namespaces_must_be_names() {
        for name in ["a", "kube-system", "0"] {
            assert!(is_namespace(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a/b", "a.b", "../x", &"a".repeat(64)] {
            assert!(!is_namespace(name), "{name}");
        }
    }
}
