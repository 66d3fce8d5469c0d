//! A TCP balancer, as a Service is one: new connections go to the replicas that are ready, in turn.
//! Connections that are there stay where they are.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How often a replica is asked whether it is ready.
const PROBE_PERIOD: Duration = Duration::from_millis(100);

const PROBE: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: replica\r\nconnection: close\r\n\r\n";

/// A replica, as the balancer knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    pub(crate) webhooks: SocketAddr,
    pub(crate) probes: SocketAddr,
}

/// It ends when it is dropped.
pub(crate) struct Balancer {
    address: SocketAddr,
    ready: Vec<watch::Receiver<bool>>,
    #[expect(dead_code, reason = "it is held, not read")]
    tasks: JoinSet<()>,
}

impl Balancer {
    pub(crate) async fn start(backends: &[Backend]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (mut tasks, mut ready) = (JoinSet::new(), Vec::new());
        for backend in backends {
            let (sender, receiver) = watch::channel(false);
            tasks.spawn(follow(backend.probes, sender));
            ready.push(receiver);
        }
        let addresses: Vec<_> = backends.iter().map(|backend| backend.webhooks).collect();
        tasks.spawn(accept(listener, addresses, ready.clone()));
        Self { address, ready, tasks }
    }

    /// Where the API server calls the webhooks.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Waits until a replica gets new connections, or gets none.
    pub(crate) async fn wait_until(&self, backend: usize, is_ready: bool) {
        let mut ready = self.ready[backend].clone();
        ready.wait_for(|ready| *ready == is_ready).await.expect("the balancer must live");
    }
}

/// Asks a replica again and again whether it is ready.
async fn follow(probes: SocketAddr, ready: watch::Sender<bool>) {
    loop {
        let is_ready = probe(probes).await.unwrap_or(false);
        ready.send_if_modified(|known| std::mem::replace(known, is_ready) != is_ready);
        sleep(PROBE_PERIOD).await;
    }
}

async fn probe(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(PROBE).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}

async fn accept(
    listener: TcpListener,
    addresses: Vec<SocketAddr>,
    ready: Vec<watch::Receiver<bool>>,
) {
    let mut connections = JoinSet::new();
    let mut last = 0;
    while let Ok((mut incoming, _)) = listener.accept().await {
        let mut in_turn = (1..=addresses.len()).map(|step| (last + step) % addresses.len());
        // Without a replica that is ready, the connection is closed.
        let Some(chosen) = in_turn.find(|at| *ready[*at].borrow()) else { continue };
        last = chosen;
        let address = addresses[chosen];
        connections.spawn(async move {
            let Ok(mut outgoing) = TcpStream::connect(address).await else { return };
            let _ = copy_bidirectional(&mut incoming, &mut outgoing).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
