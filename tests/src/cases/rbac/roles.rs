//! The rights of roles and bindings, and the answer to a request without them.

use http::Method;
use serde_json::{Value, json};

use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{configmap, deployment, lease, namespace, pod, widget, with};
use crate::request::Request;
use crate::rights::{RBAC, binding, named_rule, role, rule};
use crate::script::MERGE_PATCH;
use crate::target::Who;

fn is_success(answer: &Answer) -> bool {
    answer.is_success()
}

fn is_forbidden(answer: &Answer) -> bool {
    answer.status == 403
}

pub(in crate::cases) async fn role_allows_what_it_names(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let me = t.account_with("me", &[rule("", &["configmaps"], &["get", "list"])]).await;
    t.send(Request::get(t.configmap("a")).by_account(&me)).await;
    t.pick(Request::get(t.configmaps()).by_account(&me), &["/kind"]).await;
    t.send(Request::post(t.configmaps(), configmap("b")).by_account(&me)).await;
    t.send(Request::get(format!("{}?watch=1", t.configmaps())).by_account(&me)).await;
    t.send(Request::get(format!("/api/v1/namespaces/{}/secrets", t.ns())).by_account(&me)).await;
    t.send(Request::get("/api/v1/namespaces/default/configmaps").by_account(&me)).await;
    t.send(Request::get("/api/v1/configmaps").by_account(&me)).await;
}

pub(in crate::cases) async fn account_without_a_role_is_refused_every_verb(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let me = t.account("me").await;
    let (all, one) = (t.configmaps(), t.configmap("a"));
    for request in [
        Request::get(&all),
        Request::get(format!("{all}?watch=true")),
        Request::get(&one),
        Request::post(&all, configmap("b")),
        Request::new(Method::PUT, &one).json(configmap("a")),
        Request::patch(&one, MERGE_PATCH, json!({})),
        Request::delete(&one),
        Request::delete(&all),
    ] {
        t.send(request.by_account(&me)).await;
    }
}

pub(in crate::cases) async fn refused_request_changes_and_reveals_nothing(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let me = t.account_with("me", &[rule("", &["configmaps"], &["get"])]).await;
    let (all, one) = (t.configmaps(), t.configmap("a"));
    let secret = json!({"data": {"a": "2"}});
    t.send(Request::patch(&one, MERGE_PATCH, secret.clone()).by_account(&me)).await;
    t.send(Request::patch(t.configmap("no"), MERGE_PATCH, secret).by_account(&me)).await;
    t.send(Request::delete(&one).by_account(&me)).await;
    t.send(Request::delete(&all).by_account(&me)).await;
    t.send(Request::delete(t.configmap("no")).by_account(&me)).await;
    t.send(Request::new(Method::POST, &all).text("{").by_account(&me)).await;
    t.send(Request::post(format!("{all}?dryRun=no"), json!({})).by_account(&me)).await;
    t.get(&one).await;
    t.get(t.configmap("no")).await;
}

pub(in crate::cases) async fn names_restrict_a_rule(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.configmaps(), configmap("b")).await;
    let verbs = ["get", "list", "create", "patch", "deletecollection"];
    let me = t.account_with("me", &[named_rule("", &["configmaps"], &verbs, &["a"])]).await;
    let patch = |path| Request::patch(path, MERGE_PATCH, json!({"data": {"b": "2"}}));
    t.send(Request::get(t.configmap("a")).by_account(&me)).await;
    t.send(Request::get(t.configmap("b")).by_account(&me)).await;
    t.send(patch(t.configmap("a")).by_account(&me)).await;
    t.send(patch(t.configmap("b")).by_account(&me)).await;
    t.send(Request::get(t.configmaps()).by_account(&me)).await;
    t.send(Request::post(t.configmaps(), configmap("a")).by_account(&me)).await;
    t.send(Request::delete(t.configmaps()).by_account(&me)).await;
}

pub(in crate::cases) async fn list_by_name_is_a_request_for_that_name(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let me = t.account_with("me", &[named_rule("", &["configmaps"], &["list"], &["a"])]).await;
    let list = |selector: &str, t: &Script| {
        Request::get(format!("{}?fieldSelector={selector}", t.configmaps())).by_account(&me)
    };
    t.pick(list("metadata.name%3Da", t), &["/items/0/metadata/name"]).await;
    t.send(list("metadata.name%3Db", t)).await;
    t.send(list("metadata.name!%3Da", t)).await;
    let watch = format!("{}?fieldSelector=metadata.name%3Da&watch=1", t.configmaps());
    t.send(Request::get(watch).by_account(&me)).await;
}

