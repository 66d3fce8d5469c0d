//! Users of a cluster, each with a client certificate of its own.
//!
//! The common name of the certificate is the user's name, as kube-apiserver reads it. A new user
//! has no rights: the test binds it to a role.

use std::fs;
use std::path::{Path, PathBuf};

use kube::config::AuthInfo;
use serde_json::json;
use tempfile::TempDir;

use super::ControlPlane;
use super::setup::kubeconfig_text;
use crate::Error;

/// A user of a [`ControlPlane`].
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    kubeconfig: PathBuf,
    config: kube::Config,
}

impl ControlPlane {
    /// Creates a user without any rights. Its files live as long as the cluster.
    ///
    /// # Errors
    /// If the certificate cannot be created, or the files cannot be written.
    pub fn user(&self, name: &str) -> Result<User, Error> {
        let (certificate, key) = self.access.authority.client(name)?;
        let failed = || Error::system(format!("write the files of the user {name}"));
        // The folder is readable only by this user of the machine, and its name is unique.
        let folder = TempDir::with_prefix_in("user-", self.folder()).map_err(failed())?.keep();
        let write = |name: &str, content: &str| {
            let path = folder.join(name);
            fs::write(&path, content).map_err(failed())?;
            Ok::<_, Error>(path)
        };
        let (certificate, key) = (write("user.crt", &certificate)?, write("user.key", &key)?);
        let user = json!({ "client-certificate": certificate, "client-key": key });
        let text = kubeconfig_text(self.folder(), &self.access.url.to_string(), &user);
        let text_of = |path: &Path| path.to_str().map(str::to_owned);
        let mut config = self.config();
        config.auth_info = AuthInfo {
            client_certificate: text_of(&certificate),
            client_key: text_of(&key),
            ..AuthInfo::default()
        };
        Ok(User { name: name.to_owned(), kubeconfig: write("kubeconfig", &text)?, config })
    }
}

impl User {
    /// Returns the name, as in role bindings and the audit log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of this user's kubeconfig, for programs.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the configuration of a client of this user.
    pub fn config(&self) -> kube::Config {
        self.config.clone()
    }

    /// Creates a client of this user. It belongs to the calling runtime.
    ///
    /// # Errors
    /// If the TLS configuration cannot be created.
    pub fn client(&self) -> Result<kube::Client, Error> {
        Ok(kube::Client::try_from(self.config())?)
    }
}
