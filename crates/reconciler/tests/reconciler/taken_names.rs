//! A name that somebody else takes between our question and our write stays theirs: it gets no
//! label, no reference and no field of ours, and nothing deletes it later. On both servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use windlass_informer::Resource;
use windlass_reconciler::{
    ChildrenReport, ControllerBuilder, Error, OwnershipError, RunContext, install_crd,
};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::in_a_run;

/// The name that both want.
const NAME: &str = "wanted";

/// A kind, and an object of it that has `ours` or `theirs` somewhere.
struct Kind {
    resource: Resource,
    body: fn(&str) -> Value,
}

fn kinds() -> [Kind; 3] {
    let widgets =
        ApiResource::from_gvk(&GroupVersionKind::gvk("taken.example.com", "v1", "Widget"));
    [
        Kind { resource: Resource::of::<ConfigMap>(), body: |who| json!({"data": {"who": who}}) },
        Kind {
            resource: Resource::of::<Service>(),
            body: |who| json!({"spec": {"selector": {"who": who}, "ports": [{"port": 80}]}}),
        },
        Kind { resource: Resource::new(&widgets, true), body: |who| json!({"spec": {"who": who}}) },
    ]
}

fn widgets() -> CustomResourceDefinition {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "metadata": {"name": "widgets.taken.example.com"},
        "spec": {
            "group": "taken.example.com",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }))
    .expect("a definition")
}

impl Kind {
    fn object(&self, who: &str) -> DynamicObject {
        let mut object = (self.body)(who);
        object["apiVersion"] = self.resource.api_version().into();
        object["kind"] = self.resource.kind().into();
        object["metadata"] = json!({"name": NAME});
        serde_json::from_value(object).expect("an object")
    }

    fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = (self.resource.group(), self.resource.version());
        let kind = GroupVersionKind::gvk(group, version, self.resource.kind());
        let resource = ApiResource::from_gvk_with_plural(&kind, self.resource.plural());
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

/// What the server does with a configuration that names a version.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    AsItIs,
    /// As older ones, for some kinds.
    RefusesVersions,
    /// The same, and the patch with this number, from 1, fails.
    RefusesVersionsAndFails(usize),
    /// It does not look at the version.
    IgnoresVersions,
}

impl Server {
    fn refuses_versions(self) -> bool {
        matches!(self, Self::RefusesVersions | Self::RefusesVersionsAndFails(_))
    }
}

/// An answer that the server failed.
fn failure(message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500,
        "message": message,
    });
    let answer = Response::builder().status(StatusCode::INTERNAL_SERVER_ERROR);
    answer.body(Body::from(status.to_string().into_bytes())).expect("an answer")
}

/// A client that creates an object of somebody else before the first patch of that name is sent.
fn racing(
    client: &Client,
    api: Api<DynamicObject>,
    theirs: DynamicObject,
    server: Server,
) -> Client {
    let (inner, patches) = (client.clone(), Arc::<AtomicUsize>::default());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, api, theirs) = (inner.clone(), api.clone(), theirs.clone());
        let patches = Arc::clone(&patches);
        async move {
            let is_ours = request.uri().path().ends_with(NAME);
            if request.method() != Method::PATCH || !is_ours {
                return inner.send(request).await;
            }
            let number = patches.fetch_add(1, Ordering::Relaxed) + 1;
            if number == 1 {
                api.create(&PostParams::default(), &theirs).await.expect("it is created");
            }
            if server == Server::RefusesVersionsAndFails(number) {
                return Ok(failure("try again"));
            }
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("a body");
            let mut config: Value = serde_json::from_slice(&body).expect("JSON");
            if config["metadata"]["resourceVersion"].is_null() {
                return inner.send(Request::from_parts(head, Body::from(body))).await;
            }
            if server.refuses_versions() {
                return Ok(failure("resourceVersion should not be set on objects to be created"));
            }
            if server == Server::IgnoresVersions {
                config["metadata"]["resourceVersion"].take();
            }
            let body = Body::from(config.to_string().into_bytes());
            inner.send(Request::from_parts(head, body)).await
        }
    });
    Client::new(service, client.default_namespace())
}

