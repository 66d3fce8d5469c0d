//! RBAC on a server of one's own: tests that need a clock, a snapshot, or control of the server.

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::Service as _;
use windlass_apiserver::{ApiServer, ApiService, Authorization, Builder, Rule, User, WallClock};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn with_roles() -> Builder {
    ApiServer::builder().authorization(Authorization::Rbac)
}

async fn send(service: &ApiService, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).body(body).expect("a request");
    let answer = service.clone().call(request).await.expect("an answer");
    let status = answer.status();
    let bytes = answer.into_body().collect().await.expect("a whole answer").to_bytes();
    (status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(service: &ApiService, path: &str) -> (u16, Value) {
    send(service, Method::GET, path, Value::Null).await
}

async fn post(service: &ApiService, path: &str, body: Value) -> Value {
    let (status, answer) = send(service, Method::POST, path, body).await;
    assert_eq!(status, 201, "{answer}");
    answer
}

/// Returns a service with a token of the service account `default/me`, which it creates if
/// necessary.
async fn account(server: &ApiServer, seconds: i64) -> (ApiService, String) {
    let admin = server.service();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let _ = send(&admin, Method::POST, accounts, json!({"metadata": {"name": "me"}})).await;
    let request = json!({"spec": {"expirationSeconds": seconds}});
    let answer = post(&admin, &format!("{accounts}/me/token"), request).await;
    let token = answer["status"]["token"].as_str().expect("a token").to_owned();
    (server.service_with_token(&token), token)
}

async fn let_me_list(admin: &ApiService) {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let path = format!("{RBAC}/namespaces/default/roles");
    post(admin, &path, json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "me"}],
    });
    post(admin, &format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
}

#[tokio::test]
async fn without_roles_there_are_none_and_no_service_accounts() {
    let service = ApiServer::new().service();
    for path in [
        format!("{RBAC}/clusterroles"),
        format!("{RBAC}/clusterrolebindings"),
        "/api/v1/serviceaccounts".to_owned(),
    ] {
        let (status, list) = get(&service, &path).await;
        assert_eq!((status, list["items"].as_array().map(Vec::len)), (200, Some(0)), "{path}");
    }
}

