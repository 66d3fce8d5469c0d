//! Derives configurations from webhooks.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{
    ClientConfig, ClientTarget, Configurations, Rule, ServiceReference, WebhookConfiguration,
    WebhookEntry, danger,
};
use crate::error::Error;
use crate::hook::Hook;
use crate::timeout::TIMEOUT_MAX;

/// The API server takes no more match conditions of a webhook.
const MATCH_CONDITIONS_MAX: usize = 64;

pub(crate) fn configurations(
    name: &str,
    hooks: &[Hook],
    target: &ClientTarget,
) -> Result<Configurations, Error> {
    let of = |is_mutating: bool| {
        let hooks = hooks.iter().filter(|hook| hook.is_mutating == is_mutating);
        let webhooks = hooks.map(|hook| entry(hook, target)).collect::<Result<Vec<_>, _>>()?;
        check_names(&webhooks)?;
        let kind = if is_mutating { "Mutating" } else { "Validating" };
        let configuration = WebhookConfiguration {
            api_version: "admissionregistration.k8s.io/v1".to_owned(),
            kind: format!("{kind}WebhookConfiguration"),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            webhooks,
        };
        Ok(Some(configuration).filter(|configuration| !configuration.webhooks.is_empty()))
    };
    Ok(Configurations { mutating: of(true)?, validating: of(false)? })
}

/// `spec.conversion` of a definition.
pub(crate) fn conversion_of_crd(target: &ClientTarget, path: &str) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": client_config(target, path),
            "conversionReviewVersions": ["v1"],
        },
    })
}

fn entry(hook: &Hook, target: &ClientTarget) -> Result<WebhookEntry, Error> {
    let settings = &hook.settings;
    let entry = WebhookEntry {
        name: hook.full_name(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(target, &hook.path()),
        rules: rules(hook),
        failure_policy: settings.failure_policy,
        match_policy: settings.match_policy,
        side_effects: settings.side_effects,
        timeout_seconds: timeout_seconds(hook)?,
        reinvocation_policy: hook.is_mutating.then_some(settings.reinvocation),
        namespace_selector: settings.namespace_selector.clone(),
        object_selector: settings.object_selector.clone(),
        match_conditions: settings.match_conditions.clone(),
    };
    check(&entry)?;
    danger::check(&entry, target)?;
    Ok(entry)
}

fn rules(hook: &Hook) -> Vec<Rule> {
    let (settings, target) = (&hook.settings, &hook.target);
    let plural = &target.plural;
    let itself = (!settings.only_subresources).then(|| plural.clone());
    let subresources = settings.subresources.iter().map(|name| format!("{plural}/{name}"));
    let own = Rule {
        api_groups: vec![target.group.clone()],
        api_versions: vec![target.version.clone()],
        resources: itself.into_iter().chain(subresources).collect(),
        operations: settings.operations.clone(),
        scope: settings.scope,
    };
    std::iter::once(own).chain(settings.rules.iter().cloned()).collect()
}

fn client_config(target: &ClientTarget, path: &str) -> ClientConfig {
    match target {
        ClientTarget::Service { namespace, name, port } => {
            let service = ServiceReference {
                namespace: namespace.clone(),
                name: name.clone(),
                path: path.to_owned(),
                port: *port,
            };
            ClientConfig { service: Some(service), ..ClientConfig::default() }
        }
        ClientTarget::Url(base) => {
            let url = format!("{}{path}", base.trim_end_matches('/'));
            ClientConfig { url: Some(url), ..ClientConfig::default() }
        }
    }
}

fn timeout_seconds(hook: &Hook) -> Result<u8, Error> {
    let timeout = hook.settings.timeout;
    let seconds = u8::try_from(timeout.as_secs()).ok();
    let is_valid =
        timeout.subsec_nanos() == 0 && (Duration::from_secs(1)..=TIMEOUT_MAX).contains(&timeout);
    seconds.filter(|_| is_valid).ok_or_else(|| {
        invalid(
            &hook.full_name(),
            format!("its timeout is {timeout:?}, and must be 1 s to 30 s, in full seconds"),
        )
    })
}

/// What the API server would refuse.
fn check(entry: &WebhookEntry) -> Result<(), Error> {
    let name = &entry.name;
    let is_segment = |segment: &str| {
        let is_edge = |byte: Option<u8>| {
            byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let mut bytes = segment.bytes();
        is_edge(segment.bytes().next())
            && is_edge(segment.bytes().next_back())
            && bytes.all(|byte| byte == b'-' || is_edge(Some(byte)))
    };
    if name.split('.').count() < 3 || !name.split('.').all(is_segment) {
        return Err(invalid(
            name,
            "its name must have at least three segments of lowercase letters, digits and `-`, \
             separated by `.`",
        ));
    }
    if entry.rules.iter().any(|rule| rule.operations.is_empty() || rule.resources.is_empty()) {
        return Err(invalid(name, "a rule has no operation or no resource, so it matches nothing"));
    }
    let conditions = &entry.match_conditions;
    let names: BTreeSet<_> = conditions.iter().map(|condition| &condition.name).collect();
    if conditions.len() > MATCH_CONDITIONS_MAX || names.len() < conditions.len() {
        return Err(invalid(name, "it has more than 64 match conditions, or two of the same name"));
    }
    Ok(())
}

fn check_names(entries: &[WebhookEntry]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    match entries.iter().find(|entry| !names.insert(&entry.name)) {
        None => Ok(()),
        Some(entry) => Err(invalid(
            &entry.name,
            "another webhook has the same name: set one with `Hook::name`",
        )),
    }
}

fn invalid(webhook: &str, reason: impl Into<String>) -> Error {
    Error::InvalidConfiguration { webhook: webhook.to_owned(), reason: reason.into() }
}
