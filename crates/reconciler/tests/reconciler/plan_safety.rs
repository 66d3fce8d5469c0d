//! What a plan never does: reach into a pod, or change something at a server that ignores dry runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Request, Uri};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::client::Body;
use kube::core::Status;
use serde_json::{Value, json};
use tower::service_fn;
use windlass_informer::SharedInformerFactory;
use windlass_informer::client::error_chain;
use windlass_reconciler::{
    Action, Controller, DryRunIgnored, Effect, Error, InPlan, PlanRecorder, RunContext, RunError,
    Watch,
};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::{api, create, does, noting};

/// A client of a server that does not know dry runs, and how many writes it has got.
fn careless(client: &Client) -> (Client, Arc<AtomicUsize>) {
    let writes = Arc::<AtomicUsize>::default();
    let (inner, counted) = (client.clone(), Arc::clone(&writes));
    let service = service_fn(move |request: Request<Body>| {
        let (inner, counted) = (inner.clone(), Arc::clone(&counted));
        async move {
            let (mut parts, body) = request.into_parts();
            let mut body = body.collect_bytes().await?;
            if parts.method != "GET" {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            let path = parts.uri.path().to_owned();
            let query = parts.uri.query().unwrap_or_default().split('&');
            let query: Vec<_> = query.filter(|pair| *pair != "dryRun=All").collect();
            parts.uri = format!("{path}?{}", query.join("&")).parse::<Uri>().expect("a URI");
            if parts.method == "DELETE" {
                let mut options: Value = serde_json::from_slice(&body).unwrap_or_default();
                options["dryRun"].take();
                body = options.to_string().into();
            }
            inner.send(Request::from_parts(parts, Body::from(body))).await
        }
    });
    (Client::new(service, "default"), writes)
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A write: a method, a path in the namespace, a media type and a body.
type Write = (&'static str, &'static str, &'static str, Value);

fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"new": "yes"},
    })
}

/// All ways to write that pass in a plan, with what the plan says of them.
fn writes() -> Vec<(Write, &'static str)> {
    let (core, apps) = ("api/v1", "apis/apps/v1");
    let at = |group: &'static str, path: &str| -> &'static str {
        format!("/{group}/namespaces/NAMESPACE/{path}").leak()
    };
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "pod"},
    });
    let label = json!({"metadata": {"labels": {"new": "yes"}}});
    let json_patch = json!([{"op": "add", "path": "/data", "value": {"new": "yes"}}]);
    let generated = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"},
    });
    let apply = "?fieldManager=test&force=true";
    let status = json!({"status": {"observedGeneration": 7}});
    vec![
        (("POST", at(core, "configmaps"), JSON, config_map("new")), "+ configmaps NAMESPACE/new"),
        (("POST", at(core, "configmaps"), JSON, generated), "+ configmaps (named by the server)"),
        (
            ("PUT", at(core, "configmaps/one"), JSON, config_map("one")),
            "~ configmaps NAMESPACE/one",
        ),
        (("PATCH", at(core, "configmaps/one"), MERGE, label.clone()), "~ configmaps NAMESPACE/one"),
        (
            ("PATCH", at(core, "configmaps/one"), "application/strategic-merge-patch+json", label),
            "~ configmaps NAMESPACE/one",
        ),
        (
            ("PATCH", at(core, "configmaps/one"), "application/json-patch+json", json_patch),
            "~ configmaps NAMESPACE/one",
        ),
        (
            ("PATCH", at(core, &format!("configmaps/one{apply}")), APPLY, config_map("one")),
            "~ configmaps NAMESPACE/one",
        ),
        (
            ("PATCH", at(core, &format!("configmaps/new{apply}")), APPLY, config_map("new")),
            "+ configmaps NAMESPACE/new",
        ),
        (
            ("PATCH", at(apps, "deployments/web/status"), MERGE, status),
            "~ deployments.apps/status NAMESPACE/web",
        ),
        (
            ("PATCH", at(apps, "deployments/web/scale"), MERGE, json!({"spec": {"replicas": 3}})),
            "~ deployments.apps/scale NAMESPACE/web",
        ),
        // The last finalizer of an object that is being deleted: it makes no version.
        (
            (
                "PATCH",
                at(core, "configmaps/dying"),
                MERGE,
                json!({"metadata": {"finalizers": null}}),
            ),
            "~ configmaps NAMESPACE/dying",
        ),
        (("DELETE", at(core, "configmaps/one"), JSON, Value::Null), "- configmaps NAMESPACE/one"),
        // It would only be marked.
        (("DELETE", at(core, "configmaps/held"), JSON, Value::Null), "- configmaps NAMESPACE/held"),
        (("POST", at(core, "pods/pod/eviction"), JSON, eviction), "? pods/eviction NAMESPACE/pod"),
    ]
}

