//! The syntax of names, label keys and label values, and the messages about violations.
//! Each function returns one message for each rule that is broken. Lengths are in bytes, although
//! the real server calls them characters in the names of objects.

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_FMT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const KEY_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character";

/// The syntax of the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Labels joined by dots, such as `example.com`; most kinds.
    Subdomain,
    /// One label, such as `my-name`; namespaces and others.
    Label,
    /// Anything that fits into one segment of a URL path; the kinds of rbac.
    Path,
}

impl NameRule {
    /// Returns the errors of `name`.
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::Path => path_segment(name),
        }
    }

    /// Returns the errors of `prefix` as the beginning of a generated name. It may end with a dash.
    pub(crate) fn check_prefix(self, prefix: &str) -> Vec<String> {
        match self {
            Self::Path => path_segment_prefix(prefix),
            _ => self.check(&without_trailing_dash(prefix)),
        }
    }
}

/// Checks a lowercase RFC 1123 label.
pub(crate) fn label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 63, "characters");
    if !is_label(name) {
        wrong.push(if is_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            regex_text(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                 must start and end with an alphanumeric character",
                LABEL_FMT,
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// Checks a lowercase RFC 1123 subdomain.
pub(crate) fn subdomain(name: &str) -> Vec<String> {
    subdomain_in(name, "characters")
}

fn subdomain_in(name: &str, unit: &str) -> Vec<String> {
    let mut wrong = too_long(name, 253, unit);
    if !is_subdomain(name) {
        wrong.push(regex_text(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character",
            SUBDOMAIN_FMT,
            &["example.com"],
        ));
    }
    wrong
}

/// Checks an RFC 1035 label: it starts with a letter.
pub(crate) fn dns1035_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 63, "characters");
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(regex_text(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character",
            DNS1035_FMT,
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// Checks a name that must fit into one segment of a path.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment_prefix(name),
    }
}

fn path_segment_prefix(name: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|&&bad| name.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// Checks the key of a label or annotation, or a finalizer: an optional subdomain and a slash, then
/// a name.
pub(crate) fn qualified_name(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut parts = key.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(
                    subdomain_in(prefix, "bytes").iter().map(|text| format!("prefix part {text}")),
                );
            }
            name
        }
        _ => {
            let text = regex_text(KEY_TEXT, KEY_FMT, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(too_long(name, 63, "bytes").iter().map(|text| format!("name part {text}")));
    if !is_key_name(name) {
        let text = regex_text(KEY_TEXT, KEY_FMT, &["MyName", "my.name", "123-abc"]);
        wrong.push(format!("name part {text}"));
    }
    wrong
}

/// Checks the value of a label.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, 63, "bytes");
    if !value.is_empty() && !is_key_name(value) {
        wrong.push(regex_text(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character",
            &format!("({KEY_FMT})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// Replaces a trailing dash and the letter before it by an `a`, as the real server does before it
/// checks a prefix.
fn without_trailing_dash(prefix: &str) -> String {
    let Some(head) = prefix.strip_suffix('-').filter(|head| !head.is_empty()) else {
        return prefix.to_owned();
    };
    let kept = head.strip_suffix(|c: char| c.is_ascii()).unwrap_or(head);
    format!("{kept}a")
}

fn is_label(name: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|b| edge(b) || *b == b'-')
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn is_key_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn too_long(name: &str, max: usize, unit: &str) -> Vec<String> {
    if name.len() > max { vec![format!("must be no more than {max} {unit}")] } else { Vec::new() }
}

fn regex_text(text: &str, regex: &str, examples: &[&str]) -> String {
    let quoted: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{text} (e.g. {}regex used for validation is '{regex}')", quoted.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_subdomain_is_explained_as_recorded() {
        assert_eq!(
            NameRule::Subdomain.check("Bad_Name"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                 and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
    }

    #[test]
    fn good_names_pass_and_bad_ones_do_not() {
        for (rule, good, bad) in [
            (NameRule::Subdomain, "a.b-c.1", "a..b"),
            (NameRule::Label, "1-a", "a.b"),
            (NameRule::Path, "system:controller:x", "a/b"),
        ] {
            assert_eq!(rule.check(good), [""; 0], "{rule:?}");
            assert_eq!(rule.check(bad).len(), 1, "{rule:?}");
        }
        assert_eq!(NameRule::Path.check(".."), ["may not be '..'"]);
        assert_eq!(NameRule::Label.check("a.b"), ["must not contain dots"]);
        assert_eq!(NameRule::Label.check(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        assert!(NameRule::Subdomain.check_prefix("web-").is_empty());
        assert!(!NameRule::Subdomain.check_prefix("-").is_empty());
        assert!(!NameRule::Subdomain.check_prefix("Web-").is_empty());
    }

    #[test]
    fn label_keys_have_at_most_one_prefix() {
        assert!(qualified_name("example.com/my.Name_1").is_empty());
        assert!(qualified_name("a/b/c")[0].starts_with("a valid label key must consist of"));
        assert_eq!(qualified_name("/x"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("x/").len(), 2);
        assert!(qualified_name("x/")[0] == "name part must be non-empty");
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(label_value("").is_empty());
        assert!(label_value("a_b.C-1").is_empty());
        assert!(label_value("a b")[0].ends_with("'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"));
    }
}
