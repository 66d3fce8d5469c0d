//! Users of the real control plane, and the audit log that names them.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use windlass_testserver::{AuditStage, ControlPlane, ControlPlaneOptions};

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn user_has_the_rights_of_its_binding_and_the_audit_log_names_it() -> TestResult {
    let cluster = ControlPlane::start(ControlPlaneOptions::new().audit_log()).await?;
    let (alice, params) = (cluster.user("alice")?, PostParams::default());
    let maps: Api<ConfigMap> = Api::default_namespaced(alice.client()?);
    let map = serde_json::from_value(json!({ "metadata": { "name": "hers" } }))?;
    let refused = maps.create(&params, &map).await.expect_err("she has no rights yet");
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");

    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client()?);
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "alice" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
        },
        "subjects": [{ "kind": "User", "name": "alice" }],
    }))?;
    bindings.create(&params, &binding).await?;
    // The server reads bindings from a cache, so they take effect a little later.
    while let Err(error) = maps.create(&params, &map).await {
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");
    }

    let log = cluster.audit_log()?;
    let hers: Vec<_> = log.iter().filter(|record| record.user == alice.name()).collect();
    let last = hers.last().expect("she has written");
    assert_eq!((last.verb.as_str(), last.resource.as_str()), ("create", "configmaps"));
    assert_eq!((last.stage, last.code), (AuditStage::ResponseComplete, Some(201)));
    assert_eq!((last.namespace.as_str(), last.name.as_str()), ("default", "hers"));
    let received = hers.iter().find(|record| record.id == last.id).expect("it was received");
    assert_eq!(received.stage, AuditStage::RequestReceived);
    assert!(received.received <= last.time);
    assert!(log.iter().all(|record| record.verb != "list"), "reads are not logged");
    Ok(())
}
