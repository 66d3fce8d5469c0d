//! Nobody grants what they do not hold: checked when a role or a binding is written.
//!
//! The verb `escalate` on roles and the verb `bind` on the role that a binding names lift the
//! check; so does membership in `system:masters`.

use serde_json::{Map, Value};

use super::index::RoleRef;
use super::rule::{AccessTarget, Attributes, GROUP, PolicyRule, quoted_list};
use super::{MASTERS, Rbac, aggregate, coverage};
use crate::failure::Failure;
use crate::field_error::go_quote;
use crate::fields::text;
use crate::target::Target;
use crate::user::User;

type Object = Map<String, Value>;

/// How many combinations of verb, group, resource and name are compared. A body can hold lists
/// whose combinations no memory can.
const PIECES_MAX: usize = 100_000;

/// How many steps a comparison may take: a fraction of a second. Each combination is compared with
/// each rule that the writer holds.
const STEPS_MAX: usize = 100_000_000;

/// Fields of `metadata` that the garbage collector writes, for which it needs no further rights.
const GARBAGE_FIELDS: [&str; 3] = ["finalizers", "managedFields", "ownerReferences"];

impl Rbac {
    /// A 403 if a user may not write this role or binding. `old` is what was there.
    pub(crate) fn check_escalation(
        &self,
        user: &User,
        target: &Target,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), Failure> {
        let is_master = user.groups.iter().any(|group| group == MASTERS);
        if target.kind.group != GROUP || is_master || old.is_some_and(|old| only_garbage(old, new))
        {
            return Ok(());
        }
        match target.kind.plural.as_str() {
            "roles" | "clusterroles" => self.check_role(user, target, old, new),
            "rolebindings" | "clusterrolebindings" => self.check_binding(user, target, new),
            _ => Ok(()),
        }
    }

    fn check_role(
        &self,
        user: &User,
        target: &Target,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), Failure> {
        let escalate = Attributes {
            verb: "escalate",
            on: AccessTarget::Resource {
                group: GROUP,
                resource: &target.kind.plural,
                subresource: "",
                namespace: &target.namespace,
                name: &target.name,
            },
        };
        if self.decide(user, &escalate).allowed {
            return Ok(());
        }
        let rules = PolicyRule::list(new);
        self.check_holds(user, target, &rules, new)?;
        // An aggregated role can come to hold anything.
        if aggregates(new) || old.is_some_and(aggregates) {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            let held = self.check_holds(user, target, &everything(), new);
            held.map_err(|_| refusal(target, new, why))?;
        }
        Ok(())
    }

    fn check_binding(&self, user: &User, target: &Target, new: &Object) -> Result<(), Failure> {
        let role = RoleRef::of(new);
        let group = new.get("roleRef").and_then(|reference| reference.get("apiGroup"));
        let plural = match role.kind.as_str() {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            _ => "",
        };
        let bind = Attributes {
            verb: "bind",
            on: AccessTarget::Resource {
                // It is filled in where the writer left it out.
                group: group.and_then(Value::as_str).unwrap_or(GROUP),
                resource: plural,
                subresource: "",
                namespace: &target.namespace,
                name: &role.name,
            },
        };
        if !plural.is_empty() && self.decide(user, &bind).allowed {
            return Ok(());
        }
        if plural.is_empty() {
            let why = format!("unsupported role reference kind: {}", go_quote(&role.kind));
            return Err(Failure::internal(why));
        }
        // The real server takes the role that is missing for an object of the kind being written.
        let missing = |_| Failure::not_found_in(GROUP, &target.kind.plural, &role.name);
        let rules = self.index.rules(&role, &target.namespace).map_err(missing)?;
        self.check_holds(user, target, rules, new)
    }

    fn check_holds(
        &self,
        user: &User,
        target: &Target,
        wanted: &[PolicyRule],
        new: &Object,
    ) -> Result<(), Failure> {
        let size = wanted.iter().map(coverage::pieces).fold(0, usize::saturating_add);
        if size > PIECES_MAX {
            return Err(Failure::too_large(&format!(
                "the rules allow {size} combinations of verbs and objects, and {PIECES_MAX} can be \
                 compared with the rights of their writer"
            )));
        }
        let (held, lost) = self.rules_of(user, &target.namespace);
        let steps = coverage::steps(&held, wanted);
        if steps > STEPS_MAX {
            return Err(Failure::too_large(&format!(
                "the rules and those that their writer holds would have to be compared in {steps} \
                 steps, and {STEPS_MAX} are allowed"
            )));
        }
        let missing = coverage::missing(&held, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let problems = lost.iter().map(|missing| missing.message_for(&target.kind.plural));
        let problem = aggregate(problems).map(|why| format!("; resolution errors: [{why}]"));
        let why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}{}",
            go_quote(&user.name),
            quoted_list(&user.groups),
            missing.describe(),
            problem.unwrap_or_default()
        );
        Err(refusal(target, new, &why))
    }
}

fn refusal(target: &Target, object: &Object, why: &str) -> Failure {
    Failure::forbidden(GROUP, &target.kind.plural, text(object, "name"), why)
}

fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

fn aggregates(role: &Object) -> bool {
    let selectors = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
}

/// Whether two objects differ in nothing but what the garbage collector writes.
fn only_garbage(old: &Object, new: &Object) -> bool {
    let rest = |object: &Object| {
        let mut object = object.clone();
        object.remove("kind");
        object.remove("apiVersion");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in GARBAGE_FIELDS {
                metadata.remove(field);
            }
        }
        object
    };
    rest(old) == rest(new)
}
