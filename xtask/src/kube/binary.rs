//! The programs of a control plane, and their build commands.
//!
//! The modules under `xtask/kube` require only these programs, so their go.sum files cover all of
//! their dependencies; `-mod=readonly` rejects everything else.

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::release::Release;
use crate::process::CommandLine;

/// One program, in build order: the fastest build first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Binary {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers: namespace deletion, garbage collection, workloads.
    KubeControllerManager,
    /// The command line client, for tests of kubectl commands.
    Kubectl,
}

impl Binary {
    /// Returns the name of the file, which is also its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }

    /// Returns the measured duration of a build with two cores and nothing cached.
    pub(super) fn expected_duration(self) -> &'static str {
        match self {
            Self::Etcd => "about 40 s",
            Self::KubeApiserver => "about 6 min",
            Self::KubeControllerManager => "about 2.5 min",
            Self::Kubectl => "about 1 min",
        }
    }

    /// Returns the arguments that make it print its version.
    pub(super) fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Etcd | Self::KubeApiserver | Self::KubeControllerManager => &["--version"],
            Self::Kubectl => &["version", "--client"],
        }
    }

    /// Returns the first line that it prints for its version.
    pub(super) fn version_line(self, release: &Release) -> String {
        match self {
            Self::Etcd => format!("etcd Version: {}", release.etcd),
            Self::KubeApiserver | Self::KubeControllerManager => {
                format!("Kubernetes v{}", release.kubernetes)
            }
            Self::Kubectl => format!("Client Version: v{}", release.kubernetes),
        }
    }

    /// Returns the command that builds the program into the file at `path`.
    pub(super) fn build(self, release: &Release, path: &str) -> CommandLine {
        let linker_flags = self.linker_flags(release);
        let arguments =
            ["build", "-trimpath", "-ldflags", &linker_flags, "-o", path, self.package()];
        self.go(release, &arguments)
    }

    /// Checks whether Go can build the module.
    ///
    /// # Errors
    /// If there is no Go, or if it is too old; the error says how to get one, and what to do
    /// without.
    pub(super) fn check_toolchain(self, release: &Release) -> Result<()> {
        self.go(release, &["list", "-m"]).capture().map(drop).with_context(how_to_get)
    }

    fn folder(self, release: &Release) -> &str {
        match self {
            Self::Etcd => "xtask/kube/etcd",
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => {
                &release.control_plane
            }
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
        }
    }

    /// Omitting symbols halves the files; Kubernetes gets its version from these flags.
    fn linker_flags(self, release: &Release) -> String {
        if self == Self::Etcd {
            return "-s -w".to_owned();
        }
        let (major, minor) = release.kubernetes_minor();
        let version = format!("v{}", release.kubernetes);
        let values = [
            ("gitVersion", version.as_str()),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
        ]
        .map(|(name, value)| format!("-X k8s.io/component-base/version.{name}={value}"));
        format!("-s -w {}", values.join(" "))
    }

    /// Returns a Go command in the module's folder, without Go settings from the environment:
    /// flags, a workspace, another target. Settings for module downloads are kept.
    fn go(self, release: &Release, arguments: &[&str]) -> CommandLine {
        CommandLine::new("go", arguments)
            .in_folder(self.folder(release))
            .env("GOFLAGS", "-mod=readonly")
            .env("GOWORK", "off")
            .env("GOOS", "")
            .env("GOARCH", "")
            // No C compiler is needed, and the programs run on any Linux.
            .env("CGO_ENABLED", "0")
    }
}

fn how_to_get() -> &'static str {
    "Go is missing or too old for the real control plane.\n\
     \x20 Install Go 1.26 or newer from https://go.dev/doc/install, or as your distribution's package\n\
     \x20 `golang-go` if that is new enough, and see that `go version` works in this shell; or set\n\
     \x20 KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd, as `setup-envtest` fetches them"
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::workspace_root;

    fn release() -> Release {
        Release {
            kubernetes: "1.36.3".to_owned(),
            etcd: "3.6.6".to_owned(),
            control_plane: "xtask/kube/control-plane".to_owned(),
        }
    }

    #[test]
    fn names_are_the_ones_that_the_command_line_takes() {
        for &binary in Binary::value_variants() {
            let possible = binary.to_possible_value().expect("no program is hidden");
            assert_eq!(possible.get_name(), binary.name());
        }
    }

    #[test]
    fn kubernetes_is_told_its_version() {
        let command = Binary::KubeApiserver.build(&release(), "/tmp/out").to_string();
        for part in [
            "cd xtask/kube/control-plane && ",
            "-mod=readonly",
            "version.gitVersion=v1.36.3 ",
            "version.gitMajor=1 ",
            "version.gitMinor=36 ",
            "-o /tmp/out k8s.io/kubernetes/cmd/kube-apiserver",
        ] {
            assert!(command.contains(part), "{part}: {command}");
        }
    }

    #[test]
    fn etcd_knows_its_version_itself() {
        assert_eq!(Binary::Etcd.linker_flags(&release()), "-s -w");
    }

    #[test]
    fn advice_asks_for_the_version_that_the_modules_want() {
        let root = workspace_root().expect("tests run under cargo");
        let release = release();
        for folder in [Binary::Etcd, Binary::KubeApiserver].map(|binary| binary.folder(&release)) {
            let manifest = fs::read_to_string(root.join(folder).join("go.mod"))
                .expect("the module must be there");
            assert!(manifest.contains("\ngo 1.26"), "{folder}: {}", how_to_get());
        }
        assert!(how_to_get().contains("Go 1.26 or newer"));
        assert!(how_to_get().contains("KUBEBUILDER_ASSETS"));
    }
}
