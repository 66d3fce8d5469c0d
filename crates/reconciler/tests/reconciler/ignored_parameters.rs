//! Servers that ignore a parameter that they do not know, one for each parameter that the helpers
//! of a run send: what they do is done here, or the error says so, and nothing is destroyed.
//!
//! | parameter | if it is ignored |
//! |---|---|
//! | `limit` | everything comes at once |
//! | `continue` | objects come again, or empty pages without end: everything is asked for at once |
//! | `labelSelector`, `fieldSelector` | objects that are not selected are dropped |
//! | `fieldManager` | an apply is refused, other writes have another manager |
//! | `force` | the conflict is an error, and the field stays as it is |
//! | `fieldValidation` | unknown fields are dropped, as servers before 1.25 do |
//! | `dryRun` | the write is noticed, and is an error |
//! | `preconditions.uid` of a deletion | if another object was deleted, the answer shows it: an error |
//! | `preconditions.resourceVersion` of a deletion | not noticed: a newer version may be deleted |
//! | both of an eviction | not noticed: the answer does not say what was evicted |
//! | `propagationPolicy` | not noticed in time: dependents go as the server has it |
//! | `gracePeriodSeconds` | a pod has the time of its spec |
//! | `metadata.uid` of an apply | the answer shows it: see `taken_names.rs` |
//! | `metadata.resourceVersion` of an apply | see `taken_names.rs` |
//! | `metadata.resourceVersion` of a patch | not noticed: only the fields that differ are written |
//! | `watch`, `resourceVersion` and others of informers | see `crates/informer/tests/faults.rs` |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::service_fn;
use windlass_indexer::ObjectKey;
use windlass_reconciler::{
    Action, ApplyConflict, DryRunIgnored, Error, FieldValidation, Propagation, RunContext,
    WriteOptions,
};
use windlass_testserver::TestServer;

use crate::stage::{api, config_map, create, does};

/// A client of a server that does not know a parameter.
fn ignoring(client: &Client, parameter: &'static str) -> Client {
    let inner = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let (mut parts, body) = request.into_parts();
            let mut body = body.collect_bytes().await?;
            let query = parts.uri.query().unwrap_or_default().split('&');
            let is_known = |pair: &&str| pair.split('=').next() != Some(parameter);
            let query: Vec<_> = query.filter(is_known).collect();
            let uri = format!("{}?{}", parts.uri.path(), query.join("&"));
            parts.uri = uri.parse().expect("a URI");
            let (parent, field) = parameter.rsplit_once('.').unwrap_or(("", parameter));
            let parent = format!("{}{}", if parent.is_empty() { "" } else { "/" }, parent);
            let mut json: Value = serde_json::from_slice(&body).unwrap_or_default();
            let fields = json.pointer_mut(&parent).and_then(Value::as_object_mut);
            if fields.is_some_and(|fields| fields.remove(field).is_some()) {
                body = json.to_string().into();
            }
            inner.send(Request::from_parts(parts, Body::from(body))).await
        }
    });
    Client::new(service, "default")
}

