//! Finds the cluster of a manager, and makes its clients.

use std::fmt;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tower::BoxError;
use windlass_informer::{ClientStack, safe_message};

use crate::options::Options;

/// Makes a client from a stack. It is called once for each client of the manager, which differ in
/// their layers.
pub(crate) type MakeClient = Box<dyn Fn(ClientStack) -> Result<Client, BoxError> + Send + Sync>;

/// No client of a cluster can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCluster {
    message: String,
}

impl NoCluster {
    pub(crate) fn new(error: &BoxError) -> Self {
        Self { message: safe_message(&**error) }
    }
}

impl fmt::Display for NoCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot connect to a cluster: {}; choose a kubeconfig file with --kubeconfig and a \
             context in it with --context",
            self.message
        )
    }
}

impl std::error::Error for NoCluster {}

/// Finds the cluster: by `--kubeconfig`, `KUBECONFIG`, the service account of the pod, or
/// `~/.kube/config`. Returns how to make clients of it, and where it was found.
pub(crate) async fn infer(options: &Options) -> Result<(MakeClient, String), NoCluster> {
    let (config, found) = config(options).await.map_err(|error| NoCluster::new(&error))?;
    // Without the rest of the URL, which may hold a password.
    let (scheme, host) = (config.cluster_url.scheme_str(), config.cluster_url.host());
    let port = config.cluster_url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let (scheme, host) = (scheme.unwrap_or("http"), host.unwrap_or_default());
    let server = format!("{found}, server {scheme}://{host}{port}");
    Ok((Box::new(move |stack| Ok(stack.connect(config.clone())?)), server))
}

async fn config(options: &Options) -> Result<(Config, String), BoxError> {
    let (kubeconfig, found) = match &options.kubeconfig {
        Some(path) => {
            let found = format!("kubeconfig {}", path.display());
            (Kubeconfig::read_from(path)?, found)
        }
        None if is_in_pod() && !wants_kubeconfig(options) => {
            return Ok((Config::incluster()?, "the service account of the pod".to_owned()));
        }
        None => (Kubeconfig::read()?, found_by_default()),
    };
    let context = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let found = match &context {
        Some(context) => format!("{found}, context {context}"),
        None => found,
    };
    let choice = KubeConfigOptions { context: options.context.clone(), ..Default::default() };
    Ok((Config::from_custom_kubeconfig(kubeconfig, &choice).await?, found))
}

/// Whether `--context` or `KUBECONFIG` requires a kubeconfig file.
fn wants_kubeconfig(options: &Options) -> bool {
    options.context.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty())
}

/// Kubernetes sets this variable in every pod.
fn is_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

fn found_by_default() -> String {
    match std::env::var("KUBECONFIG") {
        Ok(path) if !path.is_empty() => format!("kubeconfig {path}"),
        _ => "kubeconfig ~/.kube/config".to_owned(),
    }
}
