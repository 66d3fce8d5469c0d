//! Tables, which `kubectl get` prints: how they are requested, and their structure.
//!
//! The modules below are about the contents of the cells: [`pods`], [`workloads`], the other
//! [`builtins`], and [`custom`] resources.

mod builtins;
mod custom;
mod objects;
mod pods;
mod workloads;

use serde_json::{Value, json};

pub(super) use self::builtins::*;
pub(super) use self::custom::*;
pub(super) use self::pods::*;
pub(super) use self::workloads::*;
use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{GADGETS, configmap, deployment, gadget, labelled_configmap, pod, widget};
use crate::request::Request;
use crate::script::MERGE_PATCH;
use crate::target::Who;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const OLD_TABLE: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";

/// The `Accept` header of kubectl.
const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                       application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// A request for a table.
fn table(path: impl Into<String>) -> Request {
    Request::get(path).accept(TABLE)
}

impl Script {
    /// Requests a table, and records its columns by name and its rows without their objects.
    async fn rows(&mut self, path: impl Into<String>) -> Answer {
        self.show(table(path), &["cells", "conditions"]).await
    }

    /// Sends a request for a table, and records its columns by name, and its rows with their
    /// objects.
    async fn whole_rows(&mut self, request: Request) -> Answer {
        self.show(request, &["cells", "conditions", "object"]).await
    }

    async fn show(&mut self, request: Request, parts: &[&str]) -> Answer {
        let answer = self.look(request).await;
        let shown = match &answer.body {
            body if body["kind"] == "Table" => json!({
                "kind": "Table",
                "columnDefinitions": picked(&body["columnDefinitions"], &["name", "type"]),
                "rows": picked(&body["rows"], parts),
            }),
            other => other.clone(),
        };
        self.note("table", &shown);
        answer
    }

    /// Sets the status of an object at `path`.
    async fn set_status(&mut self, path: &str, status: Value) {
        let path = format!("{path}/status");
        self.look(Request::patch(path, MERGE_PATCH, json!({ "status": status }))).await;
    }
}

/// Returns the object with more fields.
fn with_fields(mut object: Value, fields: Value) -> Value {
    if let Value::Object(fields) = fields {
        for (field, value) in fields {
            object[field] = value;
        }
    }
    object
}

/// Returns the items of a list, with only these fields.
fn picked(items: &Value, fields: &[&str]) -> Value {
    let pick = |item: &Value| -> Value {
        let held = fields.iter().filter_map(|field| Some(((*field).to_owned(), item.get(field)?)));
        held.map(|(field, value)| (field, value.clone())).collect::<serde_json::Map<_, _>>().into()
    };
    items.as_array().into_iter().flatten().map(pick).collect()
}

pub(super) async fn table_of_one_object_and_of_a_list(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    t.send(table(t.configmap("a"))).await;
    t.send(table(t.configmaps())).await;
}

pub(super) async fn table_as_kubectl_asks_for_it(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    for path in [t.configmap("a"), t.widget("a"), t.configmaps(), t.widgets()] {
        let path = format!("{path}?includeObject=Object&limit=500");
        t.send(Request::get(path).accept(KUBECTL)).await;
    }
}

pub(super) async fn table_with_as_much_of_the_object_as_is_asked_for(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.deployments(), deployment("a")).await;
    t.given(t.widgets(), widget("a")).await;
    for include in ["None", "Metadata", "Object", ""] {
        for collection in [t.deployments(), t.widgets()] {
            let one = table(format!("{collection}/a?includeObject={include}"));
            t.pick(one, &["/apiVersion", "/rows/0/object"]).await;
            let list = table(format!("{collection}?includeObject={include}"));
            t.pick(list, &["/apiVersion", "/rows/0/object"]).await;
        }
    }
}

pub(super) async fn table_with_an_unknown_part_of_the_object(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    let odd = |path: String| table(format!("{path}?includeObject=Nonsense"));
    t.send(odd(t.configmap("a"))).await;
    t.send(odd(t.configmaps())).await;
    t.send(odd(t.widgets())).await;
    t.send(odd(t.configmap("missing"))).await;
    let watch = format!("{}?watch=1&includeObject=Nonsense", t.configmaps());
    drop(t.watch_with(table(watch)).await);
    // The parameter has an effect only on tables.
    t.get(format!("{}?includeObject=Nonsense", t.configmap("a"))).await;
}

