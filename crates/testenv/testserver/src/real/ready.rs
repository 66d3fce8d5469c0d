//! Readiness: a server runs, reports that it is ready, and the default namespace exists.

use std::future::Future;
use std::time::Duration;

use http::Request;
use tokio::time;

use super::ControlPlane;
use super::server::Server;
use crate::Error;

/// The polling interval. A start takes seconds, so this adds one per cent at most.
const POLL: Duration = Duration::from_millis(20);

/// The timeout of one request. A paused server does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait for a server. A start takes four seconds; on a busy machine it may take many
/// times as long. Only a test that fails anyway waits for all of it.
const READY_TIMEOUT: Duration = Duration::from_mins(2);

impl ControlPlane {
    /// Waits until the API server is ready: `/readyz` is ok and the namespace `default` exists.
    ///
    /// This holds after [`start`](Self::start) and [`start_apiserver`](Self::start_apiserver). Call
    /// it after etcd was down or the API server paused. Dropping it half-way has no effect.
    ///
    /// # Errors
    /// If the API server has ended or is not ready in time.
    pub async fn ready(&self) -> Result<(), Error> {
        let client = self.client()?;
        wait(&self.apiserver, || async {
            // The API server creates the namespace itself, a little after it reports ready.
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

/// Polls until the answer is no error, the server has ended, or the time is up.
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
