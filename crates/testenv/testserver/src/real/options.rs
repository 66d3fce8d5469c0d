//! The options of a real control plane.

/// The controllers that complete deletions: of namespaces, and of objects with owners.
pub const CLEANUP_CONTROLLERS: [&str; 2] = ["namespace-controller", "garbage-collector-controller"];

/// The controllers that create pods for other kinds. Nothing runs the pods: there is no node.
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
    /// Returns the defaults: kube-apiserver and etcd with default settings, no controllers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs these controllers in kube-controller-manager; may be called several times.
    ///
    /// Default: no controllers. Some write into the namespaces of tests, and are better left out:
    /// `root-ca-certificate-publisher-controller` and `serviceaccount-controller`.
    #[must_use]
    pub fn controllers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.controllers.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds a flag of kube-apiserver, such as `--watch-cache=false`; a later duplicate wins.
    ///
    /// Default: only the flags for etcd, files and port.
    #[must_use]
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver_flags.push(flag.into());
        self
    }

    /// Makes kube-apiserver log all writes, for
    /// [`ControlPlane::audit_log`](super::ControlPlane::audit_log). Default: off.
    #[must_use]
    pub fn audit_log(mut self) -> Self {
        self.is_audited = true;
        self
    }
}
