//! Random strategic merge patches: no panic, objects stay valid, and a patch that is computed as
//! kubectl does turns one object into the other.

use crate::support::{send, server};
use http::Method;
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_apiserver::ApiServer;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The messages of the internal errors that the real server also has, and of the one that makes its
/// handler panic.
const REFUSALS: [&str; 13] = [
    "does not contain declared merge key",
    "unknown patch type",
    "merging lists cannot yet be specified",
    "doesn't match $setElementOrder list",
    "but received a",
    "list element types are not identical",
    "no elements in any of the given slices",
    "data type is not struct",
    "unable to find api field",
    "expected slice or array type",
    "cannot merge lists without merge key",
    "is not a map",
    "caused apiserver to panic",
];

/// Keys of list items, few enough to collide.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d", "e"]).prop_map(str::to_owned)
}

/// Items with distinct names, in any order.
fn named(
    least: usize,
    most: usize,
    item: impl Fn(String) -> BoxedStrategy<Value> + 'static,
) -> BoxedStrategy<Value> {
    prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], least..=most)
        .prop_shuffle()
        .prop_flat_map(move |names| {
            names.into_iter().map(|name| item(name.to_owned())).collect::<Vec<_>>()
        })
        .prop_map(Value::Array)
        .boxed()
}

fn env(name: String) -> BoxedStrategy<Value> {
    "[xy]".prop_map(move |value| json!({"name": name, "value": value})).boxed()
}

fn container(name: String) -> BoxedStrategy<Value> {
    let args = prop::option::of(prop::collection::vec("[xy]", 1..3));
    ("[12]", prop::option::of(named(1, 4, env)), args)
        .prop_map(move |(image, env, args)| {
            let mut container = json!({"name": name, "image": format!("x:{image}")});
            for (field, value) in [("env", env), ("args", args.map(|args| json!(args)))] {
                if let Some(value) = value {
                    container[field] = value;
                }
            }
            container
        })
        .boxed()
}

/// A volume has exactly one source, so changing the source needs `$retainKeys`.
fn volume(name: String) -> BoxedStrategy<Value> {
    let source =
        prop::sample::select(vec![json!({"emptyDir": {}}), json!({"configMap": {"name": "x"}})]);
    source
        .prop_map(move |mut source| {
            source["name"] = json!(name);
            source
        })
        .boxed()
}

/// A valid deployment.
fn deployment() -> impl Strategy<Value = Value> {
    let finalizers =
        prop::sample::subsequence(vec!["x/a", "x/b", "x/c", "x/d"], 0..4).prop_shuffle();
    let selector = prop::collection::btree_map(name(), "[xy]", 0..3);
    let tolerations = prop::collection::vec("[xy]", 0..3);
    let lists = (named(1, 4, container), named(0, 3, volume));
    (lists, finalizers, selector, tolerations, any::<bool>()).prop_map(
        |((containers, volumes), finalizers, selector, tolerations, recreate)| {
            let tolerations =
                tolerations.iter().map(|key| json!({"key": key, "operator": "Exists"}));
            let strategy = if recreate {
                json!({"type": "Recreate"})
            } else {
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})
            };
            let spec = json!({
                "containers": containers,
                "volumes": volumes,
                "nodeSelector": selector,
                "tolerations": tolerations.collect::<Vec<_>>(),
            });
            json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "a", "finalizers": finalizers},
                "spec": {
                    "selector": {"matchLabels": {"app": "a"}},
                    "strategy": strategy,
                    "template": {"metadata": {"labels": {"app": "a"}}, "spec": spec},
                },
            })
        },
    )
}

/// Returns the merge key of a list field.
fn merge_key(field: &str) -> Option<&'static str> {
    matches!(field, "containers" | "env" | "volumes").then_some("name")
}

