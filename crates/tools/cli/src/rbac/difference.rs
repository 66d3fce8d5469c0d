//! Missing and excess rights.

use std::fmt;

use super::access::Access;
use super::grant::Grant;
use super::needs::{Need, Needs};

/// The difference between needed and granted rights.
#[derive(Debug)]
pub(super) struct Difference {
    /// The rights that are needed but not granted, and what needs them.
    pub(super) missing: Vec<(Access, String)>,
    /// The rights that are granted but not needed, or not to this extent.
    pub(super) excess: Vec<Excess>,
}

/// An excess right.
#[derive(Debug)]
pub(super) struct Excess {
    pub(super) grant: Grant,
    /// The needed rights that the grant includes.
    pub(super) used: Vec<Access>,
}

impl Difference {
    pub(super) fn between(needs: &Needs, grants: &[Grant]) -> Self {
        let missing = needs
            .iter()
            .filter(|(access, need)| !is_granted(access, need, grants))
            .map(|(access, need)| (access.clone(), need.reason.clone()))
            .collect();
        let mut excess = Vec::new();
        for grant in grants.iter().filter(|grant| !grant.is_kept) {
            let used: Vec<Access> = needs
                .iter()
                .filter_map(|(access, need)| used(&grant.access, access, need))
                .collect();
            if !used.contains(&grant.access) {
                excess.push(Excess { grant: grant.clone(), used });
            }
        }
        excess.sort_by(|one, other| one.grant.access.cmp(&other.grant.access));
        Self { missing, excess }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.excess.is_empty()
    }
}

/// Whether a needed right is granted. Rules with `resourceNames` suffice if they name every object
/// of the observed requests. A kept rule suffices for observed requests even if it is for one
/// namespace only: tests use other namespaces than the deployment.
fn is_granted(access: &Access, need: &Need, grants: &[Grant]) -> bool {
    let is_named = |name: &String| {
        grants
            .iter()
            .map(|grant| &grant.access)
            .any(|grant| grant.name.as_ref() == Some(name) && may_be_for(grant, access))
    };
    let is_kept = |grant: &Grant| {
        grant.is_kept && grant.access.name.is_none() && may_be_for(&grant.access, access)
    };
    grants.iter().any(|grant| grant.access.covers(access))
        || need.is_observed && grants.iter().any(is_kept)
        || need.names.as_ref().is_some_and(|names| names.iter().all(is_named))
}

/// Whether a grant for one object may match a needed request, whatever its name. If the need is
/// cluster-wide, the namespace of the grant is ignored: tests use other namespaces than the
/// deployment.
fn may_be_for(grant: &Access, access: &Access) -> bool {
    let has_place = grant.scope.includes(&access.scope) || access.scope.includes(&grant.scope);
    has_place && grant.is_about(access)
}

