//! Invalid roles and bindings are rejected, and a binding cannot change its role.

use serde_json::{Value, json};

use crate::Script;
use crate::fixtures::with;
use crate::request::Request;
use crate::rights::{RBAC, binding, role, rule};

pub(in crate::cases) async fn rules_must_say_something(t: &mut Script) {
    for rules in [
        json!([{}]),
        json!([{"apiGroups": [""], "resources": ["pods"]}]),
        json!([{"verbs": ["get"]}]),
        json!([{"verbs": ["get"], "apiGroups": [""]}]),
        json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}]),
        json!([{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}]),
    ] {
        let object = with(role("Role", "r", &[]), "/rules", rules.clone());
        t.post(t.roles(), object).await;
        let object = with(role("ClusterRole", &t.own_name("r"), &[]), "/rules", rules);
        t.post(format!("{RBAC}/clusterroles?dryRun=All"), object).await;
    }
}

pub(in crate::cases) async fn aggregation_must_select_something(t: &mut Script) {
    let name = t.own_name("r");
    for selectors in [json!([]), json!([{"matchLabels": {"a": "b"}}])] {
        let rule = json!({"clusterRoleSelectors": selectors});
        let object = with(role("ClusterRole", &name, &[]), "/aggregationRule", rule);
        t.post(format!("{RBAC}/clusterroles?dryRun=All"), object).await;
    }
}

pub(in crate::cases) async fn bindings_must_name_a_role_and_somebody(t: &mut Script) {
    let user = json!({"kind": "User", "name": "bob"});
    let bound = |to: Value, subject: &Value| {
        with(
            binding("RoleBinding", "b", ("Role", "r"), std::slice::from_ref(subject)),
            "/roleRef",
            to,
        )
    };
    for to in [
        json!({"kind": "Role", "name": "r"}),
        json!({"kind": "Role", "name": ""}),
        json!({"kind": "Pod", "name": "r"}),
        json!({"kind": "Role", "name": "a/b"}),
        json!({"kind": "Role", "name": "r", "apiGroup": "other.dev"}),
    ] {
        t.post(format!("{}?dryRun=All", t.role_bindings()), bound(to, &user)).await;
    }
    let to = json!({"kind": "Role", "name": "r"});
    for subject in [
        json!({"kind": "User", "name": ""}),
        json!({"kind": "Pod", "name": "x"}),
        json!({"kind": "ServiceAccount", "name": "Not Valid"}),
        json!({"kind": "ServiceAccount", "name": "x", "apiGroup": "other.dev"}),
        json!({"kind": "Group", "name": "x", "apiGroup": "other.dev"}),
    ] {
        t.post(format!("{}?dryRun=All", t.role_bindings()), bound(to.clone(), &subject)).await;
    }
    let account = json!({"kind": "ServiceAccount", "name": "x"});
    let name = t.own_name("b");
    for role in ["Role", "ClusterRole"] {
        let object =
            binding("ClusterRoleBinding", &name, (role, "r"), std::slice::from_ref(&account));
        t.post(format!("{RBAC}/clusterrolebindings?dryRun=All"), object).await;
    }
}

pub(in crate::cases) async fn binding_keeps_its_role(t: &mut Script) {
    t.given(t.role_bindings(), binding("RoleBinding", "b", ("Role", "r"), &[])).await;
    let path = format!("{}/b", t.role_bindings());
    t.merge_patch(&path, json!({"roleRef": {"name": "s"}})).await;
    t.put(&path, binding("RoleBinding", "b", ("ClusterRole", "r"), &[])).await;
    t.merge_patch(&path, json!({"subjects": [{"kind": "User", "name": "bob"}]})).await;
    let name = t.own_name("b");
    let object = binding("ClusterRoleBinding", &name, ("ClusterRole", "no-such"), &[]);
    let bindings = format!("{RBAC}/clusterrolebindings");
    t.given(&bindings, object).await;
    t.merge_patch(format!("{bindings}/{name}"), json!({"roleRef": {"name": "other"}})).await;
}

pub(in crate::cases) async fn roles_are_named_as_paths_allow(t: &mut Script) {
    let rules = [rule("", &["pods"], &["get"])];
    t.post(t.roles(), role("Role", "system:my:role", &rules)).await;
    t.get(format!("{}/system:my:role", t.roles())).await;
    t.post(t.roles(), role("Role", "a%b", &rules)).await;
    t.send(Request::delete(format!("{}/system:my:role", t.roles()))).await;
}
