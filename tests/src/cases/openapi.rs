//! `OpenAPI` v3. The documents are long, so a case records only the parts that clients use.

use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{CRDS, GROUP, definition, with};
use crate::request::Request;

/// The documents of groups that all cases use.
const CORE: &str = "/openapi/v3/api/v1";
const APPS: &str = "/openapi/v3/apis/apps/v1";

async fn document(t: &mut Script, path: &str) -> Answer {
    t.pick(Request::get(path), &["/openapi", "/info", "/components/securitySchemes"]).await
}

/// Records schemas of a document by their full names.
async fn note_schemas(t: &mut Script, path: &str, names: &[&str]) {
    let answer = document(t, path).await;
    for name in names {
        t.note(name, &answer.at("/components/schemas")[*name]);
    }
}

/// Records paths of a document: the operations, with only the names of their parameters.
async fn note_paths(t: &mut Script, path: &str, paths: &[&str]) {
    let answer = document(t, path).await;
    for path in paths {
        t.note(path, &without_parameter_words(&answer.at("/paths")[*path]));
    }
}

/// Returns the value with each parameter reduced to its name.
fn without_parameter_words(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("parameters", Value::Array(list)) => {
                    (name.clone(), list.iter().map(|one| one["name"].clone()).collect())
                }
                _ => (name.clone(), without_parameter_words(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(without_parameter_words).collect(),
        other => other.clone(),
    }
}

/// Waits for the document of a custom group, which appears a little later than the group.
async fn wait_for(t: &mut Script, path: &str) {
    let is_there = |answer: &Answer| answer.status == 200;
    t.wait_picking(path, "the document is there", is_there, &["/openapi", "/info"]).await;
}

pub(super) async fn openapi_index_names_documents_with_their_hashes(t: &mut Script) {
    let answer = t.look(Request::get("/openapi/v3")).await;
    for path in ["api/v1", "apis/apps/v1", "apis/batch/v1", "apis/apiextensions.k8s.io/v1"] {
        let url = answer.at("/paths")[path]["serverRelativeURL"].clone();
        let (start, hash) =
            url.as_str().unwrap_or_default().split_once("?hash=").unwrap_or_default();
        let is_hash =
            hash.len() == 128 && hash.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        t.note(path, &json!({"path": start, "has a hash": is_hash}));
    }
}

pub(super) async fn openapi_document_with_another_hash_is_elsewhere(t: &mut Script) {
    t.look(Request::get(format!("{APPS}?hash=00"))).await;
    let index = t.unrecorded(&Request::get("/openapi/v3")).await;
    let url = index.at("/paths")["apis/apps/v1"]["serverRelativeURL"].clone();
    let answer = t.unrecorded(&Request::get(url.as_str().unwrap_or_default())).await;
    t.note("with its hash", &json!(answer.status));
}

pub(super) async fn openapi_document_that_does_not_exist(t: &mut Script) {
    for path in ["apis/apps/v9", "apis/nowhere.dev/v1", "api/v2", "nothing"] {
        t.look(Request::get(format!("/openapi/v3/{path}"))).await;
    }
    t.look(Request::get(APPS).accept("text/plain")).await;
}

pub(super) async fn openapi_schemas_of_a_pod(t: &mut Script) {
    let names = [
        "io.k8s.api.core.v1.Pod",
        "io.k8s.api.core.v1.PodList",
        "io.k8s.api.core.v1.ContainerPort",
        "io.k8s.api.core.v1.EnvVar",
        "io.k8s.api.core.v1.Toleration",
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    ];
    note_schemas(t, CORE, &names).await;
}

pub(super) async fn openapi_schemas_of_a_deployment(t: &mut Script) {
    let names = [
        "io.k8s.api.apps.v1.Deployment",
        "io.k8s.api.apps.v1.DeploymentSpec",
        "io.k8s.api.apps.v1.DeploymentStatus",
        "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        "io.k8s.api.autoscaling.v1.Scale",
    ];
    note_schemas(t, APPS, &names).await;
}

pub(super) async fn openapi_schemas_of_other_groups(t: &mut Script) {
    for (group, name) in [
        (
            "apiextensions.k8s.io",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        ),
        ("batch", "io.k8s.api.batch.v1.PodFailurePolicyRule"),
        ("rbac.authorization.k8s.io", "io.k8s.api.rbac.v1.PolicyRule"),
        ("authorization.k8s.io", "io.k8s.api.authorization.v1.ResourceAttributes"),
        ("events.k8s.io", "io.k8s.api.events.v1.Event"),
        ("policy", "io.k8s.api.policy.v1.PodDisruptionBudgetSpec"),
    ] {
        note_schemas(t, &format!("/openapi/v3/apis/{group}/v1"), &[name]).await;
    }
}

pub(super) async fn openapi_paths_of_a_namespaced_kind(t: &mut Script) {
    let paths = [
        "/apis/apps/v1/",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/namespaces/{namespace}/deployments",
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status",
    ];
    note_paths(t, APPS, &paths).await;
}

pub(super) async fn openapi_paths_of_the_core_group(t: &mut Script) {
    let paths = [
        "/api/v1/",
        "/api/v1/namespaces",
        "/api/v1/namespaces/{name}",
        "/api/v1/namespaces/{name}/finalize",
        "/api/v1/namespaces/{namespace}/endpoints",
        "/api/v1/namespaces/{namespace}/pods/{name}",
        "/api/v1/namespaces/{namespace}/pods/{name}/binding",
        "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
        "/api/v1/nodes/{name}",
    ];
    note_paths(t, CORE, &paths).await;
}

pub(super) async fn openapi_paths_of_reviews(t: &mut Script) {
    let group = "authorization.k8s.io/v1";
    let paths = [
        &*format!("/apis/{group}/selfsubjectaccessreviews"),
        &format!("/apis/{group}/namespaces/{{namespace}}/localsubjectaccessreviews"),
    ];
    note_paths(t, &format!("/openapi/v3/apis/{group}"), &paths).await;
}

pub(super) async fn openapi_parameters_have_their_words(t: &mut Script) {
    let answer = document(t, APPS).await;
    let item = &answer.at("/paths")["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    for method in ["put", "patch", "delete"] {
        t.note(method, &item[method]["parameters"]);
    }
    t.note("path", &item["parameters"]);
    t.note("list", &answer.at("/paths")["/apis/apps/v1/deployments"]["parameters"]);
}

pub(super) async fn openapi_of_a_custom_resource(t: &mut Script) {
    t.install_widgets().await;
    let path = format!("/openapi/v3/apis/{GROUP}/v1");
    wait_for(t, &path).await;
    let names = ["dev.windlass.conformance.v1.Widget", "dev.windlass.conformance.v1.WidgetList"];
    note_schemas(t, &path, &names).await;
    let object = format!("/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets/{{name}}");
    let paths = [
        format!("/apis/{GROUP}/v1/widgets"),
        format!("/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets"),
        format!("{object}/status"),
        format!("{object}/scale"),
        object,
    ];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    note_paths(t, &path, &paths).await;
}

/// A schema with everything that publication treats specially.
fn odd_schema() -> Value {
    json!({
        "type": "object",
        "description": "An odd thing.",
        "properties": {
            "kind": {"type": "string", "description": "not these words"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
            "spec": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"x-kubernetes-int-or-string": true},
                    "either": {
                        "x-kubernetes-int-or-string": true,
                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                        "pattern": "^[0-9]+$",
                    },
                    "inner": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": true,
                        "x-kubernetes-preserve-unknown-fields": true,
                        "required": ["kind"],
                    },
                    "list": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "any": {"x-kubernetes-int-or-string": true},
                            },
                        },
                    },
                    "map": {
                        "type": "object",
                        "additionalProperties": {"x-kubernetes-int-or-string": true},
                    },
                    "text": {
                        "type": "string",
                        "nullable": true,
                        "example": "abc",
                        "title": "T",
                        "externalDocs": {"url": "https://windlass.dev", "description": "d"},
                    },
                },
            },
        },
    })
}

