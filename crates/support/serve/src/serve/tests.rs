//! One connection on the paused clock, and servers on real sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use futures::FutureExt as _;
use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::Instant;

use super::*;

/// How long a connection may last, in seconds.
const LIFETIME: u64 = 120;

/// How long a client may take to read an answer, in seconds.
const ANSWER_TIMEOUT: u64 = 30;

const CONNECTIONS: usize = 128;

/// A connection does not last.
const SHORT: Limits = Limits {
    connections: Some(CONNECTIONS),
    busy_min: Duration::from_millis(100),
    buffer_bytes: 64 * 1024,
    idle_timeout: Duration::from_secs(20),
    answer_timeout: Some(Duration::from_secs(ANSWER_TIMEOUT)),
    lifetime: Some(Duration::from_secs(LIFETIME)),
    last_request: Duration::from_secs(5),
    drain: Duration::from_secs(5),
};

/// A connection lasts as long as it is used.
const LONG: Limits = Limits { idle_timeout: Duration::from_mins(2), lifetime: None, ..SHORT };

/// Answers take up to a minute.
const STREAMS: Limits = Limits {
    answer_timeout: Some(Duration::from_secs(90)),
    last_request: Duration::from_secs(65),
    drain: Duration::from_secs(1),
    ..SHORT
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

/// Serves a connection. Returns its task, and the end of the client.
fn connect(router: Router, stop: &CancellationToken) -> (JoinSet<()>, DuplexStream) {
    connect_with(SHORT, router, stop)
}

fn connect_with(
    limits: Limits,
    router: Router,
    stop: &CancellationToken,
) -> (JoinSet<()>, DuplexStream) {
    let (client, server) = duplex(1024);
    let (mut task, stop) = (JoinSet::new(), stop.clone());
    task.spawn(async move {
        let (place, _) = Connections::new(1, limits.busy_min).place().await;
        let progress = Progress::new(place, limits.answer_timeout);
        Server { service: router, tls: None, limits, stop }.answer(server, false, &progress).await;
    });
    (task, client)
}

/// A route that answers after some seconds.
fn slow(seconds: u64) -> Router {
    Router::new().route("/", get(move || sleep(Duration::from_secs(seconds)).map(|()| "a")))
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

async fn serve_until(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    serve(listener, router, None, limits, &stop).await;
}

/// How long a connection lasts, in seconds.
async fn lifetime(mut task: JoinSet<()>) -> u64 {
    let start = Instant::now();
    task.join_next().await.expect("a connection").expect("it must not panic");
    start.elapsed().as_secs()
}

/// Sends a request that is answered with `hello`, and reads the answer.
async fn ask(client: &mut DuplexStream) {
    client.write_all(REQUEST).await.expect("written");
    let mut answer = vec![0; 1024];
    let size = client.read(&mut answer).await.expect("an answer");
    assert!(answer[..size].ends_with(b"hello"));
}

#[tokio::test(start_paused = true)]
async fn header_has_five_seconds_from_its_first_byte() {
    for (is_first, sent) in [(true, "G"), (true, "GET / HTTP/1.1\r\nhost:"), (false, "GET")] {
        let (task, mut client) = connect_with(LONG, hello(), &CancellationToken::new());
        if !is_first {
            ask(&mut client).await;
        }
        // API servers keep connections open that they do not use.
        sleep(Duration::from_secs(90)).await;
        client.write_all(sent.as_bytes()).await.expect("written");
        assert_eq!(lifetime(task).await, 5, "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn header_that_comes_byte_by_byte_has_five_seconds_in_all() {
    let (task, mut client) = connect(hello(), &CancellationToken::new());
    let trickle = async {
        for byte in REQUEST.iter().cycle() {
            sleep(Duration::from_millis(900)).await;
            if client.write_all(&[*byte]).await.is_err() {
                break;
            }
        }
    };
    let (lasted, ()) = tokio::join!(lifetime(task), trickle);
    assert_eq!(lasted, 5);
}

#[tokio::test(start_paused = true)]
async fn time_between_requests_is_not_that_of_a_header() {
    let (task, mut client) = connect_with(LONG, hello(), &CancellationToken::new());
    for _ in 0..5 {
        ask(&mut client).await;
        sleep(Duration::from_secs(90)).await;
    }
    drop(client);
    assert_eq!(lifetime(task).await, 0);
}

#[tokio::test(start_paused = true)]
async fn idle_connection_ends() {
    let (task, mut client) = connect(hello(), &CancellationToken::new());
    client.write_all(REQUEST).await.expect("written");
    assert_eq!(lifetime(task).await, SHORT.idle_timeout.as_secs());
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_the_answer_loses_the_connection() {
    for limits in [SHORT, LONG] {
        let long = Router::new().route("/", get(|| async { "long".repeat(1_000_000) }));
        let (task, mut client) = connect_with(limits, long, &CancellationToken::new());
        client.write_all(REQUEST).await.expect("written");
        let slowly = async {
            while client.read(&mut [0; 100]).await.is_ok_and(|size| size > 0) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        let (lasted, ()) = tokio::join!(lifetime(task), slowly);
        assert_eq!(lasted, ANSWER_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn client_without_a_time_limit_gets_all_of_the_answer() {
    let long = Router::new().route("/", get(|| async { "long".repeat(1_000) }));
    let (_task, mut client) = connect_with(Limits::TRUSTED, long, &CancellationToken::new());
    client.write_all(REQUEST).await.expect("written");
    let mut answer = Vec::new();
    while !answer.ends_with(&b"long".repeat(1_000)) {
        sleep(Duration::from_hours(1)).await;
        let size = client.read_buf(&mut answer).await.expect("the answer goes on");
        assert!(size > 0, "the answer must not be cut");
    }
}

/// Requests whose answers are nothing but a header: hyper buffers as many of these as come.
const PIPELINED: [&[u8]; 2] = [
    b"GET /x HTTP/1.1\r\nhost: test\r\n\r\n",
    b"POST /x HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\na",
];

#[tokio::test(start_paused = true)]
async fn client_that_reads_no_answer_gets_few_of_them() {
    for request in PIPELINED {
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        let router = Router::new().fallback(async move || {
            count.fetch_add(1, Ordering::Relaxed);
            StatusCode::NOT_FOUND
        });
        let (task, mut client) = connect_with(LONG, router, &CancellationToken::new());
        for _ in 0..10_000 {
            if client.write_all(request).await.is_err() {
                break;
            }
        }
        // The stream has room for about ten.
        let answered = answered.load(Ordering::Relaxed);
        assert!(answered < 50, "{answered}");
        assert_eq!(lifetime(task).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn further_requests_give_no_time_to_a_client_that_does_not_read() {
    for request in PIPELINED {
        let (task, mut client) = connect_with(LONG, Router::new(), &CancellationToken::new());
        // As many as the stream has no room for.
        client.write_all(&request.repeat(15)).await.expect("written");
        let further = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(20)).await;
                let _ = client.write_all(request).await;
            }
        };
        let (lasted, ()) = tokio::join!(lifetime(task), further);
        assert_eq!(lasted, ANSWER_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_reads_slowly_gets_all_answers_to_sixteen_requests_at_once() {
    for request in PIPELINED {
        let (_task, mut client) = connect_with(LONG, Router::new(), &CancellationToken::new());
        for _ in 0..50 {
            client.write_all(&request.repeat(16)).await.expect("written");
            let (mut text, mut part) = (String::new(), [0; 100]);
            while text.matches("content-length: 0").count() < 16 || !text.ends_with("\r\n\r\n") {
                sleep(Duration::from_secs(1)).await;
                let size = client.read(&mut part).await.expect("an answer");
                assert!(size > 0, "{text}");
                text.push_str(&String::from_utf8_lossy(&part[..size]));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connection_is_in_use_from_a_complete_request_until_its_answer_is_written() {
    let connections = Connections::new(1, Duration::from_secs(1000));
    let (place, _) = connections.place().await;
    let progress = Progress::new(place, LONG.answer_timeout);
    let (mut client, server) = duplex(1024);
    let answer = |body: String| async move { format!("{body}{}", "x".repeat(5000)) };
    let router = Router::new().route("/", axum::routing::post(answer));
    let mut task = JoinSet::new();
    task.spawn(async move {
        let connection =
            Server { service: router, tls: None, limits: LONG, stop: CancellationToken::new() };
        tokio::select! {
            () = connection.answer(server, false, &progress) => {}
            () = progress.closed() => {}
        }
    });
    let head = b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\n";
    for part in [&head[..5], &head[5..], b"a"] {
        client.write_all(part).await.expect("written");
        sleep(Duration::from_millis(1)).await;
        assert_eq!(connections.first_is_busy(), Some(false), "{part:?}");
    }
    client.write_all(b"b").await.expect("written");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(connections.first_is_busy(), Some(true));
    let mut answer = vec![0; 8192];
    let mut size = 0;
    while size < 5000 {
        size += client.read(&mut answer[size..]).await.expect("an answer");
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(connections.first_is_busy(), Some(false));
    // It is not in use, so another one gets its place.
    let (_place, has_closed) = connections.place().await;
    assert!(has_closed);
    assert_eq!(lifetime(task).await, 0);
}

#[tokio::test(start_paused = true)]
async fn request_that_began_within_the_lifetime_is_answered_after_it() {
    let (task, mut client) = connect_with(STREAMS, slow(59), &CancellationToken::new());
    for _ in 0..3 {
        client.write_all(REQUEST).await.expect("written");
        let mut answer = vec![0; 1024];
        let size = client.read(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..size]);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with('a'), "{answer:?}");
    }
    assert_eq!(lifetime(task).await, 0, "the last answer also ends the connection");
}

#[tokio::test(start_paused = true)]
async fn stop_cuts_a_request_even_after_the_lifetime() {
    let stop = CancellationToken::new();
    let (task, mut client) = connect_with(STREAMS, slow(1_000), &stop);
    client.write_all(REQUEST).await.expect("written");
    sleep(Duration::from_secs(LIFETIME + 10)).await;
    stop.cancel();
    assert_eq!(lifetime(task).await, STREAMS.drain.as_secs());
}

#[tokio::test(start_paused = true)]
async fn stop_closes_idle_connections_at_once() {
    let stop = CancellationToken::new();
    let (fresh, _client) = connect(hello(), &stop);
    let (used, mut client) = connect(hello(), &stop);
    client.write_all(REQUEST).await.expect("written");
    let mut answer = [0; 8];
    client.read_exact(&mut answer).await.expect("an answer");
    tokio::task::yield_now().await;
    stop.cancel();
    assert_eq!((lifetime(fresh).await, lifetime(used).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_a_request_under_way_but_not_forever() {
    for (takes, lasts, is_answered) in [(3, 3, true), (60, SHORT.drain.as_secs(), false)] {
        let (stop, start) = (CancellationToken::new(), Instant::now());
        let (task, mut client) = connect(slow(takes), &stop);
        client.write_all(REQUEST).await.expect("written");
        // The handler has begun when the time has moved on.
        sleep(Duration::from_millis(1)).await;
        stop.cancel();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an end");
        assert_eq!(start.elapsed().as_secs(), lasts);
        assert_eq!(answer.starts_with("HTTP/1.1 200"), is_answered, "{answer}");
        lifetime(task).await;
    }
}

#[tokio::test(start_paused = true)]
async fn header_that_is_too_large_is_refused() {
    let (task, mut client) = connect(hello(), &CancellationToken::new());
    let header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(SHORT.buffer_bytes));
    // The connection may be closed before everything is written.
    let _ = client.write_all(header.as_bytes()).await;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    lifetime(task).await;
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_while_all_others_have_a_request_under_way() {
    let (begun, go_on) = (watch::Sender::new(0), CancellationToken::new());
    let (count, wait) = (begun.clone(), go_on.clone());
    let handler = async move || {
        count.send_modify(|count| *count += 1);
        wait.cancelled().await;
        "hello"
    };
    let (listener, address) = bind().await;
    let limits = Limits { busy_min: Duration::from_hours(1), ..SHORT };
    let stop = CancellationToken::new();
    let router = Router::new().route("/", get(handler));
    let mut serving = JoinSet::new();
    serving.spawn(serve_until(listener, router, limits, stop.clone()));
    let mut clients = JoinSet::new();
    let ask = move || async move {
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        client.write_all(request).await.expect("written");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.ends_with("hello"), "{answer}");
    };
    for count in 1..=CONNECTIONS {
        clients.spawn(ask());
        begun.subscribe().wait_for(|begun| *begun == count).await.map(drop).expect("a request");
    }
    for _ in 0..10 {
        clients.spawn(ask());
    }
    // They would begin now, if they could.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*begun.borrow(), CONNECTIONS);
    go_on.cancel();
    while let Some(client) = clients.join_next().await {
        client.expect("every client must get its answer");
    }
    stop.cancel();
    serving.join_next().await.expect("a listener").expect("it must not panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_is_closed_before_the_connections() {
    for _ in 0..100 {
        let (listener, address) = bind().await;
        let stop = CancellationToken::new();
        let mut serving = JoinSet::new();
        serving.spawn(serve_until(listener, hello(), SHORT, stop.clone()));
        let mut client = TcpStream::connect(address).await.expect("a connection");
        client.write_all(REQUEST).await.expect("written");
        client.read_exact(&mut [0; 8]).await.expect("an answer");
        stop.cancel();
        client.read_to_end(&mut Vec::new()).await.expect("an end");
        TcpStream::connect(address).await.expect_err("the port must be closed");
        serving.join_next().await.expect("a listener").expect("it must not panic");
    }
}

#[tokio::test]
async fn answers_that_are_not_read_keep_no_probe_from_its_answer() {
    let long = Bytes::from("long".repeat(4_000_000));
    let router = hello().route("/long", get(async move || long.clone()));
    let (listener, address) = bind().await;
    let stop = CancellationToken::new();
    let mut serving = JoinSet::new();
    serving.spawn(serve_until(listener, router, SHORT, stop.clone()));
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS * 2 {
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let _ = client.write_all(b"GET /long HTTP/1.1\r\nhost: a\r\n\r\n").await;
        clients.push(client);
    }
    let mut client = TcpStream::connect(address).await.expect("a connection");
    client.write_all(REQUEST).await.expect("written");
    client.read_exact(&mut [0; 8]).await.expect("an answer");
    stop.cancel();
    drop(clients);
    serving.join_next().await.expect("a listener").expect("it must not panic");
}

#[test]
fn process_with_few_files_has_fewer_connections() {
    assert_eq!(at_most(4096, None), 4096);
    assert_eq!(at_most(4096, Some(1_048_576)), 4096);
    assert_eq!(at_most(4096, Some(1024)), 256);
    assert_eq!(at_most(128, Some(1024)), 128);
    assert_eq!(at_most(128, Some(0)), 1);
}
