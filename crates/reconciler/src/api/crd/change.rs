//! The difference between an existing definition and the wanted one.
//!
//! The server adds defaults to a definition, and drops what is empty. The same is done to the
//! wanted definition here, so that there is no difference if nothing has changed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use serde_json::Value;

use crate::objects::merge_patch::merge_patch;

/// The patch from the existing definition to the wanted one, with the version of the existing one;
/// `None` if they do not differ.
pub(super) fn between(
    present: &CustomResourceDefinition,
    wanted: &CustomResourceDefinition,
) -> Result<Option<Value>, serde_json::Error> {
    let mut target = present.clone();
    target.spec = completed(wanted.spec.clone());
    keep_ca_bundle(&mut target.spec, &present.spec);
    // What others have added stays.
    if let Some(labels) = wanted.metadata.labels.clone().filter(|labels| !labels.is_empty()) {
        target.metadata.labels.get_or_insert_default().extend(labels);
    }
    let annotations = wanted.metadata.annotations.clone();
    if let Some(annotations) = annotations.filter(|annotations| !annotations.is_empty()) {
        target.metadata.annotations.get_or_insert_default().extend(annotations);
    }
    let mut present = present.clone();
    present.spec = completed(present.spec);
    merge_patch(&present, &target)
}

/// A certificate that is already there belongs to whoever keeps it up to date.
fn keep_ca_bundle(
    target: &mut CustomResourceDefinitionSpec,
    present: &CustomResourceDefinitionSpec,
) {
    let present = present.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
    let present = present.and_then(|webhook| webhook.client_config.as_ref()?.ca_bundle.clone());
    let target = target.conversion.as_mut().and_then(|conversion| conversion.webhook.as_mut());
    let target = target.and_then(|webhook| webhook.client_config.as_mut());
    if let (Some(target), Some(bundle)) = (target, present.filter(|bundle| !bundle.0.is_empty())) {
        target.ca_bundle = Some(bundle);
    }
}

/// Whether names are the same, after defaults.
pub(super) fn is_same(
    one: &CustomResourceDefinitionNames,
    other: &CustomResourceDefinitionNames,
) -> bool {
    completed_names(one.clone()) == completed_names(other.clone())
}

/// The spec as the server stores it.
fn completed(spec: CustomResourceDefinitionSpec) -> CustomResourceDefinitionSpec {
    let mut conversion = spec
        .conversion
        .unwrap_or_else(|| CustomResourceConversion { strategy: "None".to_owned(), webhook: None });
    let config = conversion.webhook.as_mut().and_then(|webhook| webhook.client_config.as_mut());
    if let Some(service) = config.and_then(|config| config.service.as_mut()) {
        service.port.get_or_insert(443);
    }
    CustomResourceDefinitionSpec {
        conversion: Some(conversion),
        names: completed_names(spec.names),
        preserve_unknown_fields: spec.preserve_unknown_fields.filter(|preserve| *preserve),
        versions: spec.versions.into_iter().map(completed_version).collect(),
        ..spec
    }
}

fn completed_names(names: CustomResourceDefinitionNames) -> CustomResourceDefinitionNames {
    let singular = names.singular.filter(|name| !name.is_empty());
    let list_kind = names.list_kind.filter(|kind| !kind.is_empty());
    CustomResourceDefinitionNames {
        singular: singular.or_else(|| Some(names.kind.to_lowercase())),
        list_kind: list_kind.or_else(|| Some(format!("{}List", names.kind))),
        categories: names.categories.filter(|list| !list.is_empty()),
        short_names: names.short_names.filter(|list| !list.is_empty()),
        ..names
    }
}

