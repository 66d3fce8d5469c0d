//! A change to every object before it is cached.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Changes every object on its way into the cache, once: what nobody reads need not be held.
///
/// Cutting `managedFields` needs none, that is the default; and for a few fields of a large type a resident
/// type of your own is smaller and faster. The name is part of an informer's identity: two informers with the
/// same one are shared.
///
/// ```
/// use windlass_informer::Transform;
///
/// let without_status = Transform::new("without-status", |object| {
///     object.as_object_mut().map(|object| object.remove("status"));
/// });
/// ```
#[derive(Clone)]
pub struct Transform {
    name: Arc<str>,
    change: Arc<dyn Fn(&mut Value) + Send + Sync>,
}

impl Transform {
    /// A transform by a name that says what it does. It must not touch the name, namespace, uid and version.
    pub fn new(name: &str, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self { name: name.into(), change: Arc::new(change) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object as it is to be held; `None` if it cannot be read to be changed. It must not be held as it came
    /// then: it may have what the transform is to take away.
    pub(crate) fn apply(&self, object: &[u8]) -> Option<Box<[u8]>> {
        let mut value = serde_json::from_slice::<Value>(object).ok()?;
        (self.change)(&mut value);
        Some(value.to_string().into_bytes().into_boxed_slice())
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transform({:?})", self.name)
    }
}
