//! What the tests of requests share: clients of both clusters, servers made by hand, and bodies
//! read to their objects.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::client::Body;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use windlass_informer::client::ResponseBody;
use windlass_informer::source::{ListRequest, ListWatch, WatchRequest};
use windlass_informer::{ClientStack, SourceError};
use windlass_testserver::TestServer;

/// A client of a cluster, with a stack around it.
pub(crate) fn client_of(cluster: &TestServer, stack: ClientStack) -> kube::Client {
    match (cluster.server(), cluster.control_plane()) {
        (Some(server), _) => stack.around(server.service(), "default"),
        (None, Some(real)) => stack.connect(real.config()).expect("a client"),
        (None, None) => unreachable!("a cluster is one or the other"),
    }
}

/// A client of a server that answers every request with what `answer` makes of it.
pub(crate) fn client_of_fn<F, A>(stack: ClientStack, answer: F) -> kube::Client
where
    F: FnMut(Request<Body>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Response<ResponseBody>, Infallible>> + Send + 'static,
{
    stack.around(tower::service_fn(answer), "default")
}

/// A client of a server that has one answer, and the requests that came.
pub(crate) fn client_with_answer(
    make: impl Fn() -> Response<ResponseBody> + Send + Sync + 'static,
) -> (kube::Client, Arc<Mutex<Vec<Request<()>>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = seen.clone();
    let make = Arc::new(make);
    let client = client_of_fn(ClientStack::new(), move |request| {
        requests.lock().expect("no panic").push(request.map(drop));
        let response = make();
        async move { Ok(response) }
    });
    (client, seen)
}

/// A body that is there at once.
pub(crate) fn whole(body: impl Into<Bytes>) -> ResponseBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that begins, and then neither goes on nor ends.
pub(crate) fn stalled(start: impl Into<Bytes>) -> ResponseBody {
    let frame = Ok(http_body::Frame::data(start.into()));
    let stream = futures::stream::iter([frame]).chain(futures::stream::pending());
    StreamBody::new(stream).boxed_unsync()
}

/// Creates an object.
pub(crate) async fn create(client: &kube::Client, path: &str, object: &Value) -> Value {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .expect("a request");
    client.request(request).await.expect("it is created")
}

/// Creates a config map with one label and one value.
pub(crate) async fn create_config(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    team: &str,
) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"team": team}},
        "data": {"payload": "some data"},
    });
    create(client, &format!("/api/v1/namespaces/{namespace}/configmaps"), &object).await
}

/// The items and the metadata of a list.
pub(crate) async fn list(
    source: &impl ListWatch,
    request: ListRequest,
) -> Result<(Vec<Value>, ListMeta), SourceError> {
    let mut body = source.request(&windlass_informer::source::Request::List(request)).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    let list: kube::core::ObjectList<Value> = serde_json::from_slice(&bytes).expect("a list");
    Ok((list.items, list.metadata))
}

/// A watch that is read event by event.
pub(crate) struct Watch {
    body: windlass_informer::source::Body,
    /// What has arrived and was not read.
    rest: Vec<u8>,
}

impl Watch {
    pub(crate) async fn start(
        source: &impl ListWatch,
        request: WatchRequest,
    ) -> Result<Self, SourceError> {
        let body = source.request(&windlass_informer::source::Request::Watch(request)).await?;
        Ok(Self { body, rest: Vec::new() })
    }

    /// The next event, or nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<WatchEvent<Value>>, SourceError> {
        loop {
            let mut events = serde_json::Deserializer::from_slice(&self.rest).into_iter();
            if let Some(Ok(event)) = events.next() {
                let read = events.byte_offset();
                self.rest.drain(..read);
                return Ok(Some(event));
            }
            match self.body.next().await {
                Some(chunk) => self.rest.extend_from_slice(&chunk?),
                None => return Ok(None),
            }
        }
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
