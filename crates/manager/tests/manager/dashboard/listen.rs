//! The address of `--dashboard`: plain HTTP and a token on loopback, TLS and reviews elsewhere.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_manager::{Manager, Options};
use windlass_testserver::apiserver::ApiServer;
use windlass_testserver::{Log, free_port};

use crate::support::tls;

/// Starts a manager with its dashboard at this address, calls `check` with the URL that it logs,
/// and stops it.
async fn with_dashboard(options: Options, check: impl AsyncFnOnce(String)) {
    let (log, server, stop) = (Log::start(), ApiServer::new(), CancellationToken::new());
    let manager = Manager::new(options)
        .without_logs()
        .connect(move |stack| Ok(stack.around(server.service(), "default")));
    let mut ended = TaskTracker::new().spawn(manager.run_until(stop.clone()));
    let said = "the dashboard is at ";
    let line = tokio::select! {
        line = log.wait_for(said) => line,
        ended = &mut ended => panic!("{ended:?}: {}", log.text()),
    };
    let (_, url) = line.split_once(said).expect("a URL");
    check(url.to_owned()).await;
    stop.cancel();
    ended.await.expect("no panic").expect("no failure");
}

fn options(address: &str) -> Options {
    let mut options = Options::default().without_http();
    options.dashboard = Some(address.to_owned());
    options
}

/// Asks for the summary without a token. Returns all that is answered.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<String> {
    let request = "GET /api/summary HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn loopback_has_plain_http_and_a_token() {
    with_dashboard(options("127.0.0.1:0"), async |url| {
        let (address, token) = url.split_once("/#token=").expect("a token");
        assert!(!token.is_empty());
        let address = address.strip_prefix("http://").expect("plain HTTP");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let answer = ask(stream).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    })
    .await;
}

#[tokio::test]
async fn debug_endpoint_on_loopback_refuses_other_hosts() {
    let port = free_port().expect("a port");
    let mut options = options("127.0.0.1:0");
    options.metrics_bind_address = format!("127.0.0.1:{port}");
    with_dashboard(options, async |_| {
        for (host, path, code) in [
            ("localhost", "/debug/windlass", "200"),
            ("evil.example", "/debug/windlass", "421"),
            ("evil.example", "/debug/windlass/story?key=a", "421"),
            ("evil.example", "/metrics", "200"),
        ] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{host} {path}: {answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn other_addresses_have_tls_and_no_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = tls::issue(folder.path());
    let mut options = options("0.0.0.0:0");
    options.metrics_cert_path = Some(folder.path().to_owned());
    with_dashboard(options, async |url| {
        assert!(!url.contains("token"), "{url}");
        assert!(url.starts_with("https://localhost:"), "{url}");
        let address = url.strip_prefix("https://").expect("TLS").trim_end_matches('/').to_owned();
        let stream = TcpStream::connect(&address).await.expect("a connection");
        let plain = ask(stream).await.unwrap_or_default();
        assert!(!plain.contains("HTTP/1.1 "), "{plain}");

        let stream = tls::connect(&address, &certificate).await.expect("TLS");
        let answer = ask(stream).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    })
    .await;
}
