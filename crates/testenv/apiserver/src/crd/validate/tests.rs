//! Tests of definitions as a whole.

use proptest::prelude::*;

use super::*;

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn version(name: &str) -> Value {
    json!({"name": name, "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "color": {"type": "string"}}}}}}})
}

fn gadget() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.spec2.example.dev"},
        "spec": {"group": "spec2.example.dev", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"}, "versions": [version("v1")]},
    })
}

/// Returns the errors of a valid definition after `change`.
fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut crd = gadget();
    change(&mut crd);
    default(&mut crd);
    texts(&validate(&crd))
}

#[test]
fn valid_definition_passes() {
    assert_eq!(errors(|_| {}), [""; 0]);
}

#[test]
fn names_and_conversion_are_filled_in() {
    let mut crd = gadget();
    default(&mut crd);
    assert_eq!(
        crd["spec"]["names"],
        json!({"plural": "gadgets", "kind": "Gadget", "singular": "gadget", "listKind": "GadgetList"})
    );
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
}

#[test]
fn a_wrong_name_and_a_missing_schema_are_refused_as_recorded() {
    let found = errors(|crd| {
        crd["metadata"]["name"] = "bad.spec2.example.dev".into();
        crd["spec"]["versions"][0]["schema"] = Value::Null;
    });
    assert_eq!(
        found,
        [
            "metadata.name: Invalid value: \"bad.spec2.example.dev\": must be spec.names.plural+\".\"+spec.group",
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ]
    );
}

#[test]
fn missing_required_fields_are_reported() {
    let found = errors(|crd| crd["spec"] = json!({"names": {"plural": "gadgets"}}));
    assert_eq!(
        found[1..],
        [
            "spec.group: Required value",
            "spec.scope: Required value",
            "spec.versions: Invalid value: null: must have exactly one version marked as storage version",
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ]
    );
}

#[test]
fn exactly_one_version_is_stored_and_names_are_unique() {
    let found = errors(|crd| crd["spec"]["versions"] = json!([version("v1"), version("v1")]));
    let shown = "{\"Name\":\"v1\",\"Served\":true,\"Storage\":true,\"Deprecated\":false,\"DeprecationWarning\":null,\
                 \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}";
    assert_eq!(
        found,
        [
            format!(
                "spec.versions: Invalid value: [{shown},{shown}]: must contain unique version names"
            ),
            format!(
                "spec.versions: Invalid value: [{shown},{shown}]: must have exactly one version marked as storage \
                 version"
            ),
            "status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v1"
                .to_owned(),
        ]
    );
}

#[test]
fn a_schema_error_is_at_the_top_if_all_versions_share_the_schema() {
    let bad = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}});
    let found = errors(|crd| crd["spec"]["versions"][0]["schema"] = bad.clone());
    let text = "type: Required value: must not be empty for specified object fields";
    assert_eq!(found, [format!("spec.validation.openAPIV3Schema.properties[spec].{text}")]);
    let found = errors(|crd| {
        let mut second = version("v2");
        second["storage"] = false.into();
        second["schema"] = bad;
        crd["spec"]["versions"] = json!([version("v1"), second]);
    });
    assert_eq!(found, [format!("spec.versions[1].schema.openAPIV3Schema.properties[spec].{text}")]);
}

#[test]
fn scale_paths_columns_and_selectable_fields_are_checked() {
    let found = errors(|crd| {
        let version = &mut crd["spec"]["versions"][0];
        version["subresources"] = json!({"scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".spec.x",
            "labelSelectorPath": ".x"}});
        version["additionalPrinterColumns"] =
            json!([{"name": "A", "type": "text", "jsonPath": "x"}]);
        version["selectableFields"] =
            json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.gone"}, {"jsonPath": ".spec"}]);
    });
    assert_eq!(
        found,
        [
            "spec.subresources.scale.specReplicasPath: Invalid value: \"spec.x\": must be a simple json path starting with .",
            "spec.subresources.scale.statusReplicasPath: Invalid value: \".spec.x\": should be a json path under .status",
            "spec.subresources.scale.labelSelectorPath: Invalid value: \".x\": should be a json path under either .spec or \
             .status",
            "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of \
             boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"x\": must be a simple json path starting with .",
            "spec.selectableFields[1].jsonPath: Invalid value: \".spec.gone\": is an invalid path: does not refer to a \
             valid field",
            "spec.selectableFields[2].jsonPath: Invalid value: \".spec\": must point to a field of type string, boolean or \
             integer. Enum string fields and strings with formats are allowed.",
        ]
    );
}

#[test]
fn conversion_by_webhook_needs_a_client_and_versions() {
    assert_eq!(
        errors(|crd| crd["spec"]["conversion"] = json!({"strategy": "Webhook"})),
        [
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Required value",
        ]
    );
}

#[test]
fn community_groups_need_an_approval() {
    let change = |annotations: Value| {
        errors(move |crd| {
            crd["metadata"] = json!({"name": "gadgets.x.k8s.io", "annotations": annotations});
            crd["spec"]["group"] = "x.k8s.io".into();
        })
    };
    assert_eq!(
        change(json!({})),
        [
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval \
          annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"
        ]
    );
    assert_eq!(change(json!({APPROVAL: "unapproved, experimental-only"})), [""; 0]);
    assert_eq!(change(json!({APPROVAL: "https://example.com/1"})), [""; 0]);
    assert_eq!(change(json!({APPROVAL: "yes"})).len(), 1);
}

#[test]
fn group_kind_and_scope_are_immutable() {
    let mut old = gadget();
    default(&mut old);
    old["status"] = json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
    assert_eq!(validate_update(&old, &old), []);
    let mut new = old.clone();
    new["spec"]["names"]["kind"] = "Gizmo".into();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["group"] = "other.example.dev".into();
    new["spec"]["versions"] = json!([version("v2")]);
    assert_eq!(
        texts(&validate_update(&new, &old)),
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind: Invalid value: \"Gizmo\": field is immutable",
            "spec.group: Invalid value: \"other.example.dev\": field is immutable",
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage \
             version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 \
             and removes v1 from status.storedVersions",
        ]
    );
}

proptest! {
    #[test]
    fn arbitrary_definitions_do_not_panic(
        path in prop::sample::select(vec![
            "", "/metadata", "/spec", "/spec/names", "/spec/versions", "/spec/versions/0", "/spec/versions/0/schema",
            "/spec/versions/0/schema/openAPIV3Schema", "/spec/group", "/metadata/name",
        ]),
        value in prop::sample::select(vec![
            json!(null), json!(1), json!("x"), json!(""), json!([]), json!({}), json!([1]), json!({"x": 1}), json!(["v1"]),
        ]),
    ) {
        let mut crd = gadget();
        *crd.pointer_mut(path).expect("the path must be there") = value;
        default(&mut crd);
        validate(&crd);
        validate_update(&crd, &gadget());
        validate_update(&gadget(), &crd);
    }
}
