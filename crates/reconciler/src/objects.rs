//! Objects as arguments: by reference or in an `Arc`; of a type whose kind is known at compile
//! time, or of one that says its kind itself.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{PartialObjectMeta, TypeMeta};
use windlass_informer::Resource;

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
    fn object_kind(&self) -> Option<ObjectKind>;
}

/// A group, a version and a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version, as in `v1`.
    pub version: String,
    /// The kind, as in `Pod`.
    pub kind: String,
    /// The plural, as in `pods`, if the type knows it.
    pub plural: Option<String>,
}

/// How a type of objects tells the kind of one. Implemented for the two ways that `kube` has.
#[doc(hidden)]
pub trait KindOf<K> {
    fn kind_of(object: &K) -> Option<ObjectKind>;
}

impl<K: kube::Resource<DynamicType = ()>> KindOf<K> for () {
    fn kind_of(_: &K) -> Option<ObjectKind> {
        Some(ObjectKind {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: Some(K::plural(&()).into_owned()),
        })
    }
}

impl KindOf<DynamicObject> for ApiResource {
    fn kind_of(object: &DynamicObject) -> Option<ObjectKind> {
        ObjectKind::said(object.types.as_ref())
    }
}

impl<K: kube::Resource<DynamicType = Self>> KindOf<PartialObjectMeta<K>> for ApiResource {
    fn kind_of(object: &PartialObjectMeta<K>) -> Option<ObjectKind> {
        ObjectKind::said(object.types.as_ref())
    }
}

impl<K: kube::Resource> AnyObject for K
where
    K::DynamicType: KindOf<K>,
{
    fn object_kind(&self) -> Option<ObjectKind> {
        K::DynamicType::kind_of(self)
    }
}

impl ObjectKind {
    /// What an object says of itself. The server calls the metadata of every kind by the same name,
    /// which says nothing.
    fn said(types: Option<&TypeMeta>) -> Option<Self> {
        let types = types.filter(|types| types.kind != "PartialObjectMetadata")?;
        let (group, version) =
            types.api_version.rsplit_once('/').unwrap_or(("", &types.api_version));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: types.kind.clone(),
            plural: None,
        })
    }

    /// The kind of a resource.
    pub(crate) fn of(resource: &Resource) -> Self {
        Self {
            group: resource.group().to_owned(),
            version: resource.version().to_owned(),
            kind: resource.kind().to_owned(),
            plural: Some(resource.plural().to_owned()),
        }
    }

    /// Group and version as in objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
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

    fn said(api_version: &str, kind: &str) -> Option<ObjectKind> {
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
        assert_eq!((&*kind.kind, kind.plural.as_deref()), ("Deployment", Some("deployments")));
    }
}
