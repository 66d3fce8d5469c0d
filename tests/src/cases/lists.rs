//! Lists: their shape, their pages, and their version.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{
    FUTURE_VERSION, GADGETS, WIDGETS_EVERYWHERE, configmap, gadget, labelled_configmap, namespace,
    widget, with,
};
use crate::request::Request;

/// Encodes a continue token.
fn token(inside: &serde_json::Value) -> String {
    URL_SAFE_NO_PAD.encode(inside.to_string())
}

pub(super) async fn list_items_of_built_ins_omit_their_kind(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.widgets(), widget("a")).await;
    let name = t.own_name("a");
    t.given(GADGETS, with(gadget(&name), "/metadata/labels", json!({"case": t.ns()}))).await;
    t.get(t.configmaps()).await;
    t.get(t.widgets()).await;
    t.get(format!("{GADGETS}?labelSelector=case%3D{}", t.ns())).await;
}

pub(super) async fn list_of_nothing(t: &mut Script) {
    t.install_widgets().await;
    t.get(t.configmaps()).await;
    t.get(t.widgets()).await;
    t.get("/api/v1/namespaces/no-such-place/configmaps").await;
    t.get(t.deployments()).await;
}

pub(super) async fn list_is_in_the_order_of_names(t: &mut Script) {
    t.given_configmaps(&["b", "a.b", "a", "a-b", "c", "a0"]).await;
    let answer = t.look(Request::get(t.configmaps())).await;
    let items = answer.at("/items");
    let names: Vec<_> = items
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| item["metadata"]["name"].clone())
        .collect();
    t.note("names", &json!(names));
}

pub(super) async fn list_over_all_namespaces(t: &mut Script) {
    t.install_widgets().await;
    let other = t.own_name("other");
    t.given("/api/v1/namespaces", namespace(&other)).await;
    let case = t.ns().to_owned();
    t.given(t.configmaps(), labelled_configmap("b", "case", &case)).await;
    t.given(
        format!("/api/v1/namespaces/{other}/configmaps"),
        labelled_configmap("a", "case", &case),
    )
    .await;
    t.given(t.widgets(), with(widget("a"), "/metadata/labels", json!({"case": case}))).await;
    t.get(format!("/api/v1/configmaps?labelSelector=case%3D{case}")).await;
    t.get(format!("{WIDGETS_EVERYWHERE}?labelSelector=case%3D{case}")).await;
}

pub(super) async fn list_in_pages(t: &mut Script) {
    t.given_configmaps(&["a", "b", "c", "d", "e"]).await;
    let path = format!("{}?limit=2", t.configmaps());
    let first = t.get(&path).await;
    let second = t.get(format!("{path}&continue={}", first.next_page())).await;
    t.get(format!("{path}&continue={}", second.next_page())).await;
}

pub(super) async fn list_of_a_custom_resource_in_pages(t: &mut Script) {
    t.install_widgets().await;
    for name in ["a", "b", "c"] {
        t.given(t.widgets(), widget(name)).await;
    }
    let path = format!("{}?limit=2", t.widgets());
    let first = t.get(&path).await;
    t.get(format!("{path}&continue={}", first.next_page())).await;
}

pub(super) async fn list_in_one_page_that_is_just_large_enough(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    t.get(format!("{}?limit=2", t.configmaps())).await;
    t.get(format!("{}?limit=500", t.configmaps())).await;
}

pub(super) async fn later_pages_show_the_world_as_of_the_first(t: &mut Script) {
    t.given_configmaps(&["a", "b", "c", "d"]).await;
    let path = format!("{}?limit=2", t.configmaps());
    let first = t.get(&path).await;
    t.delete(t.configmap("c")).await;
    t.given(t.configmaps(), configmap("cc")).await;
    t.merge_patch(t.configmap("d"), json!({"data": {"a": "2"}})).await;
    let second = t.get(format!("{path}&continue={}", first.next_page())).await;
    t.note("same version on both pages", &json!(first.version() == second.version()));
}

pub(super) async fn page_with_a_selector_does_not_count_the_rest(t: &mut Script) {
    for name in ["a", "b", "c", "d"] {
        t.given(t.configmaps(), labelled_configmap(name, "l", "1")).await;
    }
    let path = format!("{}?limit=2&labelSelector=l%3D1", t.configmaps());
    let first = t.get(&path).await;
    t.get(format!("{path}&continue={}", first.next_page())).await;
}

pub(super) async fn pages_over_all_namespaces(t: &mut Script) {
    let other = t.own_name("other");
    t.given("/api/v1/namespaces", namespace(&other)).await;
    let case = t.ns().to_owned();
    for path in [t.configmaps(), format!("/api/v1/namespaces/{other}/configmaps")] {
        t.given(path, labelled_configmap("a", "case", &case)).await;
    }
    // Makes sure on every cluster that something follows the last page, so that it has a token.
    t.given(t.configmaps(), configmap("z")).await;
    let path = format!("/api/v1/configmaps?limit=1&labelSelector=case%3D{case}");
    let first = t.get(&path).await;
    t.get(format!("{path}&continue={}", first.next_page())).await;
}

pub(super) async fn continue_token_that_is_broken(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    let path = format!("{}?limit=1", t.configmaps());
    let wrong_version = token(&json!({"v": "v9", "rv": 5, "start": "a\u{0}"}));
    let no_version = token(&json!({"v": "meta.k8s.io/v1", "start": "a\u{0}"}));
    let climbing = token(&json!({"v": "meta.k8s.io/v1", "rv": -1, "start": "../a\u{0}"}));
    t.refused(Request::get(format!("{path}&continue=nonsense"))).await;
    for broken in [wrong_version, no_version, climbing] {
        t.get(format!("{path}&continue={broken}")).await;
    }
}

