//! The API server, as a process of the simulation: it handles one request at a time, and each open
//! watch is a task that takes lines from it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, Response, StatusCode, response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use tokio::task::AbortHandle;
use tower::Service as _;
use windlass_apiserver::{ApiServer, WallClock};

use crate::process::{Gate, Process, Time};

/// The wall-clock time at which every simulation begins.
pub(crate) const BEGINNING: &str = "2030-01-01T00:00:00Z";

/// What the server sends.
#[derive(Debug)]
pub(crate) enum Served {
    /// An answer; a watch has its head alone.
    Answer { id: u64, head: response::Parts, body: Option<Bytes> },
    /// Lines of a watch.
    Line { id: u64, line: Bytes },
    /// A watch has ended.
    End { id: u64 },
}

impl Served {
    fn id(&self) -> u64 {
        match self {
            Self::Answer { id, .. } | Self::Line { id, .. } | Self::End { id } => *id,
        }
    }
}

/// The API server.
pub(crate) struct Server {
    process: Process,
    api: ApiServer,
    sent: Arc<Outbox>,
    watches: BTreeMap<u64, AbortHandle>,
}

struct Outbox {
    gate: Arc<Gate>,
    sent: Mutex<Vec<Served>>,
}

impl Outbox {
    fn push(&self, served: Served) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(served);
        self.gate.note_sent();
    }
}

impl Server {
    pub(crate) fn start(seed: u64) -> Self {
        let process = Process::start(0);
        let api = {
            let _entered = process.runtime().enter();
            let moment: Timestamp = BEGINNING.parse().expect("the beginning must be a time");
            ApiServer::builder().seed(seed).clock(WallClock::following_tokio(moment)).build()
        };
        let sent = Arc::new(Outbox { gate: Arc::clone(process.gate()), sent: Mutex::default() });
        Self { process, api, sent, watches: BTreeMap::new() }
    }

    pub(crate) fn api(&self) -> &ApiServer {
        &self.api
    }

    pub(crate) fn now(&self) -> Time {
        self.process.now()
    }

    /// Runs the server until this time, or until it sends something, and returns that: in the order
    /// of the requests, whichever watch was woken first.
    pub(crate) fn run(&mut self, until: Time) -> Vec<Served> {
        self.process.run(until);
        let mut sent =
            std::mem::take(&mut *self.sent.sent.lock().unwrap_or_else(PoisonError::into_inner));
        sent.sort_by_key(Served::id);
        for served in &sent {
            if let Served::End { id } = served {
                self.watches.remove(id);
            }
        }
        sent
    }

    /// Handles a request when the server runs next.
    pub(crate) fn handle(&mut self, id: u64, request: Request<Bytes>, watches: bool) {
        let answer = self.api.service().call(request.map(Full::new));
        let out = Arc::clone(&self.sent);
        let task = self.process.runtime().spawn(async move {
            // It breaks no connection: the simulation has given it no faults.
            let Ok(response) = answer.await else { return };
            let (head, mut body) = response.into_parts();
            if !watches || !head.status.is_success() {
                let body = body.collect().await.map(http_body_util::Collected::to_bytes);
                out.push(Served::Answer { id, head, body: Some(body.unwrap_or_default()) });
                return;
            }
            out.push(Served::Answer { id, head, body: None });
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(line) = frame.into_data() {
                    out.push(Served::Line { id, line });
                }
            }
            out.push(Served::End { id });
        });
        if watches {
            self.watches.insert(id, task.abort_handle());
        }
    }

    /// Closes a watch: nobody reads it any more.
    pub(crate) fn close(&mut self, id: u64) {
        if let Some(task) = self.watches.remove(&id) {
            task.abort();
        }
    }

    /// Answers a request at once: for people, other programs, and checks.
    ///
    /// # Panics
    /// If the answer needs a webhook of a simulated process.
    pub(crate) fn ask(&self, request: Request<Bytes>) -> Response<Bytes> {
        let answer = self.api.service().call(request.map(Full::new));
        let asked = self.process.runtime().spawn(answer);
        // What it sends on watches meanwhile waits until the server runs next.
        self.process.run(self.process.now());
        let answer = asked.now_or_never().expect("the server must answer without waiting");
        let answer = answer.expect("the server must not panic");
        let response = answer.expect("the server must not break connections");
        let (head, body) = response.into_parts();
        let body = body.collect().now_or_never().expect("the answer must be there");
        Response::from_parts(
            head,
            body.map(http_body_util::Collected::to_bytes).unwrap_or_default(),
        )
    }

    /// As [`ask`](Self::ask), with a JSON body. An error has the code and the message.
    pub(crate) fn ask_json(
        &self,
        method: http::Method,
        uri: &str,
        content_type: &str,
        body: &serde_json::Value,
    ) -> Result<serde_json::Value, Refused> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body)
            .expect("a request must be valid");
        let answer = self.ask(request);
        let value: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        if answer.status().is_success() {
            return Ok(value);
        }
        let message = value["message"].as_str().unwrap_or("without a message").to_owned();
        Err(Refused { code: answer.status(), message })
    }
}

/// The server has refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status code.
    pub code: StatusCode,
    /// Why.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_u16(), self.message)
    }
}

impl std::error::Error for Refused {}
