//! What a handler reads of a pod that wants more than to know of it: a few fields.

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

/// A type of pods that can be read.
pub(crate) trait Look {
    /// Reads a few fields and makes a number of them.
    fn look(&self) -> usize;
}

impl Look for Pod {
    fn look(&self) -> usize {
        let spec = self.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.as_ref()).map_or(0, String::len);
        let containers = spec.map_or(0, |spec| spec.containers.len());
        let status = self.status.as_ref();
        let address = status.and_then(|status| status.pod_ip.as_ref()).map_or(0, String::len);
        node + containers + address
    }
}

/// All that some users need of a pod beside its metadata: where it runs, and how it is.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SlimPod {
    spec: SlimSpec,
    status: SlimStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimSpec {
    node_name: Option<Box<str>>,
}

#[derive(Clone, Debug, Deserialize)]
struct SlimStatus {
    phase: Box<str>,
}

impl Look for SlimPod {
    fn look(&self) -> usize {
        self.spec.node_name.as_ref().map_or(0, |name| name.len()) + self.status.phase.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_types_read_the_same_object() {
        let object = serde_json::json!({
            "metadata": {"name": "web"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}]},
            "status": {"phase": "Running", "podIP": "1.1.1.1"},
        });
        let pod: Pod = serde_json::from_value(object.clone()).expect("a pod");
        assert_eq!(pod.look(), 2 + 1 + 7);
        let slim: SlimPod = serde_json::from_value(object).expect("a slim pod");
        assert_eq!(slim.look(), 2 + 7);
    }
}
