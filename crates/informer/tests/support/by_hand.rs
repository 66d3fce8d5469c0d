//! A server made by hand: a test gets every request of an informer, and says what comes of it.

use std::pin::Pin;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::{mpsc, oneshot};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use windlass_informer::source::{Answer, Body, ListWatch, Request};
use windlass_informer::{InformerOptions, Resource, SharedInformer, SourceError, Status};

use super::Running;

/// The informer's end.
pub(crate) struct Source {
    asked: mpsc::UnboundedSender<Asked>,
}

/// The server's end.
pub(crate) struct Server {
    asked: mpsc::UnboundedReceiver<Asked>,
}

/// A request that waits for its answer.
pub(crate) struct Asked {
    pub(crate) request: Request,
    answer: oneshot::Sender<Result<Body, SourceError>>,
}

/// A body that is under way. Dropped, it ends well.
pub(crate) struct Wire {
    chunks: mpsc::UnboundedSender<Result<Bytes, SourceError>>,
}

/// A source, and the server behind it.
pub(crate) fn source() -> (Source, Server) {
    let (sender, receiver) = mpsc::unbounded();
    (Source { asked: sender }, Server { asked: receiver })
}

/// An informer of config maps on such a source, not running.
pub(crate) fn informer(options: InformerOptions) -> (SharedInformer<ConfigMap>, Server) {
    let (source, server) = source();
    let resource = Resource::of::<ConfigMap>();
    let informer = SharedInformer::with_source(source, resource, options.seed(1));
    (informer.expect("an informer"), server)
}

/// An informer of config maps on such a source that runs.
pub(crate) fn running(options: InformerOptions) -> (Running, Server) {
    let (informer, server) = informer(options);
    (Running::start(informer), server)
}

impl ListWatch for Source {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        let (answer, answered) = oneshot::channel();
        let asked = Asked { request: request.clone(), answer };
        let sent = self.asked.unbounded_send(asked);
        Box::pin(async move {
            match sent {
                Ok(()) => answered.await.unwrap_or_else(|_| Err(broken())),
                // The test is over.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

impl Server {
    /// The next request.
    pub(crate) async fn asked(&mut self) -> Asked {
        self.asked.next().await.expect("the informer is there")
    }

    /// The next request, if it was sent already.
    pub(crate) fn asked_already(&mut self) -> Option<Asked> {
        self.asked.try_recv().ok()
    }

    /// Answers the next request, which must be for a list that is streamed, with these objects and
    /// the version.
    pub(crate) async fn lists(&mut self, objects: &[Value], version: &str) -> Wire {
        let wire = self.asked().await.streams();
        for object in objects {
            wire.event("ADDED", object);
        }
        wire.ends_list(version);
        wire
    }
}

impl Asked {
    /// The version that a watch is to begin at; `None` for one that begins with a list.
    pub(crate) fn from(&self) -> Option<&str> {
        match &self.request {
            Request::Watch(watch) => watch.from.as_deref(),
            Request::List(_) => panic!("{:?} is no watch", self.request),
        }
    }

    /// Sends a body, piece by piece.
    pub(crate) fn opens(self) -> Wire {
        let (sender, receiver) = mpsc::unbounded();
        self.answers(Ok(Box::pin(receiver)));
        Wire { chunks: sender }
    }

    /// As [`opens`](Self::opens), of a streamed list.
    pub(crate) fn streams(self) -> Wire {
        assert_eq!(self.from(), None, "a list was to be asked for");
        self.opens()
    }

    /// As [`opens`](Self::opens), of a watch that goes on from this version.
    pub(crate) fn resumes(self, version: &str) -> Wire {
        assert_eq!(self.from(), Some(version));
        self.opens()
    }

    /// Sends a whole list, which must be asked for.
    pub(crate) fn sends_list(self, items: &[Value], version: &str) {
        assert!(matches!(self.request, Request::List(_)), "{:?}", self.request);
        let list = json!({
            "kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": {"resourceVersion": version}, "items": items,
        });
        self.opens().sends(&list.to_string());
    }

    pub(crate) fn fails(self, error: SourceError) {
        self.answers(Err(error));
    }

    pub(crate) fn answers(self, answer: Result<Body, SourceError>) {
        assert!(self.answer.send(answer).is_ok(), "the informer has given it up");
    }

    /// Answers nothing, and waits until the informer has given it up.
    pub(crate) async fn stays_unanswered(mut self) {
        self.answer.cancellation().await;
    }
}

impl Wire {
    pub(crate) fn sends(&self, text: &str) {
        let sent = self.chunks.unbounded_send(Ok(Bytes::from(text.to_owned())));
        assert!(sent.is_ok(), "the informer reads no more");
    }

    pub(crate) fn event(&self, change: &str, object: &Value) {
        self.sends(&format!("{}\n", json!({"type": change, "object": object})));
    }

    pub(crate) fn bookmark(&self, version: &str) {
        self.event("BOOKMARK", &json!({"metadata": {"resourceVersion": version}}));
    }

    /// All that was there has been sent.
    pub(crate) fn ends_list(&self, version: &str) {
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        self.event("BOOKMARK", &json!({"metadata": metadata}));
    }

    /// The connection breaks.
    pub(crate) fn breaks(self) {
        let _ = self.chunks.unbounded_send(Err(broken()));
    }

    /// Whether the informer reads no more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.chunks.is_closed()
    }
}

/// A config map of this version; the version is its value, and its uid is made of its name.
pub(crate) fn object(name: &str, version: &str) -> Value {
    object_of(&format!("uid-{name}"), name, version)
}

/// As [`object`], with a uid.
pub(crate) fn object_of(uid: &str, name: &str, version: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "resourceVersion": version,
        },
        "data": {"value": version},
    })
}

pub(crate) fn broken() -> SourceError {
    SourceError::transport(&std::io::Error::from(std::io::ErrorKind::ConnectionReset))
}

/// What a server says with a code.
pub(crate) fn refusal(code: u16, reason: &str) -> SourceError {
    let mut status = Status::default();
    status.code = code;
    reason.clone_into(&mut status.reason);
    status.into()
}

/// A body that is there at once, and then ends.
pub(crate) fn body(chunks: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>) -> Body {
    let stream = futures::stream::iter(chunks.into_iter().map(Ok));
    Pin::from(Box::new(stream))
}
