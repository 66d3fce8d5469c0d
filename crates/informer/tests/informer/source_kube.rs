//! Lists and watches over a client: what is asked for, what comes back, and what becomes of
//! refusals.

use std::time::Duration;

use http::Response;
use http::header::{ACCEPT, RETRY_AFTER};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{ApiResource, GroupVersionKind};
use kube::core::WatchEvent;
use kube::core::watch::BookmarkMeta;
use tokio::time::Instant;
use windlass_informer::client::ResponseBody;
use windlass_informer::source::{KubeListWatch, ListRequest, ListWatch as _, WatchRequest};
use windlass_informer::{ClientStack, Resource, SourceError};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule, User};
use windlass_testserver::{ControlPlane, ControlPlaneOptions, TestServer, on_each_server};

use crate::server::{
    Watch, client_of, client_with_answer, create_config, list, name, stalled, whole,
};

const MINUTE: Duration = Duration::from_mins(1);

fn configs(client: kube::Client) -> KubeListWatch {
    KubeListWatch::new(client, Resource::of::<ConfigMap>())
}

fn watch_from(version: Option<&str>) -> WatchRequest {
    WatchRequest { from: version.map(str::to_owned), timeout: MINUTE }
}

/// A namespace of its own, a client of the stack, and the config maps in it.
async fn in_namespace(cluster: &TestServer) -> (String, kube::Client, KubeListWatch) {
    let namespace = cluster.namespace("source").await.expect("a namespace");
    let client = client_of(cluster, ClientStack::new());
    let source = configs(client.clone()).namespace(&namespace).expect("a namespace's name");
    (namespace, client, source)
}

