//! `SelfSubjectRulesReview`: everything that the sender may do in a namespace.

use serde_json::{Map, Value, json};

use super::{Object, ReviewContext};
use crate::failure::Failure;
use crate::rbac::aggregate;
use crate::rbac::index::MissingRole;
use crate::rbac::rule::PolicyRule;

pub(super) fn answer(review: &Object, context: &ReviewContext<'_>) -> Result<Object, Failure> {
    let namespace = review.get("spec").and_then(|spec| spec.get("namespace"));
    let namespace = namespace.and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let status = match context.access.rbac {
        Some(rbac) => {
            let (rules, lost) = rbac.rules_of(context.user, namespace);
            status(&rules, aggregate(lost.iter().map(MissingRole::message)))
        }
        None => status(&everything(), None),
    };
    let review = json!({"metadata": {}, "spec": {}, "status": status});
    Ok(review.as_object().cloned().unwrap_or_default())
}

fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

fn status(rules: &[PolicyRule], problem: Option<String>) -> Value {
    let resources = rules.iter().filter(|rule| !rule.resources.is_empty());
    let resources: Vec<Value> = resources
        .map(|rule| {
            filled(&[
                ("verbs", &rule.verbs),
                ("apiGroups", &rule.api_groups),
                ("resources", &rule.resources),
                ("resourceNames", &rule.resource_names),
            ])
        })
        .collect();
    let urls = rules.iter().filter(|rule| !rule.non_resource_urls.is_empty());
    let urls: Vec<Value> = urls
        .map(|rule| filled(&[("verbs", &rule.verbs), ("nonResourceURLs", &rule.non_resource_urls)]))
        .collect();
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": urls, "incomplete": false});
    if let Some(problem) = problem {
        status["evaluationError"] = problem.into();
    }
    status
}

/// Returns the lists that are not empty.
fn filled(lists: &[(&str, &Vec<String>)]) -> Value {
    let filled = lists.iter().filter(|(_, list)| !list.is_empty());
    Value::Object(
        filled.map(|(name, list)| ((*name).to_owned(), json!(list))).collect::<Map<_, _>>(),
    )
}
