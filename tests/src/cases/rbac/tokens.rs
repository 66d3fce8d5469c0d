//! Service account tokens: their claims, their user, and their expiry.

use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{OTHER_UID, pod, with};
use crate::request::Request;
use crate::rights::{Account, rule};
use crate::target::Who;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

fn token_request(spec: &Value) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
}

fn token_review(token: &str, audiences: &[&str]) -> Request {
    let mut spec = json!({"token": token});
    if !audiences.is_empty() {
        spec["audiences"] = json!(audiences);
    }
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
    Request::post(REVIEWS, review)
}

fn token_of(answer: &Answer) -> String {
    answer.at("/status/token").as_str().unwrap_or_default().to_owned()
}

async fn tokens_of(t: &mut Script, account: &str) -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account},
    });
    t.given(t.accounts(), object).await;
    format!("{}/{account}/token", t.accounts())
}

pub(in crate::cases) async fn token_says_whose_it_is(t: &mut Script) {
    let path = tokens_of(t, "me").await;
    t.post(&path, token_request(&json!({}))).await;
    t.post(&path, token_request(&json!({"expirationSeconds": 600}))).await;
    t.post(&path, token_request(&json!({"audiences": ["a", "b"]}))).await;
    t.post(&path, token_request(&json!({"expirationSeconds": 3607}))).await;
    let resources = t.look(Request::get("/api/v1")).await.at("/resources");
    let own = resources.as_array().into_iter().flatten();
    let own = own.filter(|resource| resource["name"] == "serviceaccounts/token");
    t.note("serviceaccounts/token", &json!(own.collect::<Vec<_>>()));
}

pub(in crate::cases) async fn token_requests_that_are_refused(t: &mut Script) {
    let path = tokens_of(t, "me").await;
    let plain = || token_request(&json!({}));
    for request in [
        token_request(&json!({"expirationSeconds": 599})),
        token_request(&json!({"expirationSeconds": 4_294_967_297_i64})),
        with(plain(), "/metadata", json!({"name": "you"})),
        with(plain(), "/metadata", json!({"namespace": "default"})),
        with(plain(), "/metadata", json!({"uid": OTHER_UID})),
    ] {
        t.post(&path, request).await;
    }
    t.post(format!("{}/no/token", t.accounts()), plain()).await;
    t.get(&path).await;
}

pub(in crate::cases) async fn token_request_is_of_its_kind_and_types(t: &mut Script) {
    let path = tokens_of(t, "me").await;
    let plain = || token_request(&json!({}));
    for request in [
        with(plain(), "/kind", json!("TokenReview")),
        with(plain(), "/kind", json!("Nothing")),
        with(plain(), "/apiVersion", json!("v1")),
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        token_request(&json!("x")),
        token_request(&json!({"expirationSeconds": "600"})),
        token_request(&json!({"expirationSeconds": 600.5})),
        token_request(&json!({"audiences": "a"})),
        token_request(&json!({"audiences": [1]})),
        token_request(&json!({"boundObjectRef": []})),
        token_request(&json!({"boundObjectRef": {"kind": 1}})),
        with(plain(), "/metadata", json!({"name": 1})),
    ] {
        t.post(&path, request).await;
    }
    let unknown = with(token_request(&json!({"bogus": 1})), "/other", json!(1));
    t.post(format!("{path}?fieldValidation=Strict"), unknown.clone()).await;
    t.pick(Request::post(&path, unknown.clone()), &["/kind", "/spec/expirationSeconds"]).await;
    let request = Request::post(format!("{path}?fieldValidation=Ignore"), unknown);
    t.pick(request, &["/kind", "/spec/expirationSeconds"]).await;
    let nulls = json!({"expirationSeconds": null, "audiences": null, "boundObjectRef": null});
    t.pick(Request::post(&path, token_request(&nulls)), &["/kind", "/spec"]).await;
    t.pick(Request::post(&path, json!({"spec": {}})), &["/kind", "/apiVersion"]).await;
}

pub(in crate::cases) async fn token_request_is_a_right_of_its_own(t: &mut Script) {
    let path = tokens_of(t, "robot").await;
    let me = t.account_with("me", &[rule("", &["serviceaccounts"], &["get", "create"])]).await;
    t.send(Request::post(&path, token_request(&json!({}))).by_account(&me)).await;
    let you = t.account_with("you", &[rule("", &["serviceaccounts/token"], &["create"])]).await;
    let request = Request::post(&path, token_request(&json!({})));
    t.pick(request.by_account(&you), &["/kind", "/metadata/name"]).await;
}

