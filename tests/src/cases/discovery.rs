//! The server's discovery documents. They are long, so a case records only the relevant entries.

use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::GROUP;
use crate::request::Request;

/// The `Accept` header for the aggregated form.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The groups that the embedded server knows.
const GROUPS: [&str; 7] = [
    "apps",
    "events.k8s.io",
    "authorization.k8s.io",
    "batch",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
];

/// Returns the entries of an array with one of these names in `field`, in this order.
fn entries(array: &Value, field: &str, names: &[&str]) -> Vec<Value> {
    let find = |name: &&str| {
        let entries = array.as_array().into_iter().flatten();
        let mut found = entries.filter(|entry| entry[field] == **name).cloned();
        found.next().unwrap_or_else(|| json!(format!("no {name}")))
    };
    names.iter().map(find).collect()
}

/// Records the entries of these resources.
async fn note_resources(t: &mut Script, path: &str, names: &[&str]) {
    let answer = t.pick(Request::get(path), &["/kind", "/apiVersion", "/groupVersion"]).await;
    for entry in entries(&answer.at("/resources"), "name", names) {
        t.note("resource", &entry);
    }
}

pub(super) async fn core_versions(t: &mut Script) {
    t.pick(Request::get("/api"), &["/kind", "/versions"]).await;
}

pub(super) async fn groups(t: &mut Script) {
    t.install_widgets().await;
    let answer = t.pick(Request::get("/apis"), &["/kind", "/apiVersion"]).await;
    for entry in entries(&answer.at("/groups"), "name", &GROUPS) {
        t.note("group", &entry);
    }
    let known = |answer: &Answer| entries(&answer.at("/groups"), "name", &[GROUP])[0].is_object();
    let answer = t.wait_picking("/apis", "the custom group is there", known, &["/kind"]).await;
    t.note("group", &entries(&answer.at("/groups"), "name", &[GROUP])[0]);
}

pub(super) async fn documents_of_single_groups(t: &mut Script) {
    t.install_widgets().await;
    for group in GROUPS {
        t.get(format!("/apis/{group}")).await;
    }
    t.wait_until(format!("/apis/{GROUP}"), "served", |answer| answer.status == 200).await;
}

pub(super) async fn core_resources(t: &mut Script) {
    let names = [
        "configmaps",
        "secrets",
        "pods",
        "pods/status",
        "pods/binding",
        "namespaces",
        "namespaces/status",
        "namespaces/finalize",
        "nodes",
        "nodes/status",
        "events",
        "services",
        "services/status",
        "serviceaccounts",
        "persistentvolumeclaims",
    ];
    note_resources(t, "/api/v1", &names).await;
}

pub(super) async fn resources_of_apps(t: &mut Script) {
    let names = [
        "deployments",
        "deployments/status",
        "deployments/scale",
        "replicasets",
        "replicasets/status",
        "replicasets/scale",
        "statefulsets",
        "daemonsets",
        "daemonsets/status",
        "controllerrevisions",
    ];
    note_resources(t, "/apis/apps/v1", &names).await;
}

pub(super) async fn resources_of_the_other_groups(t: &mut Script) {
    note_resources(t, "/apis/batch/v1", &["jobs", "jobs/status", "cronjobs"]).await;
    note_resources(t, "/apis/coordination.k8s.io/v1", &["leases"]).await;
    note_resources(t, "/apis/events.k8s.io/v1", &["events"]).await;
    let rbac = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    note_resources(t, "/apis/rbac.authorization.k8s.io/v1", &rbac).await;
    let definitions = ["customresourcedefinitions", "customresourcedefinitions/status"];
    note_resources(t, "/apis/apiextensions.k8s.io/v1", &definitions).await;
    let reviews = ["selfsubjectaccessreviews", "subjectaccessreviews", "localsubjectaccessreviews"];
    note_resources(t, "/apis/authorization.k8s.io/v1", &reviews).await;
}

pub(super) async fn resources_of_a_custom_group(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    let path = format!("/apis/{GROUP}/v1");
    let complete = |answer: &Answer| {
        entries(&answer.at("/resources"), "name", &["widgets", "gadgets"])
            .iter()
            .all(Value::is_object)
    };
    t.wait_picking(&path, "complete", complete, &[]).await;
    note_resources(t, &path, &["widgets", "widgets/status", "widgets/scale", "gadgets"]).await;
    let names = ["widgets", "widgets/status", "widgets/scale"];
    note_resources(t, &format!("/apis/{GROUP}/v2"), &names).await;
}

pub(super) async fn aggregated_core(t: &mut Script) {
    let answer = t.pick(Request::get("/api").accept(AGGREGATED), &["/kind", "/apiVersion"]).await;
    let resources = answer.at("/items/0/versions/0/resources");
    for entry in entries(&resources, "resource", &["configmaps", "pods", "namespaces"]) {
        let mut entry = entry;
        if entry["resource"] == "pods" {
            entry["subresources"] =
                json!(entries(&entry["subresources"], "subresource", &["status", "binding"]));
        }
        t.note("resource", &entry);
    }
}

pub(super) async fn aggregated_groups(t: &mut Script) {
    t.install_widgets().await;
    let find = |answer: &Answer, name: &str| {
        let items = answer.at("/items");
        let mut found = items.as_array().into_iter().flatten();
        found.find(|item| item["metadata"]["name"] == name).cloned().unwrap_or_default()
    };
    let request = || Request::get("/apis").accept(AGGREGATED);
    let answer = t.pick(request(), &["/kind", "/apiVersion"]).await;
    t.note("coordination.k8s.io", &find(&answer, "coordination.k8s.io"));
    let apps = find(&answer, "apps");
    t.note("apps", &entries(&apps["versions"][0]["resources"], "resource", &["deployments"])[0]);
    // The custom group appears a moment after its definition is established.
    let complete = |answer: &Answer| {
        find(answer, GROUP)["versions"].as_array().is_some_and(|versions| versions.len() == 2)
    };
    let answer = t.wait_picking(request(), "the custom group is there", complete, &["/kind"]).await;
    let custom = find(&answer, GROUP);
    for version in custom["versions"].as_array().into_iter().flatten() {
        t.note("version", &version["version"]);
        t.note("freshness", &version["freshness"]);
        t.note("widgets", &entries(&version["resources"], "resource", &["widgets"])[0]);
    }
}

pub(super) async fn aggregated_form_is_one_of_several(t: &mut Script) {
    let all = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
               application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
               application/json";
    t.pick(Request::get("/api").accept(all), &["/kind", "/apiVersion"]).await;
    let unknown = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,\
                   application/json";
    t.pick(Request::get("/api").accept(unknown), &["/kind", "/apiVersion"]).await;
    t.pick(Request::get("/apis").accept("*/*"), &["/kind", "/apiVersion"]).await;
}

pub(super) async fn version_and_health(t: &mut Script) {
    t.pick(Request::get("/version"), &["/major", "/minor"]).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        t.get(path).await;
    }
}
