//! Shared code of the programs that run a server: flags, logs, errors, the kubeconfig, and the
//! signal that stops them. The programs are `windlass-apiserver` and `windlass-cluster`.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ring::rand;
use tracing_subscriber::EnvFilter;
pub use windlass_serve::BindError;

use crate::auth::Authorization;
use crate::kubeconfig::Kubeconfig;
use crate::listen::Listening;
use crate::server::{ApiServer, Builder};
use crate::user::User;

/// Flags of every program that runs a server.
#[derive(Clone, clap::Args)]
pub struct ServerOptions {
    /// Path of a new kubeconfig file, which is removed when the program ends. It is an error if the
    /// path exists. Default: a file in a new temporary directory.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Require this bearer token, and write it to the kubeconfig.
    #[arg(long)]
    pub token: Option<String>,
    /// Which requests are allowed: all, or those that RBAC allows. Without `--token`, requests
    /// without a token have all rights. With `--token` they are anonymous.
    #[arg(long, value_enum, ignore_case = true, default_value_t = AuthorizationMode::AlwaysAllow)]
    pub authorization_mode: AuthorizationMode,
    /// Leave garbage and the content of deleted namespaces where they are.
    #[arg(long)]
    pub no_garbage_collection: bool,
    /// Draw uids, generated names and the key that signs service account tokens from this seed.
    /// Whoever knows it can make such tokens. Default: a random one.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// The authorization mode, with the names of kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AuthorizationMode {
    /// Nothing: everyone may do everything.
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    /// Roles and their bindings.
    #[value(name = "RBAC")]
    Rbac,
}

/// The token is a secret: only its presence is shown.
impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("kubeconfig", &self.kubeconfig)
            .field("has_token", &self.token.is_some())
            .field("authorization_mode", &self.authorization_mode)
            .finish_non_exhaustive()
    }
}

impl ServerOptions {
    /// Returns the settings of a server that follow from the flags.
    pub fn builder(&self) -> Builder {
        let mut builder = ApiServer::builder()
            .seed(self.seed.unwrap_or_else(random_seed))
            .garbage_collection(!self.no_garbage_collection);
        let mut owner = User::named("windlass");
        if self.authorization_mode == AuthorizationMode::Rbac {
            builder = builder.authorization(Authorization::Rbac);
            owner = owner.group("system:masters");
        }
        match &self.token {
            Some(token) => builder.token(token, owner),
            None => builder,
        }
    }

    /// Writes the kubeconfig to the path that the flags name, or to a new temporary directory.
    ///
    /// # Errors
    /// If the file cannot be written, or if the path exists. The error names the path.
    pub fn write_kubeconfig(&self, listening: &Listening) -> io::Result<Kubeconfig> {
        let token = self.token.as_deref();
        let (written, place) = match &self.kubeconfig {
            None => (listening.temporary_kubeconfig(token), String::new()),
            Some(path) => (listening.write_kubeconfig(path, token), format!(" {}", path.display())),
        };
        written.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write the kubeconfig{place}: {error}"))
        })
    }
}

/// Parses the address that a flag contains.
///
/// # Errors
/// If the text is not an IP address and a port. The message says what to give.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port, such as 127.0.0.1:8080; port 0 takes a free one".to_owned()
    })
}

/// Parses the port that a flag contains.
///
/// # Errors
/// If the text is not a port. The message says what to give.
pub fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "give a number from 0 to 65535; 0 takes a free port".to_owned())
}

/// Returns the exit code of a program. Prints an error with its causes in one line.
pub fn exit_code<E: fmt::Display>(ended: Result<(), E>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns what `windlass-apiserver` prints when it is ready. The lines that begin with two spaces
/// are shell commands; each of them succeeds.
pub fn greeting(url: &str, kubeconfig: &Path) -> String {
    let kubeconfig = kubeconfig.display();
    format!(
        "An embedded Kubernetes API server is at {url}, with nothing in it but namespaces.\n\
         Its kubeconfig: {kubeconfig}\n\n\
         Try, in another terminal:\n\
         \x20 export KUBECONFIG={kubeconfig}\n\
         \x20 kubectl create configmap hello --from-literal=colour=green\n\
         \x20 kubectl get configmaps --watch &\n\
         \x20 kubectl patch configmap hello -p '{{\"data\":{{\"colour\":\"blue\"}}}}'\n\
         \x20 kubectl create deployment web --image=web:1\n\
         \x20 kubectl set image deployment web web=web:2\n\
         \x20 kubectl get all,configmaps\n\
         \x20 kubectl explain deployment.spec.strategy\n\
         \x20 kubectl delete deployment/web configmap/hello\n\n\
         Deployments have no pods here: `cargo run -p windlass-cluster` has controllers, too.\n\
         Requests are logged below. Ctrl-C ends it, and everything in it.\n"
    )
}

/// Returns a seed that nobody can guess, because keys are derived from it.
fn random_seed() -> u64 {
    let random: rand::Random<[u8; 8]> =
        rand::generate(&rand::SystemRandom::new()).expect("a machine must have randomness");
    u64::from_be_bytes(random.expose())
}

/// Starts logging to the standard output, filtered by `RUST_LOG`, or by `filter` if it is not set.
pub fn start_log(filter: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    log.with_target(false).with_level(false).without_time().init();
}

/// Resolves on SIGINT (Ctrl-C) or SIGTERM. Signals are caught from this call on, even if the future
/// is not polled yet.
///
/// # Errors
/// If signals cannot be received.
#[cfg(unix)]
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}

/// Resolves on Ctrl-C, which is caught only once the future is polled.
///
/// # Errors
/// None, on this platform.
#[cfg(not(unix))]
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
