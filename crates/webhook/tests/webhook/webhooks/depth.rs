//! Deeply nested objects. The threads of tests have the 2 MiB of stack that tokio's have, so a
//! value that is deep where it must not be ends the test program.

use axum::Router;
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use windlass_webhook::{
    Admission, Conversion, Convert, ConvertError, Defaulter, FailurePolicy, Hook, Operation,
    Validate, Verdict, Webhooks,
};

use crate::webhooks::stage::{self, send};

/// Go's decoder, and so an API server, takes this many levels of an object.
const SERVER_MAX: usize = 10_000;

/// Levels below, at and above the limit of `serde_json` and of an API server.
const LEVELS: [usize; 4] = [90, 126, 1_000, SERVER_MAX];

mod v1 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    #[derive(CustomResource, Clone, Debug, PartialEq, Default, Deserialize, Serialize)]
    #[kube(group = "example.com", version = "v1", kind = "Open", namespaced, schema = "disabled")]
    #[kube(derive = "PartialEq")]
    #[serde(default)]
    pub(crate) struct OpenSpec {
        pub(crate) size: i64,
        pub(crate) free: Value,
    }
}

mod v2 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    #[derive(CustomResource, Clone, Debug, PartialEq, Default, Deserialize, Serialize)]
    #[kube(group = "example.com", version = "v2", kind = "Open", namespaced, schema = "disabled")]
    #[kube(derive = "PartialEq")]
    #[serde(default)]
    pub(crate) struct OpenSpec {
        pub(crate) count: i64,
        pub(crate) free: Value,
    }
}

impl Convert<v1::Open> for v2::Open {
    fn from_spoke(spoke: v1::Open) -> Result<Self, ConvertError> {
        let v1::OpenSpec { size: count, free } = spoke.spec;
        Ok(Self { metadata: spoke.metadata, spec: v2::OpenSpec { count, free } })
    }

    fn into_spoke(self) -> Result<v1::Open, ConvertError> {
        let v2::OpenSpec { count: size, free } = self.spec;
        Ok(v1::Open { metadata: self.metadata, spec: v1::OpenSpec { size, free } })
    }
}

/// A list in a list in a list.
fn nested(levels: usize) -> String {
    format!("{}7{}", "[".repeat(levels), "]".repeat(levels))
}

/// An object of this many levels. The open field is below the object and its spec.
fn object(version: &str, levels: usize) -> String {
    let free = nested(levels - 2);
    let count = if version == "v1" { "size" } else { "count" };
    format!(
        r#"{{"apiVersion":"example.com/{version}","kind":"Open","metadata":{{"name":"a","namespace":"b"}},"spec":{{"{count}":3,"free":{free}}}}}"#
    )
}

/// A review with an object as it stands.
fn with(review: &Value, placeholder: &str, object: &str) -> String {
    review.to_string().replace(&format!("\"{placeholder}\""), object)
}

fn conversion_review(version: &str, objects: &[String]) -> String {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "705ab4f5",
            "desiredAPIVersion": format!("example.com/{version}"),
            "objects": ["OBJECTS"],
        },
    });
    with(&review, "OBJECTS", &objects.join(","))
}

fn admission_review(operation: &str, object: &str) -> String {
    let mut review = stage::review(operation, json!("OBJECT"), json!(null));
    if operation == "UPDATE" {
        review["request"]["oldObject"] = json!("OBJECT");
    }
    for field in ["resource", "requestResource"] {
        review["request"][field]["resource"] = json!("opens");
    }
    with(&review, "OBJECT", object)
}

/// The text of an answer, which must be a 200.
async fn answer(router: &Router, path: &str, review: String) -> String {
    let answer = send(router, path, review).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let bytes = answer.into_body().collect().await.expect("a body must arrive").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("an answer must be UTF-8")
}

/// The `response` of an answer that is shallow.
fn response(answer: &str) -> Value {
    let mut answer: Value = serde_json::from_str(answer).expect("an answer must be JSON");
    answer["response"].take()
}

fn conversion() -> Conversion<v2::Open> {
    Conversion::hub::<v2::Open>().spoke::<v1::Open>()
}

