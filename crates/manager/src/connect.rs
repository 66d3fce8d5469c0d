//! Finds the cluster of a manager, makes its clients, and waits until its API server answers.

use std::fmt;
use std::time::Duration;

use kube::Client;
use kube::client::AuthError;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::time::{Instant, sleep, timeout};
use tower::BoxError;
use windlass_informer::{ClientStack, ConnectError, RequestError, error_chain, safe_message};

use crate::error::ManagerError;
use crate::options::Options;

/// How long a manager tries at its start to get an answer of the API server. The last attempt may
/// begin at the end of this time.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an attempt may take, so that the first warning comes soon.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The first pause between two attempts; it doubles with each.
const PAUSE: Duration = Duration::from_millis(250);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Makes a client from a stack. It is called once for each client of the manager, which differ in
/// their layers.
pub(crate) type MakeClient = Box<dyn Fn(ClientStack) -> Result<Client, BoxError> + Send + Sync>;

/// The cluster of a manager.
pub(crate) struct Cluster {
    pub(crate) make_client: MakeClient,
    /// Where it was found, for the log.
    pub(crate) found: String,
    /// The URL of its API server; `None` if only the closure of `Manager::connect` knows it.
    pub(crate) server: Option<String>,
}

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

impl Cluster {
    /// Finds the cluster: by `--kubeconfig`, `KUBECONFIG`, the service account of the pod, or
    /// `~/.kube/config`.
    pub(crate) async fn infer(options: &Options) -> Result<Self, NoCluster> {
        let (config, found) = config(options).await?;
        // Without the rest of the URL, which may hold a password.
        let (scheme, host) = (config.cluster_url.scheme_str(), config.cluster_url.host());
        let port = config.cluster_url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let (scheme, host) = (scheme.unwrap_or("http"), host.unwrap_or_default());
        let server = format!("{scheme}://{host}{port}");
        Ok(Self {
            make_client: Box::new(move |stack| Ok(stack.connect(config.clone())?)),
            found: format!("{found}, server {server}"),
            server: Some(server),
        })
    }
}

/// Waits until the API server at this URL answers. Any answer will do, also 401 or 403: the request
/// that needs the permission reports it with more detail. Logs a warning after the first failure.
pub(crate) async fn wait_for_server(client: &Client, server: &str) -> Result<(), ManagerError> {
    let deadline = Instant::now() + SERVER_TIMEOUT;
    let mut pause = PAUSE;
    while let Some(cause) = why_unreachable(client).await {
        if Instant::now() + pause > deadline {
            return Err(ManagerError::Unreachable { server: server.to_owned(), cause });
        }
        if pause == PAUSE {
            let seconds = SERVER_TIMEOUT.as_secs();
            tracing::warn!(
                "cannot reach the API server at {server}: {cause}; trying again for {seconds} s"
            );
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(())
}

/// Sends a request, and returns why the server is unreachable. `None` if it answered, or if nothing
/// was sent because the credentials or the configuration are unusable: the next request reports it.
async fn why_unreachable(client: &Client) -> Option<String> {
    match timeout(ATTEMPT_TIMEOUT, client.apiserver_version()).await {
        Err(_) => Some(format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs())),
        Ok(Err(error @ (kube::Error::Service(_) | kube::Error::HyperError(_)))) => {
            if error_chain(&error).any(|one| one.is::<ConnectError>() || one.is::<AuthError>()) {
                return None;
            }
            // Which request failed is of no interest here.
            let request = error_chain(&error).find_map(|one| one.downcast_ref::<RequestError>());
            Some(request.map_or_else(|| safe_message(&error), |one| safe_message(&*one.source)))
        }
        Ok(_) => None,
    }
}

/// The configuration, and where it was found.
async fn config(options: &Options) -> Result<(Config, String), NoCluster> {
    let (kubeconfig, found) = match &options.kubeconfig {
        Some(path) => (Kubeconfig::read_from(path), format!("kubeconfig {}", path.display())),
        None if is_in_pod() && !wants_kubeconfig(options) => {
            let config = Config::incluster().map_err(|error| NoCluster::new(&error.into()))?;
            return Ok((config, "the service account of the pod".to_owned()));
        }
        None => (Kubeconfig::read(), found_by_default()),
    };
    let kubeconfig = kubeconfig.map_err(|error| unusable(&error, &found))?;
    let context = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let found = match &context {
        Some(context) => format!("{found}, context {context}"),
        None => found,
    };
    let choice = KubeConfigOptions { context: options.context.clone(), ..Default::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &choice).await;
    Ok((config.map_err(|error| unusable(&error, &found))?, found))
}

/// The error for a kubeconfig that cannot be used, in one line. An excerpt of the file is left out:
/// it may hold a token.
fn unusable(error: &KubeconfigError, found: &str) -> NoCluster {
    let message = match error {
        KubeconfigError::ReadConfig(error, path) => {
            format!("kubeconfig {}: {error}", path.display())
        }
        KubeconfigError::Parse(error) => format!("{found}: {}", error.without_snippet()),
        // kube quotes the names of files twice.
        error => {
            format!("{found}: {}", safe_message(error).replace("'\"", "'").replace("\"'", "'"))
        }
    };
    NoCluster { message }
}

/// Whether `--context` or `KUBECONFIG` requires a kubeconfig file.
fn wants_kubeconfig(options: &Options) -> bool {
    options.context.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty())
}

/// Kubernetes sets this variable in every pod.
pub(crate) fn is_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

fn found_by_default() -> String {
    match std::env::var("KUBECONFIG") {
        Ok(path) if !path.is_empty() => format!("kubeconfig {path}"),
        _ => "kubeconfig ~/.kube/config".to_owned(),
    }
}
