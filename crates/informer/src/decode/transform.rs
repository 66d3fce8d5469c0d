//! A change to every object before it is cached.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use windlass_nesting::{StackError, depth, with_stack_for};

/// Changes every object once, before it is cached. Use it to drop fields that are never read.
///
/// It is not needed for `managedFields`, which are cut by default. If you need only a few fields of
/// a large type, a resident type of your own is smaller and faster. The name is part of an
/// informer's identity: two informers whose transforms have the same name are shared.
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
    /// Creates a transform with a name that says what it does. It must not change the name,
    /// namespace, uid and version of an object.
    pub fn new(name: &str, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self { name: name.into(), change: Arc::new(change) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The changed object, or why there is none. The caller must not cache such an object
    /// unchanged, because it may contain what the transform removes.
    pub(crate) fn apply(&self, object: &[u8]) -> Result<Box<[u8]>, &'static str> {
        let changed = || {
            let mut value = windlass_nesting::from_slice::<Value>(object).ok()?;
            (self.change)(&mut value);
            Some(value.to_string().into_bytes().into_boxed_slice())
        };
        match with_stack_for(depth(object), changed) {
            Ok(changed) => {
                changed.ok_or("it cannot be read as JSON, so its transform cannot be applied")
            }
            Err(StackError::Thread(_)) => {
                Err("no thread with a large stack could be started for its transform")
            }
            Err(_) => Err("it is nested too deeply for its transform"),
        }
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transform({:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests have the 2 MiB of stack that the tasks of feeds have.
    #[test]
    fn objects_of_any_depth_that_a_server_takes_are_changed() {
        let transform = Transform::new("without-status", |object| {
            let fields = object.as_object_mut().expect("an object");
            fields.remove("status");
        });
        for levels in [1, 126, 127, 10_000] {
            let spec = format!("{}7{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
            let object = format!(r#"{{"spec":{spec},"status":{spec}}}"#);
            let changed = transform.apply(object.as_bytes()).expect("it is JSON");
            assert!(*changed == *format!(r#"{{"spec":{spec}}}"#).as_bytes(), "{levels} levels");
        }
        let too_deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let too_deep = transform.apply(too_deep.as_bytes());
        assert_eq!(too_deep, Err("it is nested too deeply for its transform"));
        let cut_off = transform.apply(b"{");
        assert_eq!(cut_off, Err("it cannot be read as JSON, so its transform cannot be applied"));
    }
}
