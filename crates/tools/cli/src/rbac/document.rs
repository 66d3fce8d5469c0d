//! The YAML documents of a file of manifests.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The file names of a kustomization.
pub(super) const KUSTOMIZATIONS: [&str; 3] =
    ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// A YAML document of a file.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) file: PathBuf,
    /// The text. It begins with the separator line, unless the document is the first of the file.
    pub(super) text: String,
    pub(super) value: Value,
}

impl Document {
    pub(super) fn is_kustomization(&self) -> bool {
        let kind = &self.value["kind"];
        kind == "Kustomization" || (kind.is_null() && is_named_kustomization(&self.file))
    }

    /// Whether Kubernetes fills in its rules from other roles.
    pub(super) fn is_aggregated(&self) -> bool {
        !self.value["aggregationRule"].is_null()
    }
}

pub(super) fn is_named_kustomization(path: &Path) -> bool {
    path.file_name().is_some_and(|name| KUSTOMIZATIONS.iter().any(|one| name == *one))
}

/// Parses the documents of a file.
///
/// # Errors
/// If it is not valid YAML.
pub(super) fn documents(file: &Path, text: &str) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for text in split(text) {
        let is_empty = |line: &str| {
            let line = line.strip_prefix("---").unwrap_or(line).trim();
            line.is_empty() || line.starts_with(['#', '%'])
        };
        let value = if text.lines().all(is_empty) {
            Value::Null
        } else {
            serde_saphyr::from_str(&text).with_context(|| format!("in {}", file.display()))?
        };
        documents.push(Document { file: file.to_owned(), text, value });
    }
    Ok(documents)
}

/// Splits a file into the texts of its documents. Each but the first begins with its separator
/// line.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        let is_separator = line == "---" || line.starts_with("--- ");
        if is_separator {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

/// Returns a string, or an empty one if the value has another type.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
