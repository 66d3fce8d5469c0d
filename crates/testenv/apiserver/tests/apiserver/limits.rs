//! Stress: big bodies, slow readers, many connections, odd requests. The server answers and stays
//! alive.

use crate::support::{CONFIG_MAPS, Next, create, get, post, send, server, set, watch};
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use windlass_apiserver::ApiServer;

#[tokio::test]
async fn a_body_of_five_megabytes_is_too_large() {
    let server = server();
    let body = vec![b' '; 5 * 1024 * 1024];
    let answer = send(&server, Method::POST, CONFIG_MAPS, "application/json", body).await;
    assert_eq!(answer.expect("an answer").status(), StatusCode::PAYLOAD_TOO_LARGE);
    create(&server, "a").await;
}

#[tokio::test]
async fn a_reader_that_falls_out_of_the_window_gets_a_410() {
    let server = ApiServer::builder().history(10).build();
    let from = create(&server, "a").await;
    let mut slow = watch(&server, &format!("&resourceVersion={from}")).await;
    for value in 0..100 {
        set(&server, "a", &value.to_string()).await;
    }
    let Next::Event(kind, status) = slow.next().await else { panic!("an event was expected") };
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &410.into()));
    assert_eq!(slow.next().await, Next::End);
}

#[tokio::test]
async fn a_thousand_connections_are_all_answered() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.expect("a free port");
    let address = listening.address();
    let mut streams = Vec::new();
    for _ in 0..1000 {
        streams.push(TcpStream::connect(address).await.expect("a connection"));
    }
    let mut answers = JoinSet::new();
    for mut stream in streams {
        answers.spawn(async move {
            let request = b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.expect("a request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        });
    }
    assert_eq!(answers.join_all().await.len(), 1000);
    listening.stop().await;
    assert!(TcpStream::connect(address).await.is_err(), "a stopped server must not accept");
}

#[tokio::test]
async fn unsupported_requests_say_what_is_missing() {
    let server = server();
    let cbor = "application/cbor";
    let body = b"\xd9\xd9\xf7\xa0".to_vec();
    let answer = send(&server, Method::POST, CONFIG_MAPS, cbor, body).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    for path in ["/api/v1/watch/pods", "/api/v1/namespaces/default/pods/p/log"] {
        let (status, body) = get(&server, path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let message = body["message"].as_str().expect("a message");
        assert!(message.contains("does not support"), "{message}");
    }
    let (status, body) =
        post(&server, "/api/v1/namespaces/default/pods/p/exec", serde_json::json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
}
