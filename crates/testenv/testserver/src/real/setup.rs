//! Prepares the three servers of a cluster before the first one starts: files, ports and flags.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Uri;
use serde_json::{Value, json};

use super::ControlPlane;
use super::assets::Assets;
use super::audit;
use super::certificates::{Authority, Certificates};
use super::options::ControlPlaneOptions;
use super::ports::free_port;
use super::server::Server;
use super::supervisor::Folder;
use crate::Error;

/// The folder of etcd's data, in the cluster's folder.
pub(super) const DATA: &str = "etcd";

/// Go's garbage collection target, in per cent of the live heap. At the default of 100,
/// kube-apiserver spends a tenth of its start collecting garbage.
const GOGC: &str = "400";

/// The address of the cluster, and the credentials for it.
pub(super) struct Access {
    pub(super) url: Uri,
    pub(super) etcd_port: u16,
    pub(super) authority: Authority,
    pub(super) admin_token: String,
    pub(super) powerless_token: String,
    pub(super) kubeconfig: PathBuf,
}

/// Hides tokens and keys, which are secrets.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Finds the programs, writes the files, and returns the cluster with no server started.
pub(super) fn prepare(options: &ControlPlaneOptions) -> Result<ControlPlane, Error> {
    let assets = Assets::from_environment();
    let etcd = Command::new(assets.find("etcd")?);
    let apiserver = Command::new(assets.find("kube-apiserver")?);
    let controller_manager = (!options.controllers.is_empty())
        .then(|| assets.find("kube-controller-manager").map(Command::new))
        .transpose()?;

    let folder = Folder::new().map_err(Error::system("make a temporary folder"))?;
    let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
    let access = write_files(folder.path(), etcd_port, port)?;
    let path = folder.path();
    let mut flags = if options.is_audited { audit::prepare(path)? } else { Vec::new() };
    flags.extend_from_slice(&options.apiserver_flags);
    Ok(ControlPlane {
        controller_manager: controller_manager.map(|command| {
            let command = controller_manager_flags(command, &options.controllers);
            Server::new("kube-controller-manager", command, path)
        }),
        apiserver: Server::new(
            "kube-apiserver",
            apiserver_flags(apiserver, etcd_port, port, &flags),
            path,
        ),
        etcd: Server::new("etcd", etcd_flags(etcd, etcd_port, peer_port), path),
        access,
        folder,
    })
}

fn write_files(folder: &Path, etcd_port: u16, port: u16) -> Result<Access, Error> {
    let certificates = Certificates::generate()?;
    let (admin_token, powerless_token) = (secret()?, secret()?);
    let url = format!("https://127.0.0.1:{port}");
    let tokens = format!(
        "{admin_token},windlass-admin,windlass-admin,\"system:masters\"\n\
         {powerless_token},bob,bob\n"
    );
    let kubeconfig = folder.join("kubeconfig");
    let admin = json!({ "token": admin_token });
    for (name, content) in [
        ("ca.crt", &certificates.authority.pem),
        ("serving.crt", &certificates.serving),
        ("serving.key", &certificates.serving_key),
        ("account.key", &certificates.account_key),
        ("account.pub", &certificates.account_public_key),
        ("tokens.csv", &tokens),
        ("kubeconfig", &kubeconfig_text(folder, &url, &admin)),
    ] {
        fs::write(folder.join(name), content).map_err(Error::system(format!("write {name}")))?;
    }
    Ok(Access {
        url: url.parse().expect("a URL with a port must be a URI"),
        etcd_port,
        authority: certificates.authority,
        admin_token,
        powerless_token,
        kubeconfig,
    })
}

/// Returns a kubeconfig. It is JSON, which is YAML, so every reader accepts it.
pub(super) fn kubeconfig_text(folder: &Path, url: &str, user: &Value) -> String {
    let authority = folder.join("ca.crt");
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "windlass",
            "cluster": { "server": url, "certificate-authority": authority },
        }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "windlass", "context": { "cluster": "windlass", "user": "user" } }],
        "current-context": "windlass",
    })
    .to_string()
}

/// The variable with feature gates to turn on, as in `A=true,B=true`. `cargo xtask nightly` sets it
/// for older versions of Kubernetes, which do not enable by default what the tests expect.
const FEATURE_GATES: &str = "WINDLASS_FEATURE_GATES";

/// Returns the flag for the feature gates in the environment.
fn feature_gates() -> Option<String> {
    let gates = std::env::var(FEATURE_GATES).ok().filter(|gates| !gates.is_empty())?;
    Some(format!("--feature-gates={gates}"))
}

/// Returns a token that other users of this machine cannot guess.
fn secret() -> Result<String, Error> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(Error::system("read /dev/urandom"))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

fn etcd_flags(mut etcd: Command, port: u16, peer_port: u16) -> Command {
    let (url, peer_url) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    etcd.env("GOGC", GOGC).args([
        "--name=windlass".to_owned(),
        format!("--data-dir={DATA}"),
        // No data has to survive a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peer_url}"),
        format!("--initial-advertise-peer-urls={peer_url}"),
        format!("--initial-cluster=windlass={peer_url}"),
    ]);
    etcd
}

fn apiserver_flags(mut apiserver: Command, etcd_port: u16, port: u16, more: &[String]) -> Command {
    apiserver
        .env("GOGC", GOGC)
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
        .arg(format!("--secure-port={port}"))
        .args([
            "--bind-address=127.0.0.1",
            // Loopback is refused here. This address is reserved for documentation and leads
            // nowhere; without it, the server would not start on a machine without a network.
            "--advertise-address=192.0.2.1",
            "--external-hostname=localhost",
            "--tls-cert-file=serving.crt",
            "--tls-private-key-file=serving.key",
            "--token-auth-file=tokens.csv",
            "--client-ca-file=ca.crt",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=account.pub",
            "--service-account-signing-key-file=account.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            // The service accounts that this plugin requires for every pod do not exist.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--profiling=false",
        ])
        .args(feature_gates())
        .args(more);
    apiserver
}

fn controller_manager_flags(mut controller_manager: Command, controllers: &[String]) -> Command {
    controller_manager
        .env("GOGC", GOGC)
        .arg(format!("--controllers={}", controllers.join(",")))
        .args([
            "--kubeconfig=kubeconfig",
            "--leader-elect=false",
            "--secure-port=0",
            // The default of 20 requests a second makes tests wait for the client's rate limit.
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ])
        .args(feature_gates());
    controller_manager
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_differ() {
        let (one, other) = (secret().expect("a secret"), secret().expect("another"));
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }

    #[test]
    fn flags_of_a_test_come_last_so_that_they_win() {
        let more = ["--watch-cache=false".to_owned()];
        let command = apiserver_flags(Command::new("kube-apiserver"), 1, 2, &more);
        assert_eq!(
            command.get_args().last().and_then(|flag| flag.to_str()),
            Some("--watch-cache=false")
        );
    }
}
