//! The order of API versions by preference, as Kubernetes defines it.

use std::cmp::{Ordering, Reverse};

/// Compares two version names. The preferred one comes first.
///
/// Stable versions come before beta before alpha, and higher numbers before lower ones. Other names
/// come last, in alphabetical order: `v10, v2, v1, v11beta2, v3beta1, v12alpha1, foo1, foo10`.
pub(crate) fn by_preference(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Returns the stability, major and minor number of a version name. The preferred one is the
/// smallest.
fn parse(version: &str) -> Option<(u8, Reverse<u64>, Reverse<u64>)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stability) = rest.split_at(digits);
    let major = number(major)?;
    let (rank, minor) = if stability.is_empty() {
        (0, 0)
    } else if let Some(minor) = stability.strip_prefix("beta") {
        (1, number(minor)?)
    } else {
        (2, number(stability.strip_prefix("alpha")?)?)
    };
    Some((rank, Reverse(major), Reverse(minor)))
}

/// Parses a number without a leading zero.
fn number(text: &str) -> Option<u64> {
    if text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_foreign_names_last() {
        let mut versions = [
            "foo10",
            "v3beta1",
            "v1",
            "v12alpha1",
            "v10",
            "v2",
            "v11beta2",
            "foo1",
            "v0",
            "v12alpha2",
            "v1beta",
        ];
        versions.sort_by(|a, b| by_preference(a, b));
        let expected = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v3beta1",
            "v12alpha2",
            "v12alpha1",
            "foo1",
            "foo10",
            "v0",
            "v1beta",
        ];
        assert_eq!(versions, expected);
    }
}
