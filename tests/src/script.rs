//! The vocabulary of a case.
//!
//! A case is `async fn name(t: &mut Script)`: it sends requests, opens watches and waits.
//! Everything that it does is written into its transcript. It asserts nothing; the comparison of
//! the transcript with the recording of the real server is the assertion.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};

use crate::answer::{Answer, is_protobuf};
use crate::fixtures;
use crate::request::Request;
use crate::target::{Target, Who};
use crate::transcript::{Shown, Transcript};
use crate::watching::Watching;

/// The polling interval of conditions.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// The number of concurrent requests that overload the server. If a real server rejects so few, it
/// does not increase `Retry-After`.
const CROWD: usize = 8;

/// A JSON patch.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";

/// A JSON merge patch.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// A strategic merge patch, which only built-in kinds support.
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// Server-side apply; the body may be JSON.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A running case: its server, its namespace, and its steps so far.
pub struct Script {
    target: Target,
    clients: Vec<(Who, Client)>,
    namespace: String,
    transcript: Rc<RefCell<Transcript>>,
    watches: usize,
}

impl Script {
    /// Starts a script in a namespace with the name of the case, so that it is the same on every
    /// server.
    pub(crate) async fn start(target: Target, case: &str) -> Self {
        let namespace = case.replace('_', "-");
        let mut script =
            Self { target, clients: Vec::new(), namespace, transcript: Rc::default(), watches: 0 };
        let request = Request::post("/api/v1/namespaces", fixtures::namespace(script.ns()));
        let answer = script.exchange(&request).await;
        assert_eq!(answer.status, 201, "the namespace of the case must be new: {}", answer.body);
        script
    }

    /// Ends the script and returns its steps.
    pub(crate) fn into_steps(self) -> Vec<Value> {
        self.transcript.take().into_steps()
    }

    /// The namespace of this case.
    pub(crate) fn ns(&self) -> &str {
        &self.namespace
    }

    /// Sends a request and records it with its answer.
    pub(crate) async fn send(&mut self, request: Request) -> Answer {
        self.send_showing(request, Shown::Whole).await
    }

    /// Sends a request, and records only these JSON pointers of the answer's body.
    pub(crate) async fn pick(&mut self, request: Request, pointers: &[&str]) -> Answer {
        self.send_showing(request, Shown::Parts(pointers)).await
    }

    /// Sends a request that is refused, and records the reason, but not the message, which is Go's.
    pub(crate) async fn refused(&mut self, request: Request) -> Answer {
        self.pick(request, &["/reason", "/code"]).await
    }

    /// Sends a request, and records no part of the answer's body; a [`note`](Self::note) can
    /// follow.
    pub(crate) async fn look(&mut self, request: Request) -> Answer {
        self.send_showing(request, Shown::Nothing).await
    }

    /// GET.
    pub(crate) async fn get(&mut self, path: impl Into<String>) -> Answer {
        self.send(Request::get(path)).await
    }

    /// POST.
    pub(crate) async fn post(&mut self, path: impl Into<String>, object: Value) -> Answer {
        self.send(Request::post(path, object)).await
    }

    /// PUT.
    pub(crate) async fn put(&mut self, path: impl Into<String>, object: Value) -> Answer {
        self.send(Request::new(Method::PUT, path).json(object)).await
    }

    /// PATCH with a merge patch.
    pub(crate) async fn merge_patch(&mut self, path: impl Into<String>, change: Value) -> Answer {
        self.send(Request::patch(path, MERGE_PATCH, change)).await
    }

    /// PATCH with a JSON patch.
    pub(crate) async fn json_patch(&mut self, path: impl Into<String>, change: Value) -> Answer {
        self.send(Request::patch(path, JSON_PATCH, change)).await
    }

    /// Server-side apply of `config` by `manager`; `path` may have a query.
    pub(crate) async fn apply(
        &mut self,
        path: impl Into<String>,
        manager: &str,
        config: Value,
    ) -> Answer {
        self.send(Self::applying(path, manager, config)).await
    }

