//! The type that the controller is of: Foo, and its definition for the API server.
//!
//! A Foo asks for a Deployment by name, with so many replicas. The definition is that of the
//! original's `crd-status-subresource.yaml`: what it says of a Foo, and nothing more, so that both
//! controllers accept the same objects.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::{CustomResource, CustomResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a Foo asks for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus",
    derive = "PartialEq",
    doc = "Asks for a Deployment.",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The name of its Deployment. The schema lets it be empty; the controller then has nothing to
    /// do.
    #[serde(default)]
    pub deployment_name: String,
    /// How many replicas the Deployment is to have, from 1 to 10. Left out, the Deployment is left
    /// as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// How many replicas of the Deployment are available.
    #[serde(default)]
    pub available_replicas: i32,
}

/// Groups of `k8s.io` belong to Kubernetes, and an API server takes them only with a word on who
/// approved of them.
const APPROVAL: (&str, &str) = (
    "api-approved.kubernetes.io",
    "unapproved, experimental-only: the group of Kubernetes' own sample-controller",
);

/// The definition of Foo, for the API server.
///
/// # Panics
/// Never: the schema below is one.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = Foo::crd();
    let (annotation, text) = APPROVAL;
    let annotations = definition.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation.to_owned(), text.to_owned());
    for version in &mut definition.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema()) });
    }
    definition
}

/// What the API server checks before a controller sees anything.
fn schema() -> JSONSchemaProps {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "deploymentName": {"type": "string"},
                    "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
                },
            },
            "status": {
                "type": "object",
                "properties": {"availableReplicas": {"type": "integer"}},
            },
        },
    });
    serde_json::from_value(schema).expect("the schema must be one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_has_the_name_the_scope_and_the_status_of_the_original() {
        let definition = serde_json::to_value(definition()).expect("JSON");
        assert_eq!(definition["metadata"]["name"], "foos.samplecontroller.k8s.io");
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        assert_eq!(definition["spec"]["names"]["plural"], "foos");
        let version = &definition["spec"]["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
        assert_eq!(version["subresources"], json!({"status": {}}));
    }

    #[test]
    fn foo_is_written_as_the_original_writes_it() {
        let spec = FooSpec { deployment_name: "web".to_owned(), replicas: Some(2) };
        let mut foo = Foo::new("one", spec);
        foo.status = Some(FooStatus { available_replicas: 1 });
        assert_eq!(
            serde_json::to_value(foo).expect("JSON"),
            json!({
                "apiVersion": "samplecontroller.k8s.io/v1alpha1",
                "kind": "Foo",
                "metadata": {"name": "one"},
                "spec": {"deploymentName": "web", "replicas": 2},
                "status": {"availableReplicas": 1},
            })
        );
    }
}
