//! An open watch: its events are written into the transcript one at a time, as the case takes them.
//!
//! The times of bookmarks vary, so they are skipped unless they are requested, or mark the end of
//! the initial events.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::protobuf;
use crate::transcript::Transcript;

/// A watch that the server answered. Dropping it closes it.
pub(crate) struct Watching {
    number: usize,
    transcript: Rc<RefCell<Transcript>>,
    state: State,
    patience: Duration,
    /// Whether events are protobuf with a length prefix instead of lines of JSON.
    framed: bool,
    /// The received bytes that are not a whole event yet.
    buffer: Vec<u8>,
}

enum State {
    Open(Body),
    /// The server closed it, or nothing arrived in time: reading further is pointless.
    Over,
}

/// The result of reading.
enum Input {
    Event(Value),
    /// A text for the end, or for a timeout.
    Nothing(&'static str),
}

impl Watching {
    /// Returns a watch on a streaming body, or a closed one if the request was refused.
    pub(crate) fn new(
        number: usize,
        transcript: Rc<RefCell<Transcript>>,
        body: Option<Body>,
        framed: bool,
        patience: Duration,
    ) -> Self {
        let state = body.map_or(State::Over, State::Open);
        Self { number, transcript, state, patience, framed, buffer: Vec::new() }
    }

    /// Takes and records the next event other than an ordinary bookmark; returns its object.
    pub(crate) async fn next(&mut self) -> Value {
        self.take(|event| event["type"] != "BOOKMARK" || ends_initial_events(event)).await
    }

    /// Takes and records this many events.
    pub(crate) async fn next_many(&mut self, count: usize) {
        for _ in 0..count {
            self.next().await;
        }
    }

    /// Takes and records the next bookmark, skipping everything else.
    pub(crate) async fn next_bookmark(&mut self) -> Value {
        self.take(|event| event["type"] == "BOOKMARK").await
    }

    /// Records the remaining events, up to the end of the stream.
    pub(crate) async fn end(&mut self) {
        while !matches!(self.state, State::Over) {
            self.next().await;
        }
    }

    async fn take(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.read().await {
                Input::Event(event) if wanted(&event) => {
                    self.transcript.borrow_mut().watched(self.number, &event);
                    return event["object"].clone();
                }
                Input::Event(_) => {}
                Input::Nothing(words) => {
                    self.transcript.borrow_mut().watched(self.number, &json!(words));
                    return Value::Null;
                }
            }
        }
    }

    /// Takes an event that has arrived.
    fn buffered(&mut self) -> Option<Value> {
        if self.framed {
            let (event, length) = protobuf::event(&self.buffer)?;
            self.buffer.drain(..length);
            return Some(event);
        }
        let end = self.buffer.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        Some(
            serde_json::from_slice(&line).unwrap_or_else(
                |_| json!({"not JSON": String::from_utf8_lossy(&line).into_owned()}),
            ),
        )
    }

    async fn read(&mut self) -> Input {
        loop {
            if let Some(event) = self.buffered() {
                return Input::Event(event);
            }
            let State::Open(body) = &mut self.state else {
                return Input::Nothing("the watch is over");
            };
            let words = match tokio::time::timeout(self.patience, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    self.buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                    continue;
                }
                Ok(Some(Err(_))) => "the stream broke",
                Ok(None) if self.buffer.is_empty() => "the stream ended",
                Ok(None) => "the stream ended inside a line",
                Err(_) => "nothing came",
            };
            self.state = State::Over;
            return Input::Nothing(words);
        }
    }
}

fn ends_initial_events(event: &Value) -> bool {
    let object = &event["object"];
    // In a table, the object is in its row.
    let objects = [object, &object["rows"][0]["object"]];
    let mut annotations = objects.iter().map(|object| &object["metadata"]["annotations"]);
    annotations.any(|annotations| !annotations["k8s.io/initial-events-end"].is_null())
}
