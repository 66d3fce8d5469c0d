//! The way of watches to a real server: over HTTP/2 where it knows that, however many there are.

use futures::future::try_join_all;
use http::{Request, Response, Version};
use http_body_util::BodyExt as _;
use kube::client::Body;
use windlass_informer::ClientStack;
use windlass_testkit::cluster::real_tier_is_on;
use windlass_testkit::{RealCluster, RealOptions, TestCluster};

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true&sendInitialEvents=true\
    &allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60";

async fn get(client: &kube::Client, uri: &str) -> Response<Body> {
    let request = Request::get(uri).body(Body::empty()).expect("a request");
    let answer = client.send(request).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer
}

/// The protocols of a list and of a watch, of which the first event was read.
async fn versions(stack: ClientStack, config: kube::Config) -> [Version; 2] {
    let client = stack.connect(config).expect("a client");
    let list = get(&client, CONFIGS).await;
    let mut watch = get(&client, WATCH).await;
    let frame = watch.body_mut().frame().await.expect("a first event").expect("no error");
    // An object, or the mark behind none.
    assert!(frame.into_data().is_ok_and(|data| data.starts_with(br#"{"type":""#)));
    [list.version(), watch.version()]
}

#[tokio::test]
async fn watch_is_read_over_http_2_and_all_else_is_not() {
    if !real_tier_is_on() {
        return;
    }
    let cluster = TestCluster::real().await.expect("a real cluster");
    let real = cluster.control_plane().expect("it is real");
    let stack = ClientStack::new();
    assert_eq!(versions(stack.clone(), real.config()).await, [Version::HTTP_11, Version::HTTP_2]);
    let stack = stack.http2_watches(false);
    assert_eq!(versions(stack, real.config()).await, [Version::HTTP_11, Version::HTTP_11]);
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
    let watch = || Request::get(WATCH).body(Body::empty()).expect("a request");
    let client = connect("localhost").expect("a client");
    assert_eq!(client.send(watch()).await.expect("an answer").version(), Version::HTTP_2);
    let client = connect("somebody.else").expect("a client");
    client.send(watch()).await.map(drop).expect_err("the certificate has another name");
    assert!(connect("no name").is_err());
}

#[tokio::test]
async fn server_without_http_2_is_watched_as_well() {
    if !real_tier_is_on() {
        return;
    }
    let options = RealOptions::new().apiserver_flag("--disable-http2-serving");
    let real = RealCluster::start(options).await.expect("a cluster");
    let versions = versions(ClientStack::new(), real.config()).await;
    assert_eq!(versions, [Version::HTTP_11, Version::HTTP_11]);
}

/// A server bounds the streams of a connection, and requests above the bound would wait for one to end.
#[tokio::test]
async fn watches_do_not_wait_for_each_other() {
    if !real_tier_is_on() {
        return;
    }
    let cluster = TestCluster::real().await.expect("a real cluster");
    let real = cluster.control_plane().expect("it is real");
    let client = ClientStack::new().connect(real.config()).expect("a client");
    let open = |_| async {
        let mut watch = get(&client, WATCH).await;
        let frame = watch.body_mut().frame().await.expect("a first event");
        frame.map(|_| watch)
    };
    let watches = try_join_all((0..300).map(open)).await.expect("all begin");
    assert_eq!(watches.len(), 300);
}