async fn send(client: &Client, namespace: &str, write: &Write) -> Result<Value, kube::Error> {
    let (method, path, media_type, body) = write;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(*method).uri(path.replace("NAMESPACE", namespace));
    let request = request.header("content-type", *media_type).body(body.into_bytes());
    client.request(request.expect("a request")).await
}

/// The objects that are written.
async fn set_up(client: &Client, namespace: &str) {
    let held = |name: &str| {
        let mut map = config_map(name);
        map["metadata"]["finalizers"] = json!(["example.com/held"]);
        map.as_object_mut().expect("an object").remove("data");
        map
    };
    let mut one = config_map("one");
    one["data"] = json!({"old": "yes"});
    let containers = json!([{"name": "web", "image": "web"}]);
    let pod = json!({"metadata": {"name": "pod"}, "spec": {"containers": containers}});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers},
            },
        },
    });
    let (core, apps) = ("/api/v1/namespaces/NAMESPACE/", "/apis/apps/v1/namespaces/NAMESPACE/");
    for (base, plural, object) in [
        (core, "configmaps", one),
        (core, "configmaps", held("held")),
        (core, "configmaps", held("dying")),
        (core, "pods", pod),
        (apps, "deployments", deployment),
    ] {
        let path = format!("{base}{plural}").leak();
        send(client, namespace, &("POST", path, JSON, object)).await.expect("created");
    }
    let dying = ("DELETE", "/api/v1/namespaces/NAMESPACE/configmaps/dying", JSON, Value::Null);
    send(client, namespace, &dying).await.expect("marked");
}

/// The versions of what is there.
async fn state(client: &Client, namespace: &str) -> Vec<String> {
    let mut state = Vec::new();
    for (group, plural) in
        [("api/v1", "configmaps"), ("api/v1", "pods"), ("apis/apps/v1", "deployments")]
    {
        let path = format!("/{group}/namespaces/{namespace}/{plural}");
        let request = Request::get(path).body(Vec::new()).expect("a request");
        let list: Value = client.request(request).await.expect("a list");
        let items = list["items"].as_array().into_iter().flatten().map(|item| &item["metadata"]);
        let ours = items.filter(|metadata| metadata["name"] != "kube-root-ca.crt");
        state.extend(ours.map(|metadata| {
            format!("{plural} {} {}", metadata["name"], metadata["resourceVersion"])
        }));
    }
    state
}

fn ignored(error: &kube::Error) -> Option<&DryRunIgnored> {
    error_chain(error).find_map(<dyn std::error::Error>::downcast_ref)
}

on_each_server!(every_write_that_passes_in_a_plan_changes_nothing);
async fn every_write_that_passes_in_a_plan_changes_nothing(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let namespace = cluster.namespace("plan-safety").await.expect("a namespace");
    set_up(&client, &namespace).await;
    let before = state(&client, &namespace).await;
    let recorder = PlanRecorder::new();
    let planning = recorder.client(client.clone());
    for (write, shown) in writes() {
        if let Err(error) = send(&planning, &namespace, &write).await {
            panic!("{write:?}: {error}");
        }
        let noted = recorder.take();
        let text: String = noted.iter().map(ToString::to_string).collect();
        let text = text.replace(&namespace, "NAMESPACE");
        assert!(text.trim_start().starts_with(shown), "{write:?}: {text}");
    }
    assert_eq!(state(&client, &namespace).await, before);
    assert!(recorder.ignored().is_none());
}

