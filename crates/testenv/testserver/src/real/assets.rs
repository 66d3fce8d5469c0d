//! Where the programs of the real control plane are.
//!
//! First in `KUBEBUILDER_ASSETS`, as in other frameworks, then in the project's cache folder, where
//! `cargo xtask kube` builds them. Each program is searched for separately: other tools' downloads
//! do not include kube-controller-manager.
//!
//! [`go_program`] finds the project's own Go programs, which some tests run, and [`kubectl`] finds
//! kubectl.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::Error;

/// The version of Kubernetes that `cargo xtask kube` builds and the project is tested with.
// xtask checks this and the next against its go.mod files, which define them.
pub const KUBERNETES_VERSION: &str = "1.36.3";

/// The version of etcd that `cargo xtask kube` builds and the project is tested with.
pub const ETCD_VERSION: &str = "3.6.6";

/// The variable that names the folder of our Go programs; `cargo xtask test --real` sets it.
const GO_PROGRAMS: &str = "WINDLASS_GO_PROGRAMS";

/// Returns the path of a Go program of ours that tests run, such as `election-go`.
///
/// # Errors
/// [`Error::NoGoProgram`] if the environment does not name its folder, or if it is not there.
pub fn go_program(name: &str) -> Result<PathBuf, Error> {
    let folder = env::var_os(GO_PROGRAMS).map(PathBuf::from);
    let path = folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
    path.ok_or_else(|| Error::NoGoProgram { program: name.to_owned() })
}

/// Returns the path of the kubectl that `cargo xtask kube` builds, of the server's version.
///
/// # Errors
/// [`Error::Unavailable`] if it is not on this machine.
pub fn kubectl() -> Result<PathBuf, Error> {
    Assets::from_environment().find("kubectl")
}

/// The folders to search; the first match wins.
#[derive(Debug)]
pub(super) struct Assets {
    folders: Vec<PathBuf>,
}

impl Assets {
    /// Returns the folders that the environment names.
    pub(super) fn from_environment() -> Self {
        Self::from_variables(|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// Returns the path of a program.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no folder has it.
    pub(super) fn find(&self, program: &'static str) -> Result<PathBuf, Error> {
        let mut paths = self.folders.iter().map(|folder| folder.join(program));
        paths
            .find(|path| path.is_file())
            .ok_or_else(|| Error::Unavailable { program, looked_in: self.looked_in() })
    }

    /// `xtask/src/cache.rs` uses the same rules to build into the second of these.
    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| variable(name).map(PathBuf::from);
        let cache = path("WINDLASS_CACHE")
            .or_else(|| path("XDG_CACHE_HOME").map(|folder| folder.join("windlass")))
            .or_else(|| path("HOME").map(|folder| folder.join(".cache/windlass")));
        let release = format!("kube-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}");
        let built = cache.map(|cache| cache.join(release));
        Self { folders: path("KUBEBUILDER_ASSETS").into_iter().chain(built).collect() }
    }

    fn looked_in(&self) -> String {
        let folders: Vec<_> =
            self.folders.iter().map(|folder| folder.display().to_string()).collect();
        if folders.is_empty() {
            "no folder: HOME is not set".to_owned()
        } else {
            folders.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn assets(variables: &[(&str, &str)]) -> Assets {
        Assets::from_variables(|wanted| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn named_folder_comes_before_the_cache_and_the_most_specific_cache_wins() {
        let folders = |variables: &[_]| {
            let folders = assets(variables).folders;
            folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>()
        };
        let release = format!("kube-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}");
        let all = [
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/x"),
            ("WINDLASS_CACHE", "/w"),
            ("KUBEBUILDER_ASSETS", "/k"),
        ];
        assert_eq!(folders(&all), ["/k".to_owned(), format!("/w/{release}")]);
        assert_eq!(folders(&all[..2]), [format!("/x/windlass/{release}")]);
        assert_eq!(folders(&all[..1]), [format!("/h/.cache/windlass/{release}")]);
    }

    #[test]
    fn program_missing_from_the_first_folder_is_found_in_the_next() {
        let first = tempfile::tempdir().expect("a temporary folder must be possible");
        let second = tempfile::tempdir().expect("a temporary folder must be possible");
        fs::write(second.path().join("etcd"), "").expect("a file must be possible");
        let assets = Assets { folders: vec![first.path().into(), second.path().into()] };
        assert_eq!(assets.find("etcd").ok(), Some(second.path().join("etcd")));
        assert!(matches!(assets.find("kubectl"), Err(Error::Unavailable { .. })));
    }
}
