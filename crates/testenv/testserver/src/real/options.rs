//! What a test may ask of a real control plane.

/// The controllers without which a deletion does not end: of namespaces, and of what has owners.
pub const CLEANUP_CONTROLLERS: [&str; 2] = ["namespace-controller", "garbage-collector-controller"];

/// The controllers that make pods out of other kinds. Nothing runs the pods: there is no node.
pub const WORKLOAD_CONTROLLERS: [&str; 6] = [
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
];

/// Options for [`ControlPlane::start`](super::ControlPlane::start).
#[derive(Clone, Debug, Default)]
pub struct ControlPlaneOptions {
    pub(super) controllers: Vec<String>,
    pub(super) apiserver_flags: Vec<String>,
    pub(super) is_audited: bool,
}

impl ControlPlaneOptions {
    /// A kube-apiserver and etcd with their defaults, and no controllers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs kube-controller-manager with these controllers of it; may be called several times.
    ///
    /// Default: none. Some would write into the namespaces of tests, and are better left out:
    /// `root-ca-certificate-publisher-controller` and `serviceaccount-controller`.
    #[must_use]
    pub fn controllers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.controllers.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds a flag of kube-apiserver, like `--watch-cache=false`; the last of equal ones wins.
    ///
    /// Default: none beside those that make it find etcd, its files and its port.
    #[must_use]
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver_flags.push(flag.into());
        self
    }

    /// Lets kube-apiserver log all writes, for
    /// [`ControlPlane::audit_log`](super::ControlPlane::audit_log). Default: it does not.
    #[must_use]
    pub fn audit_log(mut self) -> Self {
        self.is_audited = true;
        self
    }
}
