//! When a server may be used: it runs, says that it is ready, and what everybody needs is there.

use std::future::Future;
use std::time::Duration;

use http::Request;
use tokio::time;

use super::ControlPlane;
use super::server::Server;
use crate::Error;

/// Between two questions. A start takes seconds, so this adds a per cent to it at most.
const POLL: Duration = Duration::from_millis(20);

/// How long one question may take. A server that is paused would not answer before it goes on.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for a server. A start takes four seconds; a machine that does other things at
/// the same time may take many times as long, and only a test that fails anyway waits for all of
/// it.
const READY_TIMEOUT: Duration = Duration::from_mins(2);

impl ControlPlane {
    /// Waits until the API server is ready: `/readyz` is ok and the namespace `default` exists.
    ///
    /// It is after [`start`](Self::start) and [`start_apiserver`](Self::start_apiserver). Call this
    /// after etcd was away, or the API server paused. Nothing happens when it is dropped half-way.
    ///
    /// # Errors
    /// If the API server has ended or is not ready in time.
    pub async fn ready(&self) -> Result<(), Error> {
        let client = self.client()?;
        wait(&self.apiserver, || async {
            // The namespace is made by the API server itself, somewhat later than it is ready.
            for path in ["/readyz", "/api/v1/namespaces/default"] {
                ask(&client, path).await.map_err(|error| format!("{path}: {error}"))?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until etcd is ready.
    pub(super) async fn etcd_ready(&self) -> Result<(), Error> {
        wait(&self.etcd, || async {
            self.etcd_api().check_health().await.map_err(|error| error.to_string())
        })
        .await
    }
}

async fn ask(client: &kube::Client, path: &str) -> kube::Result<String> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}

/// Asks until the answer is no error, the server has ended, or it has taken too long.
async fn wait<F>(server: &Server, mut question: impl FnMut() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<(), String>>,
{
    let mut last = "no answer yet".to_owned();
    let ready = async {
        loop {
            match time::timeout(ANSWER_TIMEOUT, question()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(answer)) => last = answer,
                Err(_) => last = format!("no answer within {ANSWER_TIMEOUT:?}"),
            }
            server.check()?;
            time::sleep(POLL).await;
        }
    };
    let result = time::timeout(READY_TIMEOUT, ready).await;
    result.unwrap_or_else(|_| Err(server.not_ready(READY_TIMEOUT, last)))
}