/// What a run does for each parameter, in words.
async fn does_it(parameter: &str, cx: &RunContext) -> Result<String, Error> {
    let live = cx.live::<ConfigMap>();
    let listed = |maps: Vec<ConfigMap>| {
        let names = maps.into_iter().filter_map(|map| map.metadata.name);
        names.collect::<Vec<_>>().join(" ")
    };
    let mut web = config_map("web-1");
    web.data = Some([("shared".to_owned(), "ours".to_owned())].into());
    let conflict = |error: Error| match error.source().downcast_ref::<ApplyConflict>() {
        Some(_) => "conflict".to_owned(),
        None => error.to_string(),
    };
    Ok(match parameter {
        "limit" | "continue" => listed(live.list(None, &ListParams::default().limit(2)).await?),
        "labelSelector" => listed(live.list(None, &ListParams::default().labels("app=web")).await?),
        "fieldSelector" => {
            let one = ListParams::default().fields("metadata.name=web-1");
            listed(live.list(None, &one).await?)
        }
        "fieldManager" => match live.apply(&web).await {
            Ok(_) => "applied".to_owned(),
            Err(error) => error.to_string(),
        },
        "force" => live.apply(&web).await.map_or_else(conflict, |_| "applied".to_owned()),
        "fieldValidation" => {
            let strict = WriteOptions::new().field_validation(FieldValidation::Strict);
            let old = live.get(&ObjectKey::namespaced("default", "web-1")).await?;
            let mut new = old.clone().unwrap_or_default();
            new.data.get_or_insert_default().insert("new".into(), "yes".into());
            live.with(strict).update(&old.unwrap_or_default(), &new).await?;
            "written".to_owned()
        }
        "dryRun" => {
            let dry = live.with(WriteOptions::new().dry_run());
            let noticed = |error: &Error| {
                let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error.source());
                while let Some(error) = source {
                    if error.is::<DryRunIgnored>() {
                        return "noticed ";
                    }
                    source = error.source();
                }
                "not noticed "
            };
            let created = dry.create(&config_map("new")).await;
            let one = live.get(&ObjectKey::namespaced("default", "web-1")).await?;
            let deleted = dry.delete(&one.unwrap_or_default()).await;
            let applied = dry.apply(&web).await.map(drop);
            let results = [created.map(drop), deleted, applied];
            let words = results.iter().map(|one| one.as_ref().err().map_or("done ", noticed));
            words.collect::<String>().trim().to_owned()
        }
        "preconditions.uid" => {
            let one = live.get(&ObjectKey::namespaced("default", "web-1")).await?;
            let old = one.unwrap_or_default();
            live.delete(&old).await?;
            live.create(&config_map("web-1")).await?;
            match live.delete(&old).await {
                Ok(()) => "done".to_owned(),
                Err(error) if error.to_string().contains("has deleted another ConfigMap") => {
                    "noticed".to_owned()
                }
                Err(error) => error.to_string(),
            }
        }
        "metadata.resourceVersion" => {
            let old = live.get(&ObjectKey::namespaced("default", "web-1")).await?;
            let old = old.unwrap_or_default();
            let with = |field: &str| {
                let mut new = old.clone();
                new.data.get_or_insert_default().insert(field.to_owned(), "yes".to_owned());
                new
            };
            live.update(&old, &with("theirs")).await?;
            match live.update(&old, &with("ours")).await {
                Ok(new) if new.data.as_ref().is_some_and(|data| data.contains_key("theirs")) => {
                    "both are there".to_owned()
                }
                Ok(_) => "theirs is gone".to_owned(),
                Err(error) => format!("{:?}", error.class()),
            }
        }
        "preconditions.resourceVersion" | "propagationPolicy" | "gracePeriodSeconds" => {
            let options = WriteOptions::new().same_version().grace_period(1);
            let options = options.propagation(Propagation::Foreground);
            let one = live.get(&ObjectKey::namespaced("default", "web-1")).await?;
            live.with(options).delete(&one.unwrap_or_default()).await?;
            "done".to_owned()
        }
        other => panic!("{other} is not sent"),
    })
}

async fn outcome(parameter: &'static str, is_ignored: bool) -> (String, Client) {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    for name in ["db-1", "web-1", "web-2"] {
        create(&client, name).await;
        let labels = json!({"metadata": {"labels": {"app": name.split('-').next()}}});
        let patch = Patch::Merge(labels);
        api(&client).patch(name, &PatchParams::default(), &patch).await.expect("labelled");
    }
    // Somebody else has a field.
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web-1"},
        "data": {"shared": "theirs"},
    });
    let others = PatchParams::apply("others");
    api(&client).patch("web-1", &others, &Patch::Apply(theirs)).await.expect("applied");

    let server = if is_ignored { ignoring(&client, parameter) } else { client.clone() };
    let (said, mut outcomes) = mpsc::channel(10);
    let reconciler = does(move |map: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            if map.metadata.name.as_deref() == Some("db-1") {
                let outcome =
                    does_it(parameter, cx).await.unwrap_or_else(|error| error.to_string());
                let _ = said.send(outcome).await;
            }
            Ok(Action::done())
        })
    });
    // The informer has a server that knows everything.
    let running =
        crate::stage::run_with(client.clone(), |builder| builder.client(server), reconciler);
    let outcome = outcomes.recv().await.expect("a run");
    running.end().await.expect("it stops");
    (outcome, client)
}