#[tokio::test]
async fn server_that_ignores_dry_runs_is_noticed_by_each_write_and_gets_no_other() {
    for (write, _) in writes() {
        let cluster = TestServer::embedded();
        let client = cluster.client().expect("a client");
        set_up(&client, "default").await;
        let (inner, sent) = careless(&client);
        let recorder = PlanRecorder::new();
        let planning = recorder.client(inner);

        let error = send(&planning, "default", &write).await.expect_err("it was really made");
        let ignored = ignored(&error).unwrap_or_else(|| panic!("{write:?}: {error}"));
        let name = if write.1.ends_with("/configmaps") { "in default" } else { "default/" };
        assert!(ignored.request.contains(name), "{write:?}: {ignored}");
        assert_eq!(sent.load(Ordering::Relaxed), 1, "{write:?}");
        assert!(recorder.ignored().is_some() && recorder.take().is_empty());

        // Neither here nor in another part of the same plan.
        for planning in [&planning, &recorder.for_part().client(careless(&client).0)] {
            let later = ("POST", "/api/v1/namespaces/default/configmaps", JSON, config_map("late"));
            let error = send(planning, "default", &later).await.expect_err("the plan has stopped");
            assert!(self::ignored(&error).is_some(), "{error}");
        }
        assert!(api(&client).get_opt("late").await.expect("an answer").is_none());
    }
}

/// A client of such a server that answers a write of a missing object as if it had been there.
fn upserting(client: &Client) -> (Client, Arc<AtomicUsize>) {
    let (inner, writes) = careless(client);
    let service = service_fn(move |request: Request<Body>| {
        let (inner, is_read) = (inner.clone(), request.method() == "GET");
        async move {
            let mut answer = inner.send(request).await?;
            if !is_read && [201, 404].contains(&answer.status().as_u16()) {
                *answer.status_mut() = http::StatusCode::OK;
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    (Client::new(service, "default"), writes)
}

/// The second of two such writes would change nothing, so nobody would notice.
#[tokio::test]
async fn missing_object_that_the_server_says_it_has_written_stops_the_plan() {
    let new = "/api/v1/namespaces/default/configmaps/new";
    let apply: &str = format!("{new}?fieldManager=test&force=true").leak();
    for write in [("PATCH", apply, APPLY, config_map("new")), ("DELETE", new, JSON, Value::Null)] {
        let cluster = TestServer::embedded();
        let client = cluster.client().expect("a client");
        let (inner, sent) = upserting(&client);
        let recorder = PlanRecorder::new();
        let planning = recorder.client(inner);
        let error = send(&planning, "default", &write).await.expect_err("it may be stored");
        assert!(ignored(&error).is_some(), "{write:?}: {error}");
        assert_eq!(sent.load(Ordering::Relaxed), 1, "{write:?}");
        assert!(recorder.ignored().is_some() && recorder.take().is_empty());
    }
}

/// Five workers and twenty keys: one object is written, because of the server, and the plan ends.
#[tokio::test]
async fn plan_of_a_server_that_ignores_dry_runs_stops_at_the_first_write() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    for number in 0..20 {
        create(&client, &format!("map-{number}")).await;
    }
    let (inner, writes) = careless(&client);
    let factory = SharedInformerFactory::new(inner);
    let labels = does(|map: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let mut new = ConfigMap::clone(&map);
            new.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
            cx.live().update(&*map, &new).await?;
            Ok(Action::done())
        })
    });
    let watch = Watch::<ConfigMap>::new().options(|options| options.namespace("default"));
    let builder = Controller::named("configmap", watch).workers(5).in_plan(InPlan::Run);
    let controller = builder.build(&factory, labels).expect("a controller");
    let error = controller.plan().await.expect_err("the plan has stopped");
    factory.shut_down().await;
    let RunError::DryRunIgnored(ignored) = error else { panic!("{error}") };
    assert!(ignored.request.starts_with("patch configmaps default/map-"), "{ignored}");
    assert_eq!(writes.load(Ordering::Relaxed), 1);
    let written = api(&client).list(&ListParams::default().labels("seen=yes")).await;
    assert_eq!(written.expect("a list").items.len(), 1);
}