pub(super) async fn continue_token_with_a_version_beside_it(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    let path = format!("{}?limit=1", t.configmaps());
    let first = t.get(&path).await;
    let next = first.next_page();
    t.get(format!("{path}&continue={next}&resourceVersion={}", first.version())).await;
    t.get(format!("{path}&continue={next}&resourceVersion=0")).await;
    t.get(format!("{path}&continue={next}&resourceVersion=1&resourceVersionMatch=Exact")).await;
}

pub(super) async fn continue_token_that_is_too_old(t: &mut Script) {
    t.alone().await;
    t.given_configmaps(&["a", "b", "c"]).await;
    t.merge_patch(t.configmap("a"), json!({"data": {"a": "2"}})).await;
    t.compact().await;
    let old = token(&json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "a\u{0}"}));
    let path = format!("{}?limit=1", t.configmaps());
    let expired = t.get(format!("{path}&continue={old}")).await;
    let rest = t.get(format!("{path}&continue={}", expired.next_page())).await;
    t.get(format!("{path}&continue={}", rest.next_page())).await;
}

pub(super) async fn version_zero_ignores_the_limit(t: &mut Script) {
    t.given_configmaps(&["a", "b", "c"]).await;
    let path = format!("{}?resourceVersion=0&limit=1", t.configmaps());
    // The real server's cache may lag behind the writes.
    let complete = |answer: &Answer| answer.at("/items").as_array().is_some_and(|i| i.len() == 3);
    t.wait_until(path, "complete", complete).await;
}

pub(super) async fn exact_version_shows_the_world_as_it_was(t: &mut Script) {
    t.given_configmaps(&["a"]).await;
    let then = t.get(t.configmaps()).await.version();
    t.given_configmaps(&["b"]).await;
    t.merge_patch(t.configmap("a"), json!({"data": {"a": "2"}})).await;
    let answer = t
        .get(format!("{}?resourceVersion={then}&resourceVersionMatch=Exact", t.configmaps()))
        .await;
    t.note("answered at the asked version", &json!(answer.version() == then));
}

pub(super) async fn exact_version_in_pages(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    let then = t.get(t.configmaps()).await.version();
    t.delete(t.configmap("b")).await;
    let exact = format!("resourceVersion={then}&resourceVersionMatch=Exact");
    let first = t.get(format!("{}?limit=1&{exact}", t.configmaps())).await;
    t.get(format!("{}?limit=1&continue={}", t.configmaps(), first.next_page())).await;
}

pub(super) async fn not_older_than_shows_the_world_as_it_is(t: &mut Script) {
    t.given_configmaps(&["a"]).await;
    let then = t.get(t.configmaps()).await.version();
    t.given_configmaps(&["b"]).await;
    // The real server's cache may lag behind the writes; a later version makes it wait.
    let now = t.get(t.configmap("b")).await.version();
    t.get(format!("{}?resourceVersion={now}", t.configmaps())).await;
    let newer = format!("resourceVersion={now}&resourceVersionMatch=NotOlderThan");
    t.get(format!("{}?{newer}&limit=1", t.configmaps())).await;
    t.note("versions grow", &json!(then.len() < now.len() || then < now));
}

pub(super) async fn exact_version_that_is_too_old(t: &mut Script) {
    t.alone().await;
    t.install_widgets().await;
    t.given_configmaps(&["a"]).await;
    t.compact().await;
    t.get(format!("{}?resourceVersion=1&resourceVersionMatch=Exact", t.configmaps())).await;
    t.get(format!("{}?resourceVersion=1&resourceVersionMatch=Exact", t.widgets())).await;
}

pub(super) async fn version_match_that_is_not_allowed(t: &mut Script) {
    for query in [
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersion=1&resourceVersionMatch=Nonsense",
    ] {
        t.get(format!("{}?{query}", t.configmaps())).await;
    }
}

pub(super) async fn version_of_the_future_times_out(t: &mut Script) {
    t.install_widgets().await;
    t.given_configmaps(&["a"]).await;
    t.get(format!("{}?resourceVersion={FUTURE_VERSION}", t.configmaps())).await;
    t.get(format!("{}?resourceVersion={FUTURE_VERSION}", t.configmap("a"))).await;
    t.get(format!("{}?resourceVersion={FUTURE_VERSION}", t.widgets())).await;
}

pub(super) async fn version_of_a_list_that_is_no_number(t: &mut Script) {
    t.install_widgets().await;
    t.given_configmaps(&["a"]).await;
    t.get(format!("{}?resourceVersion=abc", t.configmaps())).await;
    t.get(format!("{}?resourceVersion=abc", t.configmap("a"))).await;
    t.get(format!("{}?resourceVersion=-5", t.widgets())).await;
}

pub(super) async fn version_zero_reads_one_object(t: &mut Script) {
    t.given_configmaps(&["a"]).await;
    let path = format!("{}?resourceVersion=0", t.configmap("a"));
    t.wait_until(path, "cached", |answer| answer.status == 200).await;
    t.get(format!("{}?resourceVersion=1", t.configmap("a"))).await;
}

pub(super) async fn initial_events_are_not_for_lists(t: &mut Script) {
    t.get(format!("{}?sendInitialEvents=true", t.configmaps())).await;
    let matched = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    t.get(format!("{}?{matched}", t.configmaps())).await;
}

pub(super) async fn odd_limits(t: &mut Script) {
    t.given_configmaps(&["a", "b"]).await;
    t.get(format!("{}?limit=0", t.configmaps())).await;
    t.get(format!("{}?limit=-1", t.configmaps())).await;
    t.get(format!("{}?limit=abc", t.configmaps())).await;
    t.get(format!("{}?watch=abc&timeoutSeconds=abc", t.configmaps())).await;
}
