//! The project's cache folder, outside of any working copy, for tools that take minutes to build.
//!
//! `crates/testenv/testserver/src/real/assets.rs` finds the folder by the same rules.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// Returns the cache folder, which may not exist yet: `WINDLASS_CACHE`, or the XDG cache folder.
///
/// # Errors
/// If the environment does not name the folder, or if its path is relative.
pub(crate) fn folder() -> Result<PathBuf> {
    let folder = choose(|name| env::var_os(name).filter(|value| !value.is_empty()))
        .context("the cache folder is unknown: set WINDLASS_CACHE or HOME")?;
    // Commands run in different folders, so a relative path would be ambiguous.
    ensure!(folder.is_absolute(), "the cache folder {} must be absolute", folder.display());
    Ok(folder)
}

fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).map(PathBuf::from);
    path("WINDLASS_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").map(|folder| folder.join("windlass")))
        .or_else(|| path("HOME").map(|folder| folder.join(".cache/windlass")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn chosen(variables: &[(&str, &str)]) -> Option<PathBuf> {
        choose(|wanted| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn most_specific_variable_wins() {
        let all = [("HOME", "/home/a"), ("XDG_CACHE_HOME", "/x"), ("WINDLASS_CACHE", "/w")];
        assert_eq!(chosen(&all).as_deref(), Some(Path::new("/w")));
        assert_eq!(chosen(&all[..2]).as_deref(), Some(Path::new("/x/windlass")));
        assert_eq!(chosen(&all[..1]).as_deref(), Some(Path::new("/home/a/.cache/windlass")));
        assert_eq!(chosen(&[]), None);
    }
}
