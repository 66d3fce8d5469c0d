//! The server of a stage.

use std::path::Path;

use anyhow::{Context, Result};
use http::Request;
use windlass_testserver::{ControlPlane, ControlPlaneOptions};

use crate::process::{Contestant, quiet};
use crate::serve::Entrant;

/// A kube-apiserver with etcd.
pub struct Server {
    /// The processes, which end with this.
    pub cluster: ControlPlane,
    /// A client that is at the server directly.
    pub client: kube::Client,
}

/// Whose turn it is to change: other objects every time, until all had theirs.
#[derive(Debug)]
pub struct Turns {
    objects: usize,
    next: usize,
}

impl Server {
    /// Starts an empty one.
    ///
    /// # Errors
    /// If it does not start; without its programs, the error says how to get them.
    pub async fn start() -> Result<Self> {
        let cluster = ControlPlane::start(ControlPlaneOptions::new()).await?;
        let client = cluster.client()?;
        Ok(Self { cluster, client })
    }

    /// Waits until the API server has nothing left to do, so that every contestant finds it alike.
    ///
    /// # Errors
    /// If it does not come to rest, or has ended.
    pub async fn quiet(&self) -> Result<()> {
        quiet(self.cluster.pids().apiserver.context("the API server must run")?).await
    }

    /// The whole answer to a request for this path.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn get(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(self.client.request_text(request).await?)
    }

    /// How long an object of this path is in a list, over a few hundred of `objects`.
    ///
    /// # Errors
    /// If the server does not list them.
    pub async fn size_of_one(&self, path: &str, objects: usize) -> Result<usize> {
        let count = objects.min(501) - 1;
        let list = async |limit| self.get(&format!("{path}?limit={limit}")).await;
        let (one, more) = (list(1).await?, list(count + 1).await?);
        Ok(more.len().saturating_sub(one.len()) / count)
    }

    /// Starts a contestant that is to hold `objects` objects, when the server is quiet, and waits
    /// until it is ready.
    ///
    /// # Errors
    /// If the program does not start, or is not ready.
    pub async fn contestant(
        &self,
        Entrant { who, program }: &Entrant,
        kubeconfig: &Path,
        objects: usize,
        flags: &[&str],
    ) -> Result<Contestant> {
        self.quiet().await?;
        let kubeconfig = kubeconfig.to_str().context("the kubeconfig's path must be text")?;
        let objects = objects.to_string();
        let common = ["--who", who, "--kubeconfig", kubeconfig, "--objects", &objects];
        let arguments: Vec<_> = common.iter().chain(flags).map(|&word| word.to_owned()).collect();
        let log = self.cluster.folder().join(format!("{who}.log"));
        let started = Contestant::start(program, &arguments, log).await;
        started.with_context(|| format!("{who} was not ready"))
    }
}

impl Turns {
    /// Of so many objects.
    pub fn new(objects: usize) -> Self {
        Self { objects, next: 0 }
    }

    /// The indexes of the next ones.
    pub fn take(&mut self, count: usize) -> Vec<usize> {
        let first = self.next;
        self.next = (first + count) % self.objects;
        (first..first + count).map(|index| index % self.objects).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_objects_get_their_turn() {
        let mut turns = Turns::new(5);
        assert_eq!(turns.take(3), [0, 1, 2]);
        assert_eq!(turns.take(3), [3, 4, 0]);
    }
}
