//! Handlers of objects whose type is known at run time, and of raw objects.

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use windlass_webhook::{
    Admission, Defaulter, Hook, Operation, Rule, Scope, Validate, Verb, Verdict, Webhooks,
};

use crate::webhooks::stage::{MUTATE, VALIDATE, ask, create, patched, website};

fn websites() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Website"))
}

struct Labels;

impl Defaulter<DynamicObject> for Labels {
    fn default(&self, object: &mut DynamicObject, _: &Admission) {
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert("a/b".to_owned(), "c".to_owned());
    }
}

struct HasSpec;

impl Validate<Value> for HasSpec {
    async fn validate(&self, operation: Operation<'_, Value>, cx: &Admission) -> Verdict {
        match operation.new_object().and_then(|object| object.get("spec")) {
            Some(_) => Verdict::allow(),
            None => Verdict::deny(format!("{} has no spec", cx.resource())),
        }
    }
}

#[tokio::test]
async fn dynamic_objects_are_changed() {
    let router = Webhooks::new().hook(Hook::defaulting_for(&websites(), Labels)).router().unwrap();
    let response = ask(&router, MUTATE, &create(json!({"unknown": 1}))).await;
    let mut expected = website(json!({"unknown": 1}));
    expected["metadata"]["labels"] = json!({"a/b": "c"});
    assert_eq!(patched(&response, &website(json!({"unknown": 1}))), expected);
}

#[tokio::test]
async fn raw_objects_of_several_resources_are_validated_by_one_handler() {
    let others = Rule {
        api_groups: vec!["apps".to_owned()],
        api_versions: vec!["*".to_owned()],
        resources: vec!["deployments".to_owned()],
        operations: vec![Verb::Create],
        scope: Scope::Namespaced,
    };
    let hook = Hook::validating_for::<Value>(&websites(), HasSpec).rule(others);
    let router = Webhooks::new().hook(hook).router().unwrap();
    let mut review = create(json!({}));
    assert_eq!(ask(&router, VALIDATE, &review).await["allowed"], true);
    review["request"]["resource"] =
        json!({"group": "apps", "version": "v1", "resource": "deployments"});
    review["request"]["object"] = json!({"kind": "Deployment"});
    let response = ask(&router, VALIDATE, &review).await;
    assert_eq!(response["status"]["message"], "apps/v1 deployments has no spec");
}