on_each_server!(other_writer_is_not_taken_for_an_ignored_dry_run);
/// Somebody writes between the question and each of the first dry runs.
async fn other_writer_is_not_taken_for_an_ignored_dry_run(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let namespace = cluster.namespace("plan-safety").await.expect("a namespace");
    for (write, shown) in writes() {
        let namespace = cluster.namespace("plan-safety").await.unwrap_or(namespace.clone());
        set_up(&client, &namespace).await;
        let is_first = Arc::new(AtomicBool::new(true));
        let (inner, target, others) = (client.clone(), write.1, namespace.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (inner, namespace) = (inner.clone(), others.clone());
            let meddles = request.method() != "GET" && is_first.swap(false, Ordering::Relaxed);
            async move {
                if meddles && request.method() == "DELETE" && target.ends_with("held") {
                    let delete: Write = ("DELETE", target, JSON, Value::Null);
                    send(&inner, &namespace, &delete).await.expect("marked");
                } else if meddles {
                    meddle(&inner, &namespace, target).await;
                }
                inner.send(request).await
            }
        });
        let recorder = PlanRecorder::new();
        let planning = recorder.client(Client::new(service, "default"));
        let sent = send(&planning, &namespace, &write).await;
        if write.1.contains("configmaps/new") {
            // Somebody else has created it, or this has: nobody can tell.
            assert!(recorder.ignored().is_some(), "{write:?}: {sent:?}");
            continue;
        }
        assert!(recorder.ignored().is_none(), "{write:?}: {:?}", recorder.ignored());
        match sent {
            Ok(_) => assert_eq!(recorder.take().len(), 1, "{write:?} {shown}"),
            // The create of an object that somebody else has just created.
            Err(kube::Error::Api(status)) => assert_eq!(status.code, 409, "{write:?}"),
            Err(error) => panic!("{write:?}: {error}"),
        }
    }
}

/// Annotates what is to be written, or creates it.
async fn meddle(client: &Client, namespace: &str, path: &'static str) {
    let path = path.split('?').next().unwrap_or_default();
    let object = ["/status", "/scale", "/eviction"].iter().find_map(|end| path.strip_suffix(end));
    let object: &'static str = object.unwrap_or(path).to_owned().leak();
    let change = json!({"metadata": {"annotations": {"by": "somebody else"}}});
    if send(client, namespace, &("PATCH", object, MERGE, change)).await.is_err() {
        let path = "/api/v1/namespaces/NAMESPACE/configmaps";
        let mut theirs = config_map("new");
        theirs["data"] = json!({"theirs": "yes"});
        let _ = send(client, namespace, &("POST", path, JSON, theirs)).await;
    }
}

on_each_server!(version_that_a_write_names_itself_is_kept);
/// A conflict of the caller's own making is passed on.
async fn version_that_a_write_names_itself_is_kept(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let namespace = cluster.namespace("plan-safety").await.expect("a namespace");
    set_up(&client, &namespace).await;
    let planning = PlanRecorder::new().client(client.clone());
    let one = "/api/v1/namespaces/NAMESPACE/configmaps/one";
    let stale = json!({"metadata": {"resourceVersion": "1", "labels": {"new": "yes"}}});
    let stale_delete = json!({"preconditions": {"resourceVersion": "1"}});
    for write in [("PATCH", one, MERGE, stale), ("DELETE", one, JSON, stale_delete)] {
        let error = send(&planning, &namespace, &write).await.expect_err("a conflict");
        let kube::Error::Api(status) = &error else { panic!("{error}") };
        assert_eq!(status.code, 409, "{write:?}");
    }
}

#[tokio::test]
async fn deletion_of_a_collection_is_never_sent() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    for name in ["one", "two"] {
        create(&client, name).await;
    }
    let (inner, writes) = careless(&client);
    let recorder = PlanRecorder::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(recorder.client(inner));
    let two = ListParams::default().fields("metadata.name=two");
    let answer = maps.delete_collection(&DeleteParams::default(), &two).await.expect("an answer");
    assert_eq!(answer.left().expect("a list").items.len(), 1);
    assert_eq!(recorder.take()[0].effect, Effect::DeleteCollection);
    let none = ListParams::default().fields("metadata.name=three");
    maps.delete_collection(&DeleteParams::default(), &none).await.expect("an answer");
    assert!(recorder.take().is_empty(), "nothing is selected");
    assert_eq!(writes.load(Ordering::Relaxed), 0);
}

/// kube sends `exec` as a GET.
#[tokio::test]
async fn exec_is_refused_and_not_sent() {
    let cluster = TestServer::embedded();
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let planning = PlanRecorder::new().client(client);
    let exec = Request::get("/api/v1/namespaces/default/pods/web/exec?command=reboot");
    let sent_exec = planning.request_text(exec.body(Vec::new()).expect("a request")).await;
    let error = Error::from(sent_exec.expect_err("refused")).to_string();
    assert!(error.contains("get pods/exec default/web"), "{error}");
    assert!(error.contains("is_plan"), "{error}");
    assert_eq!(*sent.lock().expect("not poisoned"), Vec::<String>::new());
}