pub(in crate::cases) async fn parts_are_resources_of_their_own(t: &mut Script) {
    t.install_widgets().await;
    t.given(t.widgets(), widget("a")).await;
    let group = crate::fixtures::GROUP;
    let whole = t.account_with("whole", &[rule(group, &["widgets"], &["get", "patch"])]).await;
    let part = t.account_with("part", &[rule(group, &["widgets/status"], &["get", "patch"])]).await;
    let status = format!("{}/status", t.widget("a"));
    let change = json!({"status": {"phase": "Ready"}});
    for account in [&whole, &part] {
        t.pick(Request::get(t.widget("a")).by_account(account), &["/kind", "/message"]).await;
        t.pick(Request::get(&status).by_account(account), &["/kind", "/message"]).await;
        let request = Request::patch(&status, MERGE_PATCH, change.clone());
        t.pick(request.by_account(account), &["/status", "/message"]).await;
        t.send(Request::get(format!("{}/scale", t.widget("a"))).by_account(account)).await;
    }
}

pub(in crate::cases) async fn stars_match_everything(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    t.given(t.deployments(), deployment("d")).await;
    let all = t.account_with("all", &[rule("*", &["*"], &["*"])]).await;
    let core = t.account_with("core", &[rule("", &["*"], &["get"])]).await;
    let verbs = t.account_with("verbs", &[rule("", &["configmaps"], &["*"])]).await;
    let scale = t.account_with("scale", &[rule("*", &["*/scale"], &["get"])]).await;
    let one = format!("{}/d", t.deployments());
    for account in [&all, &core, &verbs, &scale] {
        for path in [t.configmap("a"), one.clone(), format!("{one}/scale"), t.configmaps()] {
            t.pick(Request::get(path).by_account(account), &["/kind", "/message"]).await;
        }
    }
    t.send(Request::get("/api/v1/nodes").by_account(&all)).await;
}

pub(in crate::cases) async fn cluster_role_counts_where_it_is_bound(t: &mut Script) {
    let name = t.own_name("reader");
    let rules = [rule("", &["configmaps", "nodes"], &["list"])];
    t.given(format!("{RBAC}/clusterroles"), role("ClusterRole", &name, &rules)).await;
    let me = t.account("me").await;
    let bound = binding("RoleBinding", "here", ("ClusterRole", &name), &[me.subject()]);
    t.given(t.role_bindings(), bound).await;
    let list = |path: &str| Request::get(path).by_account(&me);
    t.wait_picking(list(&t.configmaps()), "allowed", is_success, &["/kind"]).await;
    t.send(list("/api/v1/configmaps")).await;
    t.send(list("/api/v1/nodes")).await;
    let bound = binding("ClusterRoleBinding", &name, ("ClusterRole", &name), &[me.subject()]);
    t.given(format!("{RBAC}/clusterrolebindings"), bound).await;
    t.wait_picking(list("/api/v1/configmaps"), "allowed", is_success, &["/kind"]).await;
    t.pick(list("/api/v1/nodes"), &["/kind"]).await;
    t.pick(list("/api/v1/namespaces/default/configmaps"), &["/kind"]).await;
}

pub(in crate::cases) async fn subjects_are_users_groups_and_accounts(t: &mut Script) {
    t.given(t.roles(), role("Role", "lister", &[rule("", &["configmaps"], &["list"])])).await;
    let me = t.account("me").await;
    let group = format!("system:serviceaccounts:{}", t.ns());
    for (name, subject) in [
        ("user", json!({"kind": "User", "name": me.user()})),
        ("group", json!({"kind": "Group", "name": group})),
        ("account", json!({"kind": "ServiceAccount", "name": "me"})),
    ] {
        t.send(Request::get(t.configmaps()).by_account(&me)).await;
        let bound = binding("RoleBinding", name, ("Role", "lister"), &[subject]);
        t.post(t.role_bindings(), bound).await;
        let list = Request::get(t.configmaps()).by_account(&me);
        t.wait_picking(list.clone(), "allowed", is_success, &["/kind"]).await;
        t.unrecorded(&Request::delete(format!("{}/{name}", t.role_bindings()))).await;
        t.wait_picking(list, "refused", is_forbidden, &["/reason"]).await;
    }
}

