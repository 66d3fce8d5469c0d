//! The medians in a file, one metric per line.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result};

use super::line::Who;
use super::results::Results;

/// Fails now if the file cannot be written after the long run; what it holds stays until then.
///
/// # Errors
/// If it cannot be written.
pub(super) fn make_sure_of(path: &Path) -> Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("--json: {} cannot be written", path.display()))?;
    Ok(())
}

/// Writes the medians in the given order of cases and queues or servers, and says so.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(
    path: &Path,
    suite: &str,
    order: impl IntoIterator<Item = (&'static str, Who)>,
    results: &Results,
) -> Result<()> {
    let mut text = String::new();
    for line in results.medians(suite, order) {
        text += &line.to_json()?;
        text.push('\n');
    }
    fs::write(path, text).with_context(|| format!("{} could not be written", path.display()))?;
    println!("==> medians written to {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_json_file_is_refused_before_the_run() {
        let error = make_sure_of(Path::new("/no/such/folder/queue.json"));
        let error = error.expect_err("a folder that does not exist must be noticed");
        assert_eq!(error.to_string(), "--json: /no/such/folder/queue.json cannot be written");
    }
}
