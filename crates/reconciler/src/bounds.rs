//! Short names for the bounds on the types of objects.

pub use windlass_indexer::ObjectType;
pub use windlass_informer::StaticResource;
