//! No error, status or debug output shows the data of a Secret.

use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;
use windlass_indexer::{Head, Index, Layout, Store};

/// Each of these has the password where the type expects something else.
const BROKEN: [&str; 5] = [
    r#""data":"hunter2""#,
    r#""data":{"password":["hunter2"]}"#,
    r#""data":{"password":"hunter2!"}"#,
    r#""immutable":"hunter2""#,
    r#""type":{"hunter2":1}"#,
];

fn secret(broken: &str) -> String {
    let metadata = r#"{"name":"s","namespace":"ns","uid":"u-1","resourceVersion":"7"}"#;
    format!(r#"{{"metadata":{metadata},{broken}}}"#)
}

#[derive(PartialEq)]
struct ByData;

#[derive(Deserialize)]
struct View {
    immutable: Option<bool>,
    #[serde(rename = "type")]
    kind: Option<String>,
    data: Option<std::collections::BTreeMap<String, u32>>,
}

impl Index for ByData {
    type View = View;
    type Value = bool;

    fn values(&self, _: &Head, view: View) -> impl IntoIterator<Item = bool> {
        drop((view.kind, view.data));
        view.immutable
    }
}

#[test]
fn an_undecodable_secret_shows_its_key_and_nothing_else() {
    for layout in [Layout::compact, Layout::resident::<Secret>] {
        for json in BROKEN {
            let mut store = Store::builder().layout(layout()).build();
            store.add_index(ByData).expect("the first");
            let put = store.put_bytes(secret(json).as_bytes()).expect("the head is fine");
            let lister = store.reader().lister::<Secret>().expect("its type");
            let error = lister.get("ns/s").expect_err(json);
            let message = error.to_string();
            let column = message.strip_prefix(
                "object ns/s (uid u-1, version 7) does not decode as Secret: \
                 a value of the wrong type or form at line 1 column ",
            );
            let column = column.and_then(|column| column.parse::<usize>().ok());
            assert!(column.is_some_and(|column| column > 70), "{message}");
            let scanned = lister.list().iter().next().expect("one").get().expect_err(json);
            assert_eq!(scanned, error);
            let status = store.reader().status();
            assert_eq!(status.types[0].undecodable_first, std::slice::from_ref(&error));
            assert_eq!(status.indexes[0].undecodable.len(), 1, "{json}");
            let shown = format!(
                "{error} {error:?} {error:#?} {status:#?} {store:#?} {put:#?} {lister:?} {:?} {:?}",
                lister.cached("ns/s"),
                lister.list(),
            );
            assert!(!shown.contains("hunter2") && !shown.contains("password"), "{shown}");
        }
    }
}

#[test]
fn a_cut_secret_is_refused_without_being_shown() {
    let mut store = Store::new();
    for json in
        [r#"{"data":{"p":"hunter2"},"metadata":{"name":"#, r#"{"data":{"p":"hunter2"#, "hunter2"]
    {
        let error = store.put_bytes(json.as_bytes()).expect_err(json);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