/// Returns the part of a grant that a need uses, if any; the grant itself if the need uses all of
/// it.
fn used(grant: &Access, access: &Access, need: &Need) -> Option<Access> {
    if grant.covers(access) {
        return Some(access.clone());
    }
    let name = grant.name.as_ref()?;
    let is_seen = need.names.as_ref().is_some_and(|names| names.contains(name));
    let (scope, name) = (grant.scope.clone(), grant.name.clone());
    (is_seen && may_be_for(grant, access)).then(|| Access { scope, name, ..access.clone() })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (access, reason) in &self.missing {
            writeln!(f, "+ {access} is missing: {reason}")?;
        }
        let mut lines: Vec<String> = self.excess.iter().map(ToString::to_string).collect();
        // Several rules may grant the same.
        lines.dedup();
        lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used: Vec<String> = self.used.iter().map(|access| format!("`{access}`")).collect();
        write!(f, "- {} is too much: ", self.grant.access)?;
        match used.as_slice() {
            [] => write!(f, "nothing needs it"),
            [one] => write!(f, "only {one} is needed"),
            several => write!(f, "only {} are needed", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::access::{Scope, Target, Verb};
    use super::*;

    fn get_secrets(scope: Scope, name: Option<&str>) -> Access {
        Access {
            scope,
            target: Target::resource("", "secrets"),
            name: name.map(str::to_owned),
            verb: Verb("get".to_owned()),
        }
    }

    fn in_shop(name: Option<&str>) -> Access {
        get_secrets(Scope::Namespace("shop".to_owned()), name)
    }

    fn shown(access: Access, names: Option<&[&str]>, grants: &[&Access]) -> String {
        let names = names.map(|all| all.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
        let needs =
            Needs::from([(access, Need { reason: "a run".to_owned(), names, is_observed: true })]);
        let grants: Vec<_> = grants.iter().map(|&grant| Grant::from(grant.clone())).collect();
        Difference::between(&needs, &grants).to_string()
    }

    #[test]
    fn rules_that_name_every_object_that_was_seen_are_enough() {
        let seen = get_secrets(Scope::Cluster, None);
        let (db, cache) = (in_shop(Some("db")), get_secrets(Scope::Cluster, Some("cache")));
        assert_eq!(shown(seen.clone(), Some(&["db"]), &[&db]), "");
        let both = [&db, &cache];
        assert_eq!(shown(seen.clone(), Some(&["cache", "db"]), &both), "");
        assert_eq!(
            shown(seen.clone(), Some(&["cache", "db"]), &[&db]),
            "+ get secrets is missing: a run\n"
        );
        assert_eq!(
            shown(seen.clone(), Some(&["db"]), &both),
            "- get secrets cache is too much: nothing needs it\n"
        );
        assert_eq!(shown(seen.clone(), Some(&["db"]), &[&seen]), "");
        // One request was for all objects.
        assert_eq!(
            shown(seen, None, &[&db]),
            "+ get secrets is missing: a run\n\
             - get secrets db in shop is too much: nothing needs it\n"
        );
    }

    #[test]
    fn rule_that_names_an_object_grants_it_in_its_namespace_only() {
        let in_other = get_secrets(Scope::Namespace("other".to_owned()), Some("db"));
        assert_eq!(
            shown(in_shop(None), Some(&["db"]), &[&in_other]),
            "+ get secrets in shop is missing: a run\n\
             - get secrets db in other is too much: nothing needs it\n"
        );
        for granted in [in_shop(Some("db")), get_secrets(Scope::Cluster, Some("db"))] {
            assert_eq!(shown(in_shop(None), Some(&["db"]), &[&granted]), "");
        }
    }

    #[test]
    fn rule_without_a_name_is_too_much_for_a_right_that_is_declared_with_one() {
        assert_eq!(
            shown(in_shop(Some("db")), None, &[&in_shop(None)]),
            "- get secrets in shop is too much: only `get secrets db in shop` is needed\n"
        );
        assert_eq!(shown(in_shop(Some("db")), None, &[&in_shop(Some("db"))]), "");
    }

    #[test]
    fn rule_of_one_namespace_that_is_kept_is_enough_for_what_was_seen() {
        let need = |is_observed| Need { reason: "a task".to_owned(), names: None, is_observed };
        let difference = |is_kept, is_observed| {
            let needs = Needs::from([(get_secrets(Scope::Cluster, None), need(is_observed))]);
            let grant = Grant { is_kept, ..Grant::from(in_shop(None)) };
            Difference::between(&needs, &[grant]).to_string()
        };
        assert_eq!(difference(true, true), "");
        assert_eq!(difference(true, false), "+ get secrets is missing: a task\n");
        assert!(difference(false, true).starts_with("+ get secrets is missing: a task\n"));
    }

    #[test]
    fn rule_that_is_kept_is_not_too_much() {
        let mut grant = Grant::from(in_shop(None));
        assert!(!Difference::between(&Needs::new(), &[grant.clone()]).is_empty());
        grant.is_kept = true;
        assert!(Difference::between(&Needs::new(), &[grant]).is_empty());
    }
}