/// Makes the set of this object, or the empty set, in a run of a new controller.
async fn make(
    cluster: &TestServer,
    namespace: &str,
    client: Client,
    kind: &Kind,
    object: Option<DynamicObject>,
) -> Result<ChildrenReport, Error> {
    let resource = kind.resource.clone();
    let declared = resource.clone();
    let makes =
        move |builder: ControllerBuilder<ConfigMap>| builder.makes_of(&declared).client(client);
    in_a_run(cluster, namespace, makes, move |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let children = cx.children(&owner);
            let children = object.into_iter().fold(children, |it, one| it.apply_of(&resource, one));
            children.prune().await
        })
    })
    .await
}

async fn is_left_alone(cluster: &TestServer, kind: &Kind, theirs: DynamicObject, server: Server) {
    let namespace = cluster.namespace("taken").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let api = kind.api(&client, &namespace);
    let what = kind.resource.to_string();
    let written = theirs.data.to_string();
    let racing = racing(&client, api.clone(), theirs, server);
    let ours = || Some(kind.object("ours"));
    let mut refused = make(cluster, &namespace, racing.clone(), kind, ours()).await;
    if matches!(server, Server::RefusesVersionsAndFails(_)) {
        refused = make(cluster, &namespace, racing, kind, ours()).await;
    }
    let refused = refused.expect_err(&what);
    let is_taken = |refused: &Error| {
        let taken = refused.source().downcast_ref::<OwnershipError>();
        assert!(matches!(taken, Some(OwnershipError::Taken { .. })), "{what}: {refused:?}");
    };
    is_taken(&refused);
    let left = api.get(NAME).await.expect("it is there");
    assert!(left.labels().is_empty(), "{what}: {:?}", left.labels());
    assert!(left.owner_references().is_empty(), "{what}: {:?}", left.owner_references());
    let managers = left.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
    let managers: Vec<_> = managers.collect();
    assert!(!managers.contains(&"shops"), "{what}: {managers:?}");
    let left_data = left.data.to_string();
    for who in ["ours", "theirs", "nobody"] {
        assert_eq!(left_data.contains(who), written.contains(who), "{what}: {left_data}");
    }

    // It is not ours in later runs either.
    is_taken(&make(cluster, &namespace, client.clone(), kind, ours()).await.expect_err(&what));
    let pruned = make(cluster, &namespace, client, kind, None).await.expect("it goes");
    assert_eq!(pruned.to_string(), "nothing changed", "{what}");
    assert_eq!(api.get(NAME).await.expect("it is there").uid(), left.uid(), "{what}");
}

on_each_server!(object_that_somebody_creates_between_the_question_and_the_write_stays_theirs);
async fn object_that_somebody_creates_between_the_question_and_the_write_stays_theirs(
    cluster: TestServer,
) {
    install_crd(&cluster.client().expect("a client"), &widgets()).await.expect("installed");
    for kind in kinds() {
        is_left_alone(&cluster, &kind, kind.object("theirs"), Server::AsItIs).await;
    }
}

/// The same fields, so that an apply without force has no conflict; none of them; or others.
async fn is_left_alone_whatever_it_has(cluster: &TestServer, server: Server) {
    install_crd(&cluster.client().expect("a client"), &widgets()).await.expect("installed");
    for kind in kinds() {
        for who in ["theirs", "ours", "nobody"] {
            let mut theirs = kind.object(who);
            if who == "nobody" && kind.resource.kind() != "Service" {
                theirs.data = json!({});
            }
            is_left_alone(cluster, &kind, theirs, server).await;
        }
    }
}

on_each_server!(object_stays_theirs_where_versions_are_refused);
async fn object_stays_theirs_where_versions_are_refused(cluster: TestServer) {
    is_left_alone_whatever_it_has(&cluster, Server::RefusesVersions).await;
}

on_each_server!(object_stays_theirs_where_versions_are_refused_and_a_request_fails);
/// Whichever request fails, the object does not look like ours afterwards.
async fn object_stays_theirs_where_versions_are_refused_and_a_request_fails(cluster: TestServer) {
    for number in 1..=3 {
        let server = Server::RefusesVersionsAndFails(number);
        is_left_alone_whatever_it_has(&cluster, server).await;
    }
}

