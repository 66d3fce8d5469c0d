//! Connections to a server: what they carry, through which proxy, and that watches do not share
//! one.

use std::time::Duration;

use futures::future::join_all;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_informer::ClientStack;
use windlass_testserver::TestServer;

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true&sendInitialEvents=true\
    &allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60";

const LIST_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
const WATCH_ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{\"\r\n6\r\ntype\":\r\n";

/// What happened at the server, and on which connection.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    List(u32),
    Watch(u32),
    Closed(u32),
}

/// A server that answers lists, and begins to answer watches.
struct Server {
    config: kube::Config,
    seen: mpsc::Receiver<Seen>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (tell, seen) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 1.. {
                let (connection, _) = listener.accept().await.expect("a connection");
                connections.spawn(serve(connection, number, tell.clone()));
            }
        });
        Self { config: config(port), seen, _tasks: tasks }
    }

    async fn seen(&mut self) -> Seen {
        let seen = tokio::time::timeout(Duration::from_mins(1), self.seen.recv()).await;
        seen.expect("something happens").expect("the server runs")
    }

    async fn sees(&mut self, expected: Seen) {
        assert_eq!(self.seen().await, expected);
    }
}

fn config(port: u16) -> kube::Config {
    kube::Config::new(format!("http://127.0.0.1:{port}").parse().expect("a URL"))
}

async fn serve(mut connection: TcpStream, number: u32, tell: mpsc::Sender<Seen>) {
    let mut asked = Vec::new();
    // One that is reset is closed as well.
    while connection.read_buf(&mut asked).await.is_ok_and(|read| read > 0) {
        if !asked.ends_with(b"\r\n\r\n") {
            continue;
        }
        let is_watch = String::from_utf8_lossy(&asked).contains("watch=true");
        asked.clear();
        let (answer, seen) = if is_watch {
            (WATCH_ANSWER, Seen::Watch(number))
        } else {
            (LIST_ANSWER, Seen::List(number))
        };
        connection.write_all(answer).await.expect("somebody listens");
        let _ = tell.send(seen).await;
    }
    let _ = tell.send(Seen::Closed(number)).await;
}

async fn get(client: &kube::Client, uri: &str) -> Response<Body> {
    let request = Request::get(uri).body(Body::empty()).expect("a request");
    let answer = client.send(request).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer
}

async fn list(client: &kube::Client) {
    let body = get(client, CONFIGS).await.into_body().collect().await.expect("a body");
    assert_eq!(body.to_bytes(), "{}");
}

