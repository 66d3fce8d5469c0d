//! Reads the files of a folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::VERSION;
use crate::entry::Entry;

/// Why the files of a folder could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The folder or a file could not be read.
    #[error("cannot read the evidence in {}: {source}", path.display())]
    Io {
        /// The folder, or the file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another version of Windlass has written the file.
    #[error(
        "the evidence in {} has {}, and this program reads version {VERSION}: the operator is \
         built with another version of Windlass, so install the `cargo windlass` of that version, \
         or update windlass and windlass-testing in the operator's Cargo.toml",
        path.display(), version_text(*found)
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version; `None` if it has none.
        found: Option<u64>,
    },
    /// A line is not an entry.
    #[error(
        "line {line} of the evidence in {} is not an entry of version {VERSION}: {source}; something \
         else has written it, or the disk is full: run the command again",
        path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// The number of the line; the first is 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

fn version_text(found: Option<u64>) -> String {
    found.map_or_else(|| "no version".to_owned(), |found| format!("version {found}"))
}

/// What all versions have in common.
#[derive(Deserialize)]
struct Versioned {
    version: Option<u64>,
}

/// Reads all files of a folder, in the order of their names.
///
/// # Errors
/// If a file cannot be read, has another version, or is broken.
pub fn read(folder: &Path) -> Result<Vec<Entry>, ReadError> {
    let failed = |source| ReadError::Io { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    let mut entries = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ReadError::Io { path: path.clone(), source })?;
        for (index, line) in text.lines().enumerate() {
            entries.push(parse(&path, index + 1, line)?);
        }
    }
    Ok(entries)
}

fn parse(path: &Path, number: usize, line: &str) -> Result<Entry, ReadError> {
    let broken = |source| ReadError::Broken { path: path.to_owned(), line: number, source };
    let Versioned { version } = serde_json::from_str(line).map_err(broken)?;
    if version != Some(u64::from(VERSION)) {
        return Err(ReadError::Version { path: path.to_owned(), found: version });
    }
    serde_json::from_str(line).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.jsonl"), text).expect("written");
        read(folder.path()).expect_err("it cannot be read").to_string()
    }

    #[test]
    fn other_version_is_refused_and_says_what_to_do() {
        let other = error(r#"{"version":2,"kind":"dream"}"#);
        assert!(
            other.contains("a.jsonl has version 2, and this program reads version 1"),
            "{other}"
        );
        assert!(other.contains("install the `cargo windlass` of that version"), "{other}");
        // As it was before there were versions.
        let none = error(r#"{"verb":"get","group":"","plural":"pods","reason":"a run"}"#);
        assert!(none.contains("a.jsonl has no version, and this"), "{none}");
    }

    #[test]
    fn broken_line_is_named() {
        for broken in ["{\"version\":1,\"kind\":\"dream\"}", "{\"version\":1,", "[]", "7"] {
            let error = error(broken);
            assert!(error.starts_with("line 1 of the evidence in "), "{broken}: {error}");
        }
    }

    #[test]
    fn folder_that_is_missing_is_named() {
        let error = read(Path::new("/nowhere/at/all")).expect_err("no folder").to_string();
        assert!(error.starts_with("cannot read the evidence in /nowhere/at/all: "), "{error}");
    }
}
