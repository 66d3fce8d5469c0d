//! The programs of a control plane, and how each is built.
//!
//! The modules under `xtask/kube` name nothing but these programs, so their go.sum covers all that
//! they are made of; `-mod=readonly` refuses whatever is not in it.

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::release::Release;
use crate::process::CommandLine;

/// One program, in the order in which they are built: the quick one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Binary {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// Namespace deletion, garbage collection, workloads.
    KubeControllerManager,
    /// The command line client, for tests that type what people type.
    Kubectl,
}

impl Binary {
    /// The name of the file, and the one that the command line takes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }

    /// How long a build takes with two cores and nothing cached, as measured.
    pub(super) fn expected_duration(self) -> &'static str {
        match self {
            Self::Etcd => "about 40 s",
            Self::KubeApiserver => "about 6 min",
            Self::KubeControllerManager => "about 2.5 min",
            Self::Kubectl => "about 1 min",
        }
    }

    /// What asks it for its version.
    pub(super) fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Etcd | Self::KubeApiserver | Self::KubeControllerManager => &["--version"],
            Self::Kubectl => &["version", "--client"],
        }
    }

    /// The first line that it prints when asked for its version.
    pub(super) fn version_line(self, release: &Release) -> String {
        match self {
            Self::Etcd => format!("etcd Version: {}", release.etcd),
            Self::KubeApiserver | Self::KubeControllerManager => {
                format!("Kubernetes v{}", release.kubernetes)
            }
            Self::Kubectl => format!("Client Version: v{}", release.kubernetes),
        }
    }

    /// The command that builds the program into the file at `path`.
    pub(super) fn build(self, release: &Release, path: &str) -> CommandLine {
        let linker_flags = self.linker_flags(release);
        let arguments =
            ["build", "-trimpath", "-ldflags", &linker_flags, "-o", path, self.package()];
        self.go(release, &arguments)
    }

    /// Lets Go judge whether it can build the module.
    ///
    /// # Errors
    /// If there is no Go, or if it is too old; the error says how to get one, and how to do
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

    /// Symbols are left out, which halves the files; Kubernetes has its version from here.
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

    /// A Go command in the module's folder, free of what a person may have set for other projects:
    /// flags, a workspace, another target. Where modules come from stays theirs to say.
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
