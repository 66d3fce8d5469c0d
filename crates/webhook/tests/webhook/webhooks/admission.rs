//! Validation: what handlers are given, and what the server gets of their verdicts.

use std::sync::Mutex;

use serde_json::{Value, json};
use windlass_webhook::{
    Admission, FieldError, FieldPath, Hook, Operation, Validate, Verb, Verdict, Webhooks,
};

use crate::webhooks::stage::v1::Website;
use crate::webhooks::stage::{VALIDATE, ask, create, review, website};

/// Wants an even number of replicas, and notes what it is asked.
#[derive(Default)]
struct Even(Mutex<Vec<String>>);

impl Validate<Website> for &'static Even {
    async fn validate(&self, operation: Operation<'_, Website>, cx: &Admission) -> Verdict {
        let replicas = |website: &Website| website.spec.replicas.unwrap_or_default();
        let asked = match operation {
            Operation::Create { new } => format!("create {}", replicas(new)),
            Operation::Update { old, new } => format!("{} to {}", replicas(old), replicas(new)),
            Operation::Delete { old } => format!("delete {}", replicas(old)),
            Operation::Connect { options } => format!("connect {options}"),
        };
        let (user, dry_run) = (&cx.user().username, cx.is_dry_run());
        let about = format!("{}/{} by {user}", cx.namespace(), cx.name());
        let subresource = cx.subresource().unwrap_or("-");
        let line = format!("{asked} {about} {subresource} {dry_run}");
        self.0.lock().expect("no handler here panics").push(line);
        let Some(new) = operation.new_object() else { return Verdict::allow() };
        if replicas(new) == 4 {
            return Verdict::allow().warn("four\nis a lot").audit("count", "4").audit("no/key", "");
        }
        if replicas(new) == 5 {
            return Verdict::deny("five is right out").warn("really");
        }
        if replicas(new) == 7 {
            return Verdict::deny_with(409, "try again");
        }
        let path = FieldPath::new("spec").child("replicas");
        let invalid = (replicas(new) % 2 == 1)
            .then(|| FieldError::invalid(&path, new.spec.replicas, "must be even"));
        invalid.into_iter().collect()
    }
}

fn even() -> (&'static Even, axum::Router) {
    let even: &'static Even = Box::leak(Box::default());
    let all = [Verb::Create, Verb::Update, Verb::Delete, Verb::Connect];
    let hook = Hook::validating::<Website>(even).operations(all);
    (even, Webhooks::new().hook(hook).router().expect("one webhook has one path"))
}

#[tokio::test]
async fn a_handler_is_given_the_operation_with_old_and_new_objects() {
    let (even, router) = even();
    let of = |replicas: i64| website(json!({"replicas": replicas}));
    ask(&router, VALIDATE, &review("CREATE", of(2), Value::Null)).await;
    ask(&router, VALIDATE, &review("UPDATE", of(4), of(2))).await;
    ask(&router, VALIDATE, &review("DELETE", Value::Null, of(6))).await;
    let mut status = review("UPDATE", of(6), of(6));
    status["request"]["subResource"] = json!("status");
    status["request"]["dryRun"] = json!(true);
    ask(&router, VALIDATE, &status).await;
    ask(&router, VALIDATE, &review("CONNECT", json!({"kind": "Options"}), Value::Null)).await;
    let asked = even.0.lock().unwrap();
    assert_eq!(
        *asked,
        [
            "create 2 default/x by jane - false",
            "2 to 4 default/x by jane - false",
            "delete 6 default/x by jane - false",
            "6 to 6 default/x by jane status true",
            "connect {\"kind\":\"Options\"} default/x by jane - false",
        ]
    );
}

#[tokio::test]
async fn an_invalid_object_is_refused_in_the_words_of_the_api_server() {
    let (_, router) = even();
    let response = ask(&router, VALIDATE, &create(json!({"replicas": 3}))).await;
    assert_eq!(
        response,
        json!({
            "uid": "0c9a8d74",
            "allowed": false,
            "status": {
                "status": "Failure",
                "code": 422,
                "reason": "Invalid",
                "message": "Website.example.com \"x\" is invalid: spec.replicas: Invalid value: 3: \
                            must be even",
                "details": {
                    "group": "example.com",
                    "kind": "Website",
                    "name": "x",
                    "causes": [{
                        "reason": "FieldValueInvalid",
                        "field": "spec.replicas",
                        "message": "Invalid value: 3: must be even",
                    }],
                },
            },
        })
    );
}

#[tokio::test]
async fn warnings_and_audit_annotations_reach_the_server() {
    let (_, router) = even();
    let response = ask(&router, VALIDATE, &create(json!({"replicas": 4}))).await;
    assert_eq!(
        response,
        json!({
            "uid": "0c9a8d74",
            "allowed": true,
            "warnings": ["four is a lot"],
            "auditAnnotations": {"count": "4"},
        })
    );
}

#[tokio::test]
async fn a_denial_has_its_code_and_reason_and_its_warnings() {
    let (_, router) = even();
    let response = ask(&router, VALIDATE, &create(json!({"replicas": 5}))).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 403);
    assert_eq!(response["status"]["reason"], "Forbidden");
    assert_eq!(response["status"]["message"], "five is right out");
    assert_eq!(response["warnings"], json!(["really"]));
    let response = ask(&router, VALIDATE, &create(json!({"replicas": 7}))).await;
    assert_eq!(response["status"]["code"], 409);
    assert_eq!(response["status"]["reason"], "Conflict");
}

#[tokio::test]
async fn an_object_that_does_not_decode_is_refused_without_its_content() {
    let (_, router) = even();
    let review = create(json!({"replicas": "hunter2"}));
    let response = ask(&router, VALIDATE, &review).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 400);
    let message = response["status"]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "`object` does not decode as the webhook's Website: invalid type, expected i64"
    );
}

#[tokio::test]
async fn a_request_without_its_object_is_refused() {
    let (_, router) = even();
    for (operation, field) in [("CREATE", "object"), ("DELETE", "oldObject")] {
        let response = ask(&router, VALIDATE, &review(operation, Value::Null, Value::Null)).await;
        let message = format!("the request is a {operation} without `{field}`");
        assert_eq!(response["status"]["message"], json!(message));
    }
}

#[tokio::test]
async fn a_request_for_another_resource_or_version_is_refused() {
    let (_, router) = even();
    let mut other = create(json!({}));
    other["request"]["resource"]["version"] = json!("v2");
    let response = ask(&router, VALIDATE, &other).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 400);
    assert_eq!(
        response["status"]["message"],
        "the webhook at /validate-example-com-v1-website is for example.com/v1 websites, and was \
         called for example.com/v2 websites: its configuration does not fit it"
    );
}