/// A watch, of which the beginning was read.
async fn watch(client: &kube::Client) -> Response<Body> {
    let mut watch = get(client, WATCH).await;
    let frame = watch.body_mut().frame().await.expect("a first piece").expect("no error");
    // An object, or the mark behind none.
    assert!(frame.into_data().is_ok_and(|data| data.starts_with(br#"{""#)));
    watch
}

#[tokio::test]
async fn watch_has_a_connection_and_closes_it_when_it_is_dropped() {
    let mut server = Server::start().await;
    let client = ClientStack::new().connect(server.config.clone()).expect("a client");
    let [first, second] = [watch(&client).await, watch(&client).await];
    server.sees(Seen::Watch(1)).await;
    server.sees(Seen::Watch(2)).await;
    drop(first);
    server.sees(Seen::Closed(1)).await;
    list(&client).await;
    server.sees(Seen::List(3)).await;
    drop(second);
    server.sees(Seen::Closed(2)).await;
}

/// Whether the kernel sends keepalive probes on the connection from this port.
#[cfg(target_os = "linux")]
fn has_keepalive(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("the table of connections");
    let local = format!("0100007F:{port:04X}");
    let row = table.lines().find(|row| row.split_whitespace().nth(1) == Some(&local));
    let timer = row.expect("the connection is listed").split_whitespace().nth(5);
    // What the kernel waits for next: 02 is a probe.
    timer.expect("a timer").starts_with("02:")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn keepalive_is_on_for_watches_and_for_other_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let client = ClientStack::new().connect(config(port)).expect("a client");
    for (uri, answer) in [(WATCH, WATCH_ANSWER), (CONFIGS, LIST_ANSWER)] {
        let serve = async {
            let (mut connection, peer) = listener.accept().await.expect("a connection");
            read_head(&mut connection).await;
            connection.write_all(answer).await.expect("somebody listens");
            (connection, peer)
        };
        let ((_connection, peer), _answer) = tokio::join!(serve, get(&client, uri));
        // While something that was sent is not acknowledged, the kernel waits for that instead.
        let probed = async {
            while !has_keepalive(peer.port()) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), probed).await.expect("probes are sent");
    }
}

/// Reads the head of a request, or of what a proxy is asked for.
async fn read_head(connection: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(connection.read_buf(&mut head).await.expect("no error"), 0, "it is cut");
    }
    String::from_utf8(head).expect("text")
}

/// A server whose name is known to a proxy only.
const HIDDEN: &str = "http://api.hidden.example:6443";

/// Passes everything on to the server, as a proxy does. Returns when the connection ends.
async fn pass_on(mut connection: TcpStream, server: &kube::Config) {
    let address = server.cluster_url.authority().expect("an address").as_str().to_owned();
    let mut server = TcpStream::connect(address).await.expect("the server listens");
    let _ = tokio::io::copy_bidirectional(&mut connection, &mut server).await;
}

#[tokio::test]
async fn requests_and_watches_go_through_an_http_proxy() {
    let mut server = Server::start().await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = proxy.local_addr().expect("bound").port();
    let address = server.config.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut connection, _) = proxy.accept().await.expect("a connection");
            let asked = read_head(&mut connection).await;
            assert!(asked.starts_with("CONNECT api.hidden.example:6443 HTTP/1.1"), "{asked}");
            // jane:doe
            assert!(asked.contains("Basic amFuZTpkb2U="), "{asked}");
            connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("somebody listens");
            let address = address.clone();
            connections.spawn(async move { pass_on(connection, &address).await });
        }
    });
    let mut config = kube::Config::new(HIDDEN.parse().expect("a URL"));
    config.proxy_url = format!("http://jane:doe@127.0.0.1:{port}").parse().ok();
    let client = ClientStack::new().connect(config).expect("a client");
    let watch = watch(&client).await;
    server.sees(Seen::Watch(1)).await;
    list(&client).await;
    server.sees(Seen::List(2)).await;
    drop(watch);
    server.sees(Seen::Closed(1)).await;
}

#[tokio::test]
async fn proxy_is_asked_for_port_80_if_a_plain_http_server_names_no_port() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = proxy.local_addr().expect("bound").port();
    let mut config = kube::Config::new("http://api.hidden.example/k8s".parse().expect("a URL"));
    config.proxy_url = format!("http://127.0.0.1:{port}").parse().ok();
    let client = ClientStack::new().connect(config).expect("a client");
    let asked = async {
        let (mut connection, _) = proxy.accept().await.expect("a connection");
        let asked = read_head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("somebody listens");
        let request = read_head(&mut connection).await;
        connection.write_all(LIST_ANSWER).await.expect("somebody listens");
        (asked, request)
    };
    let ((asked, request), ()) = tokio::join!(asked, list(&client));
    assert!(asked.starts_with("CONNECT api.hidden.example:80 HTTP/1.1"), "{asked}");
    assert!(request.starts_with(&format!("GET /k8s{CONFIGS} HTTP/1.1")), "{request}");
    assert!(request.contains("host: api.hidden.example\r\n"), "{request}");
}

#[tokio::test]
async fn requests_and_watches_go_through_a_socks_proxy() {
    let mut server = Server::start().await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = proxy.local_addr().expect("bound").port();
    let address = server.config.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut connection, _) = proxy.accept().await.expect("a connection");
            let mut methods = [0; 2];
            connection.read_exact(&mut methods).await.expect("a greeting");
            let mut rest = vec![0; usize::from(methods[1])];
            connection.read_exact(&mut rest).await.expect("a greeting");
            connection.write_all(&[5, 0]).await.expect("no credentials are needed");
            // Version, connect, reserved, a name, and its length.
            let mut asked = [0; 5];
            connection.read_exact(&mut asked).await.expect("a request");
            assert_eq!(asked[..4], [5, 1, 0, 3]);
            let mut name = vec![0; usize::from(asked[4]) + 2];
            connection.read_exact(&mut name).await.expect("a name and a port");
            assert_eq!(name[..name.len() - 2], *b"api.hidden.example");
            let granted = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            connection.write_all(&granted).await.expect("somebody listens");
            let address = address.clone();
            connections.spawn(async move { pass_on(connection, &address).await });
        }
    });
    let mut config = kube::Config::new(HIDDEN.parse().expect("a URL"));
    config.proxy_url = format!("socks5://127.0.0.1:{port}").parse().ok();
    let client = ClientStack::new().connect(config).expect("a client");
    list(&client).await;
    assert!(matches!(server.seen().await, Seen::List(_)));
    watch(&client).await;
    assert!(matches!(server.seen().await, Seen::Watch(_)));
}

