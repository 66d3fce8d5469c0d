//! Prevents privilege escalation: a user who writes a role or a binding cannot grant rights that
//! they do not hold.
//!
//! The check does not apply to members of `system:masters`, nor to users with the verb `escalate`
//! on the role that they write, or the verb `bind` on the role that their binding refers to.

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

/// The maximum number of combinations of verb, group, resource and name that are compared. The
/// lists in a body can have more combinations than fit into memory.
const PIECES_MAX: usize = 100_000;

/// The maximum number of steps of a comparison, which then takes a fraction of a second. Each
/// combination is compared with each rule that the writer holds.
const STEPS_MAX: usize = 100_000_000;

/// The fields of `metadata` that the garbage collector writes. A change of only these fields is not
/// checked for escalation.
const GARBAGE_FIELDS: [&str; 3] = ["finalizers", "managedFields", "ownerReferences"];

impl Rbac {
    /// Returns a 403 if the user may not write this role or binding. `old` is the stored object.
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
        // An aggregated role can get any rule later.
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
                // Defaulting sets the group later if the request has none.
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
        // The real server's error names the kind that is written instead of the kind of the missing
        // role.
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

/// Returns whether two objects differ only in fields that the garbage collector writes.
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
