//! The attributes of a write, as webhooks receive them.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kinds::Registered;
use crate::user::User;

/// The operation of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// A group, a version, and a kind or a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupVersion {
    pub(crate) group: String,
    pub(crate) version: String,
    /// The name of the kind, or of the resource.
    pub(crate) name: String,
}

/// One write of one object, as webhooks see it.
#[derive(Clone)]
pub(crate) struct Attributes {
    /// The kind of the resource in the path. It knows the other versions.
    pub(crate) of: Arc<Registered>,
    pub(crate) operation: Operation,
    /// The type of the objects: that of the resource, or that of the subresource.
    pub(crate) kind: GroupVersion,
    pub(crate) resource: GroupVersion,
    pub(crate) subresource: String,
    /// The namespace in the path; for a namespace, its own name.
    pub(crate) namespace: String,
    /// Empty if the name will be generated, or if a collection is deleted.
    pub(crate) name: String,
    /// The new object with its type; null for a deletion.
    pub(crate) object: Value,
    /// The old object with its type; null for a creation.
    pub(crate) old: Value,
    /// `CreateOptions` or the like.
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
    pub(crate) user: User,
}

/// Objects may be secrets: only the operation, the resource and the name are shown.
impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.operation.name(), self.resource.name, self.name)
    }
}

/// Writes are equal if a webhook would be asked the same. The user is not compared: it is the same
/// in all attempts at a request.
impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        (&self.kind, &self.resource, &self.subresource, &self.namespace, &self.name)
            == (&other.kind, &other.resource, &other.subresource, &other.namespace, &other.name)
            && self.operation == other.operation
            && self.dry_run == other.dry_run
            && self.object == other.object
            && self.old == other.old
            && self.options == other.options
    }
}

impl Operation {
    /// Returns the name of the operation in rules and reviews.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the `kind` of the options.
    pub(crate) fn options_kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Delete => "DeleteOptions",
        }
    }
}

impl GroupVersion {
    /// Returns `apps/v1`, or just `v1` in the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn as_kind(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.name})
    }

    fn as_resource(&self) -> Value {
        json!({"group": self.group, "version": self.version, "resource": self.name})
    }
}

impl Attributes {
    /// Returns the `AdmissionRequest` without its uid and its objects. `version` is the version in
    /// which the webhook wants its objects.
    pub(crate) fn request(&self, version: &str) -> Map<String, Value> {
        let in_version = |of: &GroupVersion| {
            // The type of a subresource has its own versions.
            if of.group == self.resource.group && of.version == self.resource.version {
                GroupVersion { version: version.to_owned(), ..of.clone() }
            } else {
                of.clone()
            }
        };
        let mut request = Map::new();
        let mut put = |field: &str, value: Value| request.insert(field.to_owned(), value);
        put("kind", in_version(&self.kind).as_kind());
        put("resource", in_version(&self.resource).as_resource());
        put("requestKind", self.kind.as_kind());
        put("requestResource", self.resource.as_resource());
        for (field, text) in [
            ("subResource", &self.subresource),
            ("requestSubResource", &self.subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                put(field, text.as_str().into());
            }
        }
        put("operation", self.operation.name().into());
        put("userInfo", user_info(&self.user));
        put("dryRun", self.dry_run.into());
        put("options", self.options.clone());
        request
    }
}

/// Returns a user without empty fields.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
