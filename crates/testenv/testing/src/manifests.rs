//! Definitions and other objects from YAML.

use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::Value;
use windlass::reconciler::install_crd;

use crate::report::{causes, fail};
use crate::test_cluster::TestCluster;

/// The extensions of the files that are read from a folder.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The kind that [`TestCluster::install_from`] looks for.
const DEFINITION: &str = "CustomResourceDefinition";

/// The field manager of applied manifests.
const MANAGER: &str = "windlass-testing";

/// One document of a file.
#[derive(Debug)]
struct Document {
    /// Its position for messages: `crd.yaml, document 2`.
    place: String,
    value: Value,
}

impl Document {
    fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }
}

impl TestCluster {
    /// Installs a definition, or updates it, and waits until the server serves it.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn install(&self, definition: &CustomResourceDefinition) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            if let Err(error) = install_crd(&self.client(), definition).await {
                fail(at, &causes(&error));
            }
        }
    }

    /// Installs all definitions of a YAML file or of the YAML files in a folder, sorted by name. A
    /// file may have several documents. Objects of other kinds are skipped.
    ///
    /// A relative path is resolved as `cargo test` runs a test: against the folder of its package.
    ///
    /// # Panics
    /// If a file cannot be read, if a document is not YAML or not a definition that the server
    /// accepts, or if there is no definition. The message names the file and the document.
    #[track_caller]
    pub fn install_from(&self, path: impl AsRef<Path>) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let installed = self.install_all(path.as_ref()).await;
            installed.unwrap_or_else(|error| fail(at, &error));
        }
    }

    /// Applies all objects of a YAML file or of the YAML files in a folder, as
    /// `kubectl apply --server-side` does. Definitions are installed; objects without a namespace
    /// go into that of the test. The server rejects unknown fields.
    ///
    /// # Panics
    /// If a file cannot be read, if a document is not YAML, or if the server refuses it. The
    /// message names the file and the document.
    #[track_caller]
    pub fn apply_from(&self, path: impl AsRef<Path>) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let applied = self.apply_all(path.as_ref()).await;
            applied.unwrap_or_else(|error| fail(at, &error));
        }
    }

    async fn install_all(&self, path: &Path) -> Result<(), String> {
        let mut documents = documents(path)?;
        documents.retain(|document| document.kind() == DEFINITION);
        if documents.is_empty() {
            return Err(format!("{} has no {DEFINITION}", path.display()));
        }
        for document in documents {
            self.install_document(document).await?;
        }
        Ok(())
    }

    async fn install_document(&self, Document { place, value }: Document) -> Result<(), String> {
        let definition: CustomResourceDefinition = serde_json::from_value(value)
            .map_err(|error| format!("{place}: it is not a {DEFINITION}: {error}"))?;
        let installed = install_crd(&self.client(), &definition).await;
        installed.map(drop).map_err(|error| format!("{place}: {}", causes(&error)))
    }

    async fn apply_all(&self, path: &Path) -> Result<(), String> {
        for document in documents(path)? {
            if document.kind() == DEFINITION {
                self.install_document(document).await?;
                continue;
            }
            let place = document.place.clone();
            let applied = self.apply_document(document).await;
            applied.map_err(|error| format!("{place}: {error}"))?;
        }
        Ok(())
    }

    async fn apply_document(&self, document: Document) -> Result<(), String> {
        let object: DynamicObject =
            serde_json::from_value(document.value).map_err(|error| error.to_string())?;
        let types = object.types.clone().ok_or("it has no apiVersion and kind")?;
        let name = object.metadata.name.clone().ok_or("it has no name")?;
        let kind = GroupVersionKind::try_from(&types).map_err(|error| error.to_string())?;
        let known = pinned_kind(&self.client(), &kind).await;
        let (resource, capabilities) =
            known.map_err(|error| format!("{} is not served: {}", types.kind, causes(&error)))?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(self.client(), &resource),
            Scope::Namespaced => {
                let namespace = object.metadata.namespace.as_deref();
                let namespace = namespace.unwrap_or_else(|| self.namespace());
                Api::namespaced_with(self.client(), namespace, &resource)
            }
        };
        let params = PatchParams::apply(MANAGER).force().validation_strict();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.map(drop).map_err(|error| format!("{} {name}: {}", types.kind, causes(&error)))
    }
}

/// Returns all documents of a file, or of the files in a folder.
fn documents(path: &Path) -> Result<Vec<Document>, String> {
    let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return parse(path);
    }
    let entries = fs::read_dir(path).map_err(unreadable)?;
    let entries: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let is_manifest = |file: &PathBuf| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        file.is_file() && ending.is_some_and(|ending| EXTENSIONS.contains(&ending))
    };
    let mut files: Vec<_> = entries.map_err(unreadable)?.into_iter().filter(is_manifest).collect();
    files.sort();
    let parsed: Result<Vec<_>, _> = files.iter().map(|file| parse(file)).collect();
    Ok(parsed?.into_iter().flatten().collect())
}

/// Returns the documents of a file. Each is parsed separately, so that an error names one of them.
fn parse(file: &Path) -> Result<Vec<Document>, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let mut documents = Vec::new();
    for (number, text) in split(&text).into_iter().enumerate() {
        if is_comment_only(&text) {
            continue;
        }
        let place = format!("{}, document {}", file.display(), number + 1);
        match serde_saphyr::from_str::<Value>(&text) {
            Ok(value) => documents.push(Document { place, value }),
            Err(error) => return Err(format!("{place}: it is not YAML: {error}")),
        }
    }
    Ok(documents)
}

/// Returns the texts between the lines that begin with `---`. The text before the first such line
/// counts only if it has content.
fn split(text: &str) -> Vec<String> {
    let is_separator =
        |line: &str| line.strip_prefix("---").is_some_and(|rest| rest.trim_end().is_empty());
    let (mut texts, mut current) = (Vec::new(), String::new());
    for line in text.lines() {
        if is_separator(line) {
            texts.push(std::mem::take(&mut current));
        } else {
            current.push_str(line);
            current.push('\n');
        }
    }
    texts.push(current);
    if texts.len() > 1 && is_comment_only(&texts[0]) {
        texts.remove(0);
    }
    texts
}

/// Returns whether a text has only comments.
fn is_comment_only(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_separated_by_lines() {
        assert_eq!(split("a: 1\n---\nb: 2\n"), ["a: 1\n", "b: 2\n"]);
        assert_eq!(split("# about\n---\na: 1\n---  \nb: |\n  ---\n"), ["a: 1\n", "b: |\n  ---\n"]);
        assert_eq!(split("a: 1"), ["a: 1\n"]);
    }
}