pub(in crate::cases) async fn token_is_bound_to_a_pod_or_secret(t: &mut Script) {
    let path = tokens_of(t, "me").await;
    let mine =
        |name: &str, account: &str| with(pod(name), "/spec/serviceAccountName", json!(account));
    t.given(t.pods(), mine("mine", "me")).await;
    t.given(t.pods(), with(mine("placed", "me"), "/spec/nodeName", json!("no-such-node"))).await;
    t.given(t.pods(), mine("other", "you")).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    t.given(format!("/api/v1/namespaces/{}/secrets", t.ns()), secret).await;
    let bound = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name});
    for spec in [
        json!({"boundObjectRef": bound("Pod", "mine")}),
        json!({"boundObjectRef": bound("Pod", "mine"), "expirationSeconds": 3607}),
        json!({"boundObjectRef": bound("Pod", "placed")}),
        json!({"boundObjectRef": bound("Secret", "s")}),
        json!({"boundObjectRef": bound("Pod", "other")}),
        json!({"boundObjectRef": bound("Pod", "no")}),
        json!({"boundObjectRef": bound("ConfigMap", "c")}),
        json!({"boundObjectRef": with(bound("Pod", "mine"), "/uid", json!(OTHER_UID))}),
    ] {
        t.post(&path, token_request(&spec)).await;
    }
}

pub(in crate::cases) async fn review_tells_whom_a_token_stands_for(t: &mut Script) {
    let me = t.account("me").await;
    t.send(token_review(&me.token, &[])).await;
    t.send(token_review(&me.token, &["https://kubernetes.default.svc", "x"])).await;
    t.send(token_review(&me.token, &["x"])).await;
    t.send(token_review("unknown", &[])).await;
    t.send(token_review("", &[])).await;
    t.send(token_review(&me.token, &[]).by_account(&me)).await;
    t.send(Request::post(
        REVIEWS,
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}),
    ))
    .await;
}

pub(in crate::cases) async fn token_for_others_is_not_for_this_server(t: &mut Script) {
    let path = tokens_of(t, "me").await;
    let request = Request::post(&path, token_request(&json!({"audiences": ["vault"]})));
    let token = token_of(&t.unrecorded(&request).await);
    t.send(token_review(&token, &["vault"])).await;
    t.send(token_review(&token, &[])).await;
    let me = Account { namespace: t.ns().to_owned(), name: "me".to_owned(), token };
    t.send(Request::get(t.configmaps()).by_account(&me)).await;
    t.send(Request::get("/version").by_account(&me)).await;
}

pub(in crate::cases) async fn forged_token_is_refused(t: &mut Script) {
    let me = t.account("me").await;
    let parts: Vec<&str> = me.token.split('.').collect();
    let signature: String = parts[2].chars().rev().collect();
    let token = format!("{}.{}.{signature}", parts[0], parts[1]);
    let forged = Account { token: token.clone(), ..me.clone() };
    t.send(Request::get("/version").by_account(&forged)).await;
    t.pick(token_review(&token, &[]), &["/status"]).await;
}

pub(in crate::cases) async fn token_ends_with_its_account(t: &mut Script) {
    let me = t.account_with("me", &[rule("", &["configmaps"], &["list"])]).await;
    let list = Request::get(t.configmaps()).by_account(&me);
    t.pick(list.clone(), &["/kind"]).await;
    t.unrecorded(&Request::delete(format!("{}/me", t.accounts()))).await;
    t.wait_until(list.clone(), "unknown", |answer| answer.status == 401).await;
    let ended = |answer: &Answer| answer.at("/status/authenticated") != true;
    t.wait_picking(token_review(&me.token, &[]), "ended", ended, &["/status"]).await;
    let again = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "me"}});
    t.given(t.accounts(), again).await;
    let told = |answer: &Answer| answer.at("/status/error").to_string().contains("UID");
    t.wait_picking(token_review(&me.token, &[]), "told", told, &["/status"]).await;
    t.send(list).await;
}

pub(in crate::cases) async fn token_ends_with_what_it_is_bound_to(t: &mut Script) {
    let path = tokens_of(t, "me").await;
    let secrets = format!("/api/v1/namespaces/{}/secrets", t.ns());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    t.given(&secrets, secret).await;
    t.given(t.pods(), with(pod("p"), "/spec/serviceAccountName", json!("me"))).await;
    for (kind, name, object) in
        [("Secret", "s", format!("{secrets}/s")), ("Pod", "p", format!("{}/p", t.pods()))]
    {
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": name});
        let request = Request::post(&path, token_request(&json!({"boundObjectRef": reference})));
        let token = token_of(&t.unrecorded(&request).await);
        t.pick(token_review(&token, &[]), &["/status"]).await;
        let now = json!({"gracePeriodSeconds": 0});
        t.unrecorded(&Request::delete(object).json(now)).await;
        let ended = |answer: &Answer| answer.at("/status/authenticated") != true;
        t.wait_picking(token_review(&token, &[]), "ended", ended, &["/status"]).await;
        let me = Account { namespace: t.ns().to_owned(), name: "me".to_owned(), token };
        t.send(Request::get("/version").by_account(&me)).await;
    }
}

pub(in crate::cases) async fn everyone_known_may_ask_who_they_are(t: &mut Script) {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let ask = || Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review.clone());
    let me = t.account("me").await;
    t.send(ask()).await;
    t.send(ask().by(Who::Bob)).await;
    t.send(ask().by_account(&me)).await;
    t.send(ask().by(Who::Anonymous)).await;
}
