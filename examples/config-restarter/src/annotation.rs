//! The annotations, of workloads unless they say otherwise.

use std::collections::BTreeMap;

/// `"true"` asks for restarts. Every other value, and none, does not.
pub const RESTART: &str = "restarter.example.com/restart-on-config-change";

/// More `ConfigMap`s to look at: `name` or `namespace/name`, separated by commas. None must exist.
pub const EXTRA_CONFIG_MAPS: &str = "restarter.example.com/extra-configmaps";

/// The same for Secrets.
pub const EXTRA_SECRETS: &str = "restarter.example.com/extra-secrets";

/// The hash over the configuration, at the pod template.
pub const HASH: &str = "restarter.example.com/config-hash";

/// Annotations, as objects have them.
pub type Annotations = BTreeMap<String, String>;

/// Whether a workload with these annotations asks for restarts.
pub fn asks_for_restarts(annotations: &Annotations) -> bool {
    annotations.get(RESTART).is_some_and(|value| value == "true")
}
