//! `admission.k8s.io/v1` `AdmissionReview`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ADMISSION_VERSION, Status};

/// The envelope of a question or of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionReview {
    /// `admission.k8s.io/v1`.
    pub api_version: String,
    /// `AdmissionReview`.
    pub kind: String,
    /// What the API server asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<AdmissionRequest>,
    /// What the webhook answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<AdmissionResponse>,
}

/// What the API server wants to know: may this happen?
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Identifies this call; the answer has the same.
    pub uid: String,
    /// The kind of `object`.
    #[serde(default)]
    pub kind: GroupVersionKind,
    /// The resource, in the version that the webhook's rule asks for.
    #[serde(default)]
    pub resource: GroupVersionResource,
    /// `status`, `scale` and so on; empty for the object itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sub_resource: String,
    /// The kind that the client sent, which may be another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_kind: Option<GroupVersionKind>,
    /// The resource that the client named, which may be another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_resource: Option<GroupVersionResource>,
    /// The subresource that the client named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_sub_resource: String,
    /// Empty if the server is still to generate it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Empty for objects without a namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What happens to the object.
    pub operation: Verb,
    /// Who sent the request.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it will be; none if it is deleted.
    #[serde(default)]
    pub object: Option<Value>,
    /// The object as it is; none if it is created.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// Whether nothing of the request will be stored.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    #[serde(default)]
    pub options: Option<Value>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What a webhook answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// That of the request.
    pub uid: String,
    /// Whether the request may go on.
    pub allowed: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// A JSON patch of the object, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The type of `patch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<PatchType>,
    /// For the audit log. The server puts the webhook's name before the keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<String, String>,
    /// For the person at the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The only type of patch that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PatchType {
    /// RFC 6902.
    #[serde(rename = "JSONPatch")]
    JsonPatch,
}

/// What happens to the object: the `operation` of a request and of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verb {
    /// It is created.
    Create,
    /// It is changed, by an update, a patch or an apply.
    Update,
    /// It is deleted.
    Delete,
    /// It is connected to, as by `kubectl exec`.
    Connect,
}

/// A kind in a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `Website`.
    pub kind: String,
}

/// A resource in a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupVersionResource {
    /// Empty for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `websites`.
    pub resource: String,
}

/// Who sent a request. Its `Debug` output shows only the name.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// `system:serviceaccount:NAMESPACE:NAME` for a service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// Distinguishes users of the same name over time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups of the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What the authenticator adds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl AdmissionReview {
    /// The envelope of an answer.
    pub fn answer(response: AdmissionResponse) -> Self {
        Self {
            api_version: ADMISSION_VERSION.to_owned(),
            kind: "AdmissionReview".to_owned(),
            request: None,
            response: Some(response),
        }
    }
}

impl Verb {
    /// As the API server writes it: `CREATE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, version, resource } = self;
        if group.is_empty() {
            write!(f, "{version} {resource}")
        } else {
            write!(f, "{group}/{version} {resource}")
        }
    }
}

impl fmt::Debug for AdmissionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionRequest")
            .field("uid", &self.uid)
            .field("operation", &self.operation)
            .field("resource", &self.resource)
            .field("sub_resource", &self.sub_resource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("user_info", &self.user_info)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UserInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserInfo").field("username", &self.username).finish_non_exhaustive()
    }
}
