//! The Go toolchain, which the peers need: whether it is there, and building one of them.
//!
//! Go is the only thing that a benchmark needs beside Rust, so its absence is told before anything is
//! built, together with the way to get it.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::{CommandLine, workspace_root};

/// A Go module of ours that is built into one program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Module {
    /// Its folder in the workspace.
    pub(super) folder: &'static str,
}

impl Module {
    /// The version of the Go toolchain, as it names itself, if it is new enough for this module.
    ///
    /// It is asked in the module's folder, where a toolchain may fetch the version that go.mod wants.
    ///
    /// # Errors
    /// If there is none or it is too old; the error says how to get one.
    pub(super) fn toolchain(self) -> Result<String> {
        let path = workspace_root()?.join(self.folder).join("go.mod");
        let manifest = fs::read_to_string(&path)
            .with_context(|| format!("{} could not be read", path.display()))?;
        let wanted = wanted_version(&manifest)
            .with_context(|| format!("{} names no Go version", path.display()))?;
        let output = CommandLine::new("go", &["version"])
            .in_folder(self.folder)
            .capture()
            .with_context(|| format!("Go is missing. {}", how_to_get(wanted)))?;
        let found = own_version(&output);
        if is_older(found, wanted) {
            bail!("Go is too old: {found}. {}", how_to_get(wanted));
        }
        Ok(found.to_owned())
    }

    /// The command that builds the module into the program at `path`.
    pub(super) fn build(self, path: &str) -> CommandLine {
        CommandLine::new("go", &["build", "-trimpath", "-o", path, "."]).in_folder(self.folder)
    }
}

fn how_to_get(wanted: &str) -> String {
    format!(
        "This benchmark compares with programs written in Go and needs Go {wanted} or newer:\n\
         \x20 install it from https://go.dev/doc/install, or as your distribution's package\n\
         \x20 `golang-go` if that is new enough, and see that `go version` works in this shell"
    )
}

/// The version of the line `go 1.26.0` in a go.mod.
fn wanted_version(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("go ")).map(str::trim)
}

/// The version in `go version go1.26.8 linux/amd64`, or the whole of it if it looks different.
fn own_version(output: &str) -> &str {
    let output = output.trim();
    output.split_whitespace().find(|word| parts(word).is_some()).unwrap_or(output)
}

/// Whether `found` is older than `wanted`; a version that says nothing, like a development build's, is
/// left for the toolchain itself to judge.
fn is_older(found: &str, wanted: &str) -> bool {
    parts(found).zip(parts(wanted)).is_some_and(|(found, wanted)| found < wanted)
}

/// The numbers of `1.26.8`, `go1.26.8`, `go1.26` or `go1.27rc1`.
fn parts(version: &str) -> Option<[u32; 3]> {
    let mut parts = [0; 3];
    let numbers = version.strip_prefix("go").unwrap_or(version);
    for (part, text) in parts.iter_mut().zip(numbers.split('.')) {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        *part = text[..end].parse().ok()?;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_version_is_the_one_of_the_go_line() {
        let manifest =
            "module example.com/a\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/client-go v0.37.2\n)\n";
        assert_eq!(wanted_version(manifest), Some("1.26.0"));
        assert_eq!(wanted_version("module example.com/a\n"), None);
    }

    #[test]
    fn own_version_is_found_in_the_output() {
        assert_eq!(own_version("go version go1.26.8 linux/amd64\n"), "go1.26.8");
        assert_eq!(own_version("go version devel linux/amd64"), "go version devel linux/amd64");
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_older("go1.9.7", "1.26.0"));
        assert!(is_older("go1.25.12", "1.26.0"));
        assert!(!is_older("go1.26", "1.26.0"));
        assert!(!is_older("go1.26.8", "1.26.0"));
        assert!(!is_older("go1.27rc1", "1.26.0"));
        assert!(!is_older("devel", "1.26.0"));
    }

    #[test]
    fn advice_names_version_and_ways() {
        let advice = how_to_get("1.26.0");
        for part in ["Go 1.26.0 or newer", "https://go.dev/doc/install", "`golang-go`"] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
    }
}
