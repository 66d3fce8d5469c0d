//! Garbage collection by owner references. In the real cluster, kube-controller-manager does it.

use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{OTHER_UID, configmap, namespace, owner, with};

/// Creates an owner and a child of it; returns the owner.
async fn given_family(t: &mut Script, blocking: bool) -> Answer {
    let parent = t.given(t.configmaps(), configmap("parent")).await;
    let mut reference = owner("parent", &parent.uid());
    if blocking {
        reference["blockOwnerDeletion"] = json!(true);
    }
    t.given(t.configmaps(), owned("child", json!([reference]))).await;
    parent
}

fn owned(name: &str, references: Value) -> Value {
    with(configmap(name), "/metadata/ownerReferences", references)
}

fn held(object: Value) -> Value {
    with(object, "/metadata/finalizers", json!(["example.dev/f"]))
}

fn marked(answer: &Answer) -> bool {
    !answer.at("/metadata/deletionTimestamp").is_null()
}

pub(super) async fn child_goes_after_its_owner_in_the_background(t: &mut Script) {
    given_family(t, false).await;
    t.delete_with(t.configmap("parent"), json!({"propagationPolicy": "Background"})).await;
    t.wait_gone(t.configmap("child")).await;
    t.get(t.configmap("parent")).await;
}

pub(super) async fn child_goes_after_its_owner_by_default(t: &mut Script) {
    given_family(t, false).await;
    t.delete(t.configmap("parent")).await;
    t.wait_gone(t.configmap("child")).await;
}

pub(super) async fn grandchild_goes_as_well(t: &mut Script) {
    given_family(t, false).await;
    let child = t.get(t.configmap("child")).await;
    let references = json!([owner("child", &child.uid())]);
    t.given(t.configmaps(), owned("grandchild", references)).await;
    t.delete(t.configmap("parent")).await;
    t.wait_gone(t.configmap("grandchild")).await;
}

pub(super) async fn owner_stays_when_its_child_is_deleted(t: &mut Script) {
    given_family(t, true).await;
    t.delete(t.configmap("child")).await;
    t.get(t.configmap("child")).await;
    t.get(t.configmap("parent")).await;
}

pub(super) async fn owner_waits_in_the_foreground_for_a_blocking_child(t: &mut Script) {
    let parent = t.given(t.configmaps(), configmap("parent")).await;
    let mut reference = owner("parent", &parent.uid());
    reference["blockOwnerDeletion"] = json!(true);
    t.given(t.configmaps(), held(owned("child", json!([reference])))).await;
    t.delete_with(t.configmap("parent"), json!({"propagationPolicy": "Foreground"})).await;
    t.wait_until(t.configmap("child"), "marked", marked).await;
    t.get(t.configmap("parent")).await;
    t.merge_patch(t.configmap("child"), json!({"metadata": {"finalizers": null}})).await;
    t.wait_gone(t.configmap("parent")).await;
}

pub(super) async fn owner_does_not_wait_for_a_child_that_does_not_block(t: &mut Script) {
    let parent = t.given(t.configmaps(), configmap("parent")).await;
    let references = json!([owner("parent", &parent.uid())]);
    t.given(t.configmaps(), held(owned("child", references))).await;
    t.delete_with(t.configmap("parent"), json!({"propagationPolicy": "Foreground"})).await;
    t.wait_gone(t.configmap("parent")).await;
    t.wait_until(t.configmap("child"), "marked", marked).await;
}

pub(super) async fn owner_without_children_goes_in_the_foreground(t: &mut Script) {
    t.given(t.configmaps(), configmap("parent")).await;
    t.delete(format!("{}?propagationPolicy=Foreground", t.configmap("parent"))).await;
    t.wait_gone(t.configmap("parent")).await;
}

pub(super) async fn orphan_stays_without_its_owner(t: &mut Script) {
    given_family(t, false).await;
    t.delete_with(t.configmap("parent"), json!({"propagationPolicy": "Orphan"})).await;
    t.wait_gone(t.configmap("parent")).await;
    t.get(t.configmap("child")).await;
}

pub(super) async fn orphan_by_the_older_option(t: &mut Script) {
    given_family(t, false).await;
    t.delete_with(t.configmap("parent"), json!({"orphanDependents": true})).await;
    t.wait_gone(t.configmap("parent")).await;
    t.get(t.configmap("child")).await;
}

pub(super) async fn orphan_finalizer_set_by_the_user_orphans(t: &mut Script) {
    let mut parent = configmap("parent");
    parent["metadata"]["finalizers"] = json!(["orphan"]);
    let parent = t.given(t.configmaps(), parent).await;
    let references = json!([owner("parent", &parent.uid())]);
    t.given(t.configmaps(), owned("child", references)).await;
    t.delete(t.configmap("parent")).await;
    t.wait_gone(t.configmap("parent")).await;
    t.get(t.configmap("child")).await;
}

pub(super) async fn child_of_two_owners_loses_one_and_stays(t: &mut Script) {
    let first = t.given(t.configmaps(), configmap("first")).await;
    let second = t.given(t.configmaps(), configmap("second")).await;
    let references = json!([owner("first", &first.uid()), owner("second", &second.uid())]);
    t.given(t.configmaps(), owned("child", references)).await;
    t.delete(t.configmap("first")).await;
    let one = |answer: &Answer| {
        answer.at("/metadata/ownerReferences").as_array().is_some_and(|owners| owners.len() == 1)
    };
    t.wait_until(t.configmap("child"), "one owner is left", one).await;
    t.delete(t.configmap("second")).await;
    t.wait_gone(t.configmap("child")).await;
}

pub(super) async fn child_of_an_owner_that_never_was(t: &mut Script) {
    let references = json!([owner("nobody", OTHER_UID)]);
    t.post(t.configmaps(), owned("child", references)).await;
    t.wait_gone(t.configmap("child")).await;
}

pub(super) async fn child_of_an_owner_of_the_same_name_and_another_uid(t: &mut Script) {
    t.given(t.configmaps(), configmap("parent")).await;
    t.given(t.configmaps(), owned("child", json!([owner("parent", OTHER_UID)]))).await;
    t.wait_gone(t.configmap("child")).await;
    t.get(t.configmap("parent")).await;
}

pub(super) async fn child_of_an_owner_in_another_namespace(t: &mut Script) {
    let other = t.own_name("other");
    t.given("/api/v1/namespaces", namespace(&other)).await;
    let path = format!("/api/v1/namespaces/{other}/configmaps");
    let parent = t.given(&path, configmap("parent")).await;
    t.given(t.configmaps(), owned("child", json!([owner("parent", &parent.uid())]))).await;
    t.wait_gone(t.configmap("child")).await;
    t.get(format!("{path}/parent")).await;
}

pub(super) async fn collection_is_deleted_with_a_policy(t: &mut Script) {
    let parent = given_family(t, false).await;
    t.merge_patch(t.configmap("parent"), json!({"metadata": {"labels": {"l": "1"}}})).await;
    let path = format!("{}?labelSelector=l%3D1", t.configmaps());
    t.delete_with(path, json!({"propagationPolicy": "Orphan"})).await;
    t.wait_gone(t.configmap("parent")).await;
    t.get(t.configmap("child")).await;
    t.note("uid of the owner", &json!(parent.uid()));
}
