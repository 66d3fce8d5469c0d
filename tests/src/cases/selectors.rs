//! Label and field selectors in lists; watches with selectors have their own file.

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::{configmap, pod, widget, with};
use crate::request::Request;

/// Lists with these queries, and records only the names.
async fn names(t: &mut Script, path: String, queries: &[&str]) {
    for query in queries {
        let answer = t.look(Request::get(format!("{path}?{query}"))).await;
        let items = answer.at("/items");
        let names: Vec<Value> = items
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| item["metadata"]["name"].clone())
            .collect();
        t.note("names", &json!(names));
    }
}

async fn given_labelled(t: &mut Script) {
    for (name, labels) in [
        ("plain", json!({})),
        ("red", json!({"color": "red", "size": "5"})),
        ("blue", json!({"color": "blue", "size": "20"})),
        ("empty", json!({"color": ""})),
    ] {
        t.given(t.configmaps(), with(configmap(name), "/metadata/labels", labels)).await;
    }
}

pub(super) async fn labels_by_equality(t: &mut Script) {
    given_labelled(t).await;
    let queries = [
        "labelSelector=color%3Dred",
        "labelSelector=color%3D%3Dred",
        "labelSelector=color!%3Dred",
        "labelSelector=color%3Dred,size%3D5",
        "labelSelector=color%3Dred,size%3D6",
        "labelSelector=color%3D",
        "labelSelector=",
    ];
    names(t, t.configmaps(), &queries).await;
}

pub(super) async fn labels_by_sets_and_presence(t: &mut Script) {
    given_labelled(t).await;
    let queries = [
        "labelSelector=color%20in%20(red,blue)",
        "labelSelector=color%20notin%20(red)",
        "labelSelector=color%20in%20(red),size",
        "labelSelector=color",
        "labelSelector=!color",
        "labelSelector=color%20in%20()",
        "labelSelector=color%20in%20(,red)",
    ];
    names(t, t.configmaps(), &queries).await;
}

pub(super) async fn labels_by_size(t: &mut Script) {
    given_labelled(t).await;
    let queries = ["labelSelector=size%3E5", "labelSelector=size%3C20", "labelSelector=color%3E1"];
    names(t, t.configmaps(), &queries).await;
    t.get(format!("{}?labelSelector=size%3Ex", t.configmaps())).await;
}

pub(super) async fn label_selector_that_is_broken(t: &mut Script) {
    t.install_widgets().await;
    for query in [
        "a%20in%20(",
        "a%20in%20b",
        "a%3D%3D%3Db",
        "%3Da",
        ",",
        "a,,b",
        "a%20b",
        "bad%20key!%3Dx",
        "-a",
        "a%3Db%20c",
        "a%3D-b",
        "!a%3Db",
    ] {
        t.get(format!("{}?labelSelector={query}", t.configmaps())).await;
    }
    t.get(format!("{}?labelSelector=a%20in%20(", t.widgets())).await;
}

pub(super) async fn fields_of_metadata(t: &mut Script) {
    given_labelled(t).await;
    let ns = t.ns().to_owned();
    let own = format!("fieldSelector=metadata.namespace%3D{ns}&labelSelector=color%3Dred");
    let queries = [
        "fieldSelector=metadata.name%3Dred",
        "fieldSelector=metadata.name!%3Dred",
        "fieldSelector=metadata.name%3D%3Dred",
        "fieldSelector=metadata.name%3Dred,metadata.name%3Dblue",
        "fieldSelector=metadata.name%3Dabsent",
        "fieldSelector=metadata.namespace%3Dother",
        "fieldSelector=",
        &own,
    ];
    names(t, t.configmaps(), &queries).await;
}

pub(super) async fn fields_of_a_custom_resource(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("red")).await;
    t.given(t.widgets(), with(widget("blue"), "/spec/color", json!("blue"))).await;
    let queries = [
        "fieldSelector=spec.color%3Dblue",
        "fieldSelector=spec.color!%3Dblue",
        "fieldSelector=spec.color%3Dblue,metadata.name%3Dred",
        "fieldSelector=metadata.name%3Dblue",
    ];
    names(t, t.widgets(), &queries).await;
    t.get(format!("{}?fieldSelector=spec.color%3Dblue", t.widgets())).await;
}

pub(super) async fn fields_of_pods(t: &mut Script) {
    t.given(t.pods(), pod("waiting")).await;
    let mut placed = pod("placed");
    placed["spec"]["nodeName"] = json!("node-1");
    t.given(t.pods(), placed).await;
    let queries = [
        "fieldSelector=spec.nodeName%3Dnode-1",
        "fieldSelector=spec.nodeName%3D",
        "fieldSelector=status.phase%3DPending",
        "fieldSelector=status.phase!%3DPending",
        "fieldSelector=spec.restartPolicy%3DAlways",
    ];
    names(t, t.pods(), &queries).await;
}

pub(super) async fn fields_of_events(t: &mut Script) {
    let events = format!("/api/v1/namespaces/{}/events", t.ns());
    for (name, about) in [("a", "p"), ("b", "q")] {
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "name": about, "namespace": t.ns(), "uid": "1"},
            "reason": "Started",
            "type": "Normal",
        });
        t.given(&events, event).await;
    }
    let queries = [
        "fieldSelector=involvedObject.name%3Dp",
        "fieldSelector=involvedObject.kind%3DPod,involvedObject.uid%3D1",
        "fieldSelector=type%3DWarning",
        "fieldSelector=reason%3DStarted,involvedObject.name!%3Dp",
    ];
    names(t, events, &queries).await;
}

pub(super) async fn field_selector_that_is_not_supported(t: &mut Script) {
    t.install_widgets().await;
    t.get(format!("{}?fieldSelector=spec.size%3D1", t.widgets())).await;
    t.get(format!("{}?fieldSelector=data.x%3D1", t.configmaps())).await;
    t.get(format!("{}?fieldSelector=spec.color%3Dred", t.pods())).await;
    t.get(format!("{}?fieldSelector=foo", t.configmaps())).await;
    t.get(format!("{}?fieldSelector=metadata.name%3Ex", t.configmaps())).await;
    t.get(format!("{}?fieldSelector=metadata.labels.a%3Dx", t.deployments())).await;
}
