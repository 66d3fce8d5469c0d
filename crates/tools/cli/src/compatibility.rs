//! Checks whether objects and clients of one release's CRDs work with those of the next.
//!
//! A change is incompatible if an object that was valid is rejected, if a stored field is dropped,
//! or if a request that used to succeed fails. Changed descriptions are not reported. In doubt, a
//! change counts as incompatible.

mod schema;

use std::fmt;

use serde_json::Value;

/// A difference between two definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The definition, the version and the field: `shops.example.com v1 spec.title`.
    pub(crate) path: String,
    pub(crate) what: String,
    pub(crate) is_breaking: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_breaking { "incompatible" } else { "compatible" };
        write!(f, "{word}: {}: {}", self.path, self.what)
    }
}

/// The differences found so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn breaking(&mut self, path: &str, what: impl Into<String>) {
        self.add(path, what.into(), true);
    }

    fn fine(&mut self, path: &str, what: impl Into<String>) {
        self.add(path, what.into(), false);
    }

    fn add(&mut self, path: &str, what: String, is_breaking: bool) {
        self.0.push(Finding { path: path.to_owned(), what, is_breaking });
    }
}

/// Compares all definitions by name.
pub(crate) fn compare(old: &[Value], new: &[Value]) -> Vec<Finding> {
    let mut findings = Findings::default();
    for old in old {
        match new.iter().find(|new| name(new) == name(old)) {
            Some(new) => definition(name(old), &old["spec"], &new["spec"], &mut findings),
            None => findings.breaking(name(old), "the definition is gone"),
        }
    }
    for new in new {
        if !old.iter().any(|old| name(old) == name(new)) {
            findings.fine(name(new), "the definition is new");
        }
    }
    findings.0
}

fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

fn definition(path: &str, old: &Value, new: &Value, findings: &mut Findings) {
    if old["scope"] != new["scope"] {
        findings.breaking(path, format!("the scope was {}, and is {}", old["scope"], new["scope"]));
    }
    let (old_names, new_names) = (&old["names"], &new["names"]);
    for field in ["kind", "listKind", "plural", "singular"] {
        let (old, new) = (&old_names[field], &new_names[field]);
        // The API server fills in defaults for absent names.
        if !old.is_null() && !new.is_null() && old != new {
            findings.breaking(path, format!("names.{field} was {old}, and is {new}"));
        }
    }
    for field in ["shortNames", "categories"] {
        for gone in missing(&old_names[field], &new_names[field]) {
            findings.breaking(path, format!("names.{field} has no {gone} any more"));
        }
        for added in missing(&new_names[field], &old_names[field]) {
            findings.fine(path, format!("names.{field} has {added}, too"));
        }
    }
    if old["conversion"]["strategy"] != new["conversion"]["strategy"] {
        let shown = |of: &Value| of["conversion"]["strategy"].as_str().unwrap_or("None").to_owned();
        let (old, new) = (shown(old), shown(new));
        if old != new {
            let what = format!("the conversion strategy was {old}, and is {new}");
            // Without the webhook, fields that only another version has are lost.
            findings.add(path, what, old != "None");
        }
    }
    let find = |versions: &Value, name: &Value| {
        versions.as_array().into_iter().flatten().find(|it| it["name"] == *name).cloned()
    };
    for old in old["versions"].as_array().into_iter().flatten() {
        let path = format!("{path} {}", old["name"].as_str().unwrap_or_default());
        match find(&new["versions"], &old["name"]) {
            Some(new) => version(&path, old, &new, findings),
            None => findings.breaking(&path, "the version is gone"),
        }
    }
    for new in new["versions"].as_array().into_iter().flatten() {
        if find(&old["versions"], &new["name"]).is_none() {
            let path = format!("{path} {}", new["name"].as_str().unwrap_or_default());
            findings.fine(&path, "the version is new");
        }
    }
}

fn version(path: &str, old: &Value, new: &Value, findings: &mut Findings) {
    match (is_true(&old["served"]), is_true(&new["served"])) {
        (true, false) => findings.breaking(path, "the version is not served any more"),
        (false, true) => findings.fine(path, "the version is served again"),
        _ => {}
    }
    if is_true(&old["storage"]) != is_true(&new["storage"]) {
        let what = if is_true(&new["storage"]) { "is" } else { "is not" };
        findings.fine(path, format!("the version {what} the stored one now"));
    }
    for name in ["status", "scale"] {
        let (old, new) = (&old["subresources"][name], &new["subresources"][name]);
        match (old.is_null(), new.is_null()) {
            (false, true) => findings.breaking(path, format!("the subresource {name} is gone")),
            (true, false) if name == "status" => findings.breaking(
                path,
                "the subresource status is new: writes of the object ignore its status from now on",
            ),
            (true, false) => findings.fine(path, format!("the subresource {name} is new")),
            _ if old != new => findings.breaking(path, format!("the subresource {name} differs")),
            _ => {}
        }
    }
    for gone in missing(&old["selectableFields"], &new["selectableFields"]) {
        let field = gone["jsonPath"].as_str().unwrap_or_default();
        findings.breaking(path, format!("the field {field} cannot be selected any more"));
    }
    if old["additionalPrinterColumns"] != new["additionalPrinterColumns"] {
        findings.fine(path, "the columns of `kubectl get` differ");
    }
    let root = schema::SchemaPath { definition: path, field: String::new() };
    let schema = |of: &Value| of["schema"]["openAPIV3Schema"].clone();
    schema::compare(&root, &schema(old), &schema(new), findings);
}

fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// The elements of the list `of` that the list `from` does not have.
fn missing<'a>(of: &'a Value, from: &'a Value) -> impl Iterator<Item = &'a Value> {
    let others = from.as_array().map(Vec::as_slice).unwrap_or_default();
    of.as_array().into_iter().flatten().filter(|one| !others.contains(one))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shop() -> Value {
        json!({
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "shops.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": "Shop", "plural": "shops", "shortNames": ["sh"]},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        })
    }

    /// Returns the findings for this change.
    fn found(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut new = shop();
        change(&mut new);
        compare(&[shop()], &[new]).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn same_definition_has_no_findings() {
        assert_eq!(found(|_| ()), [""; 0]);
        // The server's copy has additional fields.
        assert_eq!(found(|new| new["spec"]["names"]["singular"] = json!("shop")), [""; 0]);
    }

    #[test]
    fn names_and_scope_stay() {
        let other = found(|new| new["metadata"]["name"] = json!("stores.example.com"));
        assert_eq!(
            other,
            [
                "incompatible: shops.example.com: the definition is gone",
                "compatible: stores.example.com: the definition is new"
            ]
        );
        let cluster = found(|new| new["spec"]["scope"] = json!("Cluster"));
        assert_eq!(
            cluster,
            ["incompatible: shops.example.com: the scope was \"Namespaced\", and is \"Cluster\""]
        );
        let kind = found(|new| new["spec"]["names"]["kind"] = json!("Store"));
        assert_eq!(
            kind,
            ["incompatible: shops.example.com: names.kind was \"Shop\", and is \"Store\""]
        );
        let short = found(|new| new["spec"]["names"]["shortNames"] = json!(["so"]));
        assert_eq!(
            short,
            [
                "incompatible: shops.example.com: names.shortNames has no \"sh\" any more",
                "compatible: shops.example.com: names.shortNames has \"so\", too"
            ]
        );
    }

    #[test]
    fn version_must_not_vanish_or_stop_being_served() {
        let gone = found(|new| new["spec"]["versions"][0]["name"] = json!("v2"));
        assert_eq!(
            gone,
            [
                "incompatible: shops.example.com v1: the version is gone",
                "compatible: shops.example.com v2: the version is new"
            ]
        );
        let unserved = found(|new| new["spec"]["versions"][0]["served"] = json!(false));
        assert_eq!(
            unserved,
            ["incompatible: shops.example.com v1: the version is not served any more"]
        );
        let status = found(|new| new["spec"]["versions"][0]["subresources"] = json!({}));
        assert_eq!(status, ["incompatible: shops.example.com v1: the subresource status is gone"]);
    }

    #[test]
    fn new_status_subresource_and_lost_conversion_break() {
        let found = |change: fn(&mut Value)| {
            let mut other = shop();
            change(&mut other["spec"]);
            let shown = |old, new| {
                let findings = compare(&[old], &[new]);
                findings.iter().map(Finding::to_string).collect::<Vec<_>>()
            };
            (shown(shop(), other.clone()), shown(other, shop()))
        };
        let (_, is_new) = found(|spec| spec["versions"][0]["subresources"] = json!({}));
        assert_eq!(is_new.len(), 1, "{is_new:?}");
        assert!(
            is_new[0].starts_with("incompatible: shops.example.com v1: the subresource status")
        );
        let (scale, _) =
            found(|spec| spec["versions"][0]["subresources"] = json!({"status": {}, "scale": {}}));
        assert_eq!(scale, ["compatible: shops.example.com v1: the subresource scale is new"]);
        let (webhook, none) = found(|spec| spec["conversion"] = json!({"strategy": "Webhook"}));
        let path = "shops.example.com: the conversion strategy was";
        assert_eq!(webhook, [format!("compatible: {path} None, and is Webhook")]);
        assert_eq!(none, [format!("incompatible: {path} Webhook, and is None")]);
    }
}