fn completed_version(version: CustomResourceDefinitionVersion) -> CustomResourceDefinitionVersion {
    CustomResourceDefinitionVersion {
        additional_printer_columns: version
            .additional_printer_columns
            .filter(|columns| !columns.is_empty()),
        selectable_fields: version.selectable_fields.filter(|fields| !fields.is_empty()),
        deprecated: version.deprecated.filter(|deprecated| *deprecated),
        ..version
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(value: Value) -> CustomResourceDefinition {
        serde_json::from_value(value).expect("a definition")
    }

    /// As older versions of `kube`'s derive make it, with lists that are empty.
    fn wanted() -> CustomResourceDefinition {
        definition(json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {
                    "plural": "foos", "singular": "foo", "kind": "Foo", "shortNames": [],
                    "categories": [],
                },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "additionalPrinterColumns": [],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "replicas": {"type": "integer", "minimum": 1.0},
                    }}},
                    "subresources": {"status": {}},
                }],
            },
        }))
    }

    /// As a server answers.
    fn present() -> CustomResourceDefinition {
        definition(json!({
            "metadata": {
                "name": "foos.example.com", "resourceVersion": "7", "labels": {"theirs": "1"},
            },
            "spec": {
                "conversion": {"strategy": "None"},
                "group": "example.com",
                "scope": "Namespaced",
                "names": {
                    "plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList",
                },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "replicas": {"type": "integer", "minimum": 1},
                    }}},
                    "subresources": {"status": {}},
                }],
            },
            "status": {"storedVersions": ["v1"]},
        }))
    }

    #[test]
    fn what_the_server_fills_in_is_no_difference() {
        assert_eq!(between(&present(), &wanted()).expect("json"), None);
        let converted = |service: Value| {
            let conversion = json!({
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"service": service}, "conversionReviewVersions": ["v1"],
                },
            });
            serde_json::from_value(conversion).expect("a conversion")
        };
        let (mut wanted, mut present) = (wanted(), present());
        wanted.spec.conversion = Some(converted(json!({"namespace": "a", "name": "b"})));
        present.spec.conversion =
            Some(converted(json!({"namespace": "a", "name": "b", "port": 443})));
        assert_eq!(between(&present, &wanted).expect("json"), None);
    }

    #[test]
    fn change_is_a_patch_with_the_version_that_it_was_made_from() {
        let mut wanted = wanted();
        wanted.spec.names.short_names = Some(vec!["f".to_owned()]);
        wanted.metadata.labels = Some([("ours".to_owned(), "2".to_owned())].into());
        let expected = json!({
            "metadata": {"resourceVersion": "7", "labels": {"ours": "2"}},
            "spec": {"names": {"shortNames": ["f"]}},
        });
        assert_eq!(between(&present(), &wanted).expect("json"), Some(expected));
    }

    #[test]
    fn what_is_no_longer_wanted_is_taken_out() {
        let mut present = present();
        present.spec.names.short_names = Some(vec!["f".to_owned()]);
        let patch = between(&present, &wanted()).expect("json").expect("a change");
        assert_eq!(patch["spec"], json!({"names": {"shortNames": null}}));
        present.spec.conversion =
            Some(CustomResourceConversion { strategy: "Webhook".to_owned(), webhook: None });
        let patch = between(&present, &wanted()).expect("json").expect("a change");
        assert_eq!(patch["spec"]["conversion"], json!({"strategy": "None"}));
    }

    #[test]
    fn certificates_of_the_conversion_stay_as_they_are() {
        let conversion = |bundle: Option<&str>| {
            let client = json!({"url": "https://example.com/convert", "caBundle": bundle});
            serde_json::from_value(json!({
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            }))
            .expect("a conversion")
        };
        let (mut present, mut wanted) = (present(), wanted());
        present.spec.conversion = Some(conversion(Some("bmV3")));
        for older in [Some("b2xk"), None] {
            wanted.spec.conversion = Some(conversion(older));
            assert_eq!(between(&present, &wanted).expect("json"), None);
        }
        present.spec.conversion = Some(conversion(None));
        wanted.spec.conversion = Some(conversion(Some("bmV3")));
        let patch = between(&present, &wanted).expect("json").expect("a change");
        let client = &patch["spec"]["conversion"]["webhook"]["clientConfig"];
        assert_eq!(client["caBundle"], "bmV3");
    }
}
