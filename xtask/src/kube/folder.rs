//! The project's cache folder, outside of any working copy: what takes minutes to build is built once.
//!
//! `crates/testkit/src/real/assets.rs` looks in the same place by the same rules.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// The cache folder, which need not exist: `WINDLASS_CACHE`, or what the desktop's conventions say.
///
/// # Errors
/// If the environment does not say where it is, or not from the root on.
pub(super) fn cache() -> Result<PathBuf> {
    let folder = choose(|name| env::var_os(name).filter(|value| !value.is_empty()))
        .context("the cache folder is unknown: set WINDLASS_CACHE or HOME")?;
    // Commands run in folders of their own, where a relative path would mean something else.
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
