//! A service account has the rights of its Role, on either cluster.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use windlass_testserver::{TestServer, on_each_server_with_roles};

on_each_server_with_roles!(account_has_the_rights_it_is_given_and_no_others);
async fn account_has_the_rights_it_is_given_and_no_others(cluster: TestServer) {
    let namespace = cluster.namespace("accounts").await.expect("a namespace");
    let account = cluster.account(&namespace, "operator").await.expect("an account");
    assert_eq!(account.user(), format!("system:serviceaccount:{namespace}:operator"));
    let client = account.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let refused = api.list(&ListParams::default()).await.expect_err("it has no rights yet");
    let told = format!(
        "configmaps is forbidden: User \"{}\" cannot list resource \"configmaps\" in API group \
             \"\" in the namespace \"{namespace}\"",
        account.user()
    );
    assert!(refused.to_string().contains(&told), "{refused}");

    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
    account.grant(&[rule]).await.expect("rights");
    assert!(api.list(&ListParams::default()).await.is_ok());
    let made = api.create(&PostParams::default(), &ConfigMap::default()).await;
    made.expect_err("it may only list");
    let elsewhere: Api<ConfigMap> = Api::namespaced(client, "default");
    elsewhere.list(&ListParams::default()).await.expect_err("only in its namespace");

    let again = cluster.account(&namespace, "operator").await.expect("the same account");
    let api: Api<ConfigMap> = Api::namespaced(again.client().expect("a client"), &namespace);
    assert!(api.list(&ListParams::default()).await.is_ok());
}
