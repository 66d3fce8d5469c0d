//! Dry runs: the same answers, and nothing stored.

use serde_json::json;

use crate::Script;
use crate::fixtures::{configmap, widget, with};

fn dry(path: &str) -> String {
    format!("{path}?dryRun=All")
}

pub(super) async fn dry_creation_has_a_uid_and_no_version(t: &mut Script) {
    t.install_widgets().await;
    t.post(dry(&t.widgets()), widget("a")).await;
    t.post(dry(&t.configmaps()), configmap("a")).await;
    t.get(t.widget("a")).await;
    t.post(dry(&t.configmaps()), with(configmap("a"), "/metadata", json!({"generateName": "g-"})))
        .await;
}

pub(super) async fn dry_creation_fails_as_a_real_one(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    t.post(dry(&t.widgets()), widget("a")).await;
    t.post(dry(&t.widgets()), with(widget("b"), "/spec/size", json!(99))).await;
    t.post(dry("/api/v1/namespaces/no-such-place/configmaps"), configmap("a")).await;
}

pub(super) async fn dry_update_keeps_what_is_stored(t: &mut Script) {
    t.install_widgets().await;
    let read = t.given(t.widgets(), widget("a")).await;
    t.put(dry(&t.widget("a")), read.edited(|object| object["spec"]["size"] = json!(2))).await;
    t.merge_patch(dry(&t.widget("a")), json!({"spec": {"size": 3}})).await;
    t.get(t.widget("a")).await;
}

pub(super) async fn dry_deletion_keeps_the_object(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let held = with(widget("b"), "/metadata/finalizers", json!(["example.dev/f"]));
    t.given(t.widgets(), held).await;
    t.delete(dry(&t.widget("a"))).await;
    t.delete_with(t.widget("b"), json!({"dryRun": ["All"]})).await;
    t.delete(dry(&t.widgets())).await;
    t.get(t.widgets()).await;
}

pub(super) async fn dry_run_of_an_unknown_sort(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.post(format!("{}?dryRun=Some", t.configmaps()), configmap("b")).await;
    let patch = json!({"data": {"b": "2"}});
    t.merge_patch(format!("{}?dryRun=Some", t.configmap("a")), patch).await;
    t.put(format!("{}?dryRun=Some", t.configmap("a")), configmap("a")).await;
    t.delete(format!("{}?dryRun=Some", t.configmap("a"))).await;
}
