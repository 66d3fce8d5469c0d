//! Random reviews through the router: no panic, always an answer.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_webhook::{Admission, Conversion, Defaulter, Operation, Validate, Verdict, Webhooks};

use crate::webhooks::stage::{MUTATE, VALIDATE, body, review, send, v1, v1alpha1, v2, website};

struct Plain;

impl Validate<v1::Website> for Plain {
    async fn validate(&self, _: Operation<'_, v1::Website>, cx: &Admission) -> Verdict {
        Verdict::allow().warn(cx.name()).audit(cx.namespace(), "x")
    }
}

impl Defaulter<v1::Website> for Plain {
    fn default(&self, object: &mut v1::Website, _: &Admission) {
        object.spec.replicas.get_or_insert(1);
        object.spec.pages.reverse();
        object.spec.pages.push(v1::Page::default());
    }
}

fn router() -> axum::Router {
    let conversion = Conversion::hub::<v2::Website>()
        .spoke::<v1::Website>()
        .spoke::<v1alpha1::Website>()
        .keep_unknown_fields();
    let webhooks = Webhooks::new().validate::<v1::Website>(Plain).default::<v1::Website>(Plain);
    webhooks.convert(conversion).router().unwrap()
}

/// Any JSON, with names and values that mean something in reviews.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("v1".to_owned()),
        Just("example.com/v1".to_owned()),
        Just("example.com/v2".to_owned()),
        Just("Website".to_owned()),
        Just("CREATE".to_owned()),
        Just("DELETE".to_owned()),
        Just("{\"spec\":{\"pages\":[1]}}".to_owned()),
        ".{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("spec".to_owned()),
        Just("metadata".to_owned()),
        Just("name".to_owned()),
        Just("annotations".to_owned()),
        Just("kept-fields.windlass.dev/v2".to_owned()),
        Just("kind".to_owned()),
        Just("uid".to_owned()),
        Just("pages".to_owned()),
        ".{0,6}",
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let map = proptest::collection::btree_map(key.clone(), inner.clone(), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            map.prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A valid review of either type.
fn valid() -> impl Strategy<Value = Value> {
    let spec = prop_oneof![
        Just(json!({"replicas": 1, "pages": [{"name": "a", "x": 1}, {"name": "b"}]})),
        Just(json!({})),
    ];
    let operations = prop_oneof![Just("CREATE"), Just("UPDATE"), Just("DELETE"), Just("CONNECT")];
    let admission = (operations, spec.clone(), spec.clone())
        .prop_map(|(operation, new, old)| review(operation, website(new), website(old)));
    let versions = prop_oneof![Just("v1"), Just("v2"), Just("v1alpha1")];
    let conversion = (versions, spec).prop_map(|(version, spec)| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {
                "uid": "0c9a8d74",
                "desiredAPIVersion": format!("example.com/{version}"),
                "objects": [website(spec)],
            },
        })
    });
    prop_oneof![admission, conversion]
}

/// Every place in a value, as pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// A valid review in which a few places have other values.
fn mutated() -> impl Strategy<Value = Value> {
    let mutations = proptest::collection::vec((any::<prop::sample::Index>(), any_json()), 0..4);
    (valid(), mutations).prop_map(|(mut review, mutations)| {
        for (index, value) in mutations {
            let mut found = Vec::new();
            places(&review, "", &mut found);
            // The root is left alone: pure garbage is a case of its own.
            let place = &found[1 + index.index(found.len() - 1)];
            if let Some(there) = review.pointer_mut(place) {
                *there = value;
            }
        }
        review
    })
}

/// The answer to a body at every path: it must be there, be JSON, and have the uid if it is known.
fn check(sent: &[u8]) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let uid = serde_json::from_slice::<Value>(sent)
        .ok()
        .and_then(|review| Some(review.pointer("/request/uid")?.as_str()?.to_owned()));
    let router = router();
    for path in [VALIDATE, MUTATE, "/convert"] {
        let answer = AssertUnwindSafe(send(&router, path, sent.to_vec())).catch_unwind();
        let answer = runtime.block_on(answer);
        let Ok(answer) = answer else {
            return Err(TestCaseError::fail(format!("the router panicked at {path}")));
        };
        let code = answer.status().as_u16();
        let answer = runtime.block_on(body(answer));
        prop_assert_eq!(code, if uid.is_some() { 200 } else { 400 });
        if let Some(uid) = &uid {
            let response = &answer["response"];
            prop_assert_eq!(&response["uid"], uid);
            for field in ["status", "result"] {
                let message = response[field]["message"].as_str().unwrap_or_default();
                prop_assert!(!message.contains("panicked"), "user code panicked at {path}");
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn mutated_reviews_are_answered(review in mutated()) {
        check(review.to_string().as_bytes())?;
    }

    #[test]
    fn any_json_is_answered(body in any_json()) {
        check(body.to_string().as_bytes())?;
    }

    #[test]
    fn any_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        check(&body)?;
    }
}
