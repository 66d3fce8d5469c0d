//! The guarantees of server-side apply that do not depend on who applies what in which order, and
//! its effect on objects that nobody applies. The conformance suite compares the answers with those
//! of a real server.

use crate::support::{CONFIG_MAPS, call, config_map, create, get, send, server, set};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_apiserver::{ApiServer, Rule};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/a";

async fn apply(server: &ApiServer, path: &str, query: &str, text: String) -> (StatusCode, Value) {
    let path = format!("{path}?{query}");
    let media = "application/apply-patch+yaml";
    let answer = send(server, Method::PATCH, &path, media, text.into_bytes()).await;
    let answer = answer.expect("an answer");
    let status = answer.status();
    let bytes = answer.into_body().collect().await.expect("a whole body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Returns the value as JSON, with the members of all objects in reverse order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let members = fields.iter().rev();
            let members =
                members.map(|(name, value)| format!("{}:{}", json!(name), reversed(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(reversed).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Returns the managers of an object with their fields. Their times are left out: an apply that
/// changes nothing does not update them.
fn managers(object: &Value) -> Vec<(Value, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.map(|entry| (entry["manager"].clone(), entry["fieldsV1"].clone())).collect()
}

/// Returns whether `whole` contains everything of `part`. List items are matched by name, or by
/// value if they have none.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| holds(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => part.iter().all(|part| {
            let mut candidates = whole.iter().filter(|whole| whole.get("name") == part.get("name"));
            candidates.any(|whole| holds(whole, part))
        }),
        (whole, part) => whole == part,
    }
}

fn texts(names: &'static [&'static str]) -> impl Strategy<Value = Map<String, Value>> {
    let entry = (prop::sample::select(names), 0..3u8);
    prop::collection::vec(entry, 0..3).prop_map(|entries| {
        entries
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_string().into()))
            .collect()
    })
}

fn container() -> impl Strategy<Value = Value> {
    (prop::sample::select(&["main", "side"][..]), texts(&["A", "B", "C"])).prop_map(
        |(name, env)| {
            let env: Vec<Value> =
                env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            let mut container = json!({"name": name, "image": format!("{name}:1")});
            if !env.is_empty() {
                container["env"] = env.into();
            }
            container
        },
    )
}

