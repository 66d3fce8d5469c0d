//! Where objects come from: the seam between an informer and a server.
//!
//! A source answers two requests, a list and a watch, each with a body that arrives in pieces. It knows nothing
//! of what an informer makes of them: the reflector decides what to ask for, the feed reads the body.
//! Tests and other sources implement [`ListWatch`] themselves.

mod error;
mod kube;
pub(crate) mod refusal;
mod selection;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;

pub use self::kube::KubeListWatch;
pub use error::{SourceError, TransportError};
pub use selection::SelectionError;

/// Answers lists and watches of one resource, in one scope, with the same selectors every time.
pub trait ListWatch: Send + Sync + 'static {
    /// Sends a request. The answer is there when the server has agreed to send a body; what went wrong
    /// before that is the error.
    ///
    /// Dropping the future or the body ends the request.
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a>;
}

/// A request that is under way.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Body, SourceError>> + Send + 'a>>;

/// A body as it arrives: a list, or the events of a watch, as JSON. It ends where the server ends it.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, SourceError>> + Send>>;

/// What an informer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Objects as they are.
    List(ListRequest),
    /// Changes from some version on, or from nothing on.
    Watch(WatchRequest),
}

/// A list, or a page of one. It is always consistent: no version is named, which asks for the latest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// How many objects are wanted; `None` for all.
    pub limit: Option<u32>,
    /// Where the page before has ended.
    pub continue_token: Option<String>,
}

/// A watch, with bookmarks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// Where to begin; `None` for a watch that first sends what is there.
    pub from: Option<String>,
    /// After what time the server is to end it.
    pub timeout: Duration,
}

impl WatchRequest {
    /// Whether the server is to send all objects first, and then a bookmark that says that they are complete.
    pub fn wants_initial_events(&self) -> bool {
        self.from.is_none()
    }
}
