//! Tables and time: ages are computed from the server's clock when a row is sent. The conformance
//! suite compares the other content of tables with a real server.

use std::time::Duration;

use crate::support::{CONFIG_MAPS, config_map, create, moment, post};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::Service as _;
use windlass_apiserver::{ApiServer, Body, WallClock};

/// Returns a server that follows tokio's clock, which these tests pause.
fn server() -> ApiServer {
    ApiServer::builder().clock(WallClock::following_tokio(moment())).build()
}

/// Requests a table.
async fn table(server: &ApiServer, path: &str) -> Body {
    let request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Full::new(Bytes::new()));
    server.service().call(request.expect("a request")).await.expect("an answer").into_body()
}

/// Reads the next event of a watch. Returns whether it has column definitions, and its cells.
async fn next(watch: &mut Body) -> (bool, Value) {
    let frame = watch.frame().await.expect("an event").expect("a whole frame");
    let event: Value =
        serde_json::from_slice(&frame.into_data().expect("data")).expect("one line of JSON");
    let table = &event["object"];
    (table["columnDefinitions"].is_array(), table["rows"][0]["cells"].clone())
}

#[tokio::test(start_paused = true)]
async fn ages_are_counted_by_the_clock_of_the_server() {
    let server = server();
    create(&server, "a").await;
    tokio::time::advance(Duration::from_secs(310)).await;
    create(&server, "b").await;
    let body = table(&server, CONFIG_MAPS).await.collect().await.expect("a whole body");
    let table: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "5m10s"]));
    assert_eq!(table["rows"][1]["cells"], json!(["b", 1, "0s"]));
}

#[tokio::test(start_paused = true)]
async fn watchers_of_the_same_change_have_their_own_columns_and_ages() {
    let server = server();
    let from = create(&server, "a").await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
    let (mut early, mut late) = (table(&server, &path).await, table(&server, &path).await);
    for name in ["b", "c"] {
        post(&server, CONFIG_MAPS, config_map(name, "0")).await;
    }
    assert_eq!(next(&mut early).await, (true, json!(["b", 1, "0s"])));
    assert_eq!(next(&mut early).await, (false, json!(["c", 1, "0s"])));
    tokio::time::advance(Duration::from_mins(4)).await;
    assert_eq!(next(&mut late).await, (true, json!(["b", 1, "4m"])));
    assert_eq!(next(&mut late).await, (false, json!(["c", 1, "4m"])));
}