#[tokio::test]
async fn answer_that_a_gateway_compresses_unasked_is_read() {
    // {"kind":"ConfigMapList"}
    const COMPRESSED: [u8; 44] = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0xca, 0xce, 0xcc,
        0x4b, 0x51, 0xb2, 0x52, 0x72, 0xce, 0xcf, 0x4b, 0xcb, 0x4c, 0xf7, 0x4d, 0x2c, 0xf0, 0xc9,
        0x2c, 0x2e, 0x51, 0xaa, 0x05, 0x00, 0x24, 0xbb, 0xcf, 0xb7, 0x18, 0x00, 0x00, 0x00,
    ];
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let client = ClientStack::new().connect(config(port)).expect("a client");
    for uri in [CONFIGS, WATCH] {
        let serve = async {
            let (mut connection, _) = listener.accept().await.expect("a connection");
            let asked = read_head(&mut connection).await;
            assert!(asked.contains("accept-encoding: identity"), "{asked}");
            let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n";
            connection.write_all(head.as_bytes()).await.expect("somebody listens");
            connection.write_all(&COMPRESSED).await.expect("somebody listens");
        };
        let read = async { get(&client, uri).await.into_body().collect().await.expect("a body") };
        let ((), body) = tokio::join!(serve, read);
        assert_eq!(body.to_bytes(), r#"{"kind":"ConfigMapList"}"#);
    }
}

#[tokio::test]
async fn watch_is_asked_for_as_everything_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut config = config(port);
    config.cluster_url = format!("http://127.0.0.1:{port}/k8s/c-1").parse().expect("a URL");
    config.auth_info.token = Some("secret".to_owned().into());
    config.auth_info.impersonate = Some("jane".to_owned());
    config.headers.push((http::header::FROM, "shop".parse().expect("a value")));
    let client = ClientStack::new().connect(config).expect("a client");
    let asked = async {
        let (mut connection, _) = listener.accept().await.expect("a connection");
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            connection.read_buf(&mut asked).await.expect("a request");
        }
        connection.write_all(WATCH_ANSWER).await.expect("somebody listens");
        String::from_utf8(asked).expect("text")
    };
    let (asked, answer) = tokio::join!(asked, get(&client, WATCH));
    drop(answer);
    let mut lines: Vec<_> = asked.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), format!("GET /k8s/c-1{WATCH} HTTP/1.1"));
    lines.sort_unstable();
    let agent = format!("user-agent: windlass/{}", env!("CARGO_PKG_VERSION"));
    let host = format!("host: 127.0.0.1:{port}");
    assert_eq!(
        lines,
        [
            "accept-encoding: identity",
            "authorization: Bearer secret",
            "from: shop",
            &host,
            "impersonate-user: jane",
            &agent,
        ]
    );
}

#[tokio::test]
async fn watch_of_a_server_that_is_away_fails() {
    // Bound, so that nobody else is, and deaf.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let port = socket.local_addr().expect("bound").port();
    let client = ClientStack::new().connect(config(port)).expect("a client");
    let request = Request::get(WATCH).body(Body::empty()).expect("a request");
    let error = client.send(request).await.map(drop).expect_err("nobody listens");
    let error = windlass_informer::SourceError::transport(&error).to_string();
    assert!(error.contains("onnection refused"), "{error}");
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn name_of_the_certificate_counts_for_watches_as_well() {
    let cluster = TestServer::real().await.expect("a real cluster");
    let real = cluster.control_plane().expect("it is real");
    let connect = |name: &str| {
        let mut config = real.config();
        config.tls_server_name = Some(name.to_owned());
        ClientStack::new().connect(config)
    };
    watch(&connect("localhost").expect("a client")).await;
    let request = Request::get(WATCH).body(Body::empty()).expect("a request");
    let client = connect("somebody.else").expect("a client");
    client.send(request).await.map(drop).expect_err("the certificate has another name");
    assert!(connect("no name").is_err());
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn watches_do_not_wait_for_each_other() {
    let cluster = TestServer::real().await.expect("a real cluster");
    let real = cluster.control_plane().expect("it is real");
    let client = ClientStack::new().connect(real.config()).expect("a client");
    // Each is held until all have begun.
    join_all((0..300).map(|_| watch(&client))).await;
}