on_each_server!(object_stays_theirs_where_versions_are_ignored);
async fn object_stays_theirs_where_versions_are_ignored(cluster: TestServer) {
    is_left_alone_whatever_it_has(&cluster, Server::IgnoresVersions).await;
}

on_each_server!(object_is_created_where_versions_are_refused);
/// Nobody else wants the name: the server that refuses versions gets the object, too, and its
/// fields are those of an apply.
async fn object_is_created_where_versions_are_refused(cluster: TestServer) {
    install_crd(&cluster.client().expect("a client"), &widgets()).await.expect("installed");
    for kind in kinds() {
        for failing in [0, 2, 3] {
            is_created(&cluster, &kind, failing).await;
        }
    }
}

async fn is_created(cluster: &TestServer, kind: &Kind, failing: usize) {
    let namespace = cluster.namespace("taken").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let api = kind.api(&client, &namespace);
    // Something else that it creates before.
    let mut other = kind.object("theirs");
    other.metadata.name = Some("other".to_owned());
    let server = Server::RefusesVersionsAndFails(failing);
    let racing = racing(&client, api.clone(), other, server);
    let mut annotated = kind.object("ours");
    annotated.annotations_mut().insert("example.com/old".to_owned(), "yes".to_owned());
    let made = make(cluster, &namespace, racing.clone(), kind, Some(annotated.clone())).await;
    if failing == 0 {
        assert_eq!(made.expect("it goes").created().count(), 1);
    } else {
        made.expect_err("it fails once");
        let made = make(cluster, &namespace, racing.clone(), kind, Some(annotated)).await;
        assert_eq!(made.expect("it is ours").children().len(), 1);
    }
    if failing != 2 {
        let made = make(cluster, &namespace, racing, kind, Some(kind.object("ours"))).await;
        made.expect("it goes");
        let left = api.get(NAME).await.expect("it is there");
        assert!(left.annotations().is_empty(), "{:?}", left.managed_fields());
        let ours = left.managed_fields().iter().filter(|it| it.manager.as_deref() == Some("shops"));
        let operations: Vec<_> = ours.filter_map(|it| it.operation.as_deref()).collect();
        assert_eq!(operations, ["Apply"]);
    }
    let pruned = make(cluster, &namespace, client, kind, None).await.expect("it goes");
    assert_eq!(pruned.deleted().len(), 1);
    assert!(api.get_opt(NAME).await.expect("an answer").is_none());
}