    /// Like `apply`, with `force`.
    pub(crate) async fn apply_by_force(
        &mut self,
        path: impl Into<String>,
        manager: &str,
        config: Value,
    ) -> Answer {
        let path = format!("{}?force=true", path.into());
        self.send(Self::applying(path, manager, config)).await
    }

    /// The request of a server-side apply.
    pub(crate) fn applying(path: impl Into<String>, manager: &str, config: Value) -> Request {
        let path = path.into();
        let joint = if path.contains('?') { '&' } else { '?' };
        Request::patch(format!("{path}{joint}fieldManager={manager}"), APPLY, config)
    }

    /// Records the managers of the object at `path`, sorted by operation and name: the order of
    /// times depends on the speed of a server.
    pub(crate) async fn managers(&mut self, path: impl Into<String>) {
        let answer = self.exchange(&Request::get(path)).await;
        let mut entries = answer.at("/metadata/managedFields");
        if let Some(entries) = entries.as_array_mut() {
            let key = |entry: &Value| {
                ["operation", "manager", "subresource", "apiVersion"]
                    .map(|field| entry[field].as_str().unwrap_or_default().to_owned())
            };
            entries.sort_by_key(key);
        }
        self.note("managers", &entries);
    }

    /// DELETE without options.
    pub(crate) async fn delete(&mut self, path: impl Into<String>) -> Answer {
        self.send(Request::delete(path)).await
    }

    /// DELETE with options in the body.
    pub(crate) async fn delete_with(&mut self, path: impl Into<String>, options: Value) -> Answer {
        self.send(Request::delete(path).json(options)).await
    }

    /// Creates an object that is only a precondition: the transcript has one line for it.
    pub(crate) async fn given(&mut self, path: impl Into<String>, object: Value) -> Answer {
        let request = Request::post(path, object);
        let answer = self.exchange(&request).await;
        self.transcript.borrow_mut().given(&request, &answer);
        answer
    }

    /// Records a value that the case computed.
    pub(crate) fn note(&mut self, label: &str, value: &Value) {
        self.transcript.borrow_mut().note(label, value);
    }

    /// Opens a watch on `path`, which must contain `watch=1`.
    pub(crate) async fn watch(&mut self, path: impl Into<String>) -> Watching {
        self.watch_with(Request::get(path)).await
    }

    /// Opens a watch with a custom request.
    pub(crate) async fn watch_with(&mut self, request: Request) -> Watching {
        self.watches += 1;
        let response = self.client(request.who).send(request.http()).await;
        let (parts, body) = response.expect("the server must answer a watch").into_parts();
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        let (answer, body) = if parts.status.is_success() {
            (Answer::new(status, headers, &[]), Some(body))
        } else {
            let bytes = body.collect().await.expect("the answer must be complete").to_bytes();
            (Answer::new(status, headers, &bytes), None)
        };
        self.transcript.borrow_mut().watch_opened(self.watches, &request, &answer);
        let patience = self.target.patience();
        let framed = is_protobuf(&answer.headers);
        Watching::new(self.watches, Rc::clone(&self.transcript), body, framed, patience)
    }

    /// Repeats a request, mostly just a path to read, until `condition` is true for the answer.
    /// Records only the last answer.
    pub(crate) async fn wait_until(
        &mut self,
        request: impl Into<Request>,
        condition: &str,
        holds: impl Fn(&Answer) -> bool,
    ) -> Answer {
        self.wait_showing(request.into(), condition, holds, Shown::Whole).await
    }

    /// Like [`wait_until`](Self::wait_until), but records only the values at these JSON pointers.
    pub(crate) async fn wait_picking(
        &mut self,
        request: impl Into<Request>,
        condition: &str,
        holds: impl Fn(&Answer) -> bool,
        pointers: &[&str],
    ) -> Answer {
        self.wait_showing(request.into(), condition, holds, Shown::Parts(pointers)).await
    }

