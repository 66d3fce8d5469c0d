//! One operation: a method at a path.

use serde_json::{Map, Value, json};

use super::catalog::{CATALOG, META};

/// An operation of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiVerb {
    Get,
    List,
    Post,
    Put,
    Patch,
    Delete,
    DeleteCollection,
}

/// A type of the API: group, version and kind.
#[derive(Clone, Debug)]
pub(super) struct KindName {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The properties of an operation.
pub(super) struct Operation<'a> {
    pub(super) action: ApiVerb,
    /// Whether the kind is built-in; operations of custom kinds differ slightly.
    pub(super) is_builtin: bool,
    /// Group and version as in operation ids: `rbacAuthorization` and `v1`.
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    /// The part of the operation id after the group and version, as in `NamespacedPodStatus`.
    pub(super) name: String,
    pub(super) description: String,
    /// The kind in `x-kubernetes-group-version-kind`.
    pub(super) about: KindName,
    /// The full name of the type of its body and its answer.
    pub(super) body: &'a str,
    /// The full name of the type that a deletion returns.
    pub(super) deleted: &'a str,
}

/// Query parameters of lists.
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];

/// Query parameters of deletions.
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

/// Query parameters of deletions of many objects.
const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];

/// Media types of bodies, answers and patches.
const ANSWERS: &[&str] =
    &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
const STREAMS: &[&str] =
    &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const CUSTOM: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

impl ApiVerb {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Get | Self::List => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete | Self::DeleteCollection => "delete",
        }
    }

    /// Returns its name in `x-kubernetes-action`.
    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::DeleteCollection => "deletecollection",
            other => other.method(),
        }
    }

    /// Returns the verb at the beginning of operation ids.
    fn verb(self) -> &'static str {
        match self {
            Self::Get => "read",
            Self::List => "list",
            Self::Post => "create",
            Self::Put => "replace",
            Self::Patch => "patch",
            Self::Delete | Self::DeleteCollection => "delete",
        }
    }
}

impl Operation<'_> {
    /// Returns the names of its parameters, without those of its path.
    pub(super) fn parameters(&self) -> Vec<&'static str> {
        let names: &[&str] = match (self.action, self.is_builtin) {
            (ApiVerb::Get, true) => &[],
            (ApiVerb::Get, false) => &["resourceVersion"],
            (ApiVerb::List, _) | (ApiVerb::DeleteCollection, false) => LIST,
            (ApiVerb::Post | ApiVerb::Put, _) => &["dryRun", "fieldManager", "fieldValidation"],
            (ApiVerb::Patch, _) => &["dryRun", "fieldManager/patch", "fieldValidation", "force"],
            (ApiVerb::Delete, _) => DELETE,
            (ApiVerb::DeleteCollection, true) => DELETE_COLLECTION,
        };
        names.to_vec()
    }

    /// Returns the operation without its parameters.
    pub(super) fn value(&self) -> Value {
        let (group, version) = (self.group, self.version);
        let prefix = format!("{}{}{}", self.action.verb(), capital(group), capital(version));
        let about = &self.about;
        let mut operation = json!({
            "tags": [format!("{group}_{version}")],
            "description": self.description,
            "operationId": format!("{prefix}{}", self.name),
            "responses": self.responses(),
            "x-kubernetes-action": self.action.name(),
            "x-kubernetes-group-version-kind": {
                "group": about.group, "version": about.version, "kind": about.kind,
            },
        });
        if let Some(body) = self.request_body() {
            operation["requestBody"] = body;
        }
        operation
    }

    fn request_body(&self) -> Option<Value> {
        let media = if self.is_builtin { &["*/*"] } else { CUSTOM };
        let options = format!("{META}.DeleteOptions");
        let mut body = match self.action {
            ApiVerb::Get | ApiVerb::List => return None,
            ApiVerb::DeleteCollection if !self.is_builtin => return None,
            ApiVerb::Delete | ApiVerb::DeleteCollection => content(media, &options),
            ApiVerb::Post | ApiVerb::Put => content(media, self.body),
            ApiVerb::Patch => {
                let media = if self.is_builtin { PATCHES } else { &PATCHES[..3] };
                content(media, &format!("{META}.Patch"))
            }
        };
        if matches!(self.action, ApiVerb::Post | ApiVerb::Put | ApiVerb::Patch) {
            body["required"] = json!(true);
        }
        Some(body)
    }

    fn responses(&self) -> Value {
        let status = format!("{META}.Status");
        let codes: &[u16] = match self.action {
            ApiVerb::Get | ApiVerb::List | ApiVerb::DeleteCollection => &[200],
            ApiVerb::Post => &[200, 201, 202],
            ApiVerb::Patch if !self.is_builtin => &[200],
            ApiVerb::Put | ApiVerb::Patch => &[200, 201],
            ApiVerb::Delete => &[200, 202],
        };
        let of = match self.action {
            ApiVerb::DeleteCollection => &status,
            ApiVerb::Delete => self.deleted,
            _ => self.body,
        };
        let mut media = if self.is_builtin { ANSWERS } else { CUSTOM }.to_vec();
        if self.action == ApiVerb::List && self.is_builtin {
            media.extend(STREAMS);
        }
        responses(codes, &media, of)
    }
}

/// Returns the operation at `/apis/GROUP/VERSION/`, which lists the resources.
pub(super) fn resource_list(group: &str, version: &str) -> Value {
    json!({"get": {
        "tags": [format!("{group}_{version}")],
        "description": "get available resources",
        "operationId": format!("get{}{}APIResources", capital(group), capital(version)),
        "responses": responses(&[200], ANSWERS, &format!("{META}.APIResourceList")),
    }})
}

/// Returns a parameter by its name; `kind` is the kind of the object.
pub(super) fn parameter(name: &str, kind: &str) -> Value {
    if name == "name" {
        return json!({
            "name": "name",
            "in": "path",
            "description": format!("name of the {kind}"),
            "required": true,
            "schema": {"type": "string", "uniqueItems": true},
        });
    }
    CATALOG.parameter(name)
}

/// Returns a reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn responses(codes: &[u16], media: &[&str], of: &str) -> Value {
    let mut responses = Map::new();
    for code in codes {
        let description = match code {
            200 => "OK",
            201 => "Created",
            _ => "Accepted",
        };
        let mut response = content(media, of);
        response["description"] = json!(description);
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(responses)
}

fn content(media: &[&str], of: &str) -> Value {
    let schema = json!({"schema": reference(of)});
    let content: Map<String, Value> =
        media.iter().map(|media| ((*media).to_owned(), schema.clone())).collect();
    json!({ "content": content })
}

/// Returns the text with a capital first letter.
pub(super) fn capital(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
