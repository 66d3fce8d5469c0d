//! Users of a cluster, each with a client certificate of its own.
//!
//! The name of the user is the common name of the certificate, as kube-apiserver reads it. A new
//! user has no rights: the test binds it to a role.

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
    /// Makes a user without any rights. Its files live as long as the cluster.
    ///
    /// # Errors
    /// If the certificate cannot be made, or the files cannot be written.
    pub fn user(&self, name: &str) -> Result<User, Error> {
        let (certificate, key) = self.access.authority.client(name)?;
        let failed = || Error::system(format!("write the files of the user {name}"));
        // It may only be read by this user of the machine, and its name is unique.
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
    /// The name, as it stands in role bindings and in the audit log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kubeconfig of this user, for programs.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// What a client of this user needs to know.
    pub fn config(&self) -> kube::Config {
        self.config.clone()
    }

    /// A new client of this user. It belongs to the runtime that this is called in.
    ///
    /// # Errors
    /// If the TLS configuration cannot be made.
    pub fn client(&self) -> Result<kube::Client, Error> {
        Ok(kube::Client::try_from(self.config())?)
    }
}
