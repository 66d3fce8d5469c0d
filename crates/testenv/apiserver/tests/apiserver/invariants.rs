//! Random writes, seen by watchers that start at random versions:
//!
//! * versions only grow;
//! * every watcher sees every change that it selects, in order, exactly once;
//! * the list at version v, changed by the watch from v, is the list now.

use std::collections::BTreeMap;

use crate::support::{
    CONFIG_MAPS, Lines, Next, call, config_map, get, post, server, version, watch,
};
use http::{Method, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

/// One write to one of a few names.
#[derive(Debug, Clone)]
enum Step {
    Create(u8, bool),
    Change(u8, u8),
    Label(u8, bool),
    Delete(u8),
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..6u8;
    let step = prop_oneof![
        4 => (name.clone(), any::<bool>()).prop_map(|(n, l)| Step::Create(n, l)),
        6 => (name.clone(), 0..4u8).prop_map(|(n, v)| Step::Change(n, v)),
        4 => (name.clone(), any::<bool>()).prop_map(|(n, l)| Step::Label(n, l)),
        3 => name.prop_map(Step::Delete),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..60)
}

async fn take(server: &ApiServer, step: &Step) {
    let path = |name: &u8| format!("{CONFIG_MAPS}/n{name}");
    let (status, body) = match step {
        Step::Create(name, labelled) => {
            let mut object = config_map(&format!("n{name}"), "0");
            if *labelled {
                object["metadata"]["labels"] = json!({"on": "1"});
            }
            post(server, CONFIG_MAPS, object).await
        }
        Step::Change(name, value) => {
            let change = json!({"data": {"v": value.to_string()}});
            call(server, Method::PATCH, &path(name), Some(change)).await
        }
        Step::Label(name, on) => {
            let value = if *on { json!("1") } else { Value::Null };
            let change = json!({"metadata": {"labels": {"on": value}}});
            call(server, Method::PATCH, &path(name), Some(change)).await
        }
        Step::Delete(name) => call(server, Method::DELETE, &path(name), None).await,
        Step::Compact => {
            server.compact();
            return;
        }
    };
    let expected =
        [StatusCode::OK, StatusCode::CREATED, StatusCode::NOT_FOUND, StatusCode::CONFLICT];
    assert!(expected.contains(&status), "{status} {body}");
}

type Replica = BTreeMap<String, Value>;

async fn listed(server: &ApiServer, query: &str) -> (String, Replica) {
    let (status, list) = get(server, &format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(status, StatusCode::OK, "{list}");
    let items = list["items"].as_array().expect("items").iter();
    let replica = items
        .map(|item| (item["metadata"]["name"].as_str().unwrap_or("").to_owned(), item.clone()));
    (version(&list), replica.collect())
}

/// Opens a watch from a version. On the paused clock, its next bookmark shows that there are no
/// more events.
async fn watch_from(server: &ApiServer, from: &str, query: &str) -> Lines {
    watch(
        server,
        &format!("&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=86400{query}"),
    )
    .await
}

/// Applies the events of a watch up to version `until`.
async fn follow(mut lines: Lines, mut replica: Replica, from: &str, until: u64) -> Option<Replica> {
    let mut last: u64 = from.parse().expect("a version");
    loop {
        match lines.next().await {
            Next::Event(kind, _) if kind == "ERROR" => return None,
            Next::Event(kind, object) if kind == "BOOKMARK" => {
                assert!(version(&object).parse::<u64>().expect("a version") >= until);
                return Some(replica);
            }
            Next::Event(kind, mut object) => {
                let now: u64 = version(&object).parse().expect("a version");
                assert!(now > last, "versions must grow: {now} after {last}");
                last = now;
                let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                let known = replica.contains_key(&name);
                match kind.as_str() {
                    "ADDED" => assert!(!known, "{name} was added twice"),
                    "MODIFIED" | "DELETED" => {
                        assert!(known, "{name} was {kind} before it was added");
                    }
                    other => panic!("{other}"),
                }
                if kind == "DELETED" {
                    replica.remove(&name)
                } else {
                    replica.insert(name, object)
                };
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn check(history: &[Step], later: &[Step]) {
    let server = server();
    for step in history {
        take(&server, step).await;
    }
    let mut watchers = Vec::new();
    for query in ["", "&labelSelector=on%3D1"] {
        let (from, replica) = listed(&server, query).await;
        // One watcher starts before the changes and one after them.
        watchers.push((
            watch_from(&server, &from, query).await,
            from.clone(),
            replica.clone(),
            query,
        ));
        watchers.push((watch_from(&server, &from, query).await, from, replica, query));
    }
    let mut last = server.revision();
    for (n, step) in later.iter().enumerate() {
        take(&server, step).await;
        assert!(server.revision() >= last, "the revision must not go back");
        last = server.revision();
        // Readers also run between the changes.
        if n % 3 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for (at, (early, from, replica, query)) in watchers.into_iter().enumerate() {
        let lines = if at % 2 == 0 { early } else { watch_from(&server, &from, query).await };
        if let Some(replica) = follow(lines, replica, &from, last).await {
            assert_eq!(replica, listed(&server, query).await.1);
        } else {
            assert!(
                later.iter().any(|step| matches!(step, Step::Compact)),
                "nothing was compacted"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::support::cases(128)))]

    #[test]
    fn a_list_and_its_watch_are_the_present(history in steps(), later in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(check(&history, &later));
    }
}
