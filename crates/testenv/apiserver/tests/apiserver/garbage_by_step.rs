//! A garbage collector that takes one step at a time.

use crate::support::{CONFIG_MAPS, call, config_map, create, get, post};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

fn by_step() -> ApiServer {
    ApiServer::builder().garbage_by_step(true).build()
}

async fn uid(server: &ApiServer, name: &str) -> Value {
    get(server, &format!("{CONFIG_MAPS}/{name}")).await.1["metadata"]["uid"].clone()
}

/// Creates a config map with an owner, blocking the deletion of the owner.
async fn create_owned(server: &ApiServer, name: &str, owner: &str) -> StatusCode {
    let mut object = config_map(name, "0");
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner,
        "uid": uid(server, owner).await, "controller": true, "blockOwnerDeletion": true,
    }]);
    post(server, CONFIG_MAPS, object).await.0
}

async fn delete(server: &ApiServer, name: &str, policy: &str) {
    let options = json!({"propagationPolicy": policy});
    let path = format!("{CONFIG_MAPS}/{name}");
    assert_eq!(call(server, Method::DELETE, &path, Some(options)).await.0, StatusCode::OK);
}

/// Returns the existing config maps: the name, whether it is being deleted, and the number of
/// owners.
async fn present(server: &ApiServer) -> Vec<(String, bool, usize)> {
    let (_, list) = get(server, CONFIG_MAPS).await;
    let items = list["items"].as_array().expect("a list").iter().map(|item| {
        let meta = &item["metadata"];
        let owners = meta["ownerReferences"].as_array().map_or(0, Vec::len);
        let name = meta["name"].as_str().expect("a name").to_owned();
        (name, meta["deletionTimestamp"].is_string(), owners)
    });
    items.collect()
}

fn seen(items: &[(&str, bool, usize)]) -> Vec<(String, bool, usize)> {
    items.iter().map(|(name, deleted, owners)| ((*name).to_owned(), *deleted, *owners)).collect()
}

#[tokio::test]
async fn foreground_deletion_takes_a_step_for_each_dependent_and_one_for_the_owner() {
    let server = by_step();
    create(&server, "owner").await;
    create_owned(&server, "a", "owner").await;
    create_owned(&server, "b", "owner").await;
    assert!(!server.collect_step(), "nothing is garbage");
    delete(&server, "owner", "Foreground").await;
    assert_eq!(
        present(&server).await,
        seen(&[("a", false, 1), ("b", false, 1), ("owner", true, 0)])
    );
    assert!(server.collect_step());
    assert_eq!(present(&server).await, seen(&[("b", false, 1), ("owner", true, 0)]));
    assert!(server.collect_step());
    assert_eq!(present(&server).await, seen(&[("owner", true, 0)]));
    assert!(server.collect_step());
    assert_eq!(present(&server).await, []);
    assert!(!server.collect_step());
}

#[tokio::test]
async fn owner_never_goes_if_its_dependent_is_made_again_after_each_step() {
    let server = by_step();
    create(&server, "owner").await;
    create_owned(&server, "child", "owner").await;
    delete(&server, "owner", "Foreground").await;
    for round in 0..10 {
        assert!(server.collect_step());
        assert_eq!(present(&server).await, seen(&[("owner", true, 0)]), "round {round}");
        assert_eq!(create_owned(&server, "child", "owner").await, StatusCode::CREATED);
    }
    while server.collect_step() {}
    assert_eq!(present(&server).await, []);
}

#[tokio::test]
async fn dependents_of_an_orphaning_owner_are_let_go_one_by_one() {
    let server = by_step();
    create(&server, "owner").await;
    create_owned(&server, "a", "owner").await;
    create_owned(&server, "b", "owner").await;
    delete(&server, "owner", "Orphan").await;
    assert!(server.collect_step());
    assert_eq!(
        present(&server).await,
        seen(&[("a", false, 0), ("b", false, 1), ("owner", true, 0)])
    );
    while server.collect_step() {}
    assert_eq!(present(&server).await, seen(&[("a", false, 0), ("b", false, 0)]));
}

#[tokio::test]
async fn dependents_of_an_owner_that_is_gone_wait_for_a_step() {
    let server = by_step();
    create(&server, "owner").await;
    create_owned(&server, "child", "owner").await;
    delete(&server, "owner", "Background").await;
    assert_eq!(present(&server).await, seen(&[("child", false, 1)]));
    assert!(server.collect_step());
    assert_eq!(present(&server).await, []);
    assert!(!server.collect_step());
}

#[tokio::test]
async fn what_is_left_is_collected_when_it_is_turned_off() {
    let server = ApiServer::new();
    server.garbage_by_step(true);
    create(&server, "owner").await;
    create_owned(&server, "child", "owner").await;
    delete(&server, "owner", "Foreground").await;
    server.garbage_by_step(false);
    assert_eq!(present(&server).await, []);
    assert!(!server.collect_step(), "it collects at once");
}

#[tokio::test]
async fn restored_server_collects_what_was_garbage_in_the_snapshot() {
    let server = by_step();
    create(&server, "owner").await;
    create_owned(&server, "child", "owner").await;
    delete(&server, "owner", "Foreground").await;
    let snapshot = server.snapshot();
    while server.collect_step() {}
    server.restore(&snapshot);
    assert_eq!(present(&server).await, seen(&[("child", false, 1), ("owner", true, 0)]));
    while server.collect_step() {}
    assert_eq!(present(&server).await, []);
}