#[tokio::test]
async fn every_namespace_has_a_default_account_until_it_goes() {
    let service = with_roles().build().service();
    post(&service, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let path = "/api/v1/namespaces/n/serviceaccounts/default";
    let first = get(&service, path).await.1["metadata"]["uid"].clone();
    assert!(first.is_string());
    send(&service, Method::DELETE, path, Value::Null).await;
    let second = get(&service, path).await.1["metadata"]["uid"].clone();
    assert!(second.is_string() && second != first, "another one is made");
    send(&service, Method::DELETE, "/api/v1/namespaces/n", Value::Null).await;
    assert_eq!(get(&service, "/api/v1/namespaces/n").await.0, 404);
    assert_eq!(get(&service, "/api/v1/namespaces/default/serviceaccounts/default").await.0, 200);
}

#[tokio::test]
async fn token_expires_by_the_clock_of_the_server() {
    let server = with_roles().clock(clock("2026-01-01T00:00:00Z")).build();
    let (me, token) = account(&server, 600).await;
    let review = |server: &ApiServer, token: &str| {
        let (service, body) = (server.service(), json!({"spec": {"token": token}}));
        async move { post(&service, "/apis/authentication.k8s.io/v1/tokenreviews", body).await }
    };
    assert_eq!(get(&me, "/api").await.0, 200);
    assert_eq!(review(&server, &token).await["status"]["authenticated"], true);

    // The same server at a later time: the seed gives the same key, and the account the same uid.
    let (allowed, expired) = ("2026-01-01T00:11:00Z", "2026-01-01T00:11:01Z");
    for (time, status) in [(allowed, 200), (expired, 401)] {
        let later = with_roles().clock(clock(time)).build();
        account(&later, 600).await;
        assert_eq!(get(&later.service_with_token(&token), "/api").await.0, status, "{time}");
        if status == 401 {
            let answer = review(&later, &token).await;
            let error = "[invalid bearer token, service account token has expired]";
            assert_eq!(answer["status"], json!({"user": {}, "error": error}));
        }
    }
    let early = with_roles().clock(clock("2025-12-31T23:58:00Z")).build();
    account(&early, 600).await;
    let answer = review(&early, &token).await;
    let error = "[invalid bearer token, service account token is not valid yet]";
    assert_eq!(answer["status"]["error"], error);
}

fn clock(time: &str) -> WallClock {
    WallClock::fixed(time.parse::<Timestamp>().expect("a time"))
}

#[tokio::test]
async fn same_seed_gives_the_same_tokens_and_another_seed_refuses_them() {
    let build = |seed| with_roles().seed(seed).clock(clock("2026-01-01T00:00:00Z")).build();
    let (one, same, other) = (build(1), build(1), build(2));
    let token = account(&one, 600).await.1;
    assert_eq!(account(&same, 600).await.1, token);
    assert_ne!(account(&other, 600).await.1, token);
    assert_eq!(get(&other.service_with_token(&token), "/api").await.0, 401);
}

#[tokio::test]
async fn rights_go_back_with_a_snapshot() {
    let server = with_roles().build();
    let (me, _) = account(&server, 600).await;
    let before = server.snapshot();
    let_me_list(&server.service()).await;
    let after = server.snapshot();
    assert_eq!(get(&me, CONFIG_MAPS).await.0, 200);
    server.restore(&before);
    assert_eq!(get(&me, CONFIG_MAPS).await.0, 403);
    server.restore(&after);
    assert_eq!(get(&me, CONFIG_MAPS).await.0, 200);
}

#[tokio::test]
async fn access_rules_come_before_roles() {
    let server = with_roles()
        .rule(Rule::allow().user("bob").resource("", "configmaps"))
        .rule(Rule::deny().user("system:serviceaccount:default:me"))
        .token("bob", User::named("bob"))
        .token("root", User::named("root").group("system:masters"))
        .build();
    let bob = server.service_with_token("bob");
    assert_eq!(get(&bob, CONFIG_MAPS).await.0, 200);
    assert_eq!(get(&bob, "/api/v1/namespaces/default/secrets").await.0, 403);
    let root = server.service_with_token("root");
    let_me_list(&root).await;
    let header = ("impersonate-user", "system:serviceaccount:default:me");
    let request = Request::get(CONFIG_MAPS).header(header.0, header.1).body(String::new());
    let refused = root.clone().call(request.expect("a request")).await.expect("an answer");
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn without_tokens_whoever_has_none_is_the_owner_and_a_wrong_one_is_refused() {
    let server = with_roles().build();
    assert_eq!(get(&server.service(), CONFIG_MAPS).await.0, 200);
    assert_eq!(get(&server.service_with_token("guess"), CONFIG_MAPS).await.0, 401);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = post(&server.service(), path, review).await;
    let groups = &answer["status"]["userInfo"]["groups"];
    assert_eq!(*groups, json!(["system:masters", "system:authenticated"]));
}

/// Without a limit, the controller would fill these roles forever.
#[tokio::test]
async fn roles_that_select_each_other_in_a_circle_come_to_rest() {
    let service = with_roles().build().service();
    for (name, selects) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let role = json!({
            "metadata": {"name": name, "labels": {"is": name}},
            "rules": [{"apiGroups": [name], "resources": ["x"], "verbs": ["get"]}],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"is": selects}}]},
        });
        post(&service, &format!("{RBAC}/clusterroles"), role).await;
    }
    assert_eq!(get(&service, &format!("{RBAC}/clusterroles/a")).await.0, 200);
}