pub(super) async fn table_is_written_before_its_options_are_read(t: &mut Script) {
    let post = Request::post(format!("{}?includeObject=Nonsense", t.configmaps()), configmap("a"));
    t.send(post.accept(TABLE)).await;
    t.get(t.configmap("a")).await;
}

pub(super) async fn table_in_pages(t: &mut Script) {
    t.given_configmaps(&["a", "b", "c"]).await;
    let first = t.send(table(format!("{}?limit=2", t.configmaps()))).await;
    let next = format!("{}?limit=2&continue={}", t.configmaps(), first.next_page());
    t.send(table(next)).await;
}

pub(super) async fn table_of_a_custom_resource_in_pages(t: &mut Script) {
    t.install_widgets().await;
    for name in ["a", "b", "c"] {
        t.given(t.widgets(), widget(name)).await;
    }
    let first = t.send(table(format!("{}?limit=2", t.widgets()))).await;
    let next = format!("{}?limit=2&continue={}", t.widgets(), first.next_page());
    t.send(table(next)).await;
}

pub(super) async fn table_of_what_selectors_choose(t: &mut Script) {
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "1")] {
        t.given(t.configmaps(), labelled_configmap(name, "l", value)).await;
    }
    t.rows(format!("{}?labelSelector=l%3D1", t.configmaps())).await;
    t.rows(format!("{}?fieldSelector=metadata.name%3Db", t.configmaps())).await;
    t.send(table(format!("{}?labelSelector=%2F%2F", t.configmaps()))).await;
}

pub(super) async fn table_of_nothing(t: &mut Script) {
    t.install_widgets().await;
    let ns = format!("/api/v1/namespaces/{}", t.ns());
    // The rows are null for kinds without columns of their own, and an empty list for others.
    for collection in [t.pods(), t.widgets(), format!("{ns}/limitranges")] {
        t.pick(table(collection), &["/rows"]).await;
    }
}

pub(super) async fn table_in_an_old_version(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.send(Request::get(t.configmap("a")).accept(OLD_TABLE)).await;
    let whole = format!("{}?includeObject=Object", t.configmaps());
    t.pick(Request::get(whole).accept(OLD_TABLE), &["/apiVersion", "/rows/0/object"]).await;
}

pub(super) async fn table_or_something_else(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    for accept in [
        "application/json,application/json;as=Table;v=v1;g=meta.k8s.io",
        "image/png,application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v7;g=meta.k8s.io,application/json",
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
         application/json;as=Table;v=v1;g=meta.k8s.io",
        "*/*;as=Table;v=v1;g=meta.k8s.io",
        "application/json; as=Table; g=meta.k8s.io; v=v1",
    ] {
        t.pick(Request::get(t.configmap("a")).accept(accept), &["/kind", "/apiVersion"]).await;
        t.pick(Request::get(t.widget("a")).accept(accept), &["/kind", "/apiVersion"]).await;
    }
}

pub(super) async fn table_that_nobody_has(t: &mut Script) {
    t.install_widgets().await;
    for accept in [
        "application/json;as=Table;v=v7;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=example.dev",
        "application/json;as=Table",
        "application/json;as=Chart;v=v1;g=meta.k8s.io",
    ] {
        t.send(Request::get(t.configmaps()).accept(accept)).await;
        t.send(Request::get(t.widgets()).accept(accept)).await;
    }
}

pub(super) async fn table_is_not_made_of_errors(t: &mut Script) {
    t.install_widgets().await;
    t.send(table(t.configmap("missing"))).await;
    t.send(table(t.widget("missing"))).await;
    t.send(table(format!("{}?limit=x", t.configmaps()))).await;
    t.send(table(format!("{}?resourceVersion=x", t.widgets()))).await;
    t.send(table(t.configmaps()).by(Who::Bob)).await;
    t.send(table(format!("/api/v1/namespaces/{}/nonsense", t.ns()))).await;
}

pub(super) async fn table_of_a_scale(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.deployments(), deployment("a")).await;
    t.given(t.widgets(), widget("a")).await;
    for scale in [format!("{}/a/scale", t.deployments()), format!("{}/scale", t.widget("a"))] {
        t.send(table(&scale)).await;
        t.whole_rows(table(format!("{scale}?includeObject=Object"))).await;
        let none = json!({"spec": {"replicas": 0}});
        t.whole_rows(Request::patch(&scale, MERGE_PATCH, none).accept(TABLE)).await;
    }
}

