//! The same requests give the same bytes.

use crate::support::{CONFIG_MAPS, call, config_map, create, moment, send, set};
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use windlass_apiserver::{ApiServer, WallClock};

async fn story(seed: u64) -> Vec<u8> {
    let server = ApiServer::builder().seed(seed).clock(WallClock::fixed(moment())).build();
    create(&server, "a").await;
    set(&server, "a", "1").await;
    let mut generated = config_map("", "x");
    generated["metadata"] = json!({"generateName": "g-"});
    for _ in 0..20 {
        call(&server, Method::POST, CONFIG_MAPS, Some(generated.clone())).await;
    }
    call(&server, Method::DELETE, &format!("{CONFIG_MAPS}/a"), None).await;
    let mut bytes = Vec::new();
    for path in [CONFIG_MAPS, "/api/v1/namespaces", "/apis"] {
        let answer = send(&server, Method::GET, path, "", Vec::new()).await.expect("an answer");
        bytes.extend_from_slice(&answer.into_body().collect().await.expect("a body").to_bytes());
    }
    bytes
}

#[tokio::test]
async fn the_same_seed_and_requests_give_the_same_bytes() {
    let first = story(7).await;
    assert_eq!(first, story(7).await);
    assert_ne!(first, story(8).await, "uids and names must come from the seed");
}
