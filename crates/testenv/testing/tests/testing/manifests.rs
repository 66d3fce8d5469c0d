//! Definitions and objects from files.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::CustomResourceExt as _;
use serde_json::json;
use tempfile::TempDir;
use windlass_testing::{TestCluster, on_each_cluster};

use crate::operator::{Page, Publisher, failure, page, pages};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n";

fn write(folder: &Path, name: &str, documents: &[&str]) {
    fs::write(folder.join(name), documents.join("\n---\n")).expect("written");
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn definition() -> String {
    serde_saphyr::to_string(&Page::crd()).expect("YAML")
}

on_each_cluster!(definitions_of_a_folder_are_installed, start_paused = true);
async fn definitions_of_a_folder_are_installed(cluster: TestCluster) {
    let folder = folder();
    let comment = "# generated";
    write(folder.path(), "crds.yaml", &[comment, MAP, &definition()]);
    write(folder.path(), "notes.txt", &["not YAML: ["]);
    cluster.install_from(folder.path()).await;
    cluster.create(&page("hello", "Hi")).await;
    cluster.run_until_quiet(pages(), Publisher).await;
    cluster.get::<ConfigMap>("hello").await;
    assert!(cluster.get_opt::<ConfigMap>("settings").await.is_none());
}

on_each_cluster!(objects_of_a_file_are_applied_to_the_namespace_of_the_test, start_paused = true);
async fn objects_of_a_file_are_applied_to_the_namespace_of_the_test(cluster: TestCluster) {
    let folder = folder();
    let custom = "apiVersion: example.com/v1\nkind: Page\nmetadata: {name: p}\nspec: {text: t}\n";
    write(folder.path(), "all.yaml", &[MAP, &definition(), custom]);
    let file = folder.path().join("all.yaml");
    cluster.apply_from(&file).await;
    cluster.expect::<ConfigMap>("settings", json!({"data": {"a": "b"}})).await;
    cluster.expect::<Page>("p", json!({"spec": {"text": "t"}})).await;
    // Applying it again changes nothing.
    let before = cluster.get::<ConfigMap>("settings").await;
    cluster.apply_from(&file).await;
    assert_eq!(cluster.get::<ConfigMap>("settings").await, before);
    assert!(cluster.get_opt::<Namespace>("settings").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn errors_name_the_file_and_the_document() {
    let (cluster, folder) = (TestCluster::embedded(), folder());
    let no_definition =
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {group: 7}\n";
    let refused = definition().replace("pages.example.com", "other.example.com");
    let unknown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nfoo: bar\n";
    let not_served = "apiVersion: example.com/v7\nkind: Nothing\nmetadata: {name: a}\n";
    for (name, document, told) in [
        ("bad.yaml", "a: [", "bad.yaml, document 2: it is not YAML: "),
        ("type.yaml", no_definition, "type.yaml, document 2: it is not a CustomResourceDefinition"),
        ("refused.yaml", &refused, "refused.yaml, document 2: cannot create"),
        ("unknown.yaml", unknown, "unknown.yaml, document 2: ConfigMap a: "),
        ("kind.yaml", not_served, "kind.yaml, document 2: Nothing is not served"),
    ] {
        write(folder.path(), name, &[MAP, document]);
        let message = failure(cluster.apply_from(folder.path().join(name))).await;
        assert!(message.contains(told), "{told}\n{message}");
        assert!(message.contains("in the test at "), "{message}");
    }

    write(folder.path(), "none.yaml", &[MAP]);
    let message = failure(cluster.install_from(folder.path().join("none.yaml"))).await;
    assert!(message.contains("none.yaml has no CustomResourceDefinition"), "{message}");
    let message = failure(cluster.install_from(folder.path().join("missing.yaml"))).await;
    assert!(message.contains("missing.yaml cannot be read: "), "{message}");
}
