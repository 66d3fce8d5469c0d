//! Kubeconfigs that lead to a server on loopback.
//!
//! A kubeconfig may hold a token. So it is created anew, never written over something else or
//! through a link, can be read by its owner only, and is removed with its handle.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use tempfile::TempDir;

use crate::listen::Listening;

/// A kubeconfig that was written. Dropping it removes the file as [`remove`](Self::remove) does,
/// without telling of errors.
#[must_use = "the file is removed when this is dropped"]
pub struct Kubeconfig {
    path: PathBuf,
    text: String,
    /// The folder that was made for it, and goes with it.
    folder: Option<TempDir>,
    is_removed: bool,
}

/// The text holds a token: only the path shows.
impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Listening {
    /// Writes a kubeconfig that points here to a new file, which its owner alone can read. It is
    /// gone when the result is dropped.
    ///
    /// # Errors
    /// If the file cannot be written. What is at the path already, be it a link, is neither
    /// overwritten nor followed: [`io::ErrorKind::AlreadyExists`].
    pub fn write_kubeconfig(&self, path: &Path, token: Option<&str>) -> io::Result<Kubeconfig> {
        let text = text(&self.url(), self.authority(), token);
        create(path, &text)?;
        Ok(Kubeconfig { path: path.to_owned(), text, folder: None, is_removed: false })
    }

    /// Writes a kubeconfig that points here into a new folder, which its owner alone can enter,
    /// under a random name in the folder for temporary files. It is gone when the result is
    /// dropped.
    ///
    /// # Errors
    /// If the folder or the file cannot be made.
    pub fn temporary_kubeconfig(&self, token: Option<&str>) -> io::Result<Kubeconfig> {
        let folder = private_folder()?;
        let mut written = self.write_kubeconfig(&folder.path().join("kubeconfig"), token)?;
        written.folder = Some(folder);
        Ok(written)
    }
}

impl Kubeconfig {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it. A file that somebody has changed stays, unless it is in a folder that was made
    /// for it.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn remove(mut self) -> io::Result<()> {
        self.remove_once()
    }

    fn remove_once(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_removed, true) {
            return Ok(());
        }
        if let Some(folder) = self.folder.take() {
            return folder.close();
        }
        match fs::read_to_string(&self.path) {
            Ok(text) if text == self.text => fs::remove_file(&self.path),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = self.remove_once();
    }
}

fn text(url: &str, authority: Option<&str>, token: Option<&str>) -> String {
    let mut cluster = json!({"server": url});
    if let Some(authority) = authority {
        cluster["certificate-authority-data"] = BASE64_STANDARD.encode(authority).into();
    }
    let user = token.map_or_else(|| json!({}), |token| json!({"token": token}));
    // JSON is YAML.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "windlass", "cluster": cluster}],
        "users": [{"name": "windlass", "user": user}],
        "contexts": [{
            "name": "windlass",
            "context": {"cluster": "windlass", "user": "windlass", "namespace": "default"},
        }],
        "current-context": "windlass",
    });
    format!("{config:#}\n")
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Fails also if there is a link, wherever that leads.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something already, which is not overwritten: remove it, or name another path",
        ),
        _ => error,
    })?;
    file.write_all(text.as_bytes())
}

fn private_folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("windlass-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}
