//! The files of the template: when each is rendered, and which names they use.

use std::path::Path;

/// A file of the template.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) part: Part,
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
    /// It is rendered only if one of these kinds is owned; always if this is empty.
    pub(crate) needs: &'static [&'static str],
}

/// What a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The operator, which has these files once.
    Operator,
    /// A kind of the operator.
    Kind,
    /// The first webhook of an operator.
    Webhooks,
    /// The validating and defaulting webhooks of a kind.
    Admission,
    /// The conversion between the versions of a kind.
    Conversion,
    /// Text that is appended to `deploy/rbac.yaml`.
    Rights,
}

impl File {
    /// Whether it is Rust.
    pub(crate) fn is_code(&self) -> bool {
        Path::new(self.path).extension().is_some_and(|extension| extension == "rs")
    }
}

macro_rules! file {
    ($part:ident, $path:literal $(, $needs:literal)*) => {
        File {
            part: Part::$part,
            path: $path,
            text: include_str!(concat!("../../template/", $path)),
            needs: &[$($needs),*],
        }
    };
}

/// All files.
pub(crate) const FILES: &[File] = &[
    file!(Operator, "Cargo.toml.in"),
    file!(Operator, "README.md"),
    file!(Operator, "src/main.rs"),
    file!(Operator, "src/lib.rs"),
    file!(Kind, "src/gadget.rs"),
    file!(Kind, "src/gadget/v1alpha1.rs"),
    file!(Kind, "src/gadget/reconciler.rs"),
    file!(Kind, "src/gadget/children.rs"),
    file!(Kind, "src/gadget/children/config_map.rs", "configmaps"),
    file!(Kind, "src/gadget/children/deployment.rs", "deployments"),
    file!(Kind, "src/gadget/children/pod.rs", "deployments", "statefulsets"),
    file!(Kind, "src/gadget/children/service.rs", "services"),
    file!(Kind, "src/gadget/children/service_account.rs", "serviceaccounts"),
    file!(Kind, "src/gadget/children/stateful_set.rs", "statefulsets"),
    file!(Admission, "src/gadget/admission.rs"),
    file!(Conversion, "src/gadget/convert.rs"),
    file!(Webhooks, "src/webhooks.rs"),
    file!(Operator, "src/demo.rs"),
    file!(Operator, "tests/common/mod.rs"),
    file!(Kind, "tests/common/gadget.rs"),
    file!(Webhooks, "tests/common/webhooks.rs"),
    file!(Operator, "tests/deployed.rs"),
    file!(Kind, "tests/reconcile_gadget.rs"),
    file!(Admission, "tests/admission_gadget.rs"),
    file!(Conversion, "tests/versions_gadget.rs"),
    file!(Operator, "deploy/crd.yaml"),
    file!(Kind, "deploy/example-gadget.yaml"),
    file!(Operator, "deploy/kustomization.yaml"),
    file!(Operator, "deploy/namespace.yaml"),
    file!(Operator, "deploy/operator.yaml"),
    file!(Operator, "deploy/rbac.yaml"),
    file!(Webhooks, "deploy/webhooks.yaml"),
    file!(Rights, "add/rbac-kind.yaml"),
    file!(Rights, "add/rbac-certificates.yaml"),
    file!(Rights, "add/rbac-admission.yaml"),
    file!(Rights, "add/rbac-conversion.yaml"),
    file!(Operator, "Dockerfile"),
    file!(Operator, ".dockerignore"),
    file!(Operator, ".github/workflows/ci.yml"),
    file!(Operator, ".gitignore"),
    file!(Operator, "ci.sh"),
    file!(Operator, "rustfmt.toml"),
];

/// The names of the crates that the operator uses.
pub(crate) fn dependencies() -> impl Iterator<Item = &'static str> {
    let manifest = FILES.iter().find(|file| file.path == "Cargo.toml.in");
    let lines = manifest.map(|file| file.text.lines()).into_iter().flatten();
    lines
        .skip_while(|line| *line != "[dependencies]")
        .take_while(|line| !line.starts_with("[lints"))
        .filter_map(|line| Some(line.split_once(" = ")?.0))
}

/// Whether the code of the template has this identifier, outside of comments and strings. What
/// follows a dot does not count: fields and methods clash with nothing.
pub(crate) fn has_identifier(name: &str) -> bool {
    let code = FILES.iter().filter(|file| file.is_code());
    let mut lines = code.flat_map(|file| file.text.lines());
    lines.any(|line| {
        // Every other part of a line is between quotes. The template escapes few quotes, and a word
        // of a string that counts as an identifier does no harm.
        let line = line.split("//").next().unwrap_or_default().replace("..", " ");
        let mut parts = line.split('"').step_by(2);
        let is_other = |one: char| !one.is_ascii_alphanumeric() && !matches!(one, '_' | '.');
        let is_name = |words: &str| words.split('.').next() == Some(name);
        parts.any(|part| part.split(is_other).any(is_name))
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
        for absent in ["reading", "Blocked", "Shop", "dashboard"] {
            assert!(!has_identifier(absent), "{absent}");
        }
        assert!(dependencies().any(|name| name == "windlass-testing"));
    }
}
