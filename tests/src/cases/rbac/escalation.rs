//! Escalation: nobody can grant rights that they do not have.

use http::Method;
use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::with;
use crate::request::Request;
use crate::rights::{Account, RBAC, binding, named_rule, role, rule};
use crate::script::MERGE_PATCH;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The right to write roles and bindings.
fn writer() -> Value {
    rule(GROUP, &["roles", "rolebindings"], &["get", "create", "update", "patch"])
}

/// An account that may write roles and bindings, and get and list config maps.
async fn manager(t: &mut Script) -> Account {
    let own = rule("", &["configmaps", "configmaps/status"], &["get", "list"]);
    t.account_with("manager", &[writer(), own]).await
}

pub(in crate::cases) async fn role_grants_only_what_its_writer_holds(t: &mut Script) {
    let me = manager(t).await;
    for (name, rules) in [
        ("less", vec![rule("", &["configmaps"], &["get"])]),
        ("named", vec![named_rule("", &["configmaps"], &["list"], &["a", "b"])]),
        ("more", vec![rule("", &["configmaps", "secrets"], &["get", "delete", "list"])]),
        ("star", vec![rule("", &["configmaps"], &["*"])]),
        ("group", vec![rule("apps", &["configmaps"], &["get"])]),
        (
            "part",
            vec![rule("", &["configmaps/status"], &["get"]), rule("", &["*/status"], &["get"])],
        ),
        ("names", vec![named_rule("", &["secrets"], &["get", "list"], &["a", "b"])]),
    ] {
        let request = Request::post(t.roles(), role("Role", name, &rules));
        t.send(request.by_account(&me)).await;
    }
}

pub(in crate::cases) async fn role_cannot_grow_beyond_its_writer(t: &mut Script) {
    let me = manager(t).await;
    t.given(t.roles(), role("Role", "r", &[rule("", &["configmaps"], &["get"])])).await;
    let path = format!("{}/r", t.roles());
    let more = [rule("", &["secrets"], &["get"])];
    let change = Request::patch(&path, MERGE_PATCH, json!({"rules": more}));
    t.send(change.by_account(&me)).await;
    let put = Request::new(Method::PUT, &path).json(role("Role", "r", &more));
    t.send(put.by_account(&me)).await;
    let forced = Script::applying(format!("{path}?force=true"), "me", role("Role", "r", &more));
    t.send(forced.by_account(&me)).await;
    let less = json!({"rules": [rule("", &["configmaps"], &["list"])]});
    t.send(Request::patch(&path, MERGE_PATCH, less).by_account(&me)).await;
    t.get(&path).await;
}

pub(in crate::cases) async fn put_that_creates_a_role_is_checked_as_well(t: &mut Script) {
    let me = manager(t).await;
    let rules = [rule("", &["secrets"], &["get"])];
    let path = format!("{}/r", t.roles());
    let put = Request::new(Method::PUT, &path).json(role("Role", "r", &rules));
    t.send(put.by_account(&me)).await;
    t.send(Script::applying(&path, "me", role("Role", "r", &rules)).by_account(&me)).await;
    t.get(&path).await;
}

pub(in crate::cases) async fn escalate_lifts_the_check_of_roles(t: &mut Script) {
    let escalate = named_rule(GROUP, &["roles"], &["escalate"], &["r"]);
    let me = t.account_with("me", &[writer(), escalate]).await;
    let rules = [rule("", &["secrets"], &["get"])];
    // At a create, the name is not known yet.
    t.send(Request::post(t.roles(), role("Role", "r", &rules)).by_account(&me)).await;
    let put = Request::new(Method::PUT, format!("{}/r", t.roles()));
    t.send(put.json(role("Role", "r", &rules)).by_account(&me)).await;
    let put = Request::new(Method::PUT, format!("{}/s", t.roles()));
    t.send(put.json(role("Role", "s", &rules)).by_account(&me)).await;
}

