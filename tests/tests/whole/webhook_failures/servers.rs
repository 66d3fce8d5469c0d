//! The servers of webhooks, on loopback, each with its failure.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::webhook_failures::hooks;
use crate::webhook_failures::rows::Broken;

/// A port without a listener.
const NOBODY: &str = "https://127.0.0.1:1";

type Authority = CertifiedIssuer<'static, KeyPair>;

/// All servers. They end when this is dropped.
pub(crate) struct Servers {
    own: String,
    answering: String,
    expired: String,
    nameless: String,
    misnamed: String,
    plain: String,
    /// The right `caBundle`, that of an authority that signed nothing, and that of one with only
    /// the right name.
    bundle: String,
    other_bundle: String,
    old_bundle: String,
    #[expect(dead_code, reason = "it is held, not read")]
    serving: JoinSet<()>,
}

impl Servers {
    pub(crate) async fn start() -> Self {
        let authority = authority("operator-ca");
        let good = acceptor(&authority, &leaf("127.0.0.1"));
        let mut expired = leaf("127.0.0.1");
        expired.not_before = date_time_ymd(2019, 1, 1);
        expired.not_after = date_time_ymd(2020, 1, 1);
        let expired = acceptor(&authority, &expired);
        let mut nameless = CertificateParams::default();
        nameless.distinguished_name.push(DnType::CommonName, "127.0.0.1");
        let nameless = acceptor(&authority, &nameless);
        let misnamed = acceptor(&authority, &leaf("192.0.2.1"));
        let mut serving = JoinSet::new();
        let router = hooks::webhooks().router().expect("the webhooks must be valid");
        let router = TowerToHyperService::new(router);
        let answering = service_fn(answer);
        Self {
            own: serve(&mut serving, Some(good.clone()), router).await,
            answering: serve(&mut serving, Some(good), answering).await,
            expired: serve(&mut serving, Some(expired), answering).await,
            nameless: serve(&mut serving, Some(nameless), answering).await,
            misnamed: serve(&mut serving, Some(misnamed), answering).await,
            plain: serve(&mut serving, None, answering).await,
            bundle: bundle(&authority),
            other_bundle: bundle(&self::authority("another-ca")),
            old_bundle: bundle(&self::authority("operator-ca")),
            serving,
        }
    }

    /// The `clientConfig` of a webhook.
    pub(crate) fn client_config(&self, broken: Broken) -> Value {
        let (url, bundle) = match broken {
            Broken::Own(path) => (format!("{}{path}", self.own), &self.bundle),
            Broken::Answers(path) => (format!("{}{path}", self.answering), &self.bundle),
            Broken::Expired => (format!("{}/validate", self.expired), &self.bundle),
            Broken::Stranger => (format!("{}/validate", self.answering), &self.other_bundle),
            Broken::Replaced => (format!("{}/validate", self.answering), &self.old_bundle),
            Broken::Nameless => (format!("{}/validate", self.nameless), &self.bundle),
            Broken::Misnamed => (format!("{}/validate", self.misnamed), &self.bundle),
            Broken::Plain => (format!("{}/validate", self.plain), &self.bundle),
            Broken::Gone => (format!("{NOBODY}/validate"), &self.bundle),
        };
        json!({"url": url, "caBundle": bundle})
    }
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key must be possible");
    CertifiedIssuer::self_signed(params, key).expect("a certificate")
}

fn bundle(authority: &Authority) -> String {
    BASE64_STANDARD.encode(authority.pem())
}

fn leaf(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).expect("an address is a name")
}

fn acceptor(authority: &Authority, leaf: &CertificateParams) -> TlsAcceptor {
    let key = KeyPair::generate().expect("a key must be possible");
    let leaf = leaf.signed_by(&key, authority).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions must be supported")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .expect("the certificate must fit its key");
    TlsAcceptor::from(Arc::new(config))
}

/// The answer of a server that is not a webhook.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (code, text) = match request.uri().path() {
        "/never" => std::future::pending().await,
        "/garbage" => (200, "garbage"),
        _ => (500, "out of order"),
    };
    // Answering before the request is read closes the connection, and the client may see only that.
    // that.
    drop(request.into_body().collect().await);
    let response = Response::builder().status(code).header("content-type", "text/plain");
    Ok(response.body(Full::new(Bytes::from(text))).expect("a response must be valid"))
}

/// Serves on a free port; returns the URL.
async fn serve<S>(serving: &mut JoinSet<()>, tls: Option<TlsAcceptor>, service: S) -> String
where
    S: HttpService<Incoming, Future: Send, Error: Into<BoxError>> + Clone + Send + 'static,
    S::ResBody: Send + 'static,
    <S::ResBody as http_body::Body>::Data: Send,
    <S::ResBody as http_body::Body>::Error: Into<BoxError>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port must be free");
    let address = listener.local_addr().expect("a listener must have an address");
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(connection(stream, tls.clone(), service.clone()));
        }
    });
    format!("https://{address}")
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Clients that disconnect or do not trust the certificate are ignored.
async fn connection<S>(stream: TcpStream, tls: Option<TlsAcceptor>, service: S)
where
    S: HttpService<Incoming, Error: Into<BoxError>>,
    S::ResBody: 'static,
    <S::ResBody as http_body::Body>::Error: Into<BoxError>,
{
    let http = http1::Builder::new();
    match tls {
        None => drop(http.serve_connection(TokioIo::new(stream), service).await),
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                drop(http.serve_connection(TokioIo::new(stream), service).await);
            }
        }
    }
}
