//! A replica of the operator: a process of its own, with ports of its own.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::NAME;

/// The timing of the election: a fifth of the defaults (15 s, 10 s and 2 s), so that nobody waits
/// long in a story.
pub(super) const TIMING: [(&str, &str); 3] =
    [("--lease-duration", "3s"), ("--renew-deadline", "2s"), ("--retry-period", "500ms")];

/// How often a replica is asked whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// A replica. It is killed when this is dropped, and ends by itself when this process does.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) name: String,
    /// Where probes are answered.
    pub(super) probes: SocketAddr,
    /// Where metrics and the view inside are served.
    pub(super) metrics: SocketAddr,
    /// Where the API server calls the webhooks.
    pub(super) webhooks: SocketAddr,
    log: PathBuf,
    process: Child,
}

impl Replica {
    /// Starts a replica on the cluster of a kubeconfig. Its log is beside that file.
    pub(super) fn start(name: &str, kubeconfig: &Path) -> Result<Self> {
        let (probes, metrics, webhooks) = (free_address()?, free_address()?, free_address()?);
        let log = kubeconfig.with_file_name(format!("{name}.log"));
        let file = File::create(&log).context("the log of a replica cannot be created")?;
        let program = std::env::current_exe().context("where this program is, is not known")?;
        let mut command = Command::new(program);
        command
            .args(["run", "--until-stdin-ends", "--hosts-namespace=default"])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--leader-election-namespace", "default"])
            .args(TIMING.iter().flat_map(|(flag, time)| [flag, time]))
            .args(["--health-probe-bind-address", &probes.to_string()])
            .args(["--metrics-bind-address", &metrics.to_string()])
            .args(["--webhook-bind-address", &webhooks.to_string()])
            .args(["--webhook-namespace", "default", "--webhook-service", NAME])
            // Variables can set options, too, and must not lead to another cluster.
            .env_clear()
            .env("POD_NAME", name)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true);
        let process = command.spawn().context("a replica cannot be started")?;
        Ok(Self { name: name.to_owned(), probes, metrics, webhooks, log, process })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id().unwrap_or_default()
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Waits until `/readyz` answers with 200.
    pub(super) async fn wait_until_ready(&mut self) -> Result<()> {
        loop {
            if let Some(status) = self.process.try_wait()? {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                anyhow::bail!("{} has ended ({status}). Its log:\n{log}", self.name);
            }
            if get(self.probes, "/readyz").await.is_ok() {
                return Ok(());
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until `/readyz?verbose` has this in it, and returns what it says.
    pub(super) async fn wait_until_it_says(&self, part: &str) -> Result<String> {
        loop {
            let said = get(self.probes, "/readyz?verbose").await?;
            if said.contains(part) {
                return Ok(said);
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// `kill -9`: it has no time to say goodbye.
    pub(super) async fn kill(&mut self) -> Result<()> {
        self.process.kill().await.with_context(|| format!("{} cannot be killed", self.name))
    }
}

/// The body of a page. A real HTTP client would be more code than this.
///
/// # Errors
/// If there is no answer, or one that is not 200.
async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("this is not HTTP")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{path} of {address}: {body}");
    Ok(body.to_owned())
}

/// How many ports this process has looked at. Each replica gets ports of its own, also while the
/// one before it does not yet listen on its ports.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// An address that nobody listens on. Its port is below those that systems give to outgoing
/// connections, so that no connection takes it before the replica does.
fn free_address() -> Result<SocketAddr> {
    // Programs that start at the same time begin at different ports.
    let start = std::process::id().wrapping_mul(97);
    let looked_at = || LOOKED_AT.fetch_add(1, Ordering::Relaxed);
    let ports = (0..10_000).map(|_| 20_000 + start.wrapping_add(looked_at()) % 10_000);
    let mut addresses = ports
        .filter_map(|port| u16::try_from(port).ok())
        .map(|port| (Ipv4Addr::LOCALHOST, port).into());
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    addresses.find(is_free).context("there is no free port")
}
