//! What `?` accepts in a reconciler, and that the class survives the wrapping.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use windlass_informer::ClientStack;
use windlass_reconciler::{Class, Delay, Error};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{Fault, FaultRule};

/// Reads an object, and wraps the error as `anyhow` does: not at all, once, or twice.
async fn read(client: &Client, wrapped: usize) -> anyhow::Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let read = api.get("one").await;
    match wrapped {
        0 => Ok(read?),
        1 => read.context("cannot read the settings"),
        _ => read.context("cannot read the settings").context("cannot begin"),
    }
}

/// What a reconciler returns that uses `?` on that.
async fn error_of(client: &Client, wrapped: usize) -> Error {
    async fn run(client: &Client, wrapped: usize) -> Result<(), Error> {
        read(client, wrapped).await?;
        Ok(())
    }
    run(client, wrapped).await.expect_err("the server refuses")
}

#[tokio::test(start_paused = true)]
async fn error_of_the_server_keeps_its_class_and_delay_through_anyhow() {
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("embedded");
    // Which also understands the header `Retry-After`.
    let client = ClientStack::new().around(server.service(), "default");
    let cases = [
        (409, None, Class::Conflict),
        (429, Some(7), Class::Throttled),
        (403, None, Class::Forbidden),
        (500, None, Class::Transient),
        (404, None, Class::Other),
    ];
    let faults = server.faults();
    for (code, retry_after, class) in cases {
        let fault = faults.add(FaultRule::new(Fault::Fail { code, retry_after }));
        for wrapped in 0..3 {
            let error = error_of(&client, wrapped).await;
            assert_eq!(error.class(), class, "{code}, wrapped {wrapped} times: {error}");
            let delay = retry_after.map(|seconds| Delay::AtLeast(Duration::from_secs(seconds)));
            assert_eq!(error.delay(), delay, "{code}, wrapped {wrapped} times");
            let words = ["cannot read the settings", "cannot begin"];
            for word in &words[..wrapped] {
                assert!(error.to_string().contains(word), "{error}");
            }
        }
        faults.remove(fault);
    }
}

#[tokio::test(start_paused = true)]
async fn request_without_an_answer_is_transient_through_anyhow() {
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("embedded");
    let client = ClientStack::new().around(server.service(), "default");
    server.faults().add(FaultRule::new(Fault::LoseAnswer));
    for wrapped in 0..3 {
        let error = error_of(&client, wrapped).await;
        assert_eq!(error.class(), Class::Transient, "wrapped {wrapped} times: {error}");
    }
}

#[test]
fn texts_boxes_and_errors_convert() {
    fn text() -> Result<(), Error> {
        Err("no settings")?
    }
    fn boxed() -> Result<(), Error> {
        Err(Box::<dyn std::error::Error + Send + Sync>::from("no settings".to_owned()))?
    }
    fn own() -> Result<(), Error> {
        Err(Error::msg("no settings").terminal())?
    }
    for error in [text(), boxed()].map(|result| result.expect_err("an error")) {
        assert_eq!((error.class(), error.to_string()), (Class::Other, "no settings".to_owned()));
    }
    assert_eq!(own().expect_err("an error").class(), Class::Terminal);
    let parsed = || -> Result<u8, Error> { Ok("many".parse::<u8>()?) };
    assert_eq!(parsed().expect_err("not a number").class(), Class::Other);
}