/// Returns the patch from `old` to `new`, as kubectl computes it from two objects.
fn diff(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for field in old.keys().filter(|field| !new.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    for (field, value) in new {
        match (old.get(field), value) {
            (Some(held), value) if held == value => {}
            (Some(Value::Object(held)), Value::Object(value)) => {
                let mut inside = diff(held, value);
                if field == "strategy" {
                    inside.insert("$retainKeys".into(), value.keys().cloned().collect());
                }
                patch.insert(field.clone(), Value::Object(inside));
            }
            (Some(Value::Array(held)), Value::Array(value)) => {
                diff_lists(&mut patch, field, held, value);
            }
            (_, value) => {
                patch.insert(field.clone(), value.clone());
            }
        }
    }
    patch
}

fn diff_lists(patch: &mut Map<String, Value>, field: &str, old: &[Value], new: &[Value]) {
    let lacks = |list: &[Value], item: &Value| !list.contains(item);
    if field == "finalizers" {
        let added: Vec<_> = new.iter().filter(|item| lacks(old, item)).cloned().collect();
        let removed: Vec<_> = old.iter().filter(|item| lacks(new, item)).cloned().collect();
        patch.insert("$setElementOrder/finalizers".into(), new.into());
        patch.insert("$deleteFromPrimitiveList/finalizers".into(), removed.into());
        if !added.is_empty() {
            patch.insert(field.to_owned(), added.into());
        }
        return;
    }
    let Some(key) = merge_key(field) else {
        patch.insert(field.to_owned(), new.into());
        return;
    };
    let find = |list: &[Value], item: &Value| {
        list.iter().find(|other| other[key] == item[key]).and_then(Value::as_object).cloned()
    };
    let mut items = Vec::new();
    for item in new {
        let wanted = item.as_object().expect("items are maps");
        let mut change = match find(old, item) {
            Some(held) if held == *wanted => continue,
            Some(held) => diff(&held, wanted),
            None => wanted.clone(),
        };
        change.insert(key.to_owned(), item[key].clone());
        if field == "volumes" && find(old, item).is_some() {
            change.insert("$retainKeys".into(), wanted.keys().cloned().collect());
        }
        items.push(Value::Object(change));
    }
    let gone = old.iter().filter(|item| find(new, item).is_none());
    items.extend(gone.map(|item| json!({"$patch": "delete", key: item[key]})));
    let order = new.iter().map(|item| json!({key: item[key]}));
    patch.insert(format!("$setElementOrder/{field}"), order.collect());
    if !items.is_empty() {
        patch.insert(field.to_owned(), items.into());
    }
}

/// Directives and fields, in the right and in the wrong places.
fn odd_patch() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        name().prop_map(Value::from),
        prop::sample::select(vec!["delete", "replace", "merge", "x/a"]).prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/env",
        "$setElementOrder/finalizers",
        "$setElementOrder/tolerations",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/containers",
        "$deleteFromPrimitiveList/args",
        "containers",
        "env",
        "args",
        "volumes",
        "tolerations",
        "finalizers",
        "nodeSelector",
        "metadata",
        "spec",
        "template",
        "name",
        "image",
        "value",
        "strategy",
        "type",
        "bogus",
    ]);
    let inside = leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            2 => prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| {
                map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    });
    (inside, 0..4_usize).prop_map(|(inside, depth)| {
        let path = ["spec", "template", "spec"];
        path.iter().take(depth).rev().fold(inside, |inside, name| json!({*name: inside}))
    })
}

/// Sends a request, and returns the stored object without the fields that only the server sets.
async fn stored(server: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let media = if method == Method::PATCH { STRATEGIC } else { "application/json" };
    let body = body.to_string().into_bytes();
    let answer = send(server, method, path, media, body).await.expect("an answer");
    let status = answer.status().as_u16();
    let content = answer.into_body().collect().await.expect("a whole body").to_bytes();
    (status, serde_json::from_slice(&content).expect("an answer in JSON"))
}

fn content(object: &Value) -> Value {
    json!({"finalizers": object["metadata"]["finalizers"], "spec": object["spec"]})
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::support::cases(400)))]

    #[test]
    fn computed_patch_makes_one_object_of_another(old in deployment(), new in deployment()) {
        run(async {
            let (one, other) = (server(), server());
            let path = format!("{DEPLOYMENTS}/a");
            let (status, _) = stored(&one, Method::POST, DEPLOYMENTS, &old).await;
            assert_eq!(status, 201, "{old}");
            let (_, wanted) = stored(&other, Method::POST, DEPLOYMENTS, &new).await;
            let (old, new) = (old.as_object().expect("a map"), new.as_object().expect("a map"));
            let patch = Value::Object(diff(old, new));
            let (status, made) = stored(&one, Method::PATCH, &path, &patch).await;
            assert_eq!(status, 200, "{patch}: {made}");
            assert_eq!(content(&made), content(&wanted), "{patch}");
        });
    }

    #[test]
    fn no_patch_brings_the_server_down_or_leaves_an_object_of_another_type(
        object in deployment(),
        patches in prop::collection::vec(odd_patch(), 1..4),
    ) {
        run(async {
            let server = server();
            let path = format!("{DEPLOYMENTS}/a");
            stored(&server, Method::POST, DEPLOYMENTS, &object).await;
            for patch in patches {
                let (status, answer) = stored(&server, Method::PATCH, &path, &patch).await;
                let message = answer["message"].as_str().unwrap_or_default();
                let is_known = REFUSALS.iter().any(|known| message.contains(known));
                assert!(status < 500 || is_known, "{patch}: {answer}");
                // A stored object can be sent back as it is, and has no unknown fields.
                let (status, read) = stored(&server, Method::GET, &path, &Value::Null).await;
                assert_eq!(status, 200);
                let strict = format!("{path}?fieldValidation=Strict&dryRun=All");
                let (status, answer) = stored(&server, Method::PUT, &strict, &read).await;
                assert_eq!(status, 200, "{patch} left {read}: {answer}");
            }
        });
    }
}
