//! A script, and the shell that runs its steps.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::kubectl::normalise::normalise;

/// No step takes this long; one that hangs fails instead of blocking CI.
const STEP_TIMEOUT: Duration = Duration::from_mins(2);

/// Commands in blocks.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    text: &'static str,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text }
    }

    /// Returns the blocks between empty lines, without those that are only comments.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &'static str> {
        let is_command = |line: &str| !line.starts_with('#');
        self.text
            .split("\n\n")
            .map(str::trim)
            .filter(move |step| step.lines().any(|line| !line.is_empty() && is_command(line)))
    }
}

/// A shell for one cluster, in a folder of its own with the files of the tests.
pub(crate) struct Shell {
    folder: tempfile::TempDir,
    path: std::ffi::OsString,
}

impl Shell {
    /// `kubectl` is found under this name, whatever the name of the program. The namespace has the
    /// name of the script; the script creates it.
    pub(crate) fn new(kubectl: &Path, kubeconfig: &Path, namespace: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = kubectl_alone(kubectl, folder.path());
        copy_folder(&files(), folder.path());
        let kubeconfig = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
        let kubeconfig = with_namespace(&kubeconfig, namespace);
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).expect("a kubeconfig");
        Self { folder, path }
    }

    /// Returns the output of the step and its exit status, normalised.
    pub(crate) async fn run(&self, step: &str) -> String {
        let output = Command::new("sh")
            .args(["-c", step])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let Ok(output) = tokio::time::timeout(STEP_TIMEOUT, output).await else {
            return format!("did not end within {STEP_TIMEOUT:?}");
        };
        let output = output.expect("sh runs");
        let text = format!(
            "{}\n{}exit status {}\n",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            output.status.code().unwrap_or(-1)
        );
        normalise(&text, self.folder.path())
    }
}

/// Returns a `PATH` in which `kubectl` is this program, by a link in a new folder below this one.
pub(crate) fn kubectl_alone(kubectl: &Path, folder: &Path) -> std::ffi::OsString {
    let programs = folder.join("bin");
    std::fs::create_dir(&programs).expect("a folder");
    std::os::unix::fs::symlink(kubectl, programs.join("kubectl")).expect("a link");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(programs).chain(std::env::split_paths(&paths));
    std::env::join_paths(paths).expect("no colon in the path")
}

/// Finds the program of this name on the machine.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/whole/kubectl/files")
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("a file");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).expect("a folder");
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// Returns the kubeconfig with another default namespace in its contexts.
fn with_namespace(kubeconfig: &str, namespace: &str) -> String {
    let mut config: serde_json::Value = kube::config::Kubeconfig::from_yaml(kubeconfig)
        .map(|config| serde_json::json!(config))
        .expect("a kubeconfig");
    for context in config["contexts"].as_array_mut().expect("contexts") {
        context["context"]["namespace"] = namespace.into();
    }
    config.to_string()
}
