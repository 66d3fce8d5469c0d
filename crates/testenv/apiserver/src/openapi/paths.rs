//! The paths of a kind, and their operations.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::catalog::{CATALOG, META};
use super::operation::{ApiVerb, KindName, Operation, capital, parameter};
use crate::discovery::{Subresource, subresources};
use crate::kind::{Kind, Verbs, Version};

/// The paths of one kind in one of its versions.
pub(super) struct Paths<'a> {
    pub(super) kind: &'a Kind,
    pub(super) version: &'a Version,
    /// The group as in operation ids.
    pub(super) group: &'a str,
    /// The full names of the types of objects and lists.
    pub(super) object: &'a str,
    pub(super) list: &'a str,
}

/// The operations at one path, and the parameters of the path itself.
struct PathItem<'a> {
    path: String,
    fixed: Vec<&'static str>,
    operations: Vec<Operation<'a>>,
}

impl Paths<'_> {
    /// Returns all paths by their templates.
    pub(super) fn items(&self) -> BTreeMap<String, Value> {
        let mut items = vec![self.collection()];
        if self.kind.rules.verbs != Verbs::CreateOnly {
            items.push(self.object());
            if self.kind.namespaced {
                items.push(self.everywhere());
            }
        }
        let parts = subresources(self.kind, self.version);
        items.extend(parts.iter().filter_map(|part| self.part(part)));
        items.into_iter().map(PathItem::entry).collect()
    }

    fn collection(&self) -> PathItem<'_> {
        let actions: &[ApiVerb] = match self.kind.rules.verbs {
            Verbs::All => &[ApiVerb::List, ApiVerb::Post, ApiVerb::DeleteCollection],
            Verbs::AllButDeleteCollection => &[ApiVerb::List, ApiVerb::Post],
            Verbs::CreateOnly => &[ApiVerb::Post],
        };
        let operations = actions.iter().map(|&action| self.operation(action)).collect();
        PathItem { path: self.path(), fixed: self.fixed(&["pretty"]), operations }
    }

    fn object(&self) -> PathItem<'_> {
        let actions = [ApiVerb::Get, ApiVerb::Put, ApiVerb::Patch, ApiVerb::Delete];
        let operations = actions.into_iter().map(|action| self.operation(action)).collect();
        let path = format!("{}/{{name}}", self.path());
        PathItem { path, fixed: self.fixed(&["name", "pretty"]), operations }
    }

    /// Returns the path of the objects in all namespaces.
    fn everywhere(&self) -> PathItem<'_> {
        let mut list = self.operation(ApiVerb::List);
        list.name = format!("{}ForAllNamespaces", self.kind.kind);
        let path = format!("{}/{}", self.root(), self.kind.plural);
        PathItem { path, fixed: vec!["pretty"], operations: vec![list] }
    }

    /// Returns the path of a subresource, or `None` if its type is not in the catalog.
    fn part(&self, part: &Subresource) -> Option<PathItem<'_>> {
        let is_builtin = self.kind.is_builtin();
        // Discovery names the group only if it differs from that of the resource.
        let (group, version) = part.foreign.unwrap_or((&self.kind.group, &self.version.name));
        let is_own = part.kind == self.kind.kind;
        let body =
            if is_own { self.object } else { CATALOG.type_of(group, version, &part.kind)? };
        // Operations of custom kinds always name the custom kind.
        let about = if is_own || !is_builtin {
            self.about()
        } else {
            KindName {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: part.kind.clone(),
            }
        };
        let actions = [
            ("get", ApiVerb::Get),
            ("update", ApiVerb::Put),
            ("patch", ApiVerb::Patch),
            ("create", ApiVerb::Post),
        ];
        let can = actions.into_iter().filter(|(verb, _)| part.verbs.contains(verb));
        let operation = |(_, action)| {
            let kind = &self.kind.kind;
            let name = format!("{}{kind}{}", self.scope(), capital(part.name));
            let description = match action {
                ApiVerb::Post => format!("create {} of{}{kind}", part.name, article(kind)),
                action => format!("{} {} of the specified {kind}", change(action), part.name),
            };
            let about = about.clone();
            Operation { name, description, about, body, ..self.operation(action) }
        };
        Some(PathItem {
            path: format!("{}/{{name}}/{}", self.path(), part.name),
            fixed: self.fixed(&["name", "pretty"]),
            operations: can.map(operation).collect(),
        })
    }

    fn operation(&self, action: ApiVerb) -> Operation<'_> {
        let kind = &self.kind.kind;
        let is_builtin = self.kind.is_builtin();
        let article = article(kind);
        let description = match action {
            ApiVerb::List if is_builtin => format!("list or watch objects of kind {kind}"),
            ApiVerb::List => format!("list objects of kind {kind}"),
            ApiVerb::Post => format!("create{article}{kind}"),
            ApiVerb::Delete => format!("delete{article}{kind}"),
            ApiVerb::DeleteCollection => format!("delete collection of {kind}"),
            action => format!("{} the specified {kind}", change(action)),
        };
        let collection = if action == ApiVerb::DeleteCollection { "Collection" } else { "" };
        Operation {
            action,
            is_builtin,
            group: self.group,
            version: &self.version.name,
            name: format!("{collection}{}{kind}", self.scope()),
            description,
            about: self.about(),
            body: if action == ApiVerb::List { self.list } else { self.object },
            deleted: self.deleted(),
        }
    }

    /// Returns the documented answer of a deletion. For namespaces it is a status, although the
    /// real server returns the object.
    fn deleted(&self) -> &str {
        let returns_object = self.kind.rules.returns_deleted && !self.kind.is("", "namespaces");
        if returns_object { self.object } else { STATUS }
    }

    fn about(&self) -> KindName {
        KindName {
            group: self.kind.group.clone(),
            version: self.version.name.clone(),
            kind: self.kind.kind.clone(),
        }
    }

    fn scope(&self) -> &'static str {
        if self.kind.namespaced { "Namespaced" } else { "" }
    }

    fn root(&self) -> String {
        let prefix = if self.kind.group.is_empty() { "/api" } else { "/apis" };
        format!("{prefix}/{}", self.kind.api_version(&self.version.name))
    }

    fn path(&self) -> String {
        let namespace = if self.kind.namespaced { "/namespaces/{namespace}" } else { "" };
        format!("{}{namespace}/{}", self.root(), self.kind.plural)
    }

    fn fixed(&self, names: &[&'static str]) -> Vec<&'static str> {
        let namespace = self.kind.namespaced.then_some("namespace");
        names.iter().copied().chain(namespace).collect()
    }
}

/// The documented answer of most deletions.
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const _: () = assert!(META.len() + ".Status".len() == STATUS.len());

impl PathItem<'_> {
    /// Returns the path with its operations. Parameters that all operations have become parameters
    /// of the path.
    fn entry(self) -> (String, Value) {
        let first = self.operations.first().map(Operation::parameters);
        let mut common = first.unwrap_or_default();
        for operation in &self.operations {
            let own = operation.parameters();
            common.retain(|name| own.contains(name));
        }
        let kind = self.operations.first().map_or("", |operation| &*operation.about.kind);
        let mut item = Map::new();
        for operation in &self.operations {
            let own = operation.parameters().into_iter().filter(|name| !common.contains(name));
            let own: Vec<Value> = own.map(|name| parameter(name, kind)).collect();
            let mut value = operation.value();
            if !own.is_empty() {
                value["parameters"] = Value::Array(own);
            }
            item.insert(operation.action.method().to_owned(), value);
        }
        common.extend(self.fixed);
        common.sort_unstable();
        let common = common.into_iter().map(|name| parameter(name, kind)).collect();
        item.insert("parameters".to_owned(), Value::Array(common));
        (self.path, Value::Object(item))
    }
}

fn change(action: ApiVerb) -> &'static str {
    match action {
        ApiVerb::Put => "replace",
        ApiVerb::Patch => "partially update",
        _ => "read",
    }
}

/// Returns the article of a kind with spaces around it, or a space for a plural.
fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        " "
    } else if kind.starts_with(['A', 'E', 'I', 'O', 'U']) {
        " an "
    } else {
        " a "
    }
}
