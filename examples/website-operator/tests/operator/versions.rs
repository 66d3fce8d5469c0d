//! Two versions of Websites and their webhooks, on both servers: the operator serves them with
//! certificates of its own, and the server calls it over TLS.

use crate::common::{TOO_MUCH, old_site, site, start_behind_tls};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use website_operator::website::v1;
use website_operator::{Server, Website};
use windlass_testing::{TestCluster, on_each_cluster};

on_each_cluster!(
    websites_of_both_versions_are_corrected_checked_and_converted,
    flavor = "multi_thread",
    worker_threads = 2
);
async fn websites_of_both_versions_are_corrected_checked_and_converted(cluster: TestCluster) {
    let operator = start_behind_tls(&cluster, cluster.namespace()).await;
    host_becomes_lowercase(&cluster).await;
    too_many_bytes_are_refused_with_the_path_of_the_field(&cluster).await;
    image_without_a_tag_is_warned_about(&cluster).await;
    clients_of_the_first_version_lose_no_field_of_the_second(&cluster).await;
    field_that_an_applier_drops_gets_its_default_back(&cluster).await;
    operator.stop().await;
}

async fn host_becomes_lowercase(cluster: &TestCluster) {
    let old = cluster.create(&old_site("upper", "Upper.Example.COM", "")).await;
    assert_eq!(old.spec.host, "upper.example.com");
    let new = cluster.create(&site("shout", "SHOUT.example.com", 1)).await;
    assert_eq!(new.spec.host, "shout.example.com");
    // The rule that the host cannot be changed sees the corrected one.
    let same = json!({"spec": {"host": "Shout.Example.com"}});
    assert_eq!(cluster.patch::<Website>("shout", same).await.spec.host, "shout.example.com");
}

async fn too_many_bytes_are_refused_with_the_path_of_the_field(cluster: &TestCluster) {
    let sites: Api<v1::Website> = Api::namespaced(cluster.client(), cluster.namespace());
    let huge = old_site("huge", "huge.example.com", &"x".repeat(TOO_MUCH));
    let refused = sites.create(&PostParams::default(), &huge).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
    // The client adds which request it was.
    let told = status.message.split(" (create websites").next();
    assert_eq!(
        (status.code, told),
        (
            422,
            Some(
                "admission webhook \"validate-v2.websites.example.com\" denied the request: \
                 Website.example.com \"huge\" is invalid: spec.files: Too long: may not be more \
                 than 1048576 bytes"
            )
        )
    );
}

async fn image_without_a_tag_is_warned_about(cluster: &TestCluster) {
    let told = warnings(cluster, json!({"image": "nginx"})).await;
    let warning = "the image nginx has no tag: pods that start later may run another version";
    assert_eq!(told, [format!("299 - {warning:?}")]);
    assert_eq!(warnings(cluster, json!({"image": "nginx:1.29"})).await, [""; 0]);
}

/// The warnings about a Website of the first version with these fields, which is not stored.
async fn warnings(cluster: &TestCluster, fields: Value) -> Vec<String> {
    let mut site = json!(old_site("warned", "warned.example.com", ""));
    site["spec"].as_object_mut().expect("a spec").extend(fields.as_object().cloned().expect("it"));
    let path =
        format!("/apis/example.com/v1/namespaces/{}/websites?dryRun=All", cluster.namespace());
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(site.to_string().into_bytes())
        .expect("a request");
    let answer = cluster.client().send(request.map(Into::into)).await.expect("an answer");
    assert_eq!(answer.status(), 201);
    let values = answer.headers().get_all("warning").iter();
    values.map(|value| value.to_str().expect("text").to_owned()).collect()
}

async fn clients_of_the_first_version_lose_no_field_of_the_second(cluster: &TestCluster) {
    let mut new = site("ports", "ports.example.com", 1);
    new.spec.server = Server { image: Some("nginx:1.29".to_owned()), port: Some(9090) };
    cluster.create(&new).await;

    // A client of the first version reads it, changes something, and writes all of it.
    let sites: Api<v1::Website> = Api::namespaced(cluster.client(), cluster.namespace());
    let change = async || {
        let mut old = sites.get("ports").await.map_err(|error| error.to_string())?;
        assert_eq!(old.spec.image.as_deref(), Some("nginx:1.29"));
        old.spec.image = Some("nginx:1.30".to_owned());
        // The operator may write meanwhile.
        let written = sites.replace("ports", &PostParams::default(), &old).await;
        written.map_err(|error| error.to_string())
    };
    let old = cluster.eventually_ok(change).await;
    assert_eq!(old.annotations()["example.com/server-port"], "9090");
    let new: Website = cluster.get("ports").await;
    assert_eq!(new.spec.server, Server { image: Some("nginx:1.30".to_owned()), port: Some(9090) });
    assert_eq!(new.annotations().get("example.com/server-port"), None);

    // The operator works with it.
    let has_port = |made: &Deployment| {
        let pod = made.spec.template.spec.as_ref();
        let ports = pod.and_then(|pod| pod.containers.first()?.ports.as_ref());
        ports.is_some_and(|ports| ports.iter().any(|port| port.container_port == 9090))
    };
    cluster.eventually("ports", has_port).await;
}

/// Server-side apply converts parts of objects, between the version of the applier and the one
/// that the operator writes.
async fn field_that_an_applier_drops_gets_its_default_back(cluster: &TestCluster) {
    let sites: Api<v1::Website> = Api::namespaced(cluster.client(), cluster.namespace());
    let apply = async |replicas: Option<i32>| {
        let mut site = old_site("applied", "applied.example.com", "");
        site.spec.replicas = replicas;
        let params = PatchParams::apply("somebody");
        sites.patch("applied", &params, &Patch::Apply(&site)).await.expect("applied")
    };
    assert_eq!(apply(Some(3)).await.spec.replicas, Some(3));
    // The operator has written it as `v2`: its finalizer is there, and its status.
    let is_written = |site: &Website| {
        !site.finalizers().is_empty()
            && site.status.as_ref().is_some_and(|it| !it.conditions.is_empty())
    };
    cluster.eventually("applied", is_written).await;
    assert_eq!(apply(Some(3)).await.spec.replicas, Some(3));
    assert_eq!(apply(None).await.spec.replicas, Some(1));
}