pub(super) async fn table_of_a_status(t: &mut Script) {
    t.given(t.deployments(), deployment("a")).await;
    t.rows(format!("{}/a/status", t.deployments())).await;
}

pub(super) async fn table_in_answer_to_a_write(t: &mut Script) {
    t.install_widgets().await;
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    for (collection, object) in [(t.configmaps(), configmap("a")), (t.widgets(), widget("a"))] {
        let one = format!("{collection}/a");
        t.whole_rows(Request::post(collection, object).accept(TABLE)).await;
        let patch = Request::patch(&one, MERGE_PATCH, label.clone());
        t.whole_rows(patch.accept(TABLE)).await;
        t.send(Request::delete(one).accept(TABLE)).await;
    }
    t.given(t.pods(), pod("a")).await;
    let delete = Request::delete(format!("{}/a", t.pods()));
    t.whole_rows(delete.accept(TABLE)).await;
}

pub(super) async fn table_of_a_deleted_collection(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    t.whole_rows(Request::delete(t.configmaps()).accept(TABLE)).await;
    t.given_configmaps(&["c"]).await;
    let odd = format!("{}?includeObject=Nonsense", t.configmaps());
    t.send(Request::delete(odd).accept(TABLE)).await;
    t.rows(t.configmaps()).await;
}

pub(super) async fn table_watch_names_its_columns_once(t: &mut Script) {
    let watch = format!("{}?watch=1", t.configmaps());
    let mut watching = t.watch_with(table(watch)).await;
    t.given(t.configmaps(), configmap("a")).await;
    watching.next().await;
    t.merge_patch(t.configmap("a"), json!({"data": {"b": "2"}})).await;
    watching.next().await;
    t.delete(t.configmap("a")).await;
    watching.next().await;
}

pub(super) async fn table_watch_begins_with_what_is_there(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    let watch = format!("{}?watch=1&includeObject=None", t.configmaps());
    let mut watching = t.watch_with(table(watch)).await;
    watching.next_many(2).await;
    t.delete(t.configmap("a")).await;
    watching.next().await;
}

pub(super) async fn table_watch_of_a_custom_resource(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    let watch =
        format!("{}?watch=1&includeObject=Object&resourceVersion={}", t.widgets(), read.version());
    let mut watching = t.watch_with(table(watch)).await;
    t.merge_patch(t.widget("a"), json!({"spec": {"size": 2}})).await;
    watching.next().await;
    t.delete(t.widget("a")).await;
    watching.next().await;
}

pub(super) async fn table_watch_with_a_selector(t: &mut Script) {
    let watch = format!("{}?watch=1&labelSelector=l%3D1&includeObject=None", t.configmaps());
    let mut watching = t.watch_with(table(watch)).await;
    t.given(t.configmaps(), labelled_configmap("a", "l", "1")).await;
    watching.next().await;
    t.merge_patch(t.configmap("a"), json!({"metadata": {"labels": {"l": "2"}}})).await;
    watching.next().await;
}

pub(super) async fn table_watch_marks_the_end_of_the_initial_events(t: &mut Script) {
    t.install_widgets().await;
    let initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                   &allowWatchBookmarks=true";
    t.given_configmaps(&["a"]).await;
    t.watch_with(table(format!("{}?{initial}", t.configmaps()))).await.next_many(2).await;
    // The bookmark may be the first event, which has the column definitions.
    for collection in [t.pods(), t.widgets()] {
        t.watch_with(table(format!("{collection}?{initial}"))).await.next().await;
        let bare = format!("{collection}?{initial}&includeObject=None");
        t.watch_with(table(bare)).await.next().await;
    }
}

pub(super) async fn table_watch_sends_bookmarks(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let query = "watch=1&timeoutSeconds=3&allowWatchBookmarks=true";
    let mut watching = t.watch_with(table(format!("{}?{query}", t.configmaps()))).await;
    watching.next().await;
    watching.next_bookmark().await;
}

pub(super) async fn table_watch_that_is_too_old(t: &mut Script) {
    t.alone().await;
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.compact().await;
    t.watch_with(table(format!("{}?watch=1&resourceVersion=1", t.widgets()))).await.end().await;
}

pub(super) async fn table_of_a_cluster_scoped_resource(t: &mut Script) {
    t.install_gadgets().await;
    let name = t.own_name("a");
    t.given(GADGETS, gadget(&name)).await;
    t.send(table(format!("{GADGETS}/{name}"))).await;
    t.rows(format!("/api/v1/namespaces/{}", t.ns())).await;
}
