//! Configurations that are derived from webhooks, and those that are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceConversion;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_webhook::{
    Admission, ClientTarget, Defaulter, Error, FailurePolicy, Hook, Operation, ReinvocationPolicy,
    Rule, Scope, SideEffects, Validate, Verb, Verdict, Webhooks,
};

use crate::webhooks::stage::v1::Website;

struct Anything;

impl<K: Sync> Validate<K> for Anything {
    async fn validate(&self, _: Operation<'_, K>, _: &Admission) -> Verdict {
        Verdict::allow()
    }
}

impl Defaulter<Website> for Anything {
    fn default(&self, _: &mut Website, _: &Admission) {}
}

fn service() -> ClientTarget {
    let (namespace, name) = ("websites".to_owned(), "operator".to_owned());
    ClientTarget::Service { namespace, name, port: Some(8443) }
}

#[test]
fn configurations_follow_from_the_code() {
    let labels = BTreeMap::from([("managed".to_owned(), "yes".to_owned())]);
    let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    let mutating = Hook::defaulting::<Website>(Anything)
        .failure_policy(FailurePolicy::Ignore)
        .reinvocation(ReinvocationPolicy::IfNeeded)
        .side_effects(SideEffects::NoneOnDryRun)
        .timeout(Duration::from_secs(3))
        .scope(Scope::Namespaced)
        .object_selector(selector)
        .match_condition("not-jane", "request.userInfo.username != 'jane'")
        .skip_user("system:serviceaccount:websites:\"operator\"");
    let validating = Hook::validating::<Website>(Anything)
        .operations([Verb::Update, Verb::Delete])
        .subresources(["status"]);
    let webhooks = Webhooks::new().hook(mutating).hook(validating);
    let configurations = webhooks.configurations("operator", &service()).unwrap();
    assert_eq!(configurations.iter().count(), 2);
    let client = |path: &str| {
        let mut service = json!({"namespace": "websites", "name": "operator", "port": 8443});
        service["path"] = json!(path);
        json!({"service": service})
    };
    assert_eq!(
        serde_json::to_value(configurations.mutating).unwrap(),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "operator"},
            "webhooks": [{
                "name": "mutate-v1.websites.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": client("/mutate-example-com-v1-website"),
                "rules": [{
                    "apiGroups": ["example.com"],
                    "apiVersions": ["v1"],
                    "resources": ["websites"],
                    "operations": ["CREATE", "UPDATE"],
                    "scope": "Namespaced",
                }],
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "sideEffects": "NoneOnDryRun",
                "timeoutSeconds": 3,
                "reinvocationPolicy": "IfNeeded",
                "objectSelector": {"matchLabels": {"managed": "yes"}},
                "matchConditions": [
                    {"name": "not-jane", "expression": "request.userInfo.username != 'jane'"},
                    {
                        "name": "skip-user-1",
                        "expression": "request.userInfo.username != \
                                       \"system:serviceaccount:websites:\\\"operator\\\"\"",
                    },
                ],
            }],
        })
    );
    assert_eq!(
        serde_json::to_value(configurations.validating).unwrap(),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "operator"},
            "webhooks": [{
                "name": "validate-v1.websites.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": client("/validate-example-com-v1-website"),
                "rules": [{
                    "apiGroups": ["example.com"],
                    "apiVersions": ["v1"],
                    "resources": ["websites", "websites/status"],
                    "operations": ["UPDATE", "DELETE"],
                    "scope": "*",
                }],
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "sideEffects": "None",
                "timeoutSeconds": 10,
            }],
        })
    );
}

#[test]
fn the_types_of_kubernetes_read_all_of_it() {
    fn check<K: DeserializeOwned + Serialize>(value: &Value) {
        let read: K = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), *value);
    }
    let labels = LabelSelector { match_labels: Some(BTreeMap::new()), ..LabelSelector::default() };
    let selector = namespaces("a", "In", &["b"]);
    let hook =
        |hook: Hook| hook.namespace_selector(selector.clone()).object_selector(labels.clone());
    let webhooks = Webhooks::new()
        .hook(hook(Hook::defaulting::<Website>(Anything)).skip_user("jane"))
        .hook(hook(Hook::validating::<Website>(Anything)).skip_user("jane"));
    let configurations = webhooks.configurations("operator", &service()).unwrap();
    let json = |configuration| serde_json::to_value::<Option<_>>(configuration).unwrap();
    check::<MutatingWebhookConfiguration>(&json(configurations.mutating));
    check::<ValidatingWebhookConfiguration>(&json(configurations.validating));
    check::<CustomResourceConversion>(&webhooks.conversion_of_crd(&service()));
}