/// A server may issue it in a dry run, too.
#[tokio::test]
async fn credential_is_not_asked_for() {
    let cluster = TestServer::embedded();
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let planning = PlanRecorder::new().client(client);
    let path = "/api/v1/namespaces/NAMESPACE/serviceaccounts/web/token";
    let error = send(&planning, "default", &("POST", path, JSON, json!({}))).await;
    let error = Error::from(error.expect_err("refused")).to_string();
    assert!(error.contains("serviceaccounts/token default/web"), "{error}");
    assert!(error.contains("would issue a credential"), "{error}");
    assert_eq!(*sent.lock().expect("not poisoned"), Vec::<String>::new());
}

/// Nobody would notice if it was made.
#[tokio::test]
async fn write_of_an_object_that_cannot_be_read_is_not_sent() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    create(&client, "one").await;
    let (inner, writes) = careless(&client);
    let blind = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            if request.method() == "GET" {
                let status = Status::failure("pods is forbidden", "Forbidden").with_code(403);
                return Err(kube::Error::Api(status.boxed()));
            }
            inner.send(request).await
        }
    });
    let maps: Api<ConfigMap> =
        Api::default_namespaced(PlanRecorder::new().client(Client::new(blind, "default")));
    let patch = Patch::Merge(json!({"data": {"new": "yes"}}));
    let error = maps.patch("one", &PatchParams::default(), &patch).await.expect_err("unreadable");
    let error = Error::from(error).to_string();
    assert!(error.contains("cannot be read"), "{error}");
    maps.delete("one", &DeleteParams::default()).await.expect_err("unreadable");
    assert_eq!(writes.load(Ordering::Relaxed), 0);
}

/// How the answer to a write does not come.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Connection,
    /// A proxy gives up.
    Status(u16),
}

