//! The part of etcd's own API that tests need: its JSON gateway, which needs no gRPC.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::ControlPlane;
use crate::Error;

/// The byte zero in base64: the smallest possible key, which does not exist.
const SMALLEST_KEY: &str = "AA==";

/// A client of the etcd at this loopback port. Every request uses a connection of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct EtcdApi {
    port: u16,
}

impl ControlPlane {
    /// Compacts etcd: versions before the current one, which is returned, can no longer be read.
    /// The newest change itself is still delivered to watches.
    ///
    /// kube-apiserver answers many reads from its watch cache, which keeps the history. A resource
    /// without a watch cache loses it at once: `--watch-cache-sizes=configmaps#0`, see
    /// [`ControlPlaneOptions::apiserver_flag`](super::ControlPlaneOptions::apiserver_flag). Others
    /// lose it when the API server restarts. Dropped half-way, the compaction may or may not have
    /// happened.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn compact(&self) -> Result<u64, Error> {
        let etcd = self.etcd_api();
        let revision = etcd.revision().await?;
        etcd.compact(revision).await?;
        Ok(revision)
    }

    /// Writes a value into etcd, past kube-apiserver and so without its checks: an object under its
    /// key, as in `/registry/configmaps/default/a`. Dropped half-way, it may or may not be there.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn put_into_etcd(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.etcd_api().put(key, value).await
    }

    /// Deletes a key from etcd, past kube-apiserver. Dropped half-way, it may or may not be gone.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn delete_from_etcd(&self, key: &str) -> Result<(), Error> {
        self.etcd_api().delete(key).await
    }

    pub(super) fn etcd_api(&self) -> EtcdApi {
        EtcdApi { port: self.access.etcd_port }
    }
}

impl EtcdApi {
    /// Checks that etcd reports itself healthy.
    pub(super) async fn check_health(self) -> Result<(), Error> {
        const PATH: &str = "/health";
        let answer = self.send(PATH, Request::get(PATH), String::new()).await?;
        match answer["health"].as_str() {
            Some("true") => Ok(()),
            _ => Err(unexpected(PATH, &answer)),
        }
    }

    /// Returns the current revision of the whole store.
    async fn revision(self) -> Result<u64, Error> {
        const PATH: &str = "/v3/kv/range";
        let answer = self.post(PATH, &json!({ "key": SMALLEST_KEY })).await?;
        // This JSON encodes 64-bit numbers as strings.
        let revision = answer["header"]["revision"].as_str().and_then(|text| text.parse().ok());
        revision.ok_or_else(|| unexpected(PATH, &answer))
    }

    /// Removes all history before this revision; it is gone when this returns.
    async fn compact(self, revision: u64) -> Result<(), Error> {
        let body = json!({ "revision": revision.to_string(), "physical": true });
        self.post("/v3/kv/compaction", &body).await.map(drop)
    }

    async fn put(self, key: &str, value: &[u8]) -> Result<(), Error> {
        let body =
            json!({"key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value)});
        self.post("/v3/kv/put", &body).await.map(drop)
    }

    async fn delete(self, key: &str) -> Result<(), Error> {
        let body = json!({"key": BASE64_STANDARD.encode(key)});
        self.post("/v3/kv/deleterange", &body).await.map(drop)
    }

    async fn post(self, path: &'static str, body: &Value) -> Result<Value, Error> {
        self.send(path, Request::post(path), body.to_string()).await
    }

    async fn send(
        self,
        path: &'static str,
        request: http::request::Builder,
        body: String,
    ) -> Result<Value, Error> {
        let failed =
            |error: &dyn std::error::Error| Error::Etcd { path, reason: error.to_string() };
        let address = ("127.0.0.1", self.port);
        let stream = TcpStream::connect(address).await.map_err(|error| failed(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        let request =
            request.header(http::header::HOST, "localhost").body(Full::<Bytes>::from(body));
        let request = request.expect("a fixed path must make a request");
        let exchange = async move {
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        // The connection does the work, and ends when the exchange drops its sender.
        let (exchange, _) = tokio::join!(exchange, connection);
        let (status, bytes) = exchange.map_err(|error| failed(&error))?;
        if status != StatusCode::OK {
            let reason = format!("{status} {}", String::from_utf8_lossy(&bytes));
            return Err(Error::Etcd { path, reason });
        }
        serde_json::from_slice(&bytes).map_err(|error| failed(&error))
    }
}

fn unexpected(path: &'static str, answer: &Value) -> Error {
    Error::Etcd { path, reason: format!("unexpected answer {answer}") }
}
