//! What the tests share: a cluster with the definition of Foo, and a look at Foos.
#![allow(dead_code, reason = "every test file uses a part of it")]
#![expect(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Resource as _, ResourceExt as _};
use sample_controller::{Foo, FooSpec, definition};
use windlass_testing::TestCluster;

/// A cluster with the definition of Foo.
pub(crate) async fn with_foos(cluster: TestCluster) -> TestCluster {
    cluster.install(&definition()).await;
    cluster
}

pub(crate) fn foo(name: &str, deployment: &str, replicas: Option<i32>) -> Foo {
    Foo::new(name, FooSpec { deployment_name: deployment.to_owned(), replicas })
}

pub(crate) fn available(foo: &Foo) -> Option<i32> {
    foo.status.as_ref().map(|status| status.available_replicas)
}

pub(crate) fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.replicas
}

/// Whether a Deployment's only owner is this very Foo.
pub(crate) fn is_owned_by(deployment: &Deployment, foo: &Foo) -> bool {
    let [owner] = deployment.owner_references() else { return false };
    owner.api_version == "samplecontroller.k8s.io/v1alpha1"
        && owner.kind == "Foo"
        && owner.name == foo.name_any()
        && Some(&owner.uid) == foo.meta().uid.as_ref()
        && owner.controller == Some(true)
        && owner.block_owner_deletion == Some(true)
}