/// A refused request changes nothing, not even a version.
#[tokio::test]
async fn refused_requests_leave_no_trace() {
    let server = with_roles().build();
    let (me, _) = account(&server, 600).await;
    post(&server.service(), CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
    let (before, size) = (server.revision(), server.size());
    let one = format!("{CONFIG_MAPS}/a");
    for (method, path) in [
        (Method::GET, &one),
        (Method::POST, &CONFIG_MAPS.to_owned()),
        (Method::PUT, &one),
        (Method::PATCH, &one),
        (Method::DELETE, &one),
        (Method::DELETE, &CONFIG_MAPS.to_owned()),
        (Method::POST, &format!("{RBAC}/namespaces/default/roles")),
        (Method::POST, &"/api/v1/namespaces/default/serviceaccounts/me/token".to_owned()),
        (Method::POST, &"/apis/authentication.k8s.io/v1/tokenreviews".to_owned()),
    ] {
        let (status, answer) = send(&me, method.clone(), path, json!({"metadata": {}})).await;
        assert_eq!(status, 403, "{method} {path}: {answer}");
        let there = answer["message"].as_str().expect("a message").contains("not found");
        assert!(!there, "{answer}");
    }
    assert_eq!((server.revision(), server.size()), (before, size));
}

/// The lists in a body can have more combinations than fit into memory.
#[tokio::test]
async fn role_with_too_many_combinations_is_refused() {
    let server = with_roles().build();
    let (me, _) = account(&server, 600).await;
    let admin = server.service();
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [group], "resources": ["roles"], "verbs": ["create"]}]);
    let path = format!("{RBAC}/namespaces/default/roles");
    post(&admin, &path, json!({"metadata": {"name": "writer"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "writer"},
        "roleRef": {"kind": "Role", "name": "writer"},
        "subjects": [{"kind": "ServiceAccount", "name": "me"}],
    });
    post(&admin, &format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
    let many: Vec<String> = (0..20_000).map(|at| at.to_string()).collect();
    let rules = json!([{"apiGroups": many, "resources": many, "verbs": many}]);
    let role = json!({"metadata": {"name": "wide"}, "rules": rules});
    let (status, answer) = send(&me, Method::POST, &path, role).await;
    assert_eq!(status, 413, "{answer}");
}

/// Sends a request as alice who impersonates bob. The error is the user who was refused.
async fn as_bob(server: &ApiServer, method: Method, path: &str, body: &str) -> Result<(), String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("impersonate-user", "bob")
        .header("content-type", "application/apply-patch+yaml")
        .body(body.to_owned())
        .expect("a request");
    let answer = server.service_with_token("alice").call(request).await.expect("an answer");
    if answer.status() != StatusCode::FORBIDDEN {
        return Ok(());
    }
    let bytes = answer.into_body().collect().await.expect("a whole answer").to_bytes();
    let status: Value = serde_json::from_slice(&bytes).expect("a Status");
    let message = status["message"].as_str().unwrap_or_default();
    let user = message.split_once("User \"").and_then(|(_, rest)| rest.split_once('"'));
    Err(user.map(|(user, _)| user.to_owned()).unwrap_or_default())
}

#[tokio::test]
async fn rules_hold_for_whoever_impersonates_and_for_whoever_is_impersonated() {
    let alice = User::named("alice");
    let server = ApiServer::builder()
        .token("alice", alice)
        .rule(Rule::deny().user("alice").resource("", "secrets"))
        .rule(Rule::deny().user("alice").verb("create").resource("", "configmaps"))
        .rule(Rule::deny().user("bob").resource("", "pods"))
        .build();
    let path = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
    for (plural, expected) in [
        ("secrets", Err("alice".to_owned())),
        ("pods", Err("bob".to_owned())),
        ("configmaps", Ok(())),
    ] {
        let answer = as_bob(&server, Method::GET, &path(plural), "").await;
        assert_eq!(answer, expected, "{plural}");
    }
    // An apply that creates an object also needs the right to create.
    let apply = format!("{CONFIG_MAPS}/a?fieldManager=x");
    let config = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
    assert_eq!(as_bob(&server, Method::PATCH, &apply, config).await, Err("alice".to_owned()));
}
