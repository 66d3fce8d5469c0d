//! The files of the template, and what has to be known of them.

use std::path::Path;

/// A file of the template.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    /// The kinds that it is for; for all operators if it is empty.
    pub(super) needs: &'static [&'static str],
}

impl File {
    /// Whether it is Rust.
    pub(super) fn is_code(&self) -> bool {
        Path::new(self.path).extension().is_some_and(|extension| extension == "rs")
    }
}

macro_rules! file {
    ($path:literal $(, $needs:literal)*) => {
        File {
            path: $path,
            text: include_str!(concat!("../../template/", $path)),
            needs: &[$($needs),*],
        }
    };
}

/// All files.
pub(super) const FILES: &[File] = &[
    file!("Cargo.toml.in"),
    file!("README.md"),
    file!("src/main.rs"),
    file!("src/lib.rs"),
    file!("src/gadget.rs"),
    file!("src/reconciler.rs"),
    file!("src/children.rs"),
    file!("src/children/config_map.rs", "configmaps"),
    file!("src/children/deployment.rs", "deployments"),
    file!("src/children/pod.rs", "deployments", "statefulsets"),
    file!("src/children/service.rs", "services"),
    file!("src/children/service_account.rs", "serviceaccounts"),
    file!("src/children/stateful_set.rs", "statefulsets"),
    file!("src/demo.rs"),
    file!("tests/common/mod.rs"),
    file!("tests/deployed.rs"),
    file!("tests/reconcile.rs"),
    file!("deploy/crd.yaml"),
    file!("deploy/example.yaml"),
    file!("deploy/kustomization.yaml"),
    file!("deploy/namespace.yaml"),
    file!("deploy/operator.yaml"),
    file!("deploy/rbac.yaml"),
    file!("Dockerfile"),
    file!(".dockerignore"),
    file!(".github/workflows/ci.yml"),
    file!(".gitignore"),
    file!("ci.sh"),
    file!("rustfmt.toml"),
];

/// The names of the crates that the operator uses.
pub(super) fn dependencies() -> impl Iterator<Item = &'static str> {
    let manifest = FILES.iter().find(|file| file.path == "Cargo.toml.in");
    let lines = manifest.map(|file| file.text.lines()).into_iter().flatten();
    lines
        .skip_while(|line| *line != "[dependencies]")
        .take_while(|line| !line.starts_with("[lints"))
        .filter_map(|line| Some(line.split_once(" = ")?.0))
}

/// Whether the code of the template has this identifier, outside of comments and strings.
pub(super) fn has_identifier(name: &str) -> bool {
    let code = FILES.iter().filter(|file| file.is_code());
    let mut lines = code.flat_map(|file| file.text.lines());
    lines.any(|line| {
        // Every other part of a line is between quotes. The template escapes few of them, and an
        // identifier too many does no harm.
        let line = line.split("//").next().unwrap_or_default();
        let parts = line.split('"').step_by(2);
        let is_other = |one: char| !one.is_ascii_alphanumeric() && one != '_';
        parts.flat_map(|part| part.split(is_other)).any(|word| word == name)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                files_below(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_file_of_the_template_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("template");
        let mut found = Vec::new();
        files_below(&folder, &mut found);
        let mut found: Vec<_> =
            found.iter().map(|path| path.strip_prefix(&folder).expect("it is below")).collect();
        let mut listed: Vec<_> = FILES.iter().map(|file| Path::new(file.path)).collect();
        found.sort();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn identifiers_are_those_of_the_code() {
        for there in ["Watch", "make", "cx", "Deployment", "gadget_operator"] {
            assert!(has_identifier(there), "{there}");
        }
        for absent in ["reading", "Blocked", "Shop"] {
            assert!(!has_identifier(absent), "{absent}");
        }
        assert!(dependencies().any(|name| name == "windlass-testing"));
    }
}