async fn next_added(watch: &mut Watch) -> serde_json::Value {
    loop {
        match watch.next().await.expect("an event").expect("no end") {
            WatchEvent::Added(object) => return object,
            WatchEvent::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn next_bookmark(watch: &mut Watch) -> BookmarkMeta {
    match watch.next().await.expect("an event").expect("no end") {
        WatchEvent::Bookmark(bookmark) => bookmark.metadata,
        other => panic!("{other:?}"),
    }
}

fn is_end_of_initial_events(bookmark: &BookmarkMeta) -> bool {
    bookmark.annotations.get("k8s.io/initial-events-end").is_some_and(|end| end == "true")
}

on_each_server!(a_list_comes_in_pages_of_one_moment);
async fn a_list_comes_in_pages_of_one_moment(cluster: TestServer) {
    let (namespace, client, source) = in_namespace(&cluster).await;
    for number in 0..5 {
        create_config(&client, &namespace, &format!("c{number}"), "red").await;
    }
    let mut names = Vec::new();
    let mut versions = Vec::new();
    let mut continue_token = None;
    loop {
        let request = ListRequest { limit: Some(2), continue_token };
        let (items, end) = list(&source, request).await.expect("a page");
        names.extend(items.iter().map(|item| name(item).to_owned()));
        versions.push(end.resource_version.expect("a version"));
        create_config(&client, &namespace, &format!("d{}", versions.len()), "red").await;
        continue_token = end.continue_.filter(|token| !token.is_empty());
        if continue_token.is_none() {
            break;
        }
    }
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4"], "what came later is not in it");
    assert!(versions.len() == 3 && versions.iter().all(|version| *version == versions[0]));
    let (items, _) = list(&source, ListRequest::default()).await.expect("all of it");
    assert_eq!(items.len(), 8);
}

on_each_server!(a_watch_can_begin_with_what_is_there);
async fn a_watch_can_begin_with_what_is_there(cluster: TestServer) {
    let (namespace, client, source) = in_namespace(&cluster).await;
    create_config(&client, &namespace, "a", "red").await;
    create_config(&client, &namespace, "b", "red").await;
    let mut watch = Watch::start(&source, watch_from(None)).await.expect("a watch");
    for wanted in ["a", "b"] {
        assert_eq!(name(&next_added(&mut watch).await), wanted);
    }
    let bookmark = next_bookmark(&mut watch).await;
    assert!(is_end_of_initial_events(&bookmark) && !bookmark.resource_version.is_empty());
    create_config(&client, &namespace, "c", "red").await;
    assert_eq!(name(&next_added(&mut watch).await), "c");
    drop(watch);

    // The bookmark's version is one to go on from.
    let request = watch_from(Some(&bookmark.resource_version));
    let mut watch = Watch::start(&source, request).await.expect("a watch");
    assert_eq!(name(&next_added(&mut watch).await), "c");
}

on_each_server!(the_server_ends_a_watch_when_asked_to);
async fn the_server_ends_a_watch_when_asked_to(cluster: TestServer) {
    let (_, _, source) = in_namespace(&cluster).await;
    let (_, end) = list(&source, ListRequest::default()).await.expect("a list");
    // Less than a second must not become none, which would mean the server's own default.
    let request = WatchRequest { from: end.resource_version, timeout: Duration::from_millis(1) };
    let mut watch = Watch::start(&source, request).await.expect("a watch");
    while let Some(event) = watch.next().await.expect("no error") {
        assert!(matches!(event, WatchEvent::Bookmark(_)), "{event:?}");
    }
}

on_each_server!(selectors_choose_what_is_listed_and_watched);
async fn selectors_choose_what_is_listed_and_watched(cluster: TestServer) {
    let (namespace, client, source) = in_namespace(&cluster).await;
    for (name, team) in [("a", "red"), ("b", "blue"), ("c", "green")] {
        create_config(&client, &namespace, name, team).await;
    }
    let colours = source.clone().label_selector("team in (red, blue), !gone").expect("labels");
    let (items, end) = list(&colours, ListRequest::default()).await.expect("a list");
    assert_eq!(items.iter().map(name).collect::<Vec<_>>(), ["a", "b"]);
    let not_a = colours.clone().field_selector("metadata.name!=a").expect("fields");
    let (items, _) = list(&not_a, ListRequest::default()).await.expect("a list");
    assert_eq!(items.iter().map(name).collect::<Vec<_>>(), ["b"]);

    let request = watch_from(end.resource_version.as_deref());
    let mut watch = Watch::start(&not_a, request).await.expect("a watch");
    create_config(&client, &namespace, "d", "green").await;
    create_config(&client, &namespace, "e", "red").await;
    assert_eq!(name(&next_added(&mut watch).await), "e");

    let unknown = source.field_selector("data.payload=x").expect("a selector");
    let error = list(&unknown, ListRequest::default()).await.expect_err("no such field");
    assert_eq!(error.status().map(|status| status.code), Some(400), "{error}");
}

on_each_server!(metadata_can_be_all_that_comes);
async fn metadata_can_be_all_that_comes(cluster: TestServer) {
    let (namespace, client, source) = in_namespace(&cluster).await;
    create_config(&client, &namespace, "a", "red").await;
    let source = source.metadata_only(true);
    let (items, _) = list(&source, ListRequest::default()).await.expect("a list");
    let mut watch = Watch::start(&source, watch_from(None)).await.expect("a watch");
    let watched = next_added(&mut watch).await;
    for object in [&items[0], &watched] {
        assert_eq!((name(object), &object["metadata"]["labels"]["team"]), ("a", &"red".into()));
        assert!(object.get("data").is_none(), "{object}");
    }
    assert!(is_end_of_initial_events(&next_bookmark(&mut watch).await));
}

#[tokio::test]
async fn a_version_or_page_of_the_past_is_gone() {
    let cluster = TestServer::embedded();
    let client = client_of(&cluster, ClientStack::new());
    past_is_gone(client, async || cluster.compact().await.expect("history is forgotten")).await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn a_version_or_page_of_the_past_is_gone_on_a_real_server() {
    // With a watch cache the server would know the past for longer than etcd.
    let options = ControlPlaneOptions::new().apiserver_flag("--watch-cache=false");
    let real = ControlPlane::start(options).await.expect("a cluster");
    let client = ClientStack::new().connect(real.config()).expect("a client");
    let compact = async || {
        real.compact().await.expect("history is forgotten");
    };
    past_is_gone(client, compact).await;
}

async fn past_is_gone(client: kube::Client, compact: impl AsyncFn()) {
    let source = configs(client.clone()).namespace("default").expect("a namespace");
    for name in ["a", "b"] {
        create_config(&client, "default", name, "red").await;
    }
    let page = ListRequest { limit: Some(1), continue_token: None };
    let (_, end) = list(&source, page.clone()).await.expect("a page");
    create_config(&client, "default", "c", "red").await;
    compact().await;

    let rest = ListRequest { continue_token: end.continue_, ..page };
    let error = list(&source, rest).await.expect_err("the rest of the list is gone");
    assert!(error.is_gone(), "{error}");

    // As an answer, or as the first event.
    match Watch::start(&source, watch_from(Some("1"))).await {
        Err(error) => assert!(error.is_gone(), "{error}"),
        Ok(mut watch) => match watch.next().await {
            Ok(Some(WatchEvent::Error(status))) => assert_eq!(status.code, 410, "{status:?}"),
            other => panic!("{other:?}"),
        },
    }
}

on_each_server!(what_does_not_exist_is_not_found);
async fn what_does_not_exist_is_not_found(cluster: TestServer) {
    let client = client_of(&cluster, ClientStack::new());
    for (group, version) in [("nobody.example", "v1"), ("", "v1"), ("apps", "v9")] {
        let kind = GroupVersionKind::gvk(group, version, "Unicorn");
        let resource = Resource::new(&ApiResource::from_gvk(&kind), true);
        let source = KubeListWatch::new(client.clone(), resource);
        let error = list(&source, ListRequest::default()).await.expect_err("no such resource");
        assert!(error.is_not_found(), "{error}");
        let error = Watch::start(&source, watch_from(None)).await.map(drop);
        assert!(error.as_ref().is_err_and(SourceError::is_not_found), "{error:?}");
    }
}

on_each_server!(who_is_not_known_is_told_so_and_no_token_shows);
async fn who_is_not_known_is_told_so_and_no_token_shows(cluster: TestServer) {
    const TOKEN: &str = "hunter2-is-a-secret";
    let client = if let Some(real) = cluster.control_plane() {
        ClientStack::new().connect(real.config_as(TOKEN)).expect("a client")
    } else {
        let server = ApiServer::builder().token("good", User::named("alice")).build();
        let service = tower::util::MapRequest::new(
            server.service(),
            |mut request: http::Request<kube::client::Body>| {
                let value = format!("Bearer {TOKEN}").parse().expect("a header");
                request.headers_mut().insert(http::header::AUTHORIZATION, value);
                request
            },
        );
        ClientStack::new().around(service, "default")
    };
    let error = list(&configs(client), ListRequest::default()).await.expect_err("a stranger");
    assert!(error.is_unauthorized(), "{error}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn who_may_not_is_told_so() {
    let cluster = TestServer::real().await.expect("a real cluster");
    let real = cluster.control_plane().expect("it is real");
    let config = real.config_as(real.powerless_token());
    let client = ClientStack::new().connect(config).expect("a client");
    let error = list(&configs(client), ListRequest::default()).await.expect_err("no rights");
    assert_eq!(error.status().map(|status| status.code), Some(403), "{error}");
}

/// What a list makes of an answer.
async fn refusal(code: u16, retry_after: Option<&'static str>, body: ResponseBody) -> SourceError {
    let body = std::sync::Mutex::new(Some(body));
    let (client, _) = client_with_answer(move || {
        let body = body.lock().expect("no panic").take().expect("one request");
        let mut response = Response::builder().status(code);
        if let Some(seconds) = retry_after {
            response = response.header(RETRY_AFTER, seconds);
        }
        response.body(body).expect("a response")
    });
    list(&configs(client), ListRequest::default()).await.expect_err("a refusal")
}

#[tokio::test]
async fn refusals_by_others_than_an_api_server_are_described() {
    for (code, body, wanted) in [
        (
            502,
            "<html>\n<p>secret",
            r#"status 502: Bad Gateway; the body is a web page that begins with "<html>" (list configmaps)"#,
        ),
        (
            404,
            "404 page not found\n",
            r#"status 404 (NotFound): Not Found; the body is text that begins with "404 page not found" (list configmaps)"#,
        ),
        (
            500,
            r#"{"password":"hunter2"}"#,
            "status 500 (InternalError): Internal Server Error; the body is other JSON (list configmaps)",
        ),
        (
            500,
            r#"{"kind":"Secret","message":"hunter2","code":200}"#,
            "status 500 (InternalError): Internal Server Error; the body is other JSON (list configmaps)",
        ),
        (
            503,
            r#"{"kind":"Status","message":"cut o"#,
            "status 503 (ServiceUnavailable): Service Unavailable; the body is other JSON (list configmaps)",
        ),
        (302, "", "status 302: Found; the body is empty"),
        (799, "", "status 799: unknown code; the body is empty"),
        (
            409,
            r#"{"kind":"Status","message":"why","reason":"Conflict"}"#,
            "status 409 (Conflict): why (list configmaps)",
        ),
    ] {
        let error = refusal(code, None, whole(body)).await;
        assert_eq!(error.to_string(), format!("the server answered with {wanted}"));
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_time_to_wait_is_read_from_body_or_header() {
    let status = r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":7}}"#;
    for (header, body, wanted) in [
        (Some("3"), "", Some(3)),
        (Some(" 3 "), "", Some(3)),
        (Some("3"), status, Some(7)),
        (None, status, Some(7)),
        (Some("0"), "", None),
        (Some("-1"), "", None),
        (Some("Fri, 31 Dec 2027 23:59:59 GMT"), "", None),
        (Some("99999999999"), "", Some(3_600)),
    ] {
        let error = refusal(429, header, whole(body)).await;
        assert!(error.is_throttled(), "{error}");
        assert_eq!(error.retry_after(), wanted.map(Duration::from_secs), "{header:?} {body}");
    }
}

#[tokio::test]
async fn the_header_of_a_server_that_is_busy_is_read() {
    let cluster = TestServer::embedded();
    let faults = cluster.server().expect("embedded").faults();
    faults.add(FaultRule::new(Fault::Fail { code: 429, retry_after: Some(4) }));
    let source = configs(client_of(&cluster, ClientStack::new()));
    let error = list(&source, ListRequest::default()).await.expect_err("busy");
    assert!(error.is_throttled() && error.retry_after() == Some(Duration::from_secs(4)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_never_ends_is_cut_in_bytes_and_in_time() {
    let began = Instant::now();
    let error = refusal(503, Some("2"), stalled("it will")).await;
    assert!(began.elapsed() <= Duration::from_secs(5));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    assert!(error.to_string().contains(r#"text that begins with "it will""#), "{error}");

    let endless =
        futures::stream::repeat_with(|| Ok(http_body::Frame::data("x".repeat(9_999).into())));
    let endless = http_body_util::StreamBody::new(endless);
    let error = refusal(500, None, http_body_util::BodyExt::boxed_unsync(endless)).await;
    assert!(error.to_string().len() < 300, "{error}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error() {
    let cluster = TestServer::embedded();
    let (namespace, client, source) = in_namespace(&cluster).await;
    create_config(&client, &namespace, "a", "red").await;
    let faults = cluster.server().expect("embedded").faults();
    faults.add(FaultRule::new(Fault::CutAnswer { after_bytes: 20 }).times(1));
    let error = list(&source, ListRequest::default()).await.expect_err("it breaks");
    assert!(matches!(error, SourceError::Transport(_)), "{error:?}");
    faults.add(FaultRule::new(Fault::Refuse).times(1));
    let error = list(&source, ListRequest::default()).await.expect_err("it breaks");
    let expected = format!(
        "ServiceError: list configmaps in {namespace}: the connection broke before the answer"
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn requests_say_exactly_what_is_wanted() {
    let (client, seen) = client_with_answer(|| Response::new(whole("{}")));
    let source = configs(client.clone())
        .namespace("shop")
        .and_then(|source| source.label_selector("a=b,c in (d,e)"))
        .and_then(|source| source.field_selector(r"metadata.name=x\,y&z"))
        .expect("all of it is valid")
        .metadata_only(true);
    let all = KubeListWatch::new(client, Resource::of::<Node>());
    let page = ListRequest { limit: Some(500), continue_token: Some("a+/=&b".to_owned()) };
    for (source, request) in [
        (&all, windlass_informer::source::Request::List(ListRequest::default())),
        (&all, windlass_informer::source::Request::Watch(watch_from(None))),
        (&source, windlass_informer::source::Request::List(page)),
        (&source, windlass_informer::source::Request::Watch(watch_from(Some("12")))),
    ] {
        drop(source.request(&request).await.expect("a body"));
    }
    let seen: Vec<_> = seen.lock().expect("no panic").drain(..).collect();
    let uris: Vec<_> = seen.iter().map(|request| request.uri().to_string()).collect();
    let shop = "/api/v1/namespaces/shop/configmaps?";
    let selectors =
        "labelSelector=a%3Db%2Cc+in+%28d%2Ce%29&fieldSelector=metadata.name%3Dx%5C%2Cy%26z";
    let watch = "watch=true&allowWatchBookmarks=true&timeoutSeconds=60";
    assert_eq!(
        uris,
        [
            "/api/v1/nodes".to_owned(),
            format!(
                "/api/v1/nodes?{watch}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            ),
            format!("{shop}limit=500&continue=a%2B%2F%3D%26b&{selectors}"),
            format!("{shop}{watch}&resourceVersion=12&{selectors}"),
        ]
    );
    let accepts: Vec<_> = seen.iter().map(|request| &request.headers()[ACCEPT]).collect();
    let partial = |kind| format!("application/json;as={kind};g=meta.k8s.io;v=v1,application/json");
    assert_eq!(accepts[..2], ["application/json"; 2]);
    assert_eq!(accepts[2], &partial("PartialObjectMetadataList"));
    assert_eq!(accepts[3], &partial("PartialObjectMetadata"));
    assert!(seen.iter().all(|request| request.headers()["accept-encoding"] == "identity"));
}

#[tokio::test]
async fn mistakes_are_said_before_anything_is_sent() {
    let (client, seen) = client_with_answer(|| Response::new(whole("{}")));
    let nodes = KubeListWatch::new(client.clone(), Resource::of::<Node>());
    let source = configs(client);
    for (error, wanted) in [
        (nodes.namespace("shop").map(drop), "nodes.v1 is cluster-wide"),
        (source.clone().namespace("a/../b").map(drop), r#""a/../b" is no name of a namespace"#),
        (source.clone().label_selector("a in b").map(drop), r#"label selector "a in b", at "b""#),
        (source.field_selector("a>b").map(drop), r#"field selector "a>b", at "a>b""#),
    ] {
        let error = error.expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert!(seen.lock().expect("no panic").is_empty());
}
