//! Impersonation, and the right to it.

use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::configmap;
use crate::request::Request;
use crate::rights::{Account, named_rule, rule};
use crate::target::Who;

const AUTHENTICATION: &str = "authentication.k8s.io";

/// Queries the server for the current user.
fn whoami() -> Request {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
}

fn acting_for(request: Request, user: &str) -> Request {
    request.header("impersonate-user", user)
}

/// An account with these cluster-wide rights.
async fn actor(t: &mut Script, rules: &[Value]) -> Account {
    let me = t.account("actor").await;
    t.grant_everywhere(&me, rules).await;
    me
}

pub(in crate::cases) async fn admin_acts_for_anybody(t: &mut Script) {
    let account = format!("system:serviceaccount:{}:robot", t.ns());
    for user in ["alice", "system:anonymous", "system:node:n1", &account] {
        t.send(acting_for(whoami(), user)).await;
    }
    let alice = || acting_for(whoami(), "alice");
    t.send(alice().header("impersonate-group", "a").header("impersonate-group", "b")).await;
    t.send(alice().header("impersonate-group", "system:unauthenticated")).await;
    t.send(alice().header("impersonate-uid", "7").header("impersonate-extra-scopes", "x")).await;
    t.send(alice().header("impersonate-extra-example.dev%2fkey", "x")).await;
    t.send(acting_for(whoami(), &account).header("impersonate-group", "a")).await;
    t.send(acting_for(Request::get(t.configmaps()), "alice")).await;
    t.send(acting_for(Request::get("/foo"), "alice")).await;
}

pub(in crate::cases) async fn groups_alone_are_nobody(t: &mut Script) {
    let list = || Request::get(t.configmaps());
    let groups = list().header("impersonate-group", "a").header("impersonate-group", "b");
    let others = [
        list().header("impersonate-uid", "7"),
        list().header("impersonate-extra-scopes", "x"),
        list().header("impersonate-uid", "7").by(Who::Bob),
    ];
    t.send(groups).await;
    for request in others {
        t.send(request).await;
    }
}

pub(in crate::cases) async fn acting_for_others_is_a_right(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let account = format!("system:serviceaccount:{}:robot", t.ns());
    for user in ["alice", "system:masters", "system:node:n1", &account] {
        t.send(acting_for(Request::get(t.configmaps()), user).by(Who::Bob)).await;
        t.send(acting_for(Request::get(t.configmap("a")), user).by(Who::Bob)).await;
    }
    t.send(acting_for(Request::get("/version"), "alice").by(Who::Bob)).await;
    t.send(acting_for(Request::get("/version"), "alice").by(Who::Anonymous)).await;
}

pub(in crate::cases) async fn each_part_of_another_is_asked_for(t: &mut Script) {
    let rules = [
        named_rule("", &["users"], &["impersonate"], &["alice"]),
        named_rule("", &["groups"], &["impersonate"], &["a"]),
        named_rule(AUTHENTICATION, &["userextras/scopes"], &["impersonate"], &["x"]),
        named_rule(AUTHENTICATION, &["uids"], &["impersonate"], &["7"]),
        rule(AUTHENTICATION, &["selfsubjectreviews"], &["impersonate-on:user-info:create"]),
    ];
    let me = actor(t, &rules).await;
    let alice = || acting_for(whoami(), "alice").by_account(&me);
    // The server first tries the impersonation mode that succeeded last, and refuses in its words.
    t.send(alice()).await;
    t.send(alice().header("impersonate-group", "a")).await;
    t.send(alice().header("impersonate-group", "a").header("impersonate-uid", "7")).await;
    t.send(alice().header("impersonate-extra-scopes", "x")).await;
}

pub(in crate::cases) async fn constrained_acting_is_limited_to_a_verb(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let rules = [
        named_rule(AUTHENTICATION, &["users"], &["impersonate:user-info"], &["admin-of-maps"]),
        rule("", &["configmaps"], &["impersonate-on:user-info:list"]),
    ];
    let me = actor(t, &rules).await;
    let request = |path: String| acting_for(Request::get(path), "admin-of-maps").by_account(&me);
    t.send(request(t.configmap("a"))).await;
    // Now the impersonated user lacks the right.
    t.send(request(t.configmaps())).await;
    t.send(request(t.configmaps()).header("impersonate-group", "a")).await;
}

pub(in crate::cases) async fn masters_are_not_acted_for_in_a_constrained_way(t: &mut Script) {
    let rules = [
        rule(AUTHENTICATION, &["users", "groups"], &["impersonate:user-info"]),
        rule("", &["configmaps"], &["impersonate-on:user-info:list"]),
    ];
    let me = actor(t, &rules).await;
    let list = || acting_for(Request::get(t.configmaps()), "alice").by_account(&me);
    let requests = [
        list().header("impersonate-group", "system:masters"),
        list().header("impersonate-uid", "7"),
    ];
    for request in requests {
        t.send(request).await;
    }
}

pub(in crate::cases) async fn accounts_and_nodes_are_acted_for(t: &mut Script) {
    let robot = t.account_with("robot", &[rule("", &["configmaps"], &["list"])]).await;
    let me = t.account("actor").await;
    let rules = [
        named_rule("", &["serviceaccounts"], &["impersonate"], &["robot"]),
        rule("", &["configmaps"], &["impersonate-on:serviceaccount:get"]),
    ];
    t.grant(&me, &rules).await;
    let list = acting_for(Request::get(t.configmaps()), &robot.user()).by_account(&me);
    let allowed = |answer: &Answer| answer.is_success();
    t.wait_picking(list, "allowed", allowed, &["/kind"]).await;
    let get = acting_for(Request::get(t.configmap("a")), &robot.user()).by_account(&me);
    t.send(get).await;
}
