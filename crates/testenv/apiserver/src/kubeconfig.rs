//! Kubeconfigs for a server on loopback.
//!
//! A kubeconfig may hold a token. So it is always a new file (it neither overwrites a file nor
//! follows a link), only its owner can read it, and it is removed with its handle.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use tempfile::TempDir;

use crate::listen::Listening;

/// A kubeconfig file. Dropping this removes the file as [`remove`](Self::remove) does, but ignores
/// errors.
#[must_use = "the file is removed when this is dropped"]
pub struct Kubeconfig {
    path: PathBuf,
    text: String,
    /// The folder that was created for the file, and is removed with it.
    folder: Option<TempDir>,
    is_removed: bool,
}

/// The text holds a token and is not shown.
impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Listening {
    /// Writes a kubeconfig for this server to a new file, which only its owner can read. Dropping
    /// the result removes the file.
    ///
    /// # Errors
    /// If the file cannot be written. If the path exists, even as a link, the error is
    /// [`io::ErrorKind::AlreadyExists`].
    pub fn write_kubeconfig(&self, path: &Path, token: Option<&str>) -> io::Result<Kubeconfig> {
        let text = text(&self.url(), self.authority(), token);
        create(path, &text)?;
        Ok(Kubeconfig { path: path.to_owned(), text, folder: None, is_removed: false })
    }

    /// Writes a kubeconfig for this server into a new folder with a random name in the system's
    /// temporary folder. Only its owner can enter the folder. Dropping the result removes both.
    ///
    /// # Errors
    /// If the folder or the file cannot be created.
    pub fn temporary_kubeconfig(&self, token: Option<&str>) -> io::Result<Kubeconfig> {
        let folder = private_folder()?;
        let mut written = self.write_kubeconfig(&folder.path().join("kubeconfig"), token)?;
        written.folder = Some(folder);
        Ok(written)
    }
}

impl Kubeconfig {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file. A file that has been changed since stays, unless its folder was created
    /// for it.
    ///
    /// # Errors
    /// If the file exists and cannot be removed.
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
    // This fails also if the path is a link, whatever it points to.
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
