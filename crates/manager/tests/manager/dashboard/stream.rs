//! The stream of summaries, on the paused clock.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::dashboard::stage::{Running, create};

async fn open(running: &Running) -> Body {
    let request = Request::get("/api/stream")
        .header(HOST, "localhost")
        .header(AUTHORIZATION, format!("Bearer {}", running.token))
        .body(Body::empty())
        .expect("a request");
    let answer = running.page.clone().oneshot(request).await.expect("infallible");
    assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
    answer.into_body()
}

async fn next(stream: &mut Body) -> Bytes {
    let frame = stream.frame().await.expect("it has not ended").expect("no error");
    frame.into_data().expect("data")
}

fn summary(event: &Bytes) -> Value {
    let text = str::from_utf8(event).expect("a text");
    let data = text.strip_prefix("event: summary\ndata: ").expect("an event of this name");
    let data = data.strip_suffix("\n\n").expect("an empty line after it");
    assert!(!data.contains('\n'), "{data}");
    serde_json::from_str(data).expect("JSON")
}

#[tokio::test(start_paused = true)]
async fn summary_comes_at_once_and_then_every_second() {
    let mut running = Running::start(&["default/a"]).await;
    running.wait_for_runs(&["a"]).await;
    let (mut stream, start) = (open(&running).await, Instant::now());
    for second in 0..4 {
        let event = next(&mut stream).await;
        assert_eq!(start.elapsed().as_secs(), second);
        assert_eq!(summary(&event)["phase"], "running");
    }
    create(&running.server, "default/b").await;
    running.wait_for_runs(&["b"]).await;
    // Of the next two, the second one is made after the run for sure.
    next(&mut stream).await;
    let last = summary(&next(&mut stream).await);
    assert_eq!(last["controllers"][0]["counts"]["runs"], 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stream_ends_after_a_minute_so_that_access_is_checked_again() {
    let running = Running::start(&[]).await;
    let (mut stream, start) = (open(&running).await, Instant::now());
    let mut events = 0;
    while let Some(frame) = stream.frame().await {
        frame.expect("no error");
        events += 1;
    }
    assert_eq!((events, start.elapsed().as_secs()), (60, 59));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn viewers_get_the_same_summary() {
    let mut running = Running::start(&["default/a"]).await;
    running.wait_for_runs(&["a"]).await;
    let mut one = open(&running).await;
    let first = next(&mut one).await;
    // Somebody who comes half a second later gets what the first one got.
    sleep(Duration::from_millis(500)).await;
    let mut two = open(&running).await;
    assert_eq!(next(&mut two).await.as_ptr(), first.as_ptr());
    for _ in 0..3 {
        let seen = next(&mut one).await;
        assert_eq!(next(&mut two).await.as_ptr(), seen.as_ptr());
    }
    assert_ne!(next(&mut one).await.as_ptr(), first.as_ptr());
    running.stop().await;
}
