//! A request of a case: what is sent, who sends it, and how the transcript shows it.
//!
//! The common requests are methods of [`Script`](crate::Script); this type is for unusual ones:
//! another content type, a malformed body, another user.

use http::Method;
use kube::client::Body;
use serde_json::{Value, json};

use crate::protobuf::{self, PROTOBUF};
use crate::rights::Account;
use crate::target::Who;

/// One request, before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) who: Who,
    /// The service account that sends it, instead of `who`: its user name and token.
    account: Option<(String, String)>,
    headers: Vec<(&'static str, String)>,
    payload: Payload,
}

#[derive(Clone, Debug)]
enum Payload {
    Empty,
    Json(Value),
    /// An object in protobuf: its fields as the transcript shows them, and its bytes.
    Protobuf(Value, Vec<u8>),
    /// Bytes, and the text that represents them in the transcript.
    Raw(Vec<u8>, String),
}

impl Request {
    /// A request without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            who: Who::Admin,
            account: None,
            headers: Vec::new(),
            payload: Payload::Empty,
        }
    }

    /// Reads `path`.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Creates `object` in the collection `path`.
    pub(crate) fn post(path: impl Into<String>, object: Value) -> Self {
        Self::new(Method::POST, path).json(object)
    }

    /// Deletes `path` without options.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Sends a patch of this content type.
    pub(crate) fn patch(
        path: impl Into<String>,
        content_type: &'static str,
        change: Value,
    ) -> Self {
        Self::new(Method::PATCH, path).json(change).content_type(content_type)
    }

    /// Sends this value as the body; the default content type is `application/json`.
    #[must_use]
    pub(crate) fn json(mut self, body: Value) -> Self {
        self.payload = Payload::Json(body);
        self
    }

    /// Sends this text as the body, with no content type unless one is set.
    #[must_use]
    pub(crate) fn text(mut self, body: &str) -> Self {
        self.payload = Payload::Raw(body.as_bytes().to_vec(), body.to_owned());
        self
    }

    /// Sends a body that is too large to be recorded; the transcript has `shown` instead.
    #[must_use]
    pub(crate) fn large(mut self, body: String, shown: &str) -> Self {
        self.payload = Payload::Raw(body.into_bytes(), shown.to_owned());
        self
    }

    /// Sends this object in protobuf; its fields have the names of the `.proto` file.
    #[must_use]
    pub(crate) fn protobuf(mut self, object: Value) -> Self {
        let bytes = protobuf::body(&object);
        self.payload = Payload::Protobuf(object, bytes);
        self.content_type(PROTOBUF)
    }

    /// Sends arbitrary bytes as protobuf; the transcript has `shown` instead.
    #[must_use]
    pub(crate) fn protobuf_bytes(mut self, bytes: Vec<u8>, shown: &str) -> Self {
        self.payload = Payload::Raw(bytes, shown.to_owned());
        self.content_type(PROTOBUF)
    }

    /// Sets the content type of the body.
    #[must_use]
    pub(crate) fn content_type(self, value: &'static str) -> Self {
        self.header("content-type", value)
    }

    /// Sets the `Accept` header.
    #[must_use]
    pub(crate) fn accept(self, value: &'static str) -> Self {
        self.header("accept", value)
    }

    /// Sends the request as somebody else.
    #[must_use]
    pub(crate) fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    /// Sends the request as a service account.
    #[must_use]
    pub(crate) fn by_account(mut self, account: &Account) -> Self {
        self.who = Who::Anonymous;
        self.account = Some((account.user(), account.token.clone()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Builds the HTTP request.
    pub(crate) fn http(&self) -> http::Request<Body> {
        let mut builder = http::Request::builder().method(self.method.clone()).uri(&self.path);
        let typed = self.headers.iter().any(|(name, _)| *name == "content-type");
        if matches!(self.payload, Payload::Json(_)) && !typed {
            builder = builder.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            builder = builder.header(*name, value);
        }
        if let Some((_, token)) = &self.account {
            builder = builder.header("authorization", format!("Bearer {token}"));
        }
        let body = match &self.payload {
            Payload::Empty => Vec::new(),
            Payload::Json(value) => value.to_string().into_bytes(),
            Payload::Raw(bytes, _) | Payload::Protobuf(_, bytes) => bytes.clone(),
        };
        builder.body(Body::from(body)).expect("a request of a case must be well-formed")
    }

    /// Returns the request line for the transcript, before normalisation.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns the other parts for the transcript: an unusual sender or header, and the body.
    pub(crate) fn extras(&self) -> Vec<(&'static str, Value)> {
        let mut extras = Vec::new();
        match (&self.account, self.who.shown()) {
            (Some((name, _)), _) => extras.push(("as", json!(name))),
            (None, Some(name)) => extras.push(("as", json!(name))),
            (None, None) => {}
        }
        for (name, value) in &self.headers {
            extras.push((*name, json!(value)));
        }
        match &self.payload {
            Payload::Empty => {}
            Payload::Json(value) | Payload::Protobuf(value, _) => {
                extras.push(("send", value.clone()));
            }
            Payload::Raw(_, shown) => extras.push(("send", json!(shown))),
        }
        extras
    }
}

/// A path alone is a GET.
impl From<String> for Request {
    fn from(path: String) -> Self {
        Self::get(path)
    }
}

impl From<&String> for Request {
    fn from(path: &String) -> Self {
        Self::get(path)
    }
}

impl From<&str> for Request {
    fn from(path: &str) -> Self {
        Self::get(path)
    }
}
