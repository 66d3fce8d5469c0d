//! Reading caches in a run.

use std::any::type_name;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use windlass_indexer::{
    ByController, Cached, DecodeError, Index, IndexError, KeyRef, List, Lister, LookUp, ObjectType,
    Snapshot, Uid,
};
use windlass_informer::Resource;

use crate::error::Error;
use crate::error::list;
use crate::run::context::RunContext;
use crate::run::frozen::FrozenCache;

/// A cache as one run sees it: as it was when the run began, with what the run has written since
/// then. [`RunContext::cache`] returns it.
///
/// Every read, by key, as a list or by index, shows the same state, and nothing that others write
/// meanwhile. A write of this run is seen by every read after it; a [`List`] that was taken before
/// it stays as it was.
///
/// What is laid over the cache is the answer to the write, in the form in which the cache would
/// hold it: an object that the informer does not watch, by namespace, label or name, is left out,
/// `managedFields` are cut, and a transform is applied. A deleted object is gone, or has its
/// `deletionTimestamp` as long as a finalizer or a grace period keeps it. These writes are not
/// seen before the next run:
///
/// - those through other clients than [`RunContext::client`], and those whose answer was lost;
/// - the deletion of a collection, and what the server itself does after a write, such as the
///   deletion of children by the garbage collector;
/// - those whose answer is not the object as it is cached: to the subresource `scale`, in another
///   API version, or with metadata alone where whole objects are cached;
/// - new objects, if the informer has a field selector on anything but names and namespaces.
pub struct CacheView<'r, T> {
    cx: &'r RunContext,
    cache: &'r FrozenCache,
    lister: &'r Lister<T>,
}

/// Reading the caches of the controller.
///
/// All caches are frozen when the run begins, so a list agrees with a get, and both with the object
/// that the run was given, however long the run takes. What the run itself writes is seen at once:
/// [`CacheView`] says how. Each cache is of one moment; two caches have a watch each, and one may
/// be a little behind the other.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// # use windlass_indexer::Selector;
/// # use windlass_reconciler::{Action, Error, Reconcile, RunContext};
/// # struct Shops;
/// impl Reconcile<ConfigMap> for Shops {
///     async fn reconcile(&self, shop: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///         // One object, after `.reads(Watch::<Secret>::new())`.
///         let Some(password) = cx.get::<Secret>("shop/password")? else {
///             return Ok(Action::done()); // the creation of the Secret should run this again
///         };
///         // Some objects.
///         let web: Selector = "app=web".parse()?;
///         for pod in &cx.list::<Pod>()?.in_namespace("shop").matching(&web) {
///             println!("{} {:?}", pod.key(), pod.get()?.status);
///         }
///         // The children of this object, after `.owns(Watch::<Pod>::new())`.
///         if cx.owned::<Pod>()?.is_empty() {
///             println!("{} has no pods", cx.key());
///         }
/// #       drop((shop, password));
///         Ok(Action::done())
///     }
/// }
/// ```
impl RunContext {
    /// An object from the cache of its type; `None` if there is none. A key is an `&ObjectKey`,
    /// `(namespace, name)` or `"namespace/name"`.
    ///
    /// # Errors
    /// Returns an error if the object does not decode, or as [`cache`](Self::cache).
    pub fn get<'k, T: ObjectType>(
        &self,
        key: impl Into<KeyRef<'k>>,
    ) -> Result<Option<Arc<T>>, Error> {
        Ok(self.cache::<T>()?.get(key)?)
    }

    /// All objects in the cache of a type. [`List::in_namespace`] and [`List::matching`] restrict
    /// it.
    ///
    /// # Errors
    /// As [`cache`](Self::cache).
    pub fn list<T: ObjectType>(&self) -> Result<List<T>, Error> {
        Ok(self.cache::<T>()?.list())
    }

    /// The children of the reconciled object: objects of a type whose controller it is, by uid. If
    /// the run has no object, there are none.
    ///
    /// # Errors
    /// As [`cache`](Self::cache), and if the controller does not
    /// [own](crate::ControllerBuilder::owns) the type.
    pub fn owned<T: ObjectType>(&self) -> Result<List<T>, Error> {
        self.cache::<T>()?.owned()
    }

    /// The cache of a type that the controller watches, owns or reads.
    ///
    /// # Errors
    /// Returns an error if the controller had no cache of the type when the run began, or several
    /// different ones. The error says what to do.
    pub fn cache<T: ObjectType>(&self) -> Result<CacheView<'_, T>, Error> {
        self.view(None)
    }

    /// The cache of a resource that the controller watches, owns or reads as this type. For types
    /// that fit several resources, such as a dynamic one.
    ///
    /// # Errors
    /// As [`cache`](Self::cache).
    pub fn cache_of<T: ObjectType>(&self, resource: &Resource) -> Result<CacheView<'_, T>, Error> {
        self.view(Some(resource))
    }

    fn view<T: ObjectType>(&self, resource: Option<&Resource>) -> Result<CacheView<'_, T>, Error> {
        let found = self.caches.of_type::<T>(resource);
        let is_same = |one: &FrozenCache, other: &FrozenCache| {
            one.source.cache.is_of_same_cache(&other.source.cache)
        };
        match found.first() {
            Some(&(cache, lister)) if found.iter().all(|(other, _)| is_same(other, cache)) => {
                Ok(CacheView { cx: self, cache, lister })
            }
            _ => Err(self.not_one_cache(&found)),
        }
    }

    /// The error about a type of which there is no cache, or more than one.
    fn not_one_cache<T: ObjectType>(&self, found: &[(&FrozenCache, &Lister<T>)]) -> Error {
        let (controller, name) = (self.controller(), short_name(type_name::<T>()));
        let resources = found.iter().map(|(cache, _)| cache.source.cache.resource().to_string());
        let resources: Vec<_> = resources.collect::<BTreeSet<_>>().into_iter().collect();
        Error::msg(match resources.as_slice() {
            [] => format!(
                "the controller {controller:?} has no cache of {name}: add .reads({}) to its \
                 builder, or .owns or .watches",
                watch_of(&name)
            ),
            [_] => format!(
                "the controller {controller:?} has several caches of {name}, with different \
                 options: watch it once, or give the reconciler the lister that it should read, \
                 from SharedInformerFactory::informer_with"
            ),
            several => format!(
                "the controller {controller:?} has caches of several resources as {name} ({}): \
                 choose one with cache_of",
                list(several)
            ),
        })
    }
}

