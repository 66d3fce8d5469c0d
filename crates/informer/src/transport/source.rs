//! Where objects come from: the interface between an informer and a server.
//!
//! A source answers two requests, a list and a watch, each with a body that arrives in pieces. It
//! does not know how an informer uses them: the reflector decides what to ask for, the feed reads
//! the body. Tests and other sources implement [`ListWatch`] themselves.

mod error;
mod kube;
mod list_watch;
mod selection;
mod send;

pub use self::kube::KubeListWatch;
pub use error::SourceError;
pub use list_watch::{Answer, Body, ListRequest, ListWatch, Request, WatchRequest};
pub use selection::SelectionError;
pub(crate) use send::send;
