//! One object: a small `ConfigMap`.
//!
//! It is made and changed by one field manager, so that the server keeps one entry of its books on
//! it.

use serde_json::{Value, json};
use windlass_bench_controller::name;
use windlass_bench_stage::STAMP;

/// Who makes and changes objects, as it stands in their managed fields.
pub(crate) const MANAGER: &str = "controller-bench";

/// Namespaces over which the objects are spread.
pub(crate) const NAMESPACES: usize = 100;

/// The namespace of the object with this index.
pub(crate) fn namespace(index: usize) -> String {
    format!("bench-{:02}", index % NAMESPACES)
}

/// The path of its namespace's objects.
pub(crate) fn path(index: usize) -> String {
    format!("/api/v1/namespaces/{}/configmaps", namespace(index))
}

/// The object with this index and stamp.
pub(crate) fn object(index: usize, stamp: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name(index),
            "namespace": namespace(index),
            "labels": {"app": "bench", STAMP: stamp.to_string()},
        },
        "data": {"color": "blue", "value": index.to_string()},
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use windlass_bench_stage::{NEVER, now_nanos};

    use super::*;

    #[test]
    fn objects_have_names_of_their_own_in_all_namespaces() {
        let names: BTreeSet<_> = (0..1000).map(name).collect();
        assert_eq!(names.len(), 1000);
        let namespaces: BTreeSet<_> = (0..1000).map(namespace).collect();
        assert_eq!(namespaces.len(), NAMESPACES);
    }

    #[test]
    fn change_is_as_long_as_the_object() {
        let length = |stamp| object(7, stamp).to_string().len();
        assert_eq!(length(NEVER), length(now_nanos()));
    }
}