on_each_server!(object_that_was_let_go_is_not_taken_back);
/// No cache shows the object, and the controller has applied it before.
async fn object_that_was_let_go_is_not_taken_back(cluster: TestServer) {
    let kind = &kinds()[0];
    let namespace = cluster.namespace("taken").await.expect("a namespace");
    let api = kind.api(&cluster.client().expect("a client"), &namespace);
    let (theirs, resource, object) = (api.clone(), kind.resource.clone(), kind.object("ours"));
    let declared = resource.clone();
    let makes = move |builder: ControllerBuilder<ConfigMap>| builder.makes_of(&declared);
    in_a_run(&cluster, &namespace, makes, move |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let is_taken = |refused: Error| {
                let taken = refused.source().downcast_ref::<OwnershipError>();
                assert!(matches!(taken, Some(OwnershipError::Taken { .. })), "{refused:?}");
            };
            let set = || cx.children(&owner).apply_of(&resource, object.clone());
            set().prune().await?;
            let patch = json!({"metadata": {"ownerReferences": null}});
            theirs.patch(NAME, &PatchParams::default(), &Patch::Merge(patch.clone())).await?;
            is_taken(set().prune().await.expect_err("it was let go"));
            let single = || ConfigMap {
                metadata: ObjectMeta {
                    name: Some("single".to_owned()),
                    namespace: owner.namespace(),
                    ..ObjectMeta::default()
                },
                ..ConfigMap::default()
            };
            let live = cx.live::<ConfigMap>();
            live.apply_owned(single(), &owner).await?;
            theirs.patch("single", &PatchParams::default(), &Patch::Merge(patch)).await?;
            is_taken(live.apply_owned(single(), &owner).await.expect_err("it was let go"));
            for name in [NAME, "single"] {
                assert!(theirs.get(name).await?.owner_references().is_empty(), "{name}");
            }
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

on_each_server!(object_that_another_replica_creates_meanwhile_is_ours);
/// Another replica of the controller is faster: the object is ours.
async fn object_that_another_replica_creates_meanwhile_is_ours(cluster: TestServer) {
    install_crd(&cluster.client().expect("a client"), &widgets()).await.expect("installed");
    for kind in kinds() {
        let namespace = cluster.namespace("taken").await.expect("a namespace");
        let client = cluster.client().expect("a client");
        let made =
            make(&cluster, &namespace, client.clone(), &kind, Some(kind.object("ours"))).await;
        made.expect("it goes");
        let api = kind.api(&client, &namespace);
        let mut ours = api.get(NAME).await.expect("it is there");
        api.delete(NAME, &kube::api::DeleteParams::default()).await.expect("deleted");
        ours.metadata.resource_version = None;
        ours.metadata.uid = None;
        if let Some(spec) = ours.data.get_mut("spec").and_then(Value::as_object_mut) {
            spec.retain(|field, _| !field.starts_with("clusterIP"));
        }
        let racing = racing(&client, api, ours, Server::AsItIs);
        let made = make(&cluster, &namespace, racing, &kind, Some(kind.object("ours")))
            .await
            .expect("it is ours");
        assert_eq!(made.children().len(), 1);
    }
}

/// A client of a server that ignores which object an apply is for. Before the first apply of the
/// name that says it, somebody else takes the name.
fn swapping(client: &Client, api: Api<DynamicObject>, theirs: DynamicObject) -> Client {
    let (inner, swaps) = (client.clone(), Arc::<AtomicUsize>::default());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, api, theirs) = (inner.clone(), api.clone(), theirs.clone());
        let swaps = Arc::clone(&swaps);
        async move {
            let is_ours = request.uri().path().ends_with(NAME);
            if request.method() != Method::PATCH || !is_ours {
                return inner.send(request).await;
            }
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("a body");
            let mut config: Value = serde_json::from_slice(&body).expect("JSON");
            let metadata = config["metadata"].as_object_mut().expect("metadata");
            if metadata.remove("uid").is_some() {
                metadata.remove("resourceVersion");
                if swaps.fetch_add(1, Ordering::Relaxed) == 0 {
                    api.delete(NAME, &DeleteParams::default()).await.expect("it is deleted");
                    api.create(&PostParams::default(), &theirs).await.expect("it is created");
                }
            }
            let body = Body::from(config.to_string().into_bytes());
            inner.send(Request::from_parts(head, body)).await
        }
    });
    Client::new(service, client.default_namespace())
}

on_each_server!(object_stays_theirs_where_uids_are_ignored);
/// The server writes to the other object, and the answer shows that.
async fn object_stays_theirs_where_uids_are_ignored(cluster: TestServer) {
    let kind = &kinds()[0];
    let namespace = cluster.namespace("taken").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let api = kind.api(&client, &namespace);
    let made = make(&cluster, &namespace, client.clone(), kind, Some(kind.object("ours"))).await;
    made.expect("it goes");
    let mut theirs = kind.object("theirs");
    theirs.data = json!({"data": {"color": "blue"}});
    let swapping = swapping(&client, api.clone(), theirs);
    let refused = make(&cluster, &namespace, swapping, kind, Some(kind.object("ours"))).await;
    let refused = refused.expect_err("it is somebody else's");
    let taken = refused.source().downcast_ref::<OwnershipError>();
    assert!(matches!(taken, Some(OwnershipError::Taken { .. })), "{refused:?}");
    let left = api.get(NAME).await.expect("it is there");
    assert!(left.labels().is_empty() && left.owner_references().is_empty(), "{left:?}");
    assert_eq!(left.data, json!({"data": {"color": "blue"}}));
}
