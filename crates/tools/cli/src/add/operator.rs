//! The operator in a folder: what `add` needs to know, read from its files.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::new::names::plural;
use crate::new::render::Names;
use crate::package;

/// An operator that `cargo windlass new` made.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) folder: PathBuf,
    pub(super) package: String,
}

/// A kind of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) group: String,
    /// The plural, as in the name of its definition and in Roles.
    pub(super) plural: String,
    /// The name of its module: `src/MODULE.rs` and the folder beside it.
    pub(super) module: String,
    /// All versions, by name.
    pub(super) versions: Vec<String>,
    /// The version that the operator works with: `src/MODULE.rs` re-exports its type. Other
    /// versions, the spokes, are converted to it and back.
    pub(super) hub: String,
}

impl Operator {
    /// Returns the operator in the current folder.
    ///
    /// # Errors
    /// If there is no operator.
    pub(super) fn here() -> Result<Self> {
        Self::of(std::env::current_dir().context("the current folder is not known")?)
    }

    fn of(folder: PathBuf) -> Result<Self> {
        let package = package::name_in(&folder)?;
        let is_there = |path: &&str| folder.join(path).is_file();
        let needed = ["src/lib.rs", "deploy/crd.yaml", "deploy/rbac.yaml"];
        ensure!(needed.iter().all(is_there), package::no_operator(&folder));
        Ok(Self { folder, package })
    }

    /// The text of a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.folder.join(path)).with_context(|| format!("cannot read {path}"))
    }

    /// Returns whether the operator has this file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.folder.join(path).exists()
    }

    /// Returns its kinds, sorted by module name.
    ///
    /// # Errors
    /// If a folder or a file cannot be read.
    pub(super) fn kinds(&self) -> Result<Vec<Kind>> {
        let mut kinds = Vec::new();
        for module in self.names_in("src")? {
            let folder = format!("src/{module}");
            if !self.folder.join(&folder).is_dir() {
                continue;
            }
            let mut found: Option<Kind> = None;
            for file in self.names_in(&folder)? {
                let Some(version) = file.strip_suffix(".rs").filter(|name| is_version(name)) else {
                    continue;
                };
                let text = self.read(&format!("{folder}/{file}"))?;
                let (name, group) = (attribute(&text, "kind"), attribute(&text, "group"));
                let (Some(name), Some(group)) = (name, group) else { continue };
                let new = || Kind {
                    name: name.to_owned(),
                    group: group.to_owned(),
                    plural: attribute(&text, "plural")
                        .map_or_else(|| plural(&name.to_ascii_lowercase()), str::to_owned),
                    module: module.clone(),
                    versions: Vec::new(),
                    hub: version.to_owned(),
                };
                found.get_or_insert_with(new).versions.push(version.to_owned());
            }
            if let Some(mut kind) = found {
                let text = self.read(&format!("src/{module}.rs"))?;
                let is_hub = |version: &&String| {
                    let line = format!("pub use {version}::");
                    text.lines().any(|it| it.starts_with(&line))
                };
                if let Some(hub) = kind.versions.iter().find(is_hub) {
                    kind.hub.clone_from(hub);
                }
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }

    /// Returns the kind of this name, ignoring case.
    ///
    /// # Errors
    /// If there is no such kind.
    pub(super) fn kind(&self, name: &str) -> Result<Kind> {
        let kinds = self.kinds()?;
        let known = kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = kinds.into_iter().find(|kind| kind.name.eq_ignore_ascii_case(name));
        found.with_context(|| {
            let known = if known.is_empty() { known } else { format!(" (it has: {known})") };
            format!("this operator has no kind {name:?}{known}: `cargo windlass add kind` adds one")
        })
    }

    fn names_in(&self, folder: &str) -> Result<Vec<String>> {
        let entries = fs::read_dir(self.folder.join(folder));
        let entries = entries.with_context(|| format!("cannot read {folder}"))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }
}

impl Kind {
    /// Returns its names for the template.
    pub(super) fn names(&self, operator: &Operator) -> Names {
        Names::new(&operator.package, &self.group, &self.name).plural(&self.plural)
    }
}

/// Returns whether Kubernetes accepts it as the version of a kind: `v1alpha1`, `v2`.
pub(super) fn is_version(text: &str) -> bool {
    let is_number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|one| one.is_ascii_digit())
    };
    let Some(rest) = text.strip_prefix('v') else { return false };
    let stages = ["alpha", "beta"].iter().find_map(|stage| rest.split_once(stage));
    match stages {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

/// Returns the value of the first `name = "value"` in `#[kube(…)]`, ignoring comments.
fn attribute<'a>(code: &'a str, name: &str) -> Option<&'a str> {
    let lines = code.lines().map(str::trim_start).skip_while(|line| !line.starts_with("#[kube("));
    let mut lines = lines.filter(|line| !line.starts_with("//"));
    let pattern = format!("{name} = \"");
    lines.find_map(|line| {
        let (at, _) = line.match_indices(&pattern).find(|(at, _)| {
            let before = line[..*at].chars().next_back();
            before.is_none_or(|before| before.is_whitespace() || before == '(')
        })?;
        line[at + pattern.len()..].split('"').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_kubernetes() {
        for version in ["v1", "v12", "v1alpha1", "v2beta10"] {
            assert!(is_version(version), "{version}");
        }
        for other in ["", "v", "v0", "1", "v1alpha", "valpha1", "v1gamma1", "v1beta01", "V1", "v1-"]
        {
            assert!(!is_version(other), "{other}");
        }
    }

    #[test]
    fn attributes_are_read_from_the_code() {
        let code = "/// Not kind = \"Other\".\n#[derive(Clone)]\n#[kube(group = \"a.b\", version = \
                    \"v1\",\n    // plural = \"xs\",\n    subkind = \"X\", kind = \"Shop\",\n";
        assert_eq!(attribute(code, "group"), Some("a.b"));
        assert_eq!(attribute(code, "kind"), Some("Shop"));
        assert_eq!(attribute(code, "plural"), None);
        assert_eq!(attribute("#[kube(subkind = \"X\")]", "kind"), None);
        assert_eq!(attribute("kind = \"X\"", "kind"), None);
    }
}
