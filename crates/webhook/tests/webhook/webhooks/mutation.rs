//! Defaults and other changes, as patches.

use serde_json::{Value, json};
use windlass_webhook::{Admission, Defaulter, Mutate, Verdict, Webhooks};

use crate::webhooks::stage::v1::{Page, Website};
use crate::webhooks::stage::{MUTATE, ask, create, patched, review, website};

struct Defaults;

impl Defaulter<Website> for Defaults {
    fn default(&self, object: &mut Website, _: &Admission) {
        object.spec.replicas.get_or_insert(2);
        for page in &mut object.spec.pages {
            page.title.get_or_insert_with(|| format!("Page {}", page.name));
        }
        if !object.spec.pages.iter().any(|page| page.name == "index") {
            let index = Page { name: "index".to_owned(), title: Some("Index".to_owned()) };
            object.spec.pages.insert(0, index);
        }
    }
}

fn defaults() -> axum::Router {
    Webhooks::new().default::<Website>(Defaults).router().expect("one webhook has one path")
}

#[tokio::test]
async fn defaults_become_a_patch_and_unknown_fields_survive_at_any_depth() {
    let mut object = website(json!({
        "unknown": {"a": [1]},
        "pages": [{"name": "a", "new": {"x": 1}}, {"name": "b", "title": "B", "new": 2}],
    }));
    object["other"] = json!(true);
    let review = review("CREATE", object.clone(), Value::Null);
    let response = ask(&defaults(), MUTATE, &review).await;
    let mut expected = object.clone();
    expected["spec"] = json!({
        "replicas": 2,
        "unknown": {"a": [1]},
        "pages": [
            {"name": "index", "title": "Index"},
            {"name": "a", "title": "Page a", "new": {"x": 1}},
            {"name": "b", "title": "B", "new": 2},
        ],
    });
    assert_eq!(patched(&response, &object), expected);

    let review = crate::webhooks::stage::review("CREATE", expected, Value::Null);
    let again = ask(&defaults(), MUTATE, &review).await;
    assert_eq!(again, json!({"uid": "0c9a8d74", "allowed": true}), "nothing is left to do");
}

#[tokio::test]
async fn deletes_are_allowed_without_asking() {
    for old in [website(json!({})), Value::Null] {
        let response = ask(&defaults(), MUTATE, &review("DELETE", Value::Null, old)).await;
        assert_eq!(response, json!({"uid": "0c9a8d74", "allowed": true}));
    }
}

/// Counts up, and never down.
struct Counting;

impl Mutate<Website> for Counting {
    async fn mutate(&self, object: &mut Website, old: Option<&Website>, _: &Admission) -> Verdict {
        let before = old.and_then(|old| old.spec.replicas).unwrap_or_default();
        let wanted = object.spec.replicas.unwrap_or_default();
        object.spec.replicas = Some(before + 1);
        if wanted < before { Verdict::deny("never down") } else { Verdict::allow().warn("counted") }
    }
}

#[tokio::test]
async fn a_mutating_handler_sees_the_old_object_and_may_refuse() {
    let router = Webhooks::new().mutate::<Website>(Counting).router().unwrap();
    let of = |replicas: i64| website(json!({"replicas": replicas}));
    let response = ask(&router, MUTATE, &review("UPDATE", of(9), of(4))).await;
    assert_eq!(patched(&response, &of(9)), of(5));
    assert_eq!(response["warnings"], json!(["counted"]));
    let response = ask(&router, MUTATE, &review("UPDATE", of(3), of(4))).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response.get("patch"), None, "the changes of a refused request are dropped");
    let response = ask(&router, MUTATE, &create(json!({}))).await;
    assert_eq!(patched(&response, &website(json!({}))), of(1));
}