/// A client whose writes are made, and not answered.
fn unanswered(client: &Client, lost: Lost) -> Client {
    let inner = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (inner, is_read) = (inner.clone(), request.method() == "GET");
        async move {
            let mut answer = inner.send(request).await?;
            if !is_read {
                let Lost::Status(code) = lost else {
                    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    return Err(kube::Error::Service(reset.into()));
                };
                *answer.status_mut() = http::StatusCode::from_u16(code).expect("a code");
                *answer.body_mut() = Body::from(b"no upstream".to_vec());
            }
            Ok(answer)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn write_whose_answer_is_lost_stops_the_plan_if_the_server_has_made_it() {
    for lost in [Lost::Connection, Lost::Status(502), Lost::Status(504)] {
        for (write, _) in writes() {
            let cluster = TestServer::embedded();
            let client = cluster.client().expect("a client");
            set_up(&client, "default").await;
            let (inner, sent) = careless(&client);
            let recorder = PlanRecorder::new();
            let planning = recorder.client(unanswered(&inner, lost));

            let error = send(&planning, "default", &write).await.expect_err("no answer");
            assert!(ignored(&error).is_some(), "{write:?} {lost:?}: {error}");
            let later = ("POST", "/api/v1/namespaces/default/configmaps", JSON, config_map("late"));
            let error = send(&planning, "default", &later).await.expect_err("the plan has stopped");
            assert!(ignored(&error).is_some(), "{error}");
            assert_eq!(sent.load(Ordering::Relaxed), 1, "{write:?}");
        }
    }
}

#[tokio::test]
async fn lost_answer_alone_fails_one_write_and_not_the_plan() {
    for lost in [Lost::Connection, Lost::Status(502)] {
        for (write, _) in writes() {
            let cluster = TestServer::embedded();
            let client = cluster.client().expect("a client");
            set_up(&client, "default").await;
            let recorder = PlanRecorder::new();
            let planning = recorder.client(unanswered(&client, lost));
            let error = send(&planning, "default", &write).await.expect_err("no answer");
            // Nobody knows which name to look for.
            let is_unknown = !write.3["metadata"]["generateName"].is_null();
            assert_eq!(ignored(&error).is_some(), is_unknown, "{write:?}: {error}");
            assert_eq!(recorder.ignored().is_some(), is_unknown, "{write:?}");
        }
    }
}

/// A reconciler that makes a plan of its own, with the client of its run.
#[tokio::test]
async fn recorder_on_the_client_of_another_stops_both() {
    for (write, shown) in writes() {
        let cluster = TestServer::embedded();
        let client = cluster.client().expect("a client");
        set_up(&client, "default").await;
        let (outer, own) = (PlanRecorder::new(), PlanRecorder::new());
        let planning = own.client(outer.client(client.clone()));
        send(&planning, "default", &write).await.expect("a dry run");
        let noted = own.take().iter().map(ToString::to_string).collect::<String>();
        let shown = shown.replace("NAMESPACE", "default");
        assert!(noted.trim_start().starts_with(&shown), "{write:?}: {noted}");
        assert_eq!(outer.take(), [], "{write:?} is noted once");

        let (inner, sent) = careless(&client);
        let run = outer.client(inner);
        let error = send(&own.client(run.clone()), "default", &write).await.expect_err("made");
        assert!(ignored(&error).is_some(), "{write:?}: {error}");
        assert!(outer.ignored().is_some(), "{write:?}: the plan knows");
        let later = ("POST", "/api/v1/namespaces/default/configmaps", JSON, config_map("late"));
        let other = PlanRecorder::new().client(run);
        send(&other, "default", &later).await.expect_err("the plan has stopped");
        assert_eq!(sent.load(Ordering::Relaxed), 1, "{write:?}");
    }
}

#[tokio::test]
async fn created_name_that_is_no_part_of_a_path_stops_the_plan() {
    for name in ["a b", "a\u{7f}b", "a/b", "a?b", "a#b", "a%2fb", "\u{e4}"] {
        let cluster = TestServer::embedded();
        let (inner, _) = careless(&cluster.client().expect("a client"));
        let service = service_fn(move |request: Request<Body>| {
            let (inner, is_read) = (inner.clone(), request.method() == "GET");
            async move {
                let (parts, body) = inner.send(request).await?.into_parts();
                let mut body = body.collect_bytes().await?;
                if !is_read {
                    let mut object: Value = serde_json::from_slice(&body).expect("an object");
                    object["metadata"]["name"] = name.into();
                    body = object.to_string().into();
                }
                Ok::<_, kube::Error>(http::Response::from_parts(parts, Body::from(body)))
            }
        });
        let recorder = PlanRecorder::new();
        let planning = recorder.client(Client::new(service, "default"));
        let new = ("POST", "/api/v1/namespaces/default/configmaps", JSON, config_map("new"));
        let error = send(&planning, "default", &new).await.expect_err("it was made");
        assert!(ignored(&error).is_some(), "{name}: {error}");
        assert!(recorder.ignored().is_some(), "{name}");
    }
}

#[tokio::test]
async fn deeply_nested_object_is_planned_like_any_other() {
    const SHOPS: &str = "/apis/example.com/v1/namespaces/default/shops";
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shops", "kind": "Shop"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    send(&client, "default", &("POST", definitions, JSON, definition)).await.expect("installed");
    let shop = |levels: usize, size: u32| {
        let deep = format!("{}{size}{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Shop","metadata":{{"name":"deep"}},
                "spec":{{"size":{size},"deep":{deep}}}}}"#
        )
    };
    let text = async |client: &Client, method: &str, path: &str, media_type: &str, body: String| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", media_type).body(body.into_bytes());
        client.request_text(request.expect("a request")).await
    };
    text(&client, "POST", SHOPS, JSON, shop(2_000, 1)).await.expect("created");

    let recorder = PlanRecorder::new();
    let planning = recorder.client(client.clone());
    let one = format!("{SHOPS}/deep");
    let apply = format!("{one}?fieldManager=test&force=true");
    let merge = r#"{"metadata":{"labels":{"new":"yes"}}}"#.to_owned();
    let removal = r#"{"spec":{"deep":null}}"#.to_owned();
    for (method, path, media_type, body, wanted) in [
        ("PATCH", &one, MERGE, merge, "metadata.labels: {\"new\":\"yes\"} is added"),
        (
            "PATCH",
            &one,
            MERGE,
            removal,
            "spec.deep: \"(nested too deeply to be shown)\" is removed",
        ),
        ("PATCH", &apply, APPLY, shop(2_000, 2), "spec.size: 1 -> 2"),
        ("DELETE", &one, JSON, String::new(), "- shops.example.com default/deep"),
    ] {
        if let Err(error) = text(&planning, method, path, media_type, body).await {
            panic!("{method} {wanted}: {}", Error::from(error));
        }
        let noted = recorder.take().iter().map(ToString::to_string).collect::<String>();
        assert!(noted.contains(wanted), "{method} {wanted}: {noted}");
    }
    let (inner, _) = careless(&client);
    let planning = recorder.client(inner);
    let patched = text(&planning, "PATCH", &apply, APPLY, shop(2_000, 3)).await;
    assert!(ignored(&patched.expect_err("it was made")).is_some());
}
