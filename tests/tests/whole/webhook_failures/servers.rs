//! The servers of webhooks, on loopback, each with its failure.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service, service_fn};
use windlass_serve::{Limits, RequestBody, server_config, single_certificate};

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
    let served = single_certificate(vec![leaf.der().clone()], key);
    let config = server_config(served.expect("the certificate must fit its key"), None);
    TlsAcceptor::from(Arc::new(config))
}

/// The answer of a server that is not a webhook.
async fn answer(request: Request<RequestBody>) -> Result<Response<String>, Infallible> {
    let (code, text) = match request.uri().path() {
        "/never" => std::future::pending().await,
        "/garbage" => (200, "garbage"),
        _ => (500, "out of order"),
    };
    // Answering before the request is read closes the connection, and the client may see only that.
    drop(request.into_body().collect().await);
    let response = Response::builder().status(code).header("content-type", "text/plain");
    Ok(response.body(text.to_owned()).expect("a response must be valid"))
}

/// Serves on a free port; returns the URL.
async fn serve<S, B>(serving: &mut JoinSet<()>, tls: Option<TlsAcceptor>, service: S) -> String
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S: Service<Request<RequestBody>, Error: Into<BoxError>, Future: Send>,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port must be free");
    let address = listener.local_addr().expect("a listener must have an address");
    serving.spawn(async move {
        let stop = CancellationToken::new();
        windlass_serve::serve(listener, service, tls, Limits::TRUSTED, &stop).await;
    });
    format!("https://{address}")
}
