//! An operator gets a second version of its kind, while objects of the first one are stored.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kube::api::{Api, PostParams};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use windlass_reconciler::{Action, Controller, Watch, reconcile_fn};
use windlass_testserver::{ControlPlane, ControlPlaneOptions, TestServer};

use crate::webhooks::gadgets::kinds::{v1, v2};
use crate::webhooks::gadgets::{LIMIT, PAUSE, Replica, free_address, manager, options};

#[tokio::test]
async fn only_replica_converts_what_its_own_caches_list() {
    upgrade(&TestServer::embedded()).await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn only_replica_converts_what_its_own_caches_list_on_a_real_server() {
    // A control plane of its own: on the shared one, other tests have installed both versions.
    let real = ControlPlane::start(ControlPlaneOptions::new()).await.expect("a real cluster");
    upgrade(&TestServer::on_control_plane(real)).await;
}

/// The caches of the only replica list the new version, and the API server asks this replica to
/// convert what it lists.
async fn upgrade(cluster: &TestServer) {
    let namespace = cluster.namespace("upgrade").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (params, old) = (PostParams::default(), v1::Gadget::crd());
    definitions.create(&params, &old).await.expect("the first version");
    let gadgets: Api<v1::Gadget> = Api::namespaced(client, &namespace);
    let gadget = v1::Gadget::new("old", v1::GadgetSpec { size: Some(3) });
    // Servers take a moment until they serve a new kind.
    let stored = async {
        while gadgets.create(&params, &gadget).await.is_err() {
            sleep(PAUSE).await;
        }
    };
    timeout(LIMIT, stored).await.expect("it must be stored");

    let (sender, mut runs) = mpsc::channel(100);
    let reconciler = reconcile_fn(async move |gadget: Arc<v2::Gadget>, _| {
        sender.send(gadget.spec.shape.size).await?;
        Ok(Action::done())
    });
    let operator = manager(cluster, options(&namespace, free_address()))
        .controller(Controller::named("gadget", Watch::<v2::Gadget>::new()), reconciler);
    let replica = Replica::start(operator);
    let seen = timeout(LIMIT, runs.recv()).await.expect("it must be reconciled");
    assert_eq!(seen, Some(Some(3)));
    replica.end().await;
}
