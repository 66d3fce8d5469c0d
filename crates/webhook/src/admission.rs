//! What operators implement to admit objects, and what they are given.

use std::future::Future;

use serde_json::Value;

use crate::review::{AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo, Verb};
use crate::verdict::Verdict;

/// Decides whether objects of a type may be written or deleted.
///
/// `K` is the type of the objects: one with fields, [`DynamicObject`](kube::core::DynamicObject),
/// or [`serde_json::Value`] for the raw object. Implementors write an `async fn`:
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_webhook::{Admission, FieldError, FieldPath, Operation, Validate, Verdict};
///
/// struct ConfigMaps;
///
/// impl Validate<ConfigMap> for ConfigMaps {
///     async fn validate(&self, operation: Operation<'_, ConfigMap>, _: &Admission) -> Verdict {
///         let Operation::Update { old, new } = operation else { return Verdict::allow() };
///         if old.immutable == new.immutable {
///             return Verdict::allow();
///         }
///         let path = FieldPath::new("immutable");
///         Verdict::invalid([FieldError::forbidden(&path, "field is immutable")])
///     }
/// }
/// ```
///
/// A handler must not change anything, unless its webhook is set to have
/// [side effects](crate::Hook::side_effects): the server may refuse the request later, and may
/// call the webhook again.
///
/// # Cancel safety
/// The future is dropped at any `.await`, if the API server gives up or the time is up. A handler
/// that writes something must be able to repeat it. The time bound cannot stop code that blocks
/// the thread.
pub trait Validate<K>: Send + Sync + 'static {
    /// Decides about one operation.
    fn validate(
        &self,
        operation: Operation<'_, K>,
        cx: &Admission,
    ) -> impl Future<Output = Verdict> + Send;
}

/// Fills in fields of objects that are created or updated.
///
/// Only what the handler changes is sent to the server, as a JSON patch. Fields that `K` does not
/// know survive, at any depth, and so do differences in how `K` writes an object. A part of the
/// object that the handler removes, such as an `Option` that it sets to `None`, is removed with all
/// that it contains.
///
/// A handler must be idempotent: the server may call it again on its own result.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_webhook::{Admission, Defaulter};
///
/// struct ConfigMaps;
///
/// impl Defaulter<ConfigMap> for ConfigMaps {
///     fn default(&self, object: &mut ConfigMap, _: &Admission) {
///         object.immutable.get_or_insert(false);
///     }
/// }
/// ```
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Changes the object in place.
    fn default(&self, object: &mut K, cx: &Admission);
}

/// Changes objects that are created or updated, and may refuse them: a [`Defaulter`] that waits or
/// fails.
///
/// The changes of a request that is refused are dropped. All else is as with a [`Defaulter`], and
/// the future is dropped as that of [`Validate`].
pub trait Mutate<K>: Send + Sync + 'static {
    /// Changes the object in place. `old` is the object as it is stored, if it is.
    fn mutate(
        &self,
        object: &mut K,
        old: Option<&K>,
        cx: &Admission,
    ) -> impl Future<Output = Verdict> + Send;
}

/// What is about to happen to an object.
#[derive(Debug)]
pub enum Operation<'a, K> {
    /// It is created.
    Create {
        /// As it will be.
        new: &'a K,
    },
    /// It is updated, patched or applied.
    Update {
        /// As it is.
        old: &'a K,
        /// As it will be.
        new: &'a K,
    },
    /// It is deleted.
    Delete {
        /// As it is.
        old: &'a K,
    },
    /// It is connected to, as by `kubectl exec` or `kubectl proxy`.
    Connect {
        /// What the client asks for, such as `PodExecOptions`.
        options: &'a Value,
    },
}

/// The request that a handler decides about. Its `Debug` output shows no content of the object.
#[derive(Debug)]
pub struct Admission {
    request: AdmissionRequest,
}

impl<'a, K> Operation<'a, K> {
    /// The object as it will be; none if it is deleted or connected to.
    pub fn new_object(&self) -> Option<&'a K> {
        match self {
            Self::Create { new } | Self::Update { new, .. } => Some(new),
            Self::Delete { .. } | Self::Connect { .. } => None,
        }
    }

    /// The object as it is; none if it is created or connected to.
    pub fn old_object(&self) -> Option<&'a K> {
        match self {
            Self::Update { old, .. } | Self::Delete { old } => Some(old),
            Self::Create { .. } | Self::Connect { .. } => None,
        }
    }
}

impl<K> Clone for Operation<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Operation<'_, K> {}

impl Admission {
    /// A request, for a test of a handler.
    pub fn new(request: AdmissionRequest) -> Self {
        Self { request }
    }

    /// All of the request, with the raw objects.
    pub fn request(&self) -> &AdmissionRequest {
        &self.request
    }

    /// Identifies the call in the server's logs and in the span.
    pub fn uid(&self) -> &str {
        &self.request.uid
    }

    /// What happens to the object.
    pub fn verb(&self) -> Verb {
        self.request.operation
    }

    /// The object's name; empty if the server is still to generate it.
    pub fn name(&self) -> &str {
        let request = &self.request;
        if !request.name.is_empty() {
            return &request.name;
        }
        let objects = [&request.object, &request.old_object].into_iter().flatten();
        objects
            .filter_map(|object| object.pointer("/metadata/name")?.as_str())
            .find(|name| !name.is_empty())
            .unwrap_or_default()
    }

    /// The object's namespace; empty if it has none.
    pub fn namespace(&self) -> &str {
        &self.request.namespace
    }

    /// The object's kind.
    pub fn kind(&self) -> &GroupVersionKind {
        &self.request.kind
    }

    /// The object's resource.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.request.resource
    }

    /// `status`, `scale` and so on; none for the object itself.
    pub fn subresource(&self) -> Option<&str> {
        Some(&*self.request.sub_resource).filter(|name| !name.is_empty())
    }

    /// Who sent the request.
    pub fn user(&self) -> &UserInfo {
        &self.request.user_info
    }

    /// Whether nothing of the request will be stored. A handler with side effects must have none
    /// then.
    pub fn is_dry_run(&self) -> bool {
        self.request.dry_run.unwrap_or(false)
    }

    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub fn options(&self) -> Option<&Value> {
        self.request.options.as_ref()
    }

    /// The raw object as it will be, with the fields that the type does not know.
    pub fn raw(&self) -> Option<&Value> {
        self.request.object.as_ref()
    }

    /// The raw object as it is, with the fields that the type does not know.
    pub fn old_raw(&self) -> Option<&Value> {
        self.request.old_object.as_ref()
    }
}
