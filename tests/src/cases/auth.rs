//! Authentication: unknown tokens, anonymous requests, and users without rights.

use http::Method;
use serde_json::json;

use crate::Script;
use crate::fixtures::{GADGETS, configmap, widget};
use crate::request::Request;
use crate::script::MERGE_PATCH;
use crate::target::Who;

pub(super) async fn unknown_token_is_unauthorized(t: &mut Script) {
    t.send(Request::get(t.configmaps()).by(Who::Stranger)).await;
    t.send(Request::post(t.configmaps(), configmap("a")).by(Who::Stranger)).await;
    t.send(Request::get("/version").by(Who::Stranger)).await;
    t.send(Request::get("/foo").by(Who::Stranger)).await;
}

pub(super) async fn nobody_may_touch_objects(t: &mut Script) {
    t.send(Request::get(t.configmaps()).by(Who::Anonymous)).await;
    t.send(Request::get(t.configmap("a")).by(Who::Anonymous)).await;
    t.send(Request::post(t.configmaps(), configmap("a")).by(Who::Anonymous)).await;
    t.send(Request::get("/api/v1/namespaces").by(Who::Anonymous)).await;
}

pub(super) async fn nobody_sees_version_and_health(t: &mut Script) {
    t.pick(Request::get("/version").by(Who::Anonymous), &["/major", "/minor"]).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        t.send(Request::get(path).by(Who::Anonymous)).await;
    }
}

pub(super) async fn nobody_sees_discovery_or_other_paths(t: &mut Script) {
    for path in ["/api", "/apis", "/api/v1", "/foo"] {
        t.send(Request::get(path).by(Who::Anonymous)).await;
    }
}

pub(super) async fn user_without_rights_sees_discovery(t: &mut Script) {
    t.look(Request::get("/api").by(Who::Bob)).await;
    t.look(Request::get("/apis/apps/v1").by(Who::Bob)).await;
    t.send(Request::get("/foo").by(Who::Bob)).await;
}

pub(super) async fn user_without_rights_is_told_the_verb(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let (all, one) = (t.configmaps(), t.configmap("a"));
    for request in [
        Request::get(&all),
        Request::get(format!("{all}?watch=1")),
        Request::get(&one),
        Request::post(&all, configmap("b")),
        Request::new(Method::PUT, &one).json(configmap("a")),
        Request::patch(&one, MERGE_PATCH, json!({})),
        Request::delete(&one),
        Request::delete(&all),
    ] {
        t.send(request.by(Who::Bob)).await;
    }
}

pub(super) async fn user_without_rights_is_told_group_and_subresource(t: &mut Script) {
    t.install_widgets().await;
    t.install_gadgets().await;
    t.given(t.widgets(), widget("a")).await;
    for path in [
        t.widgets(),
        t.widget("a"),
        format!("{}/status", t.widget("a")),
        GADGETS.to_owned(),
        format!("{GADGETS}/a"),
        "/api/v1/configmaps".to_owned(),
        format!("/api/v1/namespaces/{}", t.ns()),
    ] {
        t.send(Request::get(path).by(Who::Bob)).await;
    }
}

pub(super) async fn rights_are_checked_before_existence(t: &mut Script) {
    t.send(Request::get(t.configmap("nope")).by(Who::Bob)).await;
    t.send(Request::get("/api/v1/namespaces/no-such-place/configmaps/x").by(Who::Bob)).await;
    t.send(Request::get("/apis/no.such.group/v1/things").by(Who::Bob)).await;
    t.send(Request::new(Method::POST, t.configmaps()).text("{").by(Who::Bob)).await;
}

pub(super) async fn review_of_the_admin_is_allowed(t: &mut Script) {
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let review = |kind: &str| {
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": kind,
            "spec": {"resourceAttributes": attributes},
        })
    };
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    t.post(path, review("SelfSubjectAccessReview")).await;
    let mut other = review("SubjectAccessReview");
    other["spec"]["user"] = json!("somebody");
    other["spec"]["groups"] = json!(["system:masters"]);
    t.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", other).await;
}
