//! RBAC bindings.

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::age::Now;
use crate::table::cells::{list, name, text};

pub(super) static CLUSTER_ROLE_BINDINGS: BuiltIn =
    BuiltIn::new(columns::CLUSTERROLEBINDINGS, binding);

pub(super) static ROLE_BINDINGS: BuiltIn = BuiltIn::new(columns::ROLEBINDINGS, binding);

fn binding(object: &Value, now: Now) -> Value {
    let role = &object["roleRef"];
    let role = format!("{}/{}", text(&role["kind"]), text(&role["name"]));
    let subjects = |kind: &str| {
        let subjects = list(&object["subjects"]).iter().filter(|subject| subject["kind"] == kind);
        let shown = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), name_of(subject)),
            _ => name_of(subject).to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    json!([
        name(object),
        role,
        now.age(object),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ])
}

fn name_of(subject: &Value) -> &str {
    text(&subject["name"])
}
