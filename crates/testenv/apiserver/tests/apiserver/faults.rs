//! Every fault of the closed set, injected and seen from the client's side, on the paused clock.

use std::time::Duration;

use crate::support::{
    CONFIG_MAPS, Next, config_map, create, get, send, server, set, version, watch,
};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout};
use windlass_apiserver::{Fault, FaultRule};

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_handled_later() {
    let server = server();
    server.faults().add(FaultRule::new(Fault::Delay(Duration::from_secs(7))).verb("create"));
    let start = Instant::now();
    create(&server, "a").await;
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_changes_nothing() {
    let server = server();
    server.faults().add(FaultRule::new(Fault::Hang).verb("create").times(1));
    let hour = Duration::from_hours(1);
    assert!(timeout(hour, create(&server, "a")).await.is_err(), "the request must hang");
    let (status, _) = get(&server, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_refused_request_changes_nothing_and_a_lost_answer_does() {
    let server = server();
    for (fault, after) in
        [(Fault::Refuse, StatusCode::NOT_FOUND), (Fault::LoseAnswer, StatusCode::OK)]
    {
        let rule = server.faults().add(FaultRule::new(fault).verb("create"));
        let body = config_map("a", "0").to_string().into_bytes();
        let answer = send(&server, Method::POST, CONFIG_MAPS, "application/json", body).await;
        assert!(answer.is_err(), "the connection must break");
        assert_eq!(server.faults().remove(rule), Some(1));
        assert_eq!(get(&server, &format!("{CONFIG_MAPS}/a")).await.0, after);
    }
}

#[tokio::test]
async fn a_failure_has_its_status_and_retry_after() {
    let server = server();
    let fault = Fault::Fail { code: 429, retry_after: Some(5) };
    server.faults().add(FaultRule::new(fault).resource("configmaps").times(1));
    let answer = send(&server, Method::GET, CONFIG_MAPS, "", Vec::new()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "5");
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(body, "Too many requests, please try again later.\n");
    server.faults().add(FaultRule::new(Fault::Fail { code: 503, retry_after: None }).times(1));
    let (status, body) = get(&server, CONFIG_MAPS).await;
    assert_eq!(
        (status, &body["reason"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"ServiceUnavailable".into())
    );
    assert_eq!(get(&server, CONFIG_MAPS).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_watch_is_cut_in_the_middle_of_a_line() {
    let server = server();
    let from = create(&server, "a").await;
    server.faults().add(FaultRule::new(Fault::CutAnswer { after_bytes: 40 }).verb("watch"));
    let mut lines = watch(&server, &format!("&resourceVersion={from}")).await;
    set(&server, "a", "1").await;
    assert_eq!(lines.next().await, Next::Broken(40));
}

#[tokio::test]
async fn a_stale_read_shows_the_past() {
    let server = server();
    let first = create(&server, "a").await;
    create(&server, "b").await;
    let rule = server.faults().add(FaultRule::new(Fault::StaleRead { revisions: 1 }));
    let (_, list) = get(&server, CONFIG_MAPS).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(version(&list), first);
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/b")).await.0, StatusCode::NOT_FOUND);
    server.faults().remove(rule);
    assert_eq!(get(&server, CONFIG_MAPS).await.1["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(start_paused = true)]
async fn events_are_dropped_doubled_and_delayed() {
    let server = server();
    let from = create(&server, "a").await;
    let mut lines = watch(&server, &format!("&resourceVersion={from}")).await;
    server.faults().add(FaultRule::new(Fault::DropEvent).times(1));
    server.faults().add(FaultRule::new(Fault::DuplicateEvent).after(1).times(1));
    server
        .faults()
        .add(FaultRule::new(Fault::DelayEvent(Duration::from_secs(9))).after(2).times(1));
    let start = Instant::now();
    let mut written = Vec::new();
    for value in ["1", "2", "3"] {
        written.push(version(&set(&server, "a", value).await.1));
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(lines.event().await.2);
    }
    assert_eq!(seen, [&*written[1], &*written[1], &*written[2]]);
    assert_eq!(start.elapsed(), Duration::from_secs(9));
}

#[tokio::test]
async fn compaction_expires_old_lists_and_watches() {
    let server = server();
    let old = create(&server, "a").await;
    set(&server, "a", "1").await;
    let past = format!("{CONFIG_MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    assert_eq!(get(&server, &past).await.0, StatusCode::OK);
    server.compact();
    let (status, body) = get(&server, &past).await;
    assert_eq!((status, &body["reason"]), (StatusCode::GONE, &"Expired".into()));
    let mut lines = watch(&server, &format!("&resourceVersion={old}")).await;
    let Next::Event(kind, status) = lines.next().await else { panic!("an event was expected") };
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &410.into()));
    assert_eq!(lines.next().await, Next::End);
}

#[tokio::test]
async fn a_restored_server_goes_back_in_versions_and_ends_its_watches() {
    let server = server();
    let kept = create(&server, "kept").await;
    let snapshot = server.snapshot();
    create(&server, "lost").await;
    let mut lines = watch(&server, "").await;
    assert_eq!(lines.event().await.1, "kept");
    assert_eq!(lines.event().await.1, "lost");
    server.restore(&snapshot);
    assert_eq!(lines.next().await, Next::End);
    let (_, list) = get(&server, CONFIG_MAPS).await;
    assert_eq!(version(&list), kept);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    assert_ne!(create(&server, "new").await, kept);
}