    /// Sends a request several times concurrently, repeatedly, until `condition` is true for one of
    /// the answers. Records only that answer.
    pub(crate) async fn crowd_until(
        &mut self,
        request: Request,
        condition: &str,
        holds: impl Fn(&Answer) -> bool,
    ) -> Answer {
        let client = self.client(request.who);
        let deadline = tokio::time::Instant::now() + self.target.patience();
        let (answer, fulfilled) = loop {
            let crowd = (0..CROWD).map(|_| exchange(&client, &request));
            let mut answers = futures::future::join_all(crowd).await;
            let place = answers.iter().position(&holds);
            if place.is_some() || tokio::time::Instant::now() > deadline {
                break (answers.swap_remove(place.unwrap_or_default()), place.is_some());
            }
            tokio::time::sleep(POLL_PERIOD).await;
        };
        let mut transcript = self.transcript.borrow_mut();
        transcript.waited(&request, condition, &answer, Shown::Whole, fulfilled);
        answer
    }

    /// Waits until nothing exists at `path`.
    pub(crate) async fn wait_gone(&mut self, path: impl Into<Request>) {
        self.wait_until(path, "gone", |answer| answer.status == 404).await;
    }

    /// Makes sure that this definition is installed and that `paths` are served. Not recorded.
    pub(crate) async fn install(&mut self, definition: Value, paths: &[&str]) {
        let answer = self.exchange(&Request::post(fixtures::CRDS, definition)).await;
        let installed = matches!(answer.status, 201 | 409);
        assert!(installed, "the definition must be accepted: {}", answer.body);
        for path in paths {
            let (answer, served) = self.poll(&Request::get(*path), Answer::is_success).await;
            assert!(served, "{path} must be served after a while: {}", answer.body);
        }
    }

    /// Sends a request without recording it.
    pub(crate) async fn unrecorded(&mut self, request: &Request) -> Answer {
        self.exchange(request).await
    }

    /// From here on, no other case runs on this server. Must be called first, by cases that
    /// compact.
    pub(crate) async fn alone(&mut self) {
        self.target.alone().await;
    }

    /// From here on, the server is overloaded for bob's gets of config maps in this namespace. A
    /// real server may need a moment to apply it.
    pub(crate) async fn overload_for_bob(&mut self) {
        self.target.overload_for_bob(&self.namespace).await;
    }

    /// Compacts the server's history up to now.
    pub(crate) async fn compact(&mut self) {
        self.target.compact().await;
        self.note("compacted", &json!("everything up to now"));
    }

    async fn send_showing(&mut self, request: Request, shown: Shown<'_>) -> Answer {
        let answer = self.exchange(&request).await;
        self.transcript.borrow_mut().exchange(&request, &answer, shown);
        answer
    }

    async fn wait_showing(
        &mut self,
        request: Request,
        condition: &str,
        holds: impl Fn(&Answer) -> bool,
        shown: Shown<'_>,
    ) -> Answer {
        let (answer, fulfilled) = self.poll(&request, holds).await;
        self.transcript.borrow_mut().waited(&request, condition, &answer, shown, fulfilled);
        answer
    }

    /// Repeats a request until the condition is true or the time is up. Returns the last answer,
    /// and whether the condition is true.
    pub(crate) async fn poll(
        &mut self,
        request: &Request,
        holds: impl Fn(&Answer) -> bool,
    ) -> (Answer, bool) {
        let deadline = tokio::time::Instant::now() + self.target.patience();
        loop {
            let answer = self.exchange(request).await;
            let fulfilled = holds(&answer);
            if fulfilled || tokio::time::Instant::now() > deadline {
                return (answer, fulfilled);
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
    }

    async fn exchange(&mut self, request: &Request) -> Answer {
        exchange(&self.client(request.who), request).await
    }

    fn client(&mut self, who: Who) -> Client {
        if let Some((_, client)) = self.clients.iter().find(|(known, _)| *known == who) {
            return client.clone();
        }
        let client = self.target.client(who);
        self.clients.push((who, client.clone()));
        client
    }
}

/// Sends a request, and returns the whole answer.
pub(crate) async fn exchange(client: &Client, request: &Request) -> Answer {
    let response = client.send(request.http()).await;
    let (parts, body) = response.expect("the server must answer").into_parts();
    let bytes = body.collect().await.expect("the answer must be complete").to_bytes();
    Answer::new(parts.status.as_u16(), parts.headers, &bytes)
}
