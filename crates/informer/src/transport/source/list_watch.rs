//! The trait of a source, and the requests of an informer.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;

use super::error::SourceError;

/// Answers lists and watches of one resource, in one scope, with the same selectors every time.
pub trait ListWatch: Send + Sync + 'static {
    /// Sends a request. The future ends when the server has agreed to send a body. The error is
    /// what went wrong before that.
    ///
    /// Dropping the future or the body ends the request.
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a>;
}

/// A request under way.
pub type Answer<'a> = BoxFuture<'a, Result<Body, SourceError>>;

/// A body as it arrives: a list, or the events of a watch, as JSON. It ends where the server ends
/// it.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, SourceError>> + Send>>;

/// A request of an informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Objects as they are.
    List(ListRequest),
    /// Changes from some version on, or from nothing on.
    Watch(WatchRequest),
}

/// A list, or a page of one. It is always consistent: it names no version, which asks for the
/// latest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// The largest number of objects; `None` for all.
    pub limit: Option<u32>,
    /// Where the page before has ended.
    pub continue_token: Option<String>,
}

/// A watch, with bookmarks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// The version to begin at; `None` for a watch that first sends all objects.
    pub from: Option<String>,
    /// After what time the server is to end it.
    pub timeout: Duration,
}

impl WatchRequest {
    /// Whether the server is to send all objects first, and then a bookmark that says that they are
    /// complete.
    pub fn wants_initial_events(&self) -> bool {
        self.from.is_none()
    }
}