pub(in crate::cases) async fn binding_to_a_role_that_is_not_there(t: &mut Script) {
    let me = t.account("me").await;
    let bound = binding("RoleBinding", "lost", ("Role", "no"), &[me.subject()]);
    t.given(t.role_bindings(), bound).await;
    let told = |answer: &Answer| answer.at("/message").to_string().contains("RBAC");
    t.wait_until(Request::get(t.configmaps()).by_account(&me), "told why", told).await;
    let bound = binding("RoleBinding", "lost-too", ("ClusterRole", "no"), &[me.subject()]);
    t.given(t.role_bindings(), bound).await;
    let both = |answer: &Answer| answer.at("/message").to_string().contains("clusterrole");
    let answer = t.poll(&Request::get(t.configmaps()).by_account(&me), both).await.0;
    // The real server lists them in random order.
    let message = answer.at("/message").as_str().unwrap_or_default().to_owned();
    let (_, problems) = message.split_once(": RBAC: ").unwrap_or_default();
    let mut problems: Vec<&str> = problems.trim_matches(['[', ']']).split(", ").collect();
    problems.sort_unstable();
    t.note("problems", &json!(problems));
    t.given(t.roles(), role("Role", "no", &[rule("", &["configmaps"], &["list"])])).await;
    let list = Request::get(t.configmaps()).by_account(&me);
    t.wait_picking(list, "allowed", is_success, &["/kind"]).await;
}

pub(in crate::cases) async fn rights_follow_roles_and_bindings(t: &mut Script) {
    let me = t.account_with("me", &[rule("", &["configmaps"], &["list"])]).await;
    let list = Request::get(t.configmaps()).by_account(&me);
    let role = format!("{}/me", t.roles());
    t.merge_patch(&role, json!({"rules": [rule("", &["secrets"], &["list"])]})).await;
    t.wait_until(list.clone(), "refused", is_forbidden).await;
    let secrets = Request::get(format!("/api/v1/namespaces/{}/secrets", t.ns())).by_account(&me);
    t.pick(secrets.clone(), &["/kind"]).await;
    t.delete(format!("{}/me", t.role_bindings())).await;
    t.wait_until(secrets, "refused", is_forbidden).await;
}

pub(in crate::cases) async fn paths_are_allowed_by_cluster_roles(t: &mut Script) {
    let me = t.account("me").await;
    t.send(Request::get("/foo").by_account(&me)).await;
    let rules = [json!({"nonResourceURLs": ["/foo", "/bar/*"], "verbs": ["get"]})];
    t.grant_everywhere(&me, &rules).await;
    for path in ["/foo", "/bar/x/y", "/bar/", "/bar", "/foo/x", "/version", "/api"] {
        t.look(Request::get(path).by_account(&me)).await;
    }
    t.send(Request::get("/bar").by_account(&me)).await;
    t.send(Request::new(Method::POST, "/foo").by_account(&me)).await;
}

pub(in crate::cases) async fn put_that_creates_needs_the_right_to_create(t: &mut Script) {
    let me = t.account_with("me", &[rule("coordination.k8s.io", &["leases"], &["update"])]).await;
    let path = format!("{}/a", t.leases());
    t.send(Request::new(Method::PUT, &path).json(lease("a")).by_account(&me)).await;
    t.get(&path).await;
}

pub(in crate::cases) async fn apply_that_creates_needs_the_right_to_create(t: &mut Script) {
    let me = t.account_with("me", &[rule("", &["configmaps"], &["patch"])]).await;
    let apply = Script::applying(t.configmap("a"), "me", configmap("a"));
    t.send(apply.clone().by_account(&me)).await;
    t.given(t.configmaps(), configmap("a")).await;
    t.send(apply.by_account(&me)).await;
}

pub(in crate::cases) async fn namespace_is_in_itself(t: &mut Script) {
    let me = t.account_with("me", &[rule("", &["namespaces"], &["get", "list"])]).await;
    let path = format!("/api/v1/namespaces/{}", t.ns());
    t.pick(Request::get(path).by_account(&me), &["/kind"]).await;
    t.send(Request::get("/api/v1/namespaces/default").by_account(&me)).await;
    t.send(Request::get("/api/v1/namespaces").by_account(&me)).await;
    t.send(Request::post("/api/v1/namespaces", namespace("x")).by_account(&me)).await;
}

pub(in crate::cases) async fn anonymous_sees_what_is_public(t: &mut Script) {
    for path in ["/version", "/version/", "/healthz", "/livez", "/readyz"] {
        t.look(Request::get(path).by(Who::Anonymous)).await;
    }
    for path in ["/api", "/apis", "/healthz/ping", "/openapi/v3"] {
        t.send(Request::get(path).by(Who::Anonymous)).await;
    }
    for path in ["/api", "/apis", "/apis/apps/v1"] {
        t.look(Request::get(path).by(Who::Bob)).await;
    }
    t.send(Request::get("/healthz/ping").by(Who::Bob)).await;
}

