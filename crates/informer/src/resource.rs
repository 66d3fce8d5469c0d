//! The resource of an informer: the parts of its path, and the kind of its objects.

use std::fmt;
use std::sync::Arc;

use kube::api::ApiResource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};

/// A resource of the Kubernetes API: a plural under a group and a version.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use windlass_informer::Resource;
///
/// let deployments = Resource::of::<Deployment>();
/// assert_eq!(deployments.to_string(), "deployments.v1.apps");
/// assert_eq!(deployments.path(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
/// ```
///
/// Cheap to clone: every error and every observation has one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource(Arc<Parts>);

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Parts {
    group: String,
    version: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

/// The scopes that types declare: namespaced or cluster-wide.
pub trait Scope {
    /// Whether objects are in namespaces.
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

/// A type whose kind, group and scope are known at compile time, as those of `k8s-openapi` and of
/// `kube`'s derive. Implemented for every type that fits.
pub trait StaticResource: kube::Resource<DynamicType = (), Scope: Scope> {}

impl<T: kube::Resource<DynamicType = (), Scope: Scope>> StaticResource for T {}

impl Resource {
    /// The resource of a type of `k8s-openapi`, or of a derived custom resource.
    pub fn of<K: StaticResource>() -> Self {
        Self::new(&ApiResource::erase::<K>(&()), K::Scope::NAMESPACED)
    }

    /// A resource that is known only at run time, from discovery.
    pub fn new(resource: &ApiResource, namespaced: bool) -> Self {
        Self(Arc::new(Parts {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespaced,
        }))
    }

    /// The group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// The version, as in `v1`.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The kind, as in `Pod`.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The plural, as in `pods`.
    pub fn plural(&self) -> &str {
        &self.0.plural
    }

    /// Whether objects are in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.0.namespaced
    }

    /// Group and version as in objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.0.group.as_str() {
            "" => self.0.version.clone(),
            group => format!("{group}/{}", self.0.version),
        }
    }

    /// The path of all objects, or of those in a namespace.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.0.group.as_str() {
            "" => format!("/api/{}", self.0.version),
            group => format!("/apis/{group}/{}", self.0.version),
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.0.plural),
            None => format!("{root}/{}", self.0.plural),
        }
    }
}

impl fmt::Display for Resource {
    /// `pods.v1` or `deployments.v1.apps`, the form that `kubectl get` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.plural, self.0.version)?;
        match self.0.group.as_str() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({self})")
    }
}