pub(super) async fn openapi_of_an_odd_schema(t: &mut Script) {
    let mut odd = definition("odds", "Odd", "odd.windlass.dev");
    odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = odd_schema();
    t.install(odd, &["/apis/odd.windlass.dev/v1/odds"]).await;
    let path = "/openapi/v3/apis/odd.windlass.dev/v1";
    wait_for(t, path).await;
    note_schemas(t, path, &["dev.windlass.odd.v1.Odd", "dev.windlass.odd.v1.OddList"]).await;
}

pub(super) async fn openapi_follows_the_definition(t: &mut Script) {
    let group = "follow.windlass.dev";
    t.install(definition("follows", "Follow", group), &[&format!("/apis/{group}/v1/follows")])
        .await;
    let path = format!("/openapi/v3/apis/{group}/v1");
    wait_for(t, &path).await;
    let schema = "dev.windlass.follow.v1.Follow";
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let with_size = with(open, "/properties/size", json!({"type": "integer"}));
    let versions = json!([
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": with_size}},
    ]);
    t.unrecorded(&Request::patch(
        format!("{CRDS}/follows.{group}"),
        crate::script::MERGE_PATCH,
        json!({"spec": {"versions": versions}}),
    ))
    .await;
    let has_size = |answer: &Answer| {
        answer.at("/components/schemas")[schema]["properties"]["size"].is_object()
    };
    let pointers = [format!("/components/schemas/{schema}/properties/size")];
    let pointers: Vec<&str> = pointers.iter().map(String::as_str).collect();
    t.wait_picking(&path, "the new field is there", has_size, &pointers).await;
    t.unrecorded(&Request::delete(format!("{CRDS}/follows.{group}"))).await;
    let gone = |answer: &Answer| answer.status == 404;
    t.wait_picking(&path, "the document is gone", gone, &[]).await;
}

pub(super) async fn deprecated_versions_warn(t: &mut Script) {
    let group = "old.windlass.dev";
    let mut old = definition("olds", "Old", group);
    let version = old["spec"]["versions"][0].clone();
    let with_words = json!({
        "name": "v1beta1", "served": true, "storage": false, "deprecated": true,
        "deprecationWarning": "olds are old", "schema": version["schema"],
    });
    old["spec"]["versions"] = json!([with(version, "/deprecated", json!(true)), with_words]);
    let collection = |version: &str| format!("/apis/{group}/{version}/namespaces/{}/olds", t.ns());
    let (first, second) = (collection("v1"), collection("v1beta1"));
    t.install(old, &[&first, &second]).await;
    let object =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Old", "metadata": {"name": "a"}});
    t.post(&first, object).await;
    t.look(Request::get(&second)).await;
    t.get(format!("{second}/absent")).await;
    t.look(Request::get(format!("/api/v1/namespaces/{}/endpoints", t.ns()))).await;
}
