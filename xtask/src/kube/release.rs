//! The versions of Kubernetes and etcd to build, which only the go.mod files define.
//!
//! There is one module for our version of Kubernetes, and one for each older minor version that the
//! nightly tier tests with. All of them use the same etcd.
//!
//! `windlass-testserver` needs the versions, too, to find the folder, and this program should
//! compile without an API server. So its constants are a copy, and a test here compares them.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::process::workspace_root;

/// The minor versions before ours, newest first. To move to a new version, copy our module to a
/// folder with its minor version appended to the name, and remove the oldest.
pub(crate) const OLDER_MINORS: [&str; 3] = ["1.35", "1.34", "1.33"];

/// The module of our version; an older one has its minor version appended.
const CONTROL_PLANE: &str = "xtask/kube/control-plane";

/// The versions, without a leading `v`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Release {
    /// The version of kube-apiserver and kube-controller-manager.
    pub(super) kubernetes: String,
    /// The version of etcd.
    pub(super) etcd: String,
    /// The folder of the module that kube-apiserver and kube-controller-manager are built from.
    pub(super) control_plane: String,
}

impl Release {
    /// Reads the versions from the modules, for our version of Kubernetes or for this older minor
    /// version.
    ///
    /// # Errors
    /// If the minor version is unknown, or if a go.mod cannot be read or lacks its requirement.
    pub(super) fn read(older: Option<&str>) -> Result<Self> {
        let control_plane = match older {
            None => CONTROL_PLANE.to_owned(),
            Some(minor) => {
                ensure!(
                    OLDER_MINORS.contains(&minor),
                    "there is no module for Kubernetes {minor}: use one of {}, or none for ours",
                    OLDER_MINORS.join(", ")
                );
                format!("{CONTROL_PLANE}-{minor}")
            }
        };
        Ok(Self {
            kubernetes: required(&format!("{control_plane}/go.mod"), "k8s.io/kubernetes")?,
            etcd: required("xtask/kube/etcd/go.mod", "go.etcd.io/etcd/server/v3")?,
            control_plane,
        })
    }

    /// Returns the name of the folder for programs of these versions.
    pub(super) fn folder_name(&self) -> String {
        format!("kube-{}-etcd-{}", self.kubernetes, self.etcd)
    }

    /// Returns the flags with which `cargo xtask kube` builds this version.
    pub(super) fn flag(&self) -> String {
        self.control_plane
            .strip_prefix(CONTROL_PLANE)
            .and_then(|rest| rest.strip_prefix('-'))
            .map_or_else(String::new, |minor| format!(" --version {minor}"))
    }

    /// Returns `("1", "36")` for `1.36.3`; a missing part is empty.
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

/// Returns the version in `require k8s.io/kubernetes v1.36.3`, alone or as a line of a block.
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
    fn older_versions_are_the_three_before_ours() {
        let ours = Release::read(None).expect("the module must be there");
        assert_eq!(ours.flag(), "");
        let minor: u32 = ours.kubernetes_minor().1.parse().expect("a minor version is a number");
        let wanted = [minor - 1, minor - 2, minor - 3].map(|minor| format!("1.{minor}"));
        assert_eq!(OLDER_MINORS.map(str::to_owned), wanted);
        for older in OLDER_MINORS {
            let release = Release::read(Some(older)).expect("the module must be there");
            assert!(release.kubernetes.starts_with(&format!("{older}.")), "{release:?}");
            assert_eq!(release.etcd, ours.etcd);
            assert_eq!(release.flag(), format!(" --version {older}"));
        }
    }

    #[test]
    fn unknown_version_is_refused_with_those_that_are_known() {
        let error = Release::read(Some("1.12")).expect_err("1.12 has no module");
        assert!(error.to_string().contains("1.35, 1.34, 1.33"), "{error:#}");
    }

    #[test]
    fn test_kit_looks_for_the_versions_that_are_built() {
        let release = Release::read(None).expect("the modules must be there");
        let root = workspace_root().expect("tests run under cargo");
        let source = fs::read_to_string(root.join("crates/testenv/testserver/src/real/assets.rs"))
            .expect("windlass-testserver must be there");
        for (name, version) in
            [("KUBERNETES_VERSION", &release.kubernetes), ("ETCD_VERSION", &release.etcd)]
        {
            let line = format!("pub const {name}: &str = \"{version}\";");
            assert!(source.contains(&line), "assets.rs of windlass-testserver lacks `{line}`");
        }
    }
}
