//! Refuses configurations with which a cluster cannot recover.
//!
//! A webhook that fails closed refuses everything that it matches while it is down. If that
//! includes what brings it up again, it stays down.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{ClientTarget, FailurePolicy, Rule, Scope, WebhookEntry};
use crate::error::Error;

/// What an operator needs in its own namespace to start: group and resource.
const NEEDED: [(&str, &str); 12] = [
    ("", "pods"),
    ("", "services"),
    ("", "endpoints"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "serviceaccounts"),
    ("", "events"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
];

/// The label that every namespace has, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Refuses an entry with the reason.
pub(super) fn check(entry: &WebhookEntry, target: &ClientTarget) -> Result<(), Error> {
    let danger = |reason: String| Err(Error::Dangerous { webhook: entry.name.clone(), reason });
    if entry.rules.iter().any(names_webhook_configurations) {
        return danger(
            "it matches webhook configurations. The API server never calls webhooks for them, \
             because nobody could repair such a webhook"
                .to_owned(),
        );
    }
    if entry.failure_policy == FailurePolicy::Ignore {
        return Ok(());
    }
    let is_bounded = is_bounded(entry.namespace_selector.as_ref());
    if entry.rules.iter().any(is_everything) && !is_bounded {
        return danger(
            "it fails closed and matches everything: while it is down, the cluster cannot be \
             repaired. Match fewer resources, set a namespace selector, or use \
             `FailurePolicy::Ignore`"
                .to_owned(),
        );
    }
    let ClientTarget::Service { namespace, .. } = target else { return Ok(()) };
    let needed = NEEDED
        .iter()
        .find(|(group, resource)| entry.rules.iter().any(|rule| matches(rule, group, resource)));
    match needed {
        Some((_, resource)) if !excludes(entry.namespace_selector.as_ref(), namespace) => {
            danger(format!(
                "it fails closed and matches {resource} in its own namespace, {namespace}: while \
                 it is down, it may refuse what would start it again. Exclude the namespace with \
                 a namespace selector ({NAMESPACE_NAME} not in {namespace}), or use \
                 `FailurePolicy::Ignore`"
            ))
        }
        _ => Ok(()),
    }
}

fn names_webhook_configurations(rule: &Rule) -> bool {
    let names = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    rule.api_groups.iter().any(|group| group == "admissionregistration.k8s.io")
        && rule.resources.iter().any(|resource| names.contains(&resource.as_str()))
}

fn is_everything(rule: &Rule) -> bool {
    rule.api_groups.iter().any(|group| group == "*")
        && rule.resources.iter().any(|resource| resource == "*" || resource == "*/*")
}

fn matches(rule: &Rule, group: &str, resource: &str) -> bool {
    rule.scope != Scope::Cluster
        && rule.api_groups.iter().any(|of| of == "*" || of == group)
        && rule.resources.iter().any(|of| {
            // `pods/*` is the pods and all of their subresources.
            let of = of.strip_suffix("/*").unwrap_or(of);
            of == "*" || of == resource
        })
}

/// Whether a selector leaves anything out.
fn is_bounded(selector: Option<&LabelSelector>) -> bool {
    selector.is_some_and(|selector| {
        selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
            || selector.match_expressions.as_ref().is_some_and(|all| !all.is_empty())
    })
}

/// Whether a selector leaves a namespace out for certain, or unless somebody gives it a label.
fn excludes(selector: Option<&LabelSelector>, namespace: &str) -> bool {
    let Some(selector) = selector else { return false };
    let labels = selector.match_labels.iter().flatten();
    let mut by_label = labels.map(|(key, value)| key != NAMESPACE_NAME || value != namespace);
    let expressions = selector.match_expressions.iter().flatten();
    let mut by_expression = expressions.map(|expression| requires_other(expression, namespace));
    by_label.any(|excludes| excludes) || by_expression.any(|excludes| excludes)
}

fn requires_other(requirement: &LabelSelectorRequirement, namespace: &str) -> bool {
    let has_it = requirement.values.iter().flatten().any(|value| value == namespace);
    match (requirement.key == NAMESPACE_NAME, requirement.operator.as_str()) {
        (true, "NotIn") => has_it,
        (true, "In") => !has_it,
        (true, operator) => operator == "DoesNotExist",
        // Namespaces opt in with a label of their own.
        (false, "In" | "Exists") => true,
        // They opt out. Nobody knows here whether this one has.
        (false, _) => false,
    }
}
