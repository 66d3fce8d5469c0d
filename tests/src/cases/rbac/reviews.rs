//! Access reviews: whether a user may do something, and why.

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::with;
use crate::request::Request;
use crate::rights::{ACCESS_REVIEWS, RBAC, binding, named_rule, role, rule};
use crate::target::Who;

const SELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn review(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
}

pub(in crate::cases) async fn review_names_the_binding_that_allows(t: &mut Script) {
    let me = t.account_with("me", &[rule("", &["configmaps"], &["get"])]).await;
    let name = t.own_name("nodes");
    let rules = [rule("", &["nodes"], &["list"])];
    t.given(format!("{RBAC}/clusterroles"), role("ClusterRole", &name, &rules)).await;
    let subjects =
        [json!({"kind": "Group", "name": "nobody"}), json!({"kind": "User", "name": name})];
    let bound = binding("ClusterRoleBinding", &name, ("ClusterRole", &name), &subjects);
    t.given(format!("{RBAC}/clusterrolebindings"), bound).await;
    let maps = json!({"verb": "get", "resource": "configmaps", "namespace": t.ns()});
    let ask = |user: &str, on: &Value| {
        Request::post(
            ACCESS_REVIEWS,
            review("SubjectAccessReview", &json!({"user": user, "resourceAttributes": on})),
        )
    };
    t.send(ask(&me.user(), &maps)).await;
    t.send(ask("bob", &maps)).await;
    t.send(ask(&me.user(), &json!({"verb": "get", "resource": "configmaps"}))).await;
    let nodes = json!({"verb": "list", "resource": "nodes"});
    let allowed = |answer: &crate::answer::Answer| answer.at("/status/allowed") == true;
    t.wait_until(ask(&name, &nodes), "allowed", allowed).await;
    let groups = review(
        "SubjectAccessReview",
        &json!({"groups": ["a", "system:masters"], "resourceAttributes": nodes}),
    );
    t.post(ACCESS_REVIEWS, groups).await;
    let path = json!({"user": "x", "groups": ["system:authenticated"],
                      "nonResourceAttributes": {"verb": "get", "path": "/apis/apps"}});
    t.post(ACCESS_REVIEWS, review("SubjectAccessReview", &path)).await;
}

pub(in crate::cases) async fn reviews_that_are_refused(t: &mut Script) {
    let on = json!({"verb": "get", "resource": "pods"});
    let path = json!({"verb": "get", "path": "/x"});
    for spec in [
        json!({}),
        json!({"user": "x"}),
        json!({"resourceAttributes": on}),
        json!({"user": "x", "resourceAttributes": on, "nonResourceAttributes": path}),
    ] {
        t.post(ACCESS_REVIEWS, review("SubjectAccessReview", &spec)).await;
        t.post(SELF, review("SelfSubjectAccessReview", &spec)).await;
    }
    let named = review("SubjectAccessReview", &json!({"user": "x", "resourceAttributes": on}));
    t.refused(Request::post(ACCESS_REVIEWS, with(named, "/metadata/name", json!("a")))).await;
    let spec = json!({"user": "x", "resourceAttributes": on});
    let ask = Request::post(ACCESS_REVIEWS, review("SubjectAccessReview", &spec));
    t.send(ask.by(Who::Bob)).await;
}

pub(in crate::cases) async fn local_review_is_about_its_namespace(t: &mut Script) {
    let me = t.account_with("me", &[rule("", &["configmaps"], &["get"])]).await;
    let reviews =
        format!("/apis/authorization.k8s.io/v1/namespaces/{}/localsubjectaccessreviews", t.ns());
    let own = t.ns().to_owned();
    let spec = |namespace: &str| {
        let on = json!({"verb": "get", "resource": "configmaps", "namespace": namespace});
        json!({"user": me.user(), "resourceAttributes": on})
    };
    t.post(&reviews, review("LocalSubjectAccessReview", &spec(&own))).await;
    t.post(&reviews, review("LocalSubjectAccessReview", &spec(""))).await;
    t.post(&reviews, review("LocalSubjectAccessReview", &spec("default"))).await;
    let path = json!({"user": "x", "nonResourceAttributes": {"verb": "get", "path": "/x"}});
    t.post(&reviews, review("LocalSubjectAccessReview", &path)).await;
}

pub(in crate::cases) async fn everyone_may_ask_about_themselves(t: &mut Script) {
    let rules = [named_rule("", &["configmaps"], &["get"], &["a"]), rule("", &["pods"], &["*"])];
    let me = t.account_with("me", &rules).await;
    let ns = t.ns().to_owned();
    let on = |verb: &str, resource: &str, name: &str| {
        json!({"resourceAttributes": {
            "verb": verb, "resource": resource, "name": name, "namespace": ns,
        }})
    };
    for spec in [
        on("get", "configmaps", "a"),
        on("get", "configmaps", "b"),
        on("dance", "pods", ""),
        json!({"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}),
        json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}),
    ] {
        let ask = Request::post(SELF, review("SelfSubjectAccessReview", &spec));
        // Several bindings allow this path, and the real server may name any of them.
        let parts = &["/status/allowed", "/spec"];
        t.pick(ask.by_account(&me), parts).await;
    }
    let spec = on("get", "configmaps", "a");
    let ask = Request::post(SELF, review("SelfSubjectAccessReview", &spec));
    t.send(ask.clone().by_account(&me)).await;
    t.send(ask.by(Who::Anonymous)).await;
}

pub(in crate::cases) async fn rules_of_a_user_are_listed(t: &mut Script) {
    let rules = [named_rule("", &["configmaps"], &["get"], &["a"]), rule("", &["pods"], &["*"])];
    let me = t.account_with("me", &rules).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    for namespace in [t.ns().to_owned(), "default".to_owned()] {
        let spec = json!({"namespace": namespace});
        let ask = Request::post(path, review("SelfSubjectRulesReview", &spec));
        for request in [ask.clone().by_account(&me), ask.by(Who::Bob)] {
            let parts = ["/metadata", "/spec", "/status/incomplete"];
            let answer = t.pick(request, &parts).await;
            // The real server evaluates bindings in random order.
            for field in ["resourceRules", "nonResourceRules"] {
                let rules = answer.at(&format!("/status/{field}"));
                let mut rules = rules.as_array().cloned().unwrap_or_default();
                rules.sort_by_key(Value::to_string);
                t.note(field, &json!(rules));
            }
        }
    }
    t.post(path, review("SelfSubjectRulesReview", &json!({}))).await;
}
