//! A way to the server that can be shut.
//!
//! While it is shut, connections are cut and new ones wait at the door. So a contestant loses its
//! watch, and comes back soon after the door is opened: were its attempts refused, it would wait
//! longer every time.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A port of loopback whose connections lead to the server. Dropping it cuts them.
#[derive(Debug)]
pub(crate) struct Door {
    /// How to reach the server through this door.
    pub(crate) kubeconfig: PathBuf,
    is_open: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Door {
    /// An open door to the server of this kubeconfig; its own is written beside it.
    pub(crate) async fn new(kubeconfig: &Path) -> Result<Self> {
        let mut config: Value = serde_json::from_slice(&std::fs::read(kubeconfig)?)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = &mut config["clusters"][0]["cluster"]["server"];
        let address = server.as_str().and_then(|url| url.strip_prefix("https://"));
        let address = address.context("the kubeconfig must have a server")?.parse()?;
        *server = format!("https://{}", listener.local_addr()?).into();
        let path = kubeconfig.with_file_name("kubeconfig-door");
        std::fs::write(&path, config.to_string())?;
        let (is_open, state) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(receive(listener, address, state));
        Ok(Self { kubeconfig: path, is_open, _tasks: tasks })
    }

    /// Cuts all connections, and lets new ones wait.
    pub(crate) fn shut(&self) {
        self.is_open.send_replace(false);
    }

    /// Lets those through that wait.
    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }
}

async fn receive(listener: TcpListener, server: SocketAddr, state: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(lead(client, server, state.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Leads one connection to the server until one of the two closes it, or the door is shut.
async fn lead(mut client: TcpStream, server: SocketAddr, mut state: watch::Receiver<bool>) {
    if state.wait_for(|is_open| *is_open).await.is_err() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    // A delayed piece of a handshake would look like a slow server.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = state.wait_for(|is_open| !*is_open) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that says the same to everybody, and a door to it; with the door's address.
    async fn door(folder: &Path, tasks: &mut JoinSet<()>) -> (Door, String) {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", server.local_addr().expect("an address"));
        tasks.spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut client, _)) = server.accept().await {
                client.write_all(b"x").await.expect("the client must be there");
                held.push(client);
            }
        });
        let path = folder.join("kubeconfig");
        let config = serde_json::json!({"clusters": [{"cluster": {"server": url}}]});
        std::fs::write(&path, config.to_string()).expect("a file");
        let door = Door::new(&path).await.expect("a door");
        let written = std::fs::read_to_string(&door.kubeconfig).expect("its kubeconfig");
        let address = written.split("https://").nth(1).and_then(|rest| rest.split('"').next());
        (door, address.expect("an address").to_owned())
    }

    #[tokio::test]
    async fn shut_door_cuts_and_holds_and_open_door_leads_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut tasks = JoinSet::new();
        let (door, address) = door(folder.path(), &mut tasks).await;
        let mut buffer = [0; 1];

        let mut before = TcpStream::connect(&address).await.expect("the door");
        assert_eq!(before.read(&mut buffer).await.expect("a byte"), 1);
        door.shut();
        assert_eq!(before.read(&mut buffer).await.expect("the end"), 0);

        let mut meanwhile = TcpStream::connect(&address).await.expect("the door takes it");
        door.open();
        assert_eq!(meanwhile.read(&mut buffer).await.expect("a byte"), 1);
    }
}
