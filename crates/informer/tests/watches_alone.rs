//! The way of watches to a server: each over a connection of its own, however many there are.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_informer::ClientStack;
use windlass_testkit::TestCluster;
use windlass_testkit::cluster::real_tier_is_on;

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
    assert!(frame.into_data().is_ok_and(|data| data.starts_with(br#"{"type":"#)));
    watch
}

#[tokio::test]
async fn watch_has_a_connection_and_closes_it_when_it_is_dropped() {
    let mut server = Server::start().await;
    let client = ClientStack::new().connect(server.config.clone()).expect("a client");
    list(&client).await;
    server.sees(Seen::List(1)).await;
    let [second, third] = [watch(&client).await, watch(&client).await];
    server.sees(Seen::Watch(2)).await;
    server.sees(Seen::Watch(3)).await;
    drop(second);
    server.sees(Seen::Closed(2)).await;
    drop(third);
    server.sees(Seen::Closed(3)).await;
}

/// What a watch brings, and when, of lines that the server sends about two milliseconds apart, as timers are.
async fn arrivals(gather_for: Duration, lines: &[String]) -> BTreeMap<Instant, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let client = ClientStack::new().gather_for(gather_for).connect(config(port)).expect("a client");
    let (tell, told) = oneshot::channel();
    let serve = async {
        let (mut connection, _) = listener.accept().await.expect("a connection");
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            connection.read_buf(&mut asked).await.expect("a request");
        }
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("somebody listens");
        told.await.expect("it is read");
        for line in lines {
            connection.write_all(line.as_bytes()).await.expect("somebody listens");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let read = async {
        let mut body = get(&client, WATCH).await.into_body();
        // Not before: the clock would not wait for the answer.
        tokio::time::pause();
        tell.send(()).expect("the server waits");
        let mut arrivals = BTreeMap::new();
        while let Some(frame) = body.frame().await {
            let data = frame.expect("no error").into_data().expect("data");
            let text: &mut String = arrivals.entry(Instant::now()).or_default();
            text.push_str(std::str::from_utf8(&data).expect("text"));
        }
        tokio::time::resume();
        arrivals
    };
    tokio::join!(serve, read).1
}

#[tokio::test]
async fn busy_watch_brings_several_events_at_once_and_loses_none() {
    let lines: Vec<String> = (0..500).map(|number| format!("line {number}\n")).collect();
    for gather_for in [Duration::ZERO, ClientStack::GATHER_FOR_DEFAULT, Duration::from_millis(20)] {
        let arrivals = arrivals(gather_for, &lines);
        let arrivals = tokio::time::timeout(Duration::from_mins(1), arrivals).await;
        let arrivals: Vec<String> = arrivals.expect("the watch goes on").into_values().collect();
        assert_eq!(arrivals.concat(), lines.concat(), "with {gather_for:?}");
        let has_gathered = arrivals.len() < lines.len() * 2 / 3;
        let may_gather = cfg!(target_os = "linux") && !gather_for.is_zero();
        assert_eq!(has_gathered, may_gather, "{} times, {gather_for:?}", arrivals.len());
    }
}

#[tokio::test]
async fn watch_goes_the_way_of_all_requests_if_that_is_wanted() {
    let mut server = Server::start().await;
    let client =
        ClientStack::new().own_watches(false).connect(server.config.clone()).expect("a client");
    // A connection comes back for the next request a moment after its answer was read. Until then no watch is closed.
    let mut watches = Vec::new();
    loop {
        list(&client).await;
        let listed = server.seen().await;
        watches.push(get(&client, WATCH).await);
        match (listed, server.seen().await) {
            (Seen::List(first), Seen::Watch(second)) if first == second => break,
            seen => assert!(watches.len() < 100, "a watch has always its own connection: {seen:?}"),
        }
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
async fn name_of_the_certificate_counts_for_watches_as_well() {
    if !real_tier_is_on() {
        return;
    }
    let cluster = TestCluster::real().await.expect("a real cluster");
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
async fn watches_do_not_wait_for_each_other() {
    if !real_tier_is_on() {
        return;
    }
    let cluster = TestCluster::real().await.expect("a real cluster");
    let real = cluster.control_plane().expect("it is real");
    let client = ClientStack::new().connect(real.config()).expect("a client");
    // Each is held until all have begun.
    join_all((0..300).map(|_| watch(&client))).await;
}
