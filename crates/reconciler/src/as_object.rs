//! An object as an argument: itself, or in an `Arc`.

use std::sync::Arc;

use kube::Resource;

/// An object of type `T`, or an `Arc` of one, as reconcilers and caches hand it out. So both
/// `&object` and `&*object` can be passed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object",
    label = "pass a reference to an object, or to an `Arc` of one"
)]
pub trait AsObject<T> {
    /// The object.
    fn as_object(&self) -> &T;
}

impl<T: Resource> AsObject<T> for T {
    fn as_object(&self) -> &T {
        self
    }
}

impl<T: Resource> AsObject<T> for Arc<T> {
    fn as_object(&self) -> &T {
        self
    }
}