#[tokio::test]
async fn an_object_of_any_depth_is_converted_and_so_are_those_beside_it() {
    let router = Webhooks::new().convert(conversion()).router().unwrap();
    for levels in LEVELS {
        let objects = [object("v1", 3), object("v1", levels), object("v1", 5)];
        let answer = answer(&router, "/convert", conversion_review("v2", &objects)).await;
        assert!(answer.contains(r#""status":"Success""#), "{levels} levels");
        for free in [1, levels - 2, 3].map(nested) {
            let converted = format!(r#""spec":{{"count":3,"free":{free}}}"#);
            assert!(answer.contains(&converted), "{levels} levels");
        }
    }
}

#[tokio::test]
async fn fields_of_any_depth_are_kept_for_another_version_and_restored() {
    let conversion = conversion().keep_unknown_fields();
    let router = Webhooks::new().convert(conversion).router().unwrap();
    for levels in LEVELS {
        let unknown = format!(r#""free":7,"unknown":{}"#, nested(levels - 2));
        let object = object("v2", 3).replace(r#""free":[7]"#, &unknown);
        let there = answer(&router, "/convert", conversion_review("v1", &[object])).await;
        assert!(there.contains("kept-fields.windlass.dev/v2"), "{levels} levels");
        // As it would be sent back, with a text that is deep in an object that is not.
        let there = response(&there)["convertedObjects"][0].to_string();
        let back = answer(&router, "/convert", conversion_review("v2", &[there])).await;
        assert!(back.contains(&unknown) && !back.contains("kept-fields"), "{levels} levels");
    }
}

#[tokio::test]
async fn an_annotation_that_is_too_deep_is_not_restored_and_does_no_harm() {
    let router = Webhooks::new().convert(conversion().keep_unknown_fields()).router().unwrap();
    let forged = format!(r#"{{"spec":{}}}"#, nested(50_000));
    let mut object: Value = serde_json::from_str(&object("v1", 3)).unwrap();
    object["metadata"]["annotations"] = json!({"kept-fields.windlass.dev/v2": forged});
    let answer = answer(&router, "/convert", conversion_review("v2", &[object.to_string()])).await;
    let converted = &response(&answer)["convertedObjects"][0];
    assert_eq!(converted["spec"], json!({"count": 3, "free": [7]}));
    assert_eq!(converted["metadata"].get("annotations"), None);
}

/// Refuses what is not of the size that it wants, and does with an object what handlers do.
struct Three;

impl Validate<v1::Open> for Three {
    async fn validate(&self, operation: Operation<'_, v1::Open>, cx: &Admission) -> Verdict {
        tokio::task::yield_now().await;
        let new = operation.new_object().expect("it is created or updated").clone();
        assert_eq!(serde_json::to_value(&new.spec.free).ok().as_ref(), cx.raw().map(free));
        if new.spec.size == 3 { Verdict::deny("three is too many") } else { Verdict::allow() }
    }
}

fn free(object: &Value) -> &Value {
    &object["spec"]["free"]
}

impl Defaulter<v1::Open> for Three {
    fn default(&self, object: &mut v1::Open, _: &Admission) {
        object.spec.size += 1;
    }
}

/// A webhook of each kind. Their failures are ignored.
fn ignorable() -> Router {
    let hooks = [Hook::validating::<v1::Open>(Three), Hook::defaulting::<v1::Open>(Three)];
    let hooks = hooks.map(|hook| hook.failure_policy(FailurePolicy::Ignore));
    hooks.into_iter().fold(Webhooks::new(), Webhooks::hook).router().unwrap()
}

const VALIDATE: &str = "/validate-example-com-v1-open";
const MUTATE: &str = "/mutate-example-com-v1-open";

#[tokio::test]
async fn an_object_of_any_depth_is_judged_also_if_failures_are_ignored() {
    for levels in LEVELS {
        for operation in ["CREATE", "UPDATE"] {
            let review = admission_review(operation, &object("v1", levels));
            let answer = answer(&ignorable(), VALIDATE, review).await;
            assert_eq!(response(&answer)["allowed"], false, "{levels} levels");
            assert!(answer.contains("three is too many"), "{levels} levels: {answer}");
        }
    }
}

#[tokio::test]
async fn a_change_of_an_object_of_any_depth_is_a_small_patch() {
    for levels in LEVELS {
        let review = admission_review("CREATE", &object("v1", levels));
        let response = response(&answer(&ignorable(), MUTATE, review).await);
        let patched = stage::patched(&response, &json!({"spec": {"size": 3}}));
        assert_eq!(patched, json!({"spec": {"size": 4}}), "{levels} levels");
    }
}

#[tokio::test]
async fn what_is_too_deep_is_refused_with_its_uid_also_if_failures_are_ignored() {
    for path in [VALIDATE, MUTATE] {
        let review = admission_review("CREATE", &object("v1", 200_000));
        let response = response(&answer(&ignorable(), path, review).await);
        assert_eq!(response["uid"], "0c9a8d74");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 400);
        let message = "the review cannot be read: it is nested deeper than 10016 levels";
        assert_eq!(response["status"]["message"], message);
    }
    let router = Webhooks::new().convert(conversion()).router().unwrap();
    let review = conversion_review("v2", &[object("v1", 200_000)]);
    let response = response(&answer(&router, "/convert", review).await);
    assert_eq!(response["uid"], "705ab4f5");
    assert_eq!(response["result"]["status"], "Failure");
}

#[tokio::test]
async fn what_is_deep_and_not_a_review_is_refused() {
    for body in [nested(200_000), "[".repeat(5_000), nested(5_000)] {
        let answer = send(&ignorable(), VALIDATE, body).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    }
}