pub(in crate::cases) async fn binding_grants_only_what_its_writer_holds(t: &mut Script) {
    let me = manager(t).await;
    t.given(t.roles(), role("Role", "less", &[rule("", &["configmaps"], &["get"])])).await;
    t.given(t.roles(), role("Role", "more", &[rule("", &["secrets"], &["get"])])).await;
    let subject = json!({"kind": "User", "name": "bob"});
    for to in
        [("Role", "less"), ("Role", "more"), ("ClusterRole", "system:kube-dns"), ("Role", "no")]
    {
        let bound = binding("RoleBinding", to.1, to, std::slice::from_ref(&subject));
        t.send(Request::post(t.role_bindings(), bound).by_account(&me)).await;
    }
    t.given(t.role_bindings(), binding("RoleBinding", "old", ("Role", "more"), &[])).await;
    let path = format!("{}/old", t.role_bindings());
    let change = Request::patch(&path, MERGE_PATCH, json!({"subjects": [subject]}));
    t.send(change.by_account(&me)).await;
    t.get(&path).await;
}

pub(in crate::cases) async fn bind_lifts_the_check_of_bindings(t: &mut Script) {
    let bind = named_rule(GROUP, &["roles", "clusterroles"], &["bind"], &["more", "view"]);
    let me = t.account_with("me", &[writer(), bind]).await;
    t.given(t.roles(), role("Role", "more", &[rule("", &["secrets"], &["get"])])).await;
    t.given(t.roles(), role("Role", "most", &[rule("", &["secrets"], &["get"])])).await;
    let subject = json!({"kind": "Group", "name": "people"});
    for to in [("Role", "more"), ("Role", "most"), ("ClusterRole", "view")] {
        let bound = binding("RoleBinding", to.1, to, std::slice::from_ref(&subject));
        t.send(Request::post(t.role_bindings(), bound).by_account(&me)).await;
    }
}

pub(in crate::cases) async fn cluster_binding_needs_rights_everywhere(t: &mut Script) {
    let me = manager(t).await;
    let bindings = rule(GROUP, &["clusterrolebindings"], &["create"]);
    t.grant_everywhere(&me, &[bindings]).await;
    let name = t.own_name("reader");
    let rules = [rule("", &["configmaps"], &["get"])];
    t.given(format!("{RBAC}/clusterroles"), role("ClusterRole", &name, &rules)).await;
    let bound = binding("ClusterRoleBinding", &name, ("ClusterRole", &name), &[me.subject()]);
    let request = Request::post(format!("{RBAC}/clusterrolebindings"), bound);
    t.send(request.by_account(&me)).await;
}

pub(in crate::cases) async fn owners_and_finalizers_may_be_written_by_anyone(t: &mut Script) {
    let me = t.account_with("me", &[writer()]).await;
    t.given(t.roles(), role("Role", "r", &[rule("", &["secrets"], &["get"])])).await;
    let path = format!("{}/r", t.roles());
    let change = json!({"metadata": {"finalizers": ["example.dev/hold"]}});
    t.send(Request::patch(&path, MERGE_PATCH, change).by_account(&me)).await;
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    t.send(Request::patch(&path, MERGE_PATCH, change).by_account(&me)).await;
    t.merge_patch(&path, json!({"metadata": {"finalizers": null}})).await;
}

pub(in crate::cases) async fn aggregation_needs_all_rights(t: &mut Script) {
    let me = t.account("me").await;
    t.grant_everywhere(&me, &[rule(GROUP, &["clusterroles"], &["create", "patch"])]).await;
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"no": "such"}}]});
    let name = t.own_name("whole");
    let aggregated = with(role("ClusterRole", &name, &[]), "/aggregationRule", selector);
    let roles = format!("{RBAC}/clusterroles");
    t.send(Request::post(&roles, aggregated.clone()).by_account(&me)).await;
    t.given(&roles, aggregated).await;
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let patch = Request::patch(format!("{roles}/{name}"), MERGE_PATCH, change);
    t.send(patch.by_account(&me)).await;
    let url = json!({"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get", "post"]});
    let wide = role("ClusterRole", &t.own_name("wide"), &[url, rule("*", &["*"], &["*"])]);
    t.send(Request::post(&roles, wide).by_account(&me)).await;
}
