//! The kinds of objects that a new operator can own.

use anyhow::{Result, anyhow, ensure};

/// A kind that has a file in the template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    /// The plural, as in `kubectl get` and in Roles. The template uses it in its `if` lines.
    pub(crate) plural: &'static str,
    /// Other accepted names, in lower case.
    others: &'static [&'static str],
}

/// All of them, in the template's order.
pub(crate) const KINDS: [Owned; 5] = [
    Owned { plural: "configmaps", others: &["configmap", "cm"] },
    Owned { plural: "deployments", others: &["deployment", "deploy"] },
    Owned { plural: "services", others: &["service", "svc"] },
    Owned { plural: "serviceaccounts", others: &["serviceaccount", "sa"] },
    Owned { plural: "statefulsets", others: &["statefulset", "sts"] },
];

/// The default of `--owns`.
pub(crate) const DEFAULT: &str = "configmaps,deployments,services";

/// Parses a comma-separated list of kinds into plural names, in the order of [`KINDS`].
///
/// # Errors
/// If a kind is unknown, or the list is empty.
pub(crate) fn parse(list: &str) -> Result<Vec<&'static str>> {
    let mut wanted = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        wanted.push(find(name)?);
    }
    ensure!(
        !wanted.is_empty(),
        "an operator owns at least one kind: choose from {}. You can remove its file later",
        all()
    );
    let plurals = KINDS.iter().map(|kind| kind.plural);
    Ok(plurals.filter(|plural| wanted.contains(plural)).collect())
}

/// Returns the names of all kinds, for messages.
pub(crate) fn all() -> String {
    KINDS.map(|kind| kind.plural).join(", ")
}

fn find(name: &str) -> Result<&'static str> {
    let lower = name.to_ascii_lowercase();
    let is_it = |kind: &&Owned| kind.plural == lower || kind.others.contains(&lower.as_str());
    let found = KINDS.iter().find(is_it).map(|kind| kind.plural);
    found.ok_or_else(|| {
        anyhow!(
            "the kind {name:?} is unknown. There are {}. For another one, choose one of these, and \
             add yours to the kind's children.rs afterwards",
            all()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_all_their_names_and_come_in_order() {
        let expected = ["configmaps", "deployments", "services", "serviceaccounts"];
        assert_eq!(parse(" ServiceAccount, svc,deploy,configmaps,cm").expect("kinds"), expected);
        assert_eq!(parse(DEFAULT).expect("kinds").join(","), DEFAULT);
    }

    #[test]
    fn unknown_kind_is_refused_with_those_that_there_are() {
        let error = parse("deployments,widgets").expect_err("there is no such kind").to_string();
        assert!(error.contains("\"widgets\" is unknown"), "{error}");
        for kind in KINDS {
            assert!(error.contains(kind.plural), "{error}");
        }
        parse(",").expect_err("an operator owns something");
    }
}