#[test]
fn a_url_has_the_path_of_the_webhook() {
    let target = ClientTarget::Url("https://192.0.2.1:9443/".to_owned());
    let webhooks = Webhooks::new().validate::<Website>(Anything);
    let configurations = webhooks.configurations("operator", &target).unwrap();
    assert_eq!(configurations.mutating, None);
    let client = &configurations.validating.unwrap().webhooks[0].client_config;
    let url = "https://192.0.2.1:9443/validate-example-com-v1-website";
    assert_eq!(client.url.as_deref(), Some(url));
    assert_eq!(
        webhooks.conversion_of_crd(&target),
        json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://192.0.2.1:9443/convert"},
                "conversionReviewVersions": ["v1"],
            },
        })
    );
}

fn error(hook: Hook) -> Option<Error> {
    Webhooks::new().hook(hook).configurations("operator", &service()).err()
}

#[test]
fn what_the_server_would_refuse_is_refused_at_once() {
    let hook = || Hook::validating::<Website>(Anything);
    let invalid = [
        hook().timeout(Duration::from_millis(1500)),
        hook().timeout(Duration::from_secs(31)),
        hook().timeout(Duration::ZERO),
        hook().name("short.name"),
        hook().name("Upper.example.com"),
        hook().operations([]),
        hook().only_subresources(),
        hook().match_condition("a", "true").match_condition("a", "false"),
    ];
    for hook in invalid {
        let error = error(hook);
        assert!(matches!(error, Some(Error::InvalidConfiguration { .. })), "{error:?}");
    }
    let twice = Webhooks::new().hook(hook()).hook(hook().at("/other"));
    let error = twice.configurations("operator", &service()).unwrap_err();
    assert!(error.to_string().contains("the same name"), "{error}");
}

fn rule(group: &str, resource: &str) -> Rule {
    Rule {
        api_groups: vec![group.to_owned()],
        api_versions: vec!["*".to_owned()],
        resources: vec![resource.to_owned()],
        operations: vec![Verb::Create],
        scope: Scope::All,
    }
}

fn namespaces(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
    let requirement = LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
    };
    LabelSelector { match_expressions: Some(vec![requirement]), ..LabelSelector::default() }
}

fn is_dangerous(hook: Hook) -> bool {
    match error(hook) {
        None => false,
        Some(Error::Dangerous { .. }) => true,
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn a_webhook_that_would_keep_itself_down_is_refused() {
    let name = "kubernetes.io/metadata.name";
    let pods = || Hook::validating::<Pod>(Anything);
    assert!(is_dangerous(pods()));
    assert!(is_dangerous(pods().namespace_selector(namespaces(name, "NotIn", &["other"]))));
    assert!(is_dangerous(pods().namespace_selector(namespaces(name, "In", &["a", "websites"]))));
    assert!(is_dangerous(pods().namespace_selector(namespaces("skip", "DoesNotExist", &[]))));
    assert!(is_dangerous(pods().namespace_selector(LabelSelector::default())));
    assert!(!is_dangerous(pods().namespace_selector(namespaces(name, "NotIn", &["websites"]))));
    assert!(!is_dangerous(pods().namespace_selector(namespaces(name, "In", &["other"]))));
    assert!(!is_dangerous(pods().namespace_selector(namespaces("checked", "Exists", &[]))));
    assert!(!is_dangerous(pods().failure_policy(FailurePolicy::Ignore)));
    assert!(!is_dangerous(pods().scope(Scope::Cluster)));

    let websites =
        || Hook::validating_for::<Value>(&kube::core::ApiResource::erase::<Website>(&()), Anything);
    assert!(!is_dangerous(websites()));
    assert!(is_dangerous(websites().rule(rule("coordination.k8s.io", "leases"))));
    assert!(is_dangerous(websites().rule(rule("apps", "*"))));
    assert!(!is_dangerous(websites().rule(rule("batch", "*"))));
    let webhooks = Webhooks::new().hook(pods());
    let url = ClientTarget::Url("https://192.0.2.1".to_owned());
    assert!(webhooks.configurations("operator", &url).is_ok(), "it runs outside of the cluster");
}

#[test]
fn a_webhook_that_fails_closed_over_everything_is_refused_wherever_it_runs() {
    let hook = || Hook::validating::<Website>(Anything).rule(rule("*", "*"));
    let url = ClientTarget::Url("https://192.0.2.1".to_owned());
    let error = Webhooks::new().hook(hook()).configurations("operator", &url).unwrap_err();
    assert!(error.to_string().contains("fails closed and matches everything"), "{error}");
    assert!(!is_dangerous(hook().failure_policy(FailurePolicy::Ignore)));
}

#[test]
fn a_webhook_for_webhook_configurations_is_refused() {
    let rule = rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations");
    let hook = Hook::validating::<Website>(Anything).failure_policy(FailurePolicy::Ignore);
    assert!(is_dangerous(hook.rule(rule)));
}