pub(in crate::cases) async fn default_roles_are_there(t: &mut Script) {
    let selector = "labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults";
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        let answer = t.look(Request::get(format!("{RBAC}/{plural}?{selector}"))).await;
        let items = answer.at("/items");
        let names = items.as_array().into_iter().flatten().map(|item| &item["metadata"]["name"]);
        t.note(plural, &json!(names.collect::<Vec<&Value>>()));
    }
    for name in ["cluster-admin", "system:discovery", "system:basic-user", "system:node"] {
        t.get(format!("{RBAC}/clusterroles/{name}")).await;
    }
    for name in ["cluster-admin", "system:discovery", "system:public-info-viewer"] {
        t.get(format!("{RBAC}/clusterrolebindings/{name}")).await;
    }
    let filled = |answer: &Answer| answer.at("/rules").is_array();
    for name in ["view", "edit", "admin"] {
        t.wait_until(format!("{RBAC}/clusterroles/{name}"), "filled", filled).await;
    }
}

pub(in crate::cases) async fn view_edit_and_admin_do_what_they_say(t: &mut Script) {
    t.given(t.configmaps(), configmap("a")).await;
    let subject = |name: &str| json!({"kind": "User", "name": name});
    for name in ["view", "edit", "admin"] {
        let bound = binding("RoleBinding", name, ("ClusterRole", name), &[subject(name)]);
        t.given(t.role_bindings(), bound).await;
    }
    let list = |path: String, user: &str| Request::get(path).header("impersonate-user", user);
    for user in ["view", "edit", "admin"] {
        let request = list(t.configmaps(), user);
        t.wait_picking(request, "allowed", is_success, &["/kind"]).await;
        t.pick(
            list(format!("/api/v1/namespaces/{}/secrets", t.ns()), user),
            &["/kind", "/message"],
        )
        .await;
        t.pick(list(t.roles(), user), &["/kind", "/message"]).await;
        let create = Request::post(t.pods(), pod(user)).header("impersonate-user", user);
        t.pick(create, &["/kind", "/message"]).await;
        let patch = json!({"metadata": {"labels": {"x": "y"}}});
        let own = format!("/api/v1/namespaces/{}", t.ns());
        let patch = Request::patch(own, MERGE_PATCH, patch).header("impersonate-user", user);
        t.pick(patch, &["/kind", "/message"]).await;
    }
}

pub(in crate::cases) async fn aggregated_role_is_filled(t: &mut Script) {
    let label = t.own_name("part");
    let all = format!("{RBAC}/clusterroles");
    let part = |name: &str, rules: &[Value]| {
        with(role("ClusterRole", name, rules), "/metadata/labels", json!({&label: "yes"}))
    };
    let (one, other, whole) = (t.own_name("a"), t.own_name("b"), t.own_name("whole"));
    t.given(&all, part(&one, &[rule("", &["pods"], &["get"])])).await;
    let aggregation = json!({"clusterRoleSelectors": [{"matchLabels": {&label: "yes"}}]});
    let aggregated = with(role("ClusterRole", &whole, &[]), "/aggregationRule", aggregation);
    t.given(&all, aggregated).await;
    let path = format!("{all}/{whole}");
    let has = |count: usize| {
        move |answer: &Answer| answer.at("/rules").as_array().map_or(0, Vec::len) == count
    };
    t.wait_until(&path, "one rule", has(1)).await;
    let rules = [rule("", &["pods"], &["get"]), rule("apps", &["deployments"], &["list"])];
    t.given(&all, part(&other, &rules)).await;
    t.wait_until(&path, "two rules", has(2)).await;
    t.unrecorded(&Request::delete(format!("{all}/{one}"))).await;
    t.merge_patch(format!("{all}/{other}"), json!({"metadata": {"labels": null}})).await;
    t.wait_until(&path, "no rules", has(0)).await;
}

pub(in crate::cases) async fn aggregated_role_may_be_a_part(t: &mut Script) {
    let label = t.own_name("level");
    let all = format!("{RBAC}/clusterroles");
    let select = |level: &str| {
        json!({"clusterRoleSelectors": [
            {"matchExpressions": [{"key": &label, "operator": "In", "values": [level]}]},
        ]})
    };
    let (low, middle, high) = (t.own_name("low"), t.own_name("middle"), t.own_name("high"));
    let top = with(role("ClusterRole", &high, &[]), "/aggregationRule", select("2"));
    t.given(&all, top).await;
    let inner = with(role("ClusterRole", &middle, &[]), "/aggregationRule", select("1"));
    t.given(&all, with(inner, "/metadata/labels", json!({&label: "2"}))).await;
    let rules = [named_rule("", &["pods"], &["get"], &["x"])];
    let leaf = with(role("ClusterRole", &low, &rules), "/metadata/labels", json!({&label: "1"}));
    t.given(&all, leaf).await;
    let filled = |answer: &Answer| answer.at("/rules/0/verbs").is_array();
    t.wait_until(format!("{all}/{high}"), "filled", filled).await;
    t.wait_until(format!("{all}/{middle}"), "filled", filled).await;
}