#[tokio::test]
async fn parameter_that_a_server_ignores_is_done_here_or_noticed() {
    for (parameter, known, ignored) in [
        ("limit", "db-1 web-1 web-2", "db-1 web-1 web-2"),
        ("continue", "db-1 web-1 web-2", "db-1 web-1 web-2"),
        ("labelSelector", "web-1 web-2", "web-1 web-2"),
        ("fieldSelector", "web-1", "web-1"),
        ("force", "applied", "conflict"),
        ("fieldValidation", "written", "written"),
        ("dryRun", "done done done", "noticed noticed noticed"),
        ("preconditions.uid", "done", "noticed"),
        ("preconditions.resourceVersion", "done", "done"),
        ("propagationPolicy", "done", "done"),
        ("gracePeriodSeconds", "done", "done"),
        ("metadata.resourceVersion", "Conflict", "both are there"),
    ] {
        let (outcome, _) = self::outcome(parameter, false).await;
        assert_eq!(outcome, known, "{parameter} is known");
        let (outcome, client) = self::outcome(parameter, true).await;
        assert_eq!(outcome, ignored, "{parameter} is ignored");
        if parameter == "force" {
            let data = api(&client).get("web-1").await.expect("it is there").data;
            assert_eq!(data.unwrap_or_default()["shared"], "theirs");
        }
    }
    let (outcome, client) = outcome("fieldManager", true).await;
    assert!(outcome.contains("fieldManager"), "{outcome}");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let data = maps.get("web-1").await.expect("it is there").data.unwrap_or_default();
    assert_eq!(data["shared"], "theirs");
}

/// How a server that ignores `continue` goes on after the first page.
#[derive(Clone, Copy, Debug)]
enum Pages {
    /// Any objects but the first, in another order each time.
    Shuffled,
    /// None, and each time another token.
    Empty,
    /// One list that says that it goes on, whatever is asked for.
    Endless,
}

/// A client of such a server. After many requests it says so by an error.
fn paging(client: &Client, pages: Pages) -> Client {
    const ENOUGH: usize = 1_000;
    let (inner, requests) = (client.clone(), Arc::<AtomicUsize>::default());
    let service = service_fn(move |request: Request<Body>| {
        let (inner, number) = (inner.clone(), requests.fetch_add(1, Ordering::Relaxed));
        async move {
            let (mut parts, body) = request.into_parts();
            let query = parts.uri.query().unwrap_or_default();
            let (is_limited, is_next) = (query.contains("limit="), query.contains("continue="));
            if number > ENOUGH {
                parts.uri = "/no-end".parse().expect("a URI");
            } else {
                parts.uri = parts.uri.path().parse().expect("a URI");
            }
            let (head, body) = inner.send(Request::from_parts(parts, body)).await?.into_parts();
            let mut list: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
            if let Some(items) = list["items"].as_array_mut() {
                let is_cut = is_limited && !matches!(pages, Pages::Endless);
                match pages {
                    Pages::Shuffled if is_cut && is_next => {
                        items.remove(0);
                        let count = items.len();
                        items.rotate_left(number % count);
                        items.truncate(2);
                    }
                    Pages::Shuffled if is_cut => items.truncate(2),
                    Pages::Empty if is_cut => items.clear(),
                    _ => {}
                }
                if is_cut || matches!(pages, Pages::Endless) {
                    list["metadata"]["continue"] = format!("page-{number}").into();
                }
            }
            let body = Body::from(list.to_string().into_bytes());
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, body))
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn list_ends_whatever_a_server_sends_as_the_next_page() {
    for pages in [Pages::Shuffled, Pages::Empty, Pages::Endless] {
        let cluster = TestServer::embedded();
        let client = cluster.client().expect("a client");
        for name in ["a", "b", "c", "d"] {
            create(&client, name).await;
        }
        let (said, mut outcomes) = mpsc::channel(10);
        let reconciler = does(move |map: Arc<ConfigMap>, cx: &RunContext| {
            let said = said.clone();
            Box::pin(async move {
                if map.metadata.name.as_deref() == Some("a") {
                    let two = ListParams::default().limit(2);
                    let outcome = cx.live::<ConfigMap>().list(Some("default"), &two).await;
                    let _ = said.send(outcome).await;
                }
                Ok(Action::done())
            })
        });
        let server = paging(&client, pages);
        let running = crate::stage::run_with(client, |builder| builder.client(server), reconciler);
        let outcome = outcomes.recv().await.expect("a run");
        running.end().await.expect("it stops");
        if matches!(pages, Pages::Endless) {
            let error = outcome.expect_err("it has no end").to_string();
            assert!(error.contains("never ends a list of configmaps"), "{error}");
            continue;
        }
        let maps = outcome.unwrap_or_else(|error| panic!("{pages:?}: {error}"));
        let names = maps.into_iter().filter_map(|map| map.metadata.name);
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c", "d"], "{pages:?}");
    }
}
