//! Which versions of Kubernetes and etcd are built: those of the two go.mod files, and nowhere
//! else.
//!
//! `windlass-testkit` has to know them too, to look in the right folder, and this program shall not
//! need an API server to compile; so its constants are a copy, and a test here compares them.

use std::fs;

use anyhow::{Context, Result};

use crate::process::workspace_root;

/// The versions, without a leading `v`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Release {
    /// Of kube-apiserver and kube-controller-manager.
    pub(super) kubernetes: String,
    /// Of etcd.
    pub(super) etcd: String,
}

impl Release {
    /// Reads the versions from the modules.
    ///
    /// # Errors
    /// If a go.mod cannot be read or does not require what it is there for.
    pub(super) fn read() -> Result<Self> {
        Ok(Self {
            kubernetes: required("xtask/kube/control-plane/go.mod", "k8s.io/kubernetes")?,
            etcd: required("xtask/kube/etcd/go.mod", "go.etcd.io/etcd/server/v3")?,
        })
    }

    /// The name of the folder for programs of these versions.
    pub(super) fn folder_name(&self) -> String {
        format!("kube-{}-etcd-{}", self.kubernetes, self.etcd)
    }

    /// `("1", "36")` of `1.36.3`; a part that is not there is empty.
    pub(super) fn kubernetes_minor(&self) -> (&str, &str) {
        let mut parts = self.kubernetes.split('.');
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}

fn required(path: &str, module: &str) -> Result<String> {
    let manifest = fs::read_to_string(workspace_root()?.join(path))
        .with_context(|| format!("{path} could not be read"))?;
    required_version(&manifest, module)
        .map(str::to_owned)
        .with_context(|| format!("{path} does not require {module}"))
}

/// The version of `require k8s.io/kubernetes v1.36.3`, alone or as a line of a block.
fn required_version<'a>(manifest: &'a str, module: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| {
        let line = line.trim();
        let mut words = line.strip_prefix("require ").unwrap_or(line).split_whitespace();
        (words.next() == Some(module)).then(|| words.next()?.strip_prefix('v')).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_alone_and_in_a_block() {
        let manifest = "module a\n\nrequire b/c v1.2.3\n\nrequire (\n\td v0.4.0 // indirect\n)\n";
        assert_eq!(required_version(manifest, "b/c"), Some("1.2.3"));
        assert_eq!(required_version(manifest, "d"), Some("0.4.0"));
        assert_eq!(required_version(manifest, "e"), None);
    }

    #[test]
    fn test_kit_looks_for_the_versions_that_are_built() {
        let release = Release::read().expect("the modules must be there");
        let root = workspace_root().expect("tests run under cargo");
        let source = fs::read_to_string(root.join("crates/testkit/src/real/assets.rs"))
            .expect("the test kit must be there");
        for (name, version) in
            [("KUBERNETES_VERSION", &release.kubernetes), ("ETCD_VERSION", &release.etcd)]
        {
            let line = format!("pub const {name}: &str = \"{version}\";");
            assert!(source.contains(&line), "testkit's assets.rs lacks `{line}`");
        }
    }
}
