//! Objects as arguments: by reference or in an `Arc`; of a type whose kind is known at compile
//! time, or of one that says its kind itself.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, PartialObjectMeta, TypeMeta};

/// An object of type `T`, or an `Arc` of one, as reconcilers get it. So both `&object` and
/// `&*object` can be passed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an object of type `{T}`",
    label = "pass a reference to the object, or to an `Arc` of it"
)]
pub trait ObjectRef<T> {
    /// The object.
    fn as_object(&self) -> &T;
}

impl<T: kube::Resource> ObjectRef<T> for T {
    fn as_object(&self) -> &T {
        self
    }
}

impl<T: kube::Resource> ObjectRef<T> for &T {
    fn as_object(&self) -> &T {
        self
    }
}

impl<T: kube::Resource> ObjectRef<T> for Arc<T> {
    fn as_object(&self) -> &T {
        self
    }
}

/// An object that can say its kind: its type does, or for a dynamic one, its `apiVersion` and
/// `kind`. Implemented for every type of `k8s-openapi` and of `kube`'s derive, for
/// [`DynamicObject`], and for the metadata of all of them.
pub trait AnyObject: kube::Resource {
    /// The kind; `None` if a dynamic object does not say it, because it was read as metadata, or
    /// was not read from a server.
    fn object_kind(&self) -> Option<GroupVersionKind>;

    /// The plural of the kind, as in `pods`; `None` if the type does not know it.
    fn object_plural(&self) -> Option<String>;
}

/// How a type of objects tells the kind of one. Implemented for the two ways that `kube` has.
#[doc(hidden)]
pub trait KindOf<K> {
    fn kind_of(object: &K) -> Option<GroupVersionKind>;

    fn plural() -> Option<String> {
        None
    }
}

impl<K: kube::Resource<DynamicType = ()>> KindOf<K> for () {
    fn kind_of(_: &K) -> Option<GroupVersionKind> {
        Some(GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&())))
    }

    fn plural() -> Option<String> {
        Some(K::plural(&()).into_owned())
    }
}

impl KindOf<DynamicObject> for ApiResource {
    fn kind_of(object: &DynamicObject) -> Option<GroupVersionKind> {
        kind_said(object.types.as_ref())
    }
}

impl<K: kube::Resource<DynamicType = Self>> KindOf<PartialObjectMeta<K>> for ApiResource {
    fn kind_of(object: &PartialObjectMeta<K>) -> Option<GroupVersionKind> {
        kind_said(object.types.as_ref())
    }
}

impl<K: kube::Resource> AnyObject for K
where
    K::DynamicType: KindOf<K>,
{
    fn object_kind(&self) -> Option<GroupVersionKind> {
        K::DynamicType::kind_of(self)
    }

    fn object_plural(&self) -> Option<String> {
        K::DynamicType::plural()
    }
}

/// What an object says of itself. The server calls the metadata of every kind by the same name,
/// which says nothing.
fn kind_said(types: Option<&TypeMeta>) -> Option<GroupVersionKind> {
    let types = types.filter(|types| types.kind != "PartialObjectMetadata")?;
    types.try_into().ok()
}

/// The kind, the namespace and the name of an object, for errors: `Pod shop/web`.
pub(crate) fn describe(kind: Option<&str>, meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("without a name");
    let kind = kind.unwrap_or("the object");
    match meta.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;

    fn said(api_version: &str, kind: &str) -> Option<GroupVersionKind> {
        let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let metadata = ObjectMeta::default();
        DynamicObject { types: Some(types), metadata, data: serde_json::json!({}) }.object_kind()
    }

    #[test]
    fn dynamic_object_says_its_kind() {
        let kind = said("apps/v1", "Deployment").expect("a kind");
        assert_eq!((&*kind.group, &*kind.version, &*kind.kind), ("apps", "v1", "Deployment"));
        let kind = said("v1", "Pod").expect("a kind");
        assert_eq!((&*kind.group, &*kind.version, kind.api_version().as_str()), ("", "v1", "v1"));
        assert_eq!(said("meta.k8s.io/v1", "PartialObjectMetadata"), None);
    }

    #[test]
    fn metadata_of_a_type_is_of_the_kind_of_the_type() {
        let metadata = PartialObjectMeta::<Deployment>::default();
        let kind = metadata.object_kind().expect("a kind");
        assert_eq!(kind, GroupVersionKind::gvk("apps", "v1", "Deployment"));
        assert_eq!(metadata.object_plural().as_deref(), Some("deployments"));
    }
}
