//! The few fields of a pod that matter here, and the index of pods by node.

use serde::Deserialize;
use windlass::indexer::{Cached, Head, Index};

/// A pod, as little of it as the handlers and the index need: the rest is not even decoded. Labels
/// and other metadata are at hand anyway, in the [`Head`].
#[derive(Debug, Deserialize)]
pub struct SlimPod {
    spec: SlimSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SlimSpec {
    node_name: String,
}

impl SlimPod {
    /// The node that it is assigned to.
    pub fn node(&self) -> Option<&str> {
        Some(self.spec.node_name.as_str()).filter(|node| !node.is_empty())
    }
}

/// Whether a pod has a node. One that cannot be read has none.
pub fn is_assigned(pod: &Cached<SlimPod>) -> bool {
    pod.get().is_ok_and(|pod| pod.node().is_some())
}

/// Pods by the node that they are assigned to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByNode;

impl Index for ByNode {
    type View = SlimPod;
    type Value = String;

    fn values(&self, _: &Head, pod: SlimPod) -> impl IntoIterator<Item = String> {
        pod.node().map(str::to_owned)
    }
}
