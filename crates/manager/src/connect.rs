//! Finds the cluster of a manager, makes its clients, and waits until its API server answers.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use kube::Client;
use kube::client::AuthError;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tower::BoxError;
use windlass_informer::client::{error_chain, safe_message};
use windlass_informer::{ClientStack, ConnectError, RequestError, SourceError};

use crate::error::{ManagerError, NoCluster};
use crate::options::Options;

/// How long a manager tries at its start to get an answer of the API server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// After this time without an answer a warning is logged. The request goes on.
const WARN_AFTER: Duration = Duration::from_secs(5);

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

impl Cluster {
    /// The cluster that `make_client` connects to. Without it, it is [inferred](Self::infer).
    pub(crate) async fn find(
        make_client: Option<MakeClient>,
        options: &Options,
    ) -> Result<Self, NoCluster> {
        match make_client {
            Some(make_client) => {
                let found = "by Manager::connect".to_owned();
                Ok(Self { make_client, found, server: None })
            }
            None => Self::infer(options).await,
        }
    }

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

/// Why there is no answer of the API server.
enum NoAnswer {
    /// It cannot be reached, for this reason.
    Unreachable(String),
    /// Its certificate is not accepted, for this reason. Waiting does not help.
    Untrusted(String),
}

/// Waits until the API server at this URL answers. Any answer will do, also 401 or 403: the request
/// that needs the permission reports it with more detail. Logs a warning when the first attempt
/// fails, or has no answer for a while.
pub(crate) async fn wait_for_server(client: &Client, server: &str) -> Result<(), ManagerError> {
    let deadline = Instant::now() + SERVER_TIMEOUT;
    let (mut pause, mut is_first) = (PAUSE, true);
    let mut warn = |cause: &str| {
        if std::mem::take(&mut is_first) {
            let seconds = SERVER_TIMEOUT.as_secs();
            tracing::warn!(
                "cannot reach the API server at {server}: {cause}; trying for {seconds} s"
            );
        }
    };
    loop {
        let mut attempt = pin!(attempt(client));
        let began = Instant::now();
        let result = if let Ok(result) = timeout(WARN_AFTER, &mut attempt).await {
            result
        } else {
            warn(&no_answer_since(began));
            let answered = timeout_at(deadline, attempt).await;
            answered.unwrap_or_else(|_| Err(NoAnswer::Unreachable(no_answer_since(began))))
        };
        let server = server.to_owned();
        let cause = match result {
            Ok(()) => return Ok(()),
            Err(NoAnswer::Untrusted(cause)) => {
                return Err(ManagerError::Untrusted { server, cause });
            }
            Err(NoAnswer::Unreachable(cause)) => cause,
        };
        if Instant::now() + pause > deadline {
            return Err(ManagerError::Unreachable { server, cause });
        }
        warn(&cause);
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn no_answer_since(began: Instant) -> String {
    format!("no answer within {} s", began.elapsed().as_secs())
}

/// Sends a request. It is `Ok` if the server answered, or if nothing was sent because the
/// credentials or the configuration are unusable: the next request reports that.
async fn attempt(client: &Client) -> Result<(), NoAnswer> {
    let answer = client.apiserver_version().await;
    let Err(error @ (kube::Error::Service(_) | kube::Error::HyperError(_))) = answer else {
        return Ok(());
    };
    if error_chain(&error).any(|one| one.is::<ConnectError>() || one.is::<AuthError>()) {
        return Ok(());
    }
    // Which request failed is of no interest here.
    let request = error_chain(&error).find_map(|one| one.downcast_ref::<RequestError>());
    let cause = request.map_or_else(|| safe_message(&error), |one| safe_message(&*one.source));
    let is_untrusted = SourceError::transport(&error).is_untrusted();
    Err(if is_untrusted { NoAnswer::Untrusted(cause) } else { NoAnswer::Unreachable(cause) })
}

/// The configuration, and where it was found.
async fn config(options: &Options) -> Result<(Config, String), NoCluster> {
    let (kubeconfig, found) = match &options.kubeconfig {
        Some(path) => (read(path), found_in(path)),
        None if is_in_pod() && !wants_kubeconfig(options) => {
            let config = Config::incluster().map_err(|error| NoCluster::new(&error.into()))?;
            return Ok((config, "the service account of the pod".to_owned()));
        }
        None => (read_default(), found_by_default()),
    };
    let kubeconfig = kubeconfig?;
    let context = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let found = match &context {
        Some(context) => format!("{found}, context {context}"),
        None => found,
    };
    let choice = KubeConfigOptions { context: options.context.clone(), ..Default::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &choice).await;
    Ok((config.map_err(|error| unusable(&error, &found))?, found))
}

/// The files of `KUBECONFIG`, merged; without them, `~/.kube/config`.
fn read_default() -> Result<Kubeconfig, NoCluster> {
    let files = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let files: Vec<_> =
        std::env::split_paths(&files).filter(|path| !path.as_os_str().is_empty()).collect();
    if files.is_empty() {
        return Kubeconfig::read().map_err(|error| unusable(&error, &found_by_default()));
    }
    read_all(&files)
}

/// The files, merged. An error names the file that it is about.
fn read_all(files: &[PathBuf]) -> Result<Kubeconfig, NoCluster> {
    files.iter().try_fold(Kubeconfig::default(), |merged, path| {
        merged.merge(read(path)?).map_err(|error| unusable(&error, &found_in(path)))
    })
}

fn read(path: &Path) -> Result<Kubeconfig, NoCluster> {
    Kubeconfig::read_from(path).map_err(|error| unusable(&error, &found_in(path)))
}

fn found_in(path: &Path) -> String {
    format!("kubeconfig {}", path.display())
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
    NoCluster::because(message)
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

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    #[test]
    fn error_names_the_file_of_several_that_it_is_about() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["good", "broken"].map(|name| folder.path().join(name));
        std::fs::write(&files[0], "kind: Config\ncurrent-context: here").expect("written");
        std::fs::write(&files[1], "users: 'hunter2").expect("written");
        let merged = read_all(&files[..1]).expect("a kubeconfig");
        assert_eq!(merged.current_context.as_deref(), Some("here"));
        let error = read_all(&files).expect_err("one is broken").to_string();
        let start = format!("cannot connect to a cluster: kubeconfig {}: ", files[1].display());
        assert!(error.starts_with(&start), "{error}");
        assert!(!error.contains("hunter2"), "{error}");

        std::fs::write(&files[1], "kind: Other").expect("written");
        let error = read_all(&files).expect_err("they differ in their kinds").to_string();
        assert!(error.starts_with(&start), "{error}");
    }

    /// A client of a server that answers after this time.
    fn answering_after(time: Duration) -> Client {
        let service = service_fn(move |_: Request<Body>| async move {
            sleep(time).await;
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn slow_server_is_waited_for() {
        let (client, began) = (answering_after(Duration::from_secs(20)), Instant::now());
        wait_for_server(&client, "https://one").await.expect("it answers");
        assert_eq!(began.elapsed(), Duration::from_secs(20), "with its first request");
    }

    #[tokio::test(start_paused = true)]
    async fn silent_server_is_given_up() {
        let (client, began) = (answering_after(Duration::from_hours(1)), Instant::now());
        let error = wait_for_server(&client, "https://one").await.expect_err("it is silent");
        assert_eq!(began.elapsed(), SERVER_TIMEOUT);
        let start = "cannot reach the API server at https://one: no answer within 30 s; check";
        assert!(error.to_string().starts_with(start), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn unusable_credentials_are_left_to_the_next_request() {
        let service = service_fn(|_: Request<Body>| async {
            let error = ConnectError::Credentials("the plugin failed".to_owned());
            Err::<Response<Body>, BoxError>(error.into())
        });
        let began = Instant::now();
        let client = Client::new(service, "default");
        wait_for_server(&client, "https://one").await.expect("nothing was sent");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
