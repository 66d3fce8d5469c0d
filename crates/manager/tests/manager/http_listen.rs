//! Listeners on real sockets: addresses that cannot be bound, TLS, a renewed certificate, floods,
//! a stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_manager::http::{Listener, Tls};
use windlass_testserver::Log;
use windlass_webhook::{Admission, Operation, Validate, Verdict, Webhooks};

use crate::support::tls::{self, issue};

const FLAG: &str = "--metrics-bind-address";

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A listener that serves in the background.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start(router: Router, tls: Option<Tls>) -> Self {
        let listener = Listener::bind("127.0.0.1:0", FLAG).await.expect("a free port");
        let (address, stop) = (listener.address(), CancellationToken::new());
        let serving = TaskTracker::new().spawn(listener.serve(router, tls, stop.clone()));
        Self { address, stop, serving }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.serving.await.expect("the listener must not panic");
    }
}

fn hello() -> Router {
    Router::new().route("/hello", get(|| async { "hello" }))
}

/// Sends a request, and reads until the connection is closed.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<String> {
    stream.write_all(b"GET /hello HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Sends a request over TLS, and trusts one certificate alone.
async fn exchange_tls(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<String> {
    exchange(tls::connect(address, trusted).await?).await
}

#[tokio::test]
async fn address_in_use_is_an_error_that_says_what_to_do() {
    let first = Listener::bind("127.0.0.1:0", FLAG).await.expect("a free port");
    let address = first.address();
    let error = Listener::bind(&address.to_string(), FLAG).await.expect_err("in use");
    assert_eq!(
        error.to_string(),
        format!(
            "address {address} is in use: stop the other process, or choose another port with \
             --metrics-bind-address"
        )
    );
}

#[tokio::test]
async fn address_that_is_none_is_an_error_that_names_the_flag() {
    // The second one is reserved for documentation, so no machine has it.
    for (address, why) in [
        ("8080", "give --metrics-bind-address a host and a port"),
        (":eighty", "give --metrics-bind-address a host and a port"),
        ("192.0.2.1:8080", "is not an address of this machine"),
    ] {
        let error = Listener::bind(address, FLAG).await.expect_err(address).to_string();
        assert!(error.starts_with(&format!("address {address} ")), "{error}");
        assert!(error.contains(why) && error.contains(FLAG), "{error}");
    }
}

#[tokio::test]
async fn port_alone_listens_on_all_addresses() {
    let listener = Listener::bind(":0", FLAG).await.expect("a free port");
    assert!(listener.address().ip().is_unspecified());
    let (port, stop) = (listener.address().port(), CancellationToken::new());
    let serving = TaskTracker::new().spawn(listener.serve(hello(), None, stop.clone()));
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    assert!(exchange(stream).await.expect("an answer").ends_with("hello"));
    stop.cancel();
    serving.await.expect("it must not panic");
}

#[tokio::test]
async fn stop_closes_the_port_and_finishes_the_request_under_way() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go_on));
    let slow = async move || {
        tell.notify_one();
        wait.notified().await;
        "finished"
    };
    let served = Served::start(Router::new().route("/hello", get(slow)), None).await;
    let address = served.address;
    let idle = TcpStream::connect(address).await.expect("a connection");
    let client = TcpStream::connect(address).await.expect("a connection");
    let request = TaskTracker::new().spawn(exchange(client));
    begun.notified().await;
    served.stop.cancel();
    // An idle connection is closed, and so is the port, while the request is still under way.
    let mut idle = idle;
    assert_eq!(idle.read(&mut [0; 1]).await.expect("a clean end"), 0);
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    go_on.notify_one();
    let answer = request.await.expect("no panic").expect("an answer");
    assert!(answer.ends_with("finished"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn renewed_certificate_is_used_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = issue(folder.path());
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate");
    let tls = tls.reload_period(Duration::from_millis(10));
    let served = Served::start(hello(), Some(tls)).await;
    let address = served.address;
    assert!(exchange_tls(address, &old).await.expect("an answer").ends_with("hello"));
    let new = issue(folder.path());
    let answer = loop {
        if let Ok(answer) = exchange_tls(address, &new).await {
            break answer;
        }
    };
    assert!(answer.ends_with("hello"), "{answer}");
    exchange_tls(address, &old).await.expect_err("the old certificate must not be in use");
    served.stop().await;
}

#[tokio::test]
async fn plain_request_to_a_tls_port_harms_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = issue(folder.path());
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate");
    let served = Served::start(hello(), Some(tls)).await;
    let stream = TcpStream::connect(served.address).await.expect("a connection");
    // It gets no answer: neither text nor an error is promised.
    let answer = exchange(stream).await.unwrap_or_default();
    assert!(!answer.contains("hello"), "{answer}");
    let answer = exchange_tls(served.address, &certificate).await.expect("an answer");
    assert!(answer.ends_with("hello"), "{answer}");
    served.stop().await;
}

/// Connections of clients that want nothing but to hold them.
async fn flood(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    // Nothing, half a request, a handshake that is cut off, and a request that lacks its body.
    let openings: [&[u8]; 4] = [
        b"",
        b"GET /hello HTTP/1.1\r\nhost:",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /hello HTTP/1.1\r\nhost: test\r\ncontent-length: 9\r\n\r\n",
    ];
    let mut streams = Vec::with_capacity(count);
    for opening in openings.into_iter().cycle().take(count) {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        // The listener may have closed it already.
        let _ = stream.write_all(opening).await;
        streams.push(stream);
    }
    streams
}

struct AllowAll;

impl Validate<ConfigMap> for AllowAll {
    async fn validate(&self, _: Operation<'_, ConfigMap>, _: &Admission) -> Verdict {
        Verdict::allow()
    }
}

/// Asks the webhook for a review, over a connection of its own.
async fn review(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<Value> {
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1", "kind": kind, "resource": resource, "operation": "CREATE", "name": "x",
            "userInfo": {"username": "jane"}, "object": object,
        },
    })
    .to_string();
    let head = format!(
        "POST /validate--v1-configmap HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        review.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(review.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (_, body) = answer.split_once("\r\n\r\n").expect("an answer with a body");
    Ok(serde_json::from_str(body).expect("a review"))
}

#[tokio::test]
async fn thousand_connections_that_are_held_keep_no_probe_and_no_review_from_its_answer() {
    let log = Log::start();
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = issue(folder.path());
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate");
    let webhooks = Webhooks::new().validate::<ConfigMap>(AllowAll);
    let plain = Served::start(hello(), None).await;
    let secure = Served::start(webhooks.router().expect("webhooks"), Some(tls)).await;
    timeout(LIMIT, async {
        let held = (flood(plain.address, 1000).await, flood(secure.address, 1000).await);
        let stream = TcpStream::connect(plain.address).await.expect("a connection");
        assert!(exchange(stream).await.expect("an answer").ends_with("hello"));
        let stream = tls::connect(secure.address, &certificate).await.expect("a handshake");
        assert_eq!(review(stream).await.expect("an answer")["response"]["allowed"], true);
        drop(held);
    })
    .await
    .expect("both must be answered");
    // Without this, connections that ran into their timeouts could have made the room.
    let closed = log.lines_with("one was closed for another");
    assert!(closed.len() >= 2, "each listener must say so: {closed:?}");
    plain.stop().await;
    secure.stop().await;
}
