//! The `fieldPath` of a rule: `.spec.replicas` or `.labels['app']`, relative to its place.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// Returns the path in the form of errors, if it leads to a field of the schema.
pub(super) fn normalise(path: &str, schema: &Json) -> Option<String> {
    let mut out = String::new();
    let mut at = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            (name, rest) = (after[..end].to_owned(), &after[end..]);
            if name.is_empty() {
                return None;
            }
        } else {
            let after = rest.strip_prefix("['")?;
            let end = quote_end(after)?;
            name = unescape(&after[..end])?;
            rest = after[end + 1..].strip_prefix(']')?;
        }
        if at["properties"].is_object() {
            at = at["properties"].get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else if at["additionalProperties"].is_object() {
            at = &at["additionalProperties"];
            let _ = write!(out, "[{name}]");
        } else {
            return None;
        }
    }
    Some(out)
}

/// Returns the index of the first quote without a backslash before it.
fn quote_end(text: &str) -> Option<usize> {
    let quotes = text.match_indices('\'').map(|(at, _)| at);
    quotes.into_iter().find(|at| !text[..*at].ends_with('\\'))
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                '\'' => '\'',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_a_field_of_the_schema() {
        let schema = json!({"properties": {"spec": {"properties": {"a.b": {}, "labels": {
            "additionalProperties": {"type": "string"}}}}}});
        for (path, normal) in [
            (".spec", Some("spec")),
            (".spec['a.b']", Some("spec.a.b")),
            (".spec.labels['app']", Some("spec.labels[app]")),
            (".spec.labels.app", Some("spec.labels[app]")),
            ("spec", None),
            (".spec.other", None),
            (".spec[0]", None),
            (".spec.", None),
        ] {
            assert_eq!(normalise(path, &schema).as_deref(), normal, "{path}");
        }
    }
}