impl<T: ObjectType> CacheView<'_, T> {
    /// The object with a key; `None` if there is none. A key is an `&ObjectKey`, `(namespace,
    /// name)` or `"namespace/name"`.
    ///
    /// # Errors
    /// Returns an error if the object does not decode as `T`.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Result<Option<Arc<T>>, DecodeError> {
        self.snapshot().get(key).map(|object| self.lister.decoded(object)).transpose()
    }

    /// The handle of the object with a key, which has its metadata. It decodes nothing.
    pub fn cached<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Cached<T>> {
        self.snapshot().get(key).map(|object| self.lister.handle(Arc::clone(object)))
    }

    /// All objects. [`List::in_namespace`] and [`List::matching`] restrict it.
    pub fn list(&self) -> List<T> {
        self.lister.typed(self.snapshot().all())
    }

    /// The children of the reconciled object: those whose controller it is, by uid. If the run has
    /// no object, there are none.
    ///
    /// # Errors
    /// Returns an error if the cache has no index [`ByController`], which
    /// [`owns`](crate::ControllerBuilder::owns) adds.
    pub fn owned(&self) -> Result<List<T>, Error> {
        // Nobody has an empty uid.
        let of_none = Uid::new("");
        let uid = self.cx.object.as_ref().map_or(&of_none, |object| object.head().uid());
        self.by_index::<ByController>(uid).map_err(|_| {
            let (controller, name) = (self.cx.controller(), short_name(type_name::<T>()));
            Error::msg(format!(
                "the controller {controller:?} does not own {name}, so its cache has no index of \
                 owners: use .owns in its builder, or add .options(|informer| \
                 informer.index(ByController)) to the watch, or call add_index(ByController) of \
                 an informer of your own"
            ))
        })
    }

    /// The objects with a value in an index, which an option of the [watch](crate::Watch::options)
    /// adds: `.options(|informer| informer.index(ByNode))`. [`List::in_namespace`] restricts them.
    ///
    /// # Errors
    /// Returns an error if the cache has no such index.
    pub fn by_index<I: Index>(
        &self,
        value: &(impl LookUp<I::Value> + ?Sized),
    ) -> Result<List<T>, IndexError> {
        Ok(self.lister.typed(self.snapshot().by_index::<I>(value)?))
    }

    /// The values that objects have in an index, as texts, in order and each once.
    ///
    /// # Errors
    /// Returns an error if the cache has no such index.
    pub fn index_values<I: Index>(&self) -> Result<Vec<Arc<str>>, IndexError> {
        self.snapshot().index_values::<I>()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.snapshot().len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn snapshot(&self) -> Snapshot {
        self.cache.snapshot(self.cx.recording.get().map(|(_, log)| log))
    }
}

impl<T> fmt::Debug for CacheView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheView").field(self.lister).finish()
    }
}

/// The name of a type without paths, also within its brackets.
fn short_name(name: &str) -> String {
    let is_path = |char: char| char.is_alphanumeric() || matches!(char, '_' | ':');
    let parts = name.split_inclusive(|char| !is_path(char));
    parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect()
}

/// The code that makes a watch of a type.
fn watch_of(name: &str) -> String {
    let metadata = name.strip_prefix("PartialObjectMeta<").and_then(|name| name.strip_suffix('>'));
    match (name, metadata) {
        // The resource is not known from the type.
        ("DynamicObject", _) | (_, Some("DynamicObject")) => {
            format!("Watch::<{name}>::of(resource)")
        }
        (_, Some(of)) => format!("Watch::metadata_of::<{of}>()"),
        (_, None) => format!("Watch::<{name}>::new()"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_watch_is_named_as_it_is_written() {
        let cases = [
            ("k8s_openapi::api::core::v1::Secret", "Watch::<Secret>::new()"),
            ("Foo", "Watch::<Foo>::new()"),
            ("kube_core::PartialObjectMeta<core::v1::Secret>", "Watch::metadata_of::<Secret>()"),
            ("a::Object<b::Spec, c::d::Status>", "Watch::<Object<Spec, Status>>::new()"),
            ("kube_core::dynamic::DynamicObject", "Watch::<DynamicObject>::of(resource)"),
        ];
        for (name, expected) in cases {
            assert_eq!(watch_of(&short_name(name)), expected);
        }
    }
}
