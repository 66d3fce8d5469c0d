//! Short names for the bounds on the types of objects.

use kube::Resource;
use serde::de::DeserializeOwned;
use windlass_informer::Scope;

/// A type that objects are read as: a Kubernetes type, metadata only, or a type of your own.
/// Implemented for every type that fits.
pub trait ObjectType: DeserializeOwned + Send + Sync + 'static {}

impl<T: DeserializeOwned + Send + Sync + 'static> ObjectType for T {}

/// A type whose kind, group and scope are known at compile time, as those of `k8s-openapi` and of
/// `kube`'s derive. Implemented for every type that fits.
pub trait StaticResource: Resource<DynamicType = (), Scope: Scope> {}

impl<T: Resource<DynamicType = (), Scope: Scope>> StaticResource for T {}
