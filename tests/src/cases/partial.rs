//! Answers with metadata only.

use serde_json::json;

use crate::Script;
use crate::fixtures::{configmap, widget};
use crate::request::Request;
use crate::script::MERGE_PATCH;

const OBJECT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

pub(super) async fn metadata_of_one_object(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    t.send(Request::get(t.configmap("a")).accept(OBJECT)).await;
    t.send(Request::get(t.widget("a")).accept(OBJECT)).await;
    t.send(Request::get(t.configmap("nope")).accept(OBJECT)).await;
}

pub(super) async fn metadata_of_a_list(t: &mut Script) {
    t.install_widgets().await;
    t.given_configmaps(&["a", "b"]).await;
    t.given(t.widgets(), widget("a")).await;
    let first = t.send(Request::get(format!("{}?limit=1", t.configmaps())).accept(LIST)).await;
    let next = format!("{}?limit=1&continue={}", t.configmaps(), first.next_page());
    t.send(Request::get(next).accept(LIST)).await;
    t.send(Request::get(t.widgets()).accept(LIST)).await;
}

pub(super) async fn metadata_of_one_object_is_not_a_list(t: &mut Script) {
    t.install_widgets().await;
    t.refused(Request::get(t.configmaps()).accept(OBJECT)).await;
    t.refused(Request::get(t.widgets()).accept(OBJECT)).await;
}

pub(super) async fn metadata_in_answer_to_a_write(t: &mut Script) {
    t.install_widgets().await;
    t.send(Request::post(t.widgets(), widget("a")).accept(OBJECT)).await;
    let patch = json!({"metadata": {"labels": {"l": "1"}}});
    t.send(Request::patch(t.widget("a"), MERGE_PATCH, patch).accept(OBJECT)).await;
    t.send(Request::delete(t.widget("a")).accept(OBJECT)).await;
}

pub(super) async fn metadata_is_not_sent_if_something_else_is_liked_more(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let first = "application/json, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    t.pick(Request::get(t.configmap("a")).accept(first), &["/kind"]).await;
    let last = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";
    t.pick(Request::get(t.configmap("a")).accept(last), &["/kind"]).await;
    let unknown = "application/json;as=Nonsense;g=meta.k8s.io;v=v1";
    t.send(Request::get(t.configmap("a")).accept(unknown)).await;
    let either = "application/json;as=Nonsense;g=meta.k8s.io;v=v1, application/json";
    t.pick(Request::get(t.configmap("a")).accept(either), &["/kind"]).await;
}
