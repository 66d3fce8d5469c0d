//! Custom resource definitions (CRDs), here called definitions, as JSON values: those that the
//! operator in the current folder prints, and those in files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::package::cargo;

/// The output of `cargo run -- crds`.
pub(crate) struct Printed {
    /// The printed YAML.
    pub(crate) text: String,
    /// The documents of `text`; at least one.
    pub(crate) definitions: Vec<Value>,
}

/// Returns the definitions of the operator in the current folder.
///
/// # Errors
/// Returns an error if it does not build, has no command `crds`, or prints anything but CRDs.
pub(crate) fn of_operator() -> Result<Printed> {
    let output = Command::new(cargo())
        .args(["run", "--quiet", "--", "crds"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo could not be started: is it in PATH?")?;
    ensure!(
        output.status.success(),
        "`cargo run -- crds` failed: is this the folder of an operator that `cargo windlass new` \
         made?"
    );
    let text = String::from_utf8(output.stdout).context("`cargo run -- crds` printed no text")?;
    // A program that ignores the argument may print anything, including text that is not YAML.
    let definitions = from_yaml(&text).unwrap_or_default();
    ensure!(
        !definitions.is_empty() && definitions.iter().all(is_definition),
        "`cargo run -- crds` printed something else than CustomResourceDefinitions: is this the \
         folder of an operator that `cargo windlass new` made?"
    );
    Ok(Printed { text, definitions })
}

/// Returns the definitions in a file, or in the YAML and JSON files of a folder. Objects of other
/// kinds are ignored.
///
/// # Errors
/// If a file cannot be read, or there is no definition.
pub(crate) fn in_files(path: &Path) -> Result<Vec<Value>> {
    let mut definitions = Vec::new();
    for file in files(path)? {
        let text = fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        let documents =
            from_yaml(&text).with_context(|| format!("{} is not valid YAML", file.display()))?;
        definitions.extend(documents.into_iter().filter(is_definition));
    }
    ensure!(
        !definitions.is_empty(),
        "{} has no CustomResourceDefinition: name the file or the folder of the last release, such \
         as deploy/crd.yaml of its tag",
        path.display()
    );
    Ok(definitions)
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let file = entry?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if file.is_file() && extension.is_some_and(|it| ["yaml", "yml", "json"].contains(&it)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Parses the documents of a YAML file.
///
/// # Errors
/// Returns an error if it is not valid YAML.
pub(crate) fn from_yaml(text: &str) -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(text)?)
}

/// Formats documents as a YAML file, as `cargo run -- crds` prints them.
///
/// # Errors
/// Returns an error if a value cannot be written as YAML.
pub(crate) fn to_yaml(documents: &[Value]) -> Result<String> {
    let texts = documents.iter().map(serde_saphyr::to_string);
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("---\n"))
}