/// A deployment with a random set of fields.
fn config() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 1..3);
    let replicas = prop::option::of(1..3u8);
    let finalizers = prop::sample::subsequence(vec!["x.dev/a", "x.dev/b", "x.dev/c"], 0..3);
    (texts(&["l", "m", "n"]), finalizers, replicas, containers).prop_map(
        |(labels, finalizers, replicas, mut containers)| {
            containers.dedup_by(|one, other| one["name"] == other["name"]);
            let mut config = json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "a"},
                "spec": {
                    "selector": {"matchLabels": {"app": "a"}},
                    "template": {
                        "metadata": {"labels": {"app": "a"}},
                        "spec": {"containers": containers},
                    },
                },
            });
            if !labels.is_empty() {
                config["metadata"]["labels"] = labels.into();
            }
            if !finalizers.is_empty() {
                config["metadata"]["finalizers"] = json!(finalizers);
            }
            if let Some(replicas) = replicas {
                config["spec"]["replicas"] = replicas.into();
            }
            config
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::support::cases(64)))]

    /// After an apply, the object contains the applied configuration. Repeating the apply changes
    /// nothing, in whatever order the keys are.
    #[test]
    fn apply_is_idempotent_whatever_the_order_of_keys(
        configs in prop::collection::vec((0..3u8, config()), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let server = server();
            for (manager, config) in configs {
                let query = format!("fieldManager=m{manager}&force=true");
                let (status, first) = apply(&server, DEPLOYMENT, &query, config.to_string()).await;
                prop_assert!(status.is_success(), "{first}");
                prop_assert!(holds(&first, &config), "{config} is not in {first}");
                for text in [config.to_string(), reversed(&config)] {
                    let (_, again) = apply(&server, DEPLOYMENT, &query, text).await;
                    prop_assert_eq!(&again, &first);
                }
            }
            Ok(())
        })?;
    }

    /// Fields that nobody applies any more are removed, except for those that the server itself has
    /// set.
    #[test]
    fn who_applies_nothing_leaves_nothing(one in config(), two in config()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (alone, shared) = (server(), server());
            let text = two.to_string();
            apply(&alone, DEPLOYMENT, "fieldManager=two", text.clone()).await;
            apply(&shared, DEPLOYMENT, "fieldManager=one", one.to_string()).await;
            apply(&shared, DEPLOYMENT, "fieldManager=two&force=true", text).await;
            let bare = json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "a"},
            });
            let (status, left) = apply(&shared, DEPLOYMENT, "fieldManager=one", bare.to_string()).await;
            prop_assert!(status.is_success(), "{left}");
            let (_, expected) = get(&alone, DEPLOYMENT).await;
            for field in ["labels", "finalizers"] {
                prop_assert_eq!(&left["metadata"][field], &expected["metadata"][field]);
            }
            prop_assert_eq!(managers(&left), managers(&expected));
            prop_assert_eq!(&left["spec"]["template"], &expected["spec"]["template"]);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn objects_that_nobody_applies_have_no_managers() {
    let server = server();
    create(&server, "a").await;
    set(&server, "a", "1").await;
    let (_, object) = get(&server, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(object["metadata"].get("managedFields"), None);
}

#[tokio::test]
async fn what_was_there_before_the_first_apply_has_a_manager_of_that_name() {
    let server = server();
    create(&server, "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let text = config_map("a", "1").to_string();
    let (status, refusal) = apply(&server, &path, "fieldManager=me", text.clone()).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(
        refusal["message"],
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.v"
    );
    let (status, object) = apply(&server, &path, "fieldManager=me&force=true", text).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(object["data"]["v"], "1");
    let managers = object["metadata"]["managedFields"].as_array().expect("there must be managers");
    let names: Vec<&Value> = managers.iter().map(|manager| &manager["manager"]).collect();
    assert_eq!(names, ["me", "before-first-apply"]);
}

#[tokio::test]
async fn whoever_writes_to_an_applied_object_is_noted_by_its_user_agent() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    apply(&server, &path, "fieldManager=me", config_map("a", "1").to_string()).await;
    let (_, changed) = set(&server, "a", "2").await;
    assert_eq!(changed["metadata"]["managedFields"][0]["manager"], "unknown");
    assert_eq!(changed["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:v": {}}}));
    let (status, _) =
        apply(&server, &path, "fieldManager=me", config_map("a", "1").to_string()).await;
    assert_eq!(status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn deletion_with_finalizers_keeps_the_managers() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    let mut config = config_map("a", "1");
    config["metadata"]["finalizers"] = json!(["example.dev/f"]);
    let (_, made) = apply(&server, &path, "fieldManager=me", config.to_string()).await;
    let (_, marked) = call(&server, Method::DELETE, &path, None).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["managedFields"], made["metadata"]["managedFields"]);
    let (status, _) =
        apply(&server, &path, "fieldManager=me", config_map("a", "1").to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(get(&server, &path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn who_may_not_create_can_only_apply_to_what_is_there() {
    let server = ApiServer::builder().rule(Rule::deny().verb("create")).build();
    let path = format!("{CONFIG_MAPS}/a");
    let text = config_map("a", "1").to_string();
    let (status, refusal) = apply(&server, &path, "fieldManager=me", text).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refusal}");
    let namespace = "/api/v1/namespaces/default";
    let config = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "labels": {"l": "1"}},
    });
    let (status, object) = apply(&server, namespace, "fieldManager=me", config.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{object}");
}

#[tokio::test]
async fn managers_that_a_client_sets_count() {
    let server = server();
    create(&server, "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let manager = json!({
        "manager": "them",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:v": {}}},
    });
    let change = json!({"metadata": {"managedFields": [manager]}});
    let (_, object) = call(&server, Method::PATCH, &path, Some(change)).await;
    assert_eq!(object["metadata"]["managedFields"], json!([manager]));
    let text = config_map("a", "1").to_string();
    let (_, refusal) = apply(&server, &path, "fieldManager=me", text).await;
    assert_eq!(refusal["details"]["causes"][0]["message"], "conflict with \"them\"");
}

#[tokio::test]
async fn what_is_nested_too_deeply_is_refused() {
    let server = server();
    for levels in [200, 5000] {
        let text = format!("kind: ConfigMap\ndata: {}{}\n", "[".repeat(levels), "]".repeat(levels));
        let path = format!("{CONFIG_MAPS}/a");
        let (status, _) = apply(&server, &path, "fieldManager=me", text).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
}
