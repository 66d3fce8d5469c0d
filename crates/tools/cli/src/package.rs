//! The package of the operator in a folder, and the cargo that builds it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The cargo that called this program, or the one in `PATH`.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns the name of the package in a folder.
///
/// # Errors
/// Returns an error if the folder has no `Cargo.toml` of a package.
pub(crate) fn name_in(folder: &Path) -> Result<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let name = name_of(&manifest).map(str::to_owned);
    name.with_context(|| no_operator(folder))
}

/// Returns the error message for a folder without an operator.
pub(crate) fn no_operator(folder: &Path) -> String {
    format!(
        "there is no operator in {}: go to the folder that `cargo windlass new` has made",
        folder.display()
    )
}

/// Returns the name in the section `[package]`. Other sections, such as `[[bin]]`, have names, too.
///
/// Reads lines instead of TOML: the section and the name have lines of their own.
fn name_of(manifest: &str) -> Option<&str> {
    let is_section = |line: &str| {
        let rest = line.strip_prefix("[package]").map(str::trim_start);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    let lines = manifest.lines().map(str::trim).skip_while(|line| !is_section(line)).skip(1);
    let mut fields = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| {
        let (field, value) = line.split_once('=')?;
        Some((field.trim(), value.trim()))
    });
    let (_, value) = fields.find(|(field, _)| *field == "name")?;
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let (name, _) = value[1..].split_once(quote)?;
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_that_of_the_package() {
        let manifest =
            "[[bin]]\nname = \"tool\"\n\n[package]\nversion = \"1\"\nname= \"shop\" # x\n";
        assert_eq!(name_of(manifest), Some("shop"));
        assert_eq!(name_of("[package] # The operator.\nname = 'shop' # x\n"), Some("shop"));
        assert_eq!(name_of("#[package]\nname = 'shop'\n"), None);
        assert_eq!(name_of("[package]\nname = 'shop\"\n"), None);
        assert_eq!(name_of("[package]\nname = \"\"\n"), None);
        assert_eq!(name_of("[package]\n[[bin]]\nname = \"tool\"\n"), None);
        assert_eq!(name_of("[workspace]\nmembers = []\n"), None);
    }

    #[test]
    fn folder_without_a_package_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = name_in(folder.path()).expect_err("there is no manifest").to_string();
        assert!(error.starts_with("there is no operator in "), "{error}");
    }
}
