//! A source in front of a server that can be shut, and that remembers what was asked: watches are
//! cut on any cluster, and lists are streamed or not as a test wants it.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::io;
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, stream};
use tokio::sync::watch;
use windlass_informer::source::{Answer, Body, KubeListWatch, ListWatch, Request};
use windlass_informer::{SourceError, Status};

/// A server behind a gate. Clones share the gate.
#[derive(Clone, Debug)]
pub(crate) struct Gated {
    server: KubeListWatch,
    streams_lists: bool,
    is_shut: watch::Sender<bool>,
    holds_watches: watch::Sender<bool>,
    requests: Arc<Mutex<Vec<Request>>>,
    lists_read: watch::Sender<usize>,
}

impl Gated {
    pub(crate) fn new(server: KubeListWatch) -> Self {
        Self {
            server,
            streams_lists: true,
            is_shut: watch::Sender::new(false),
            holds_watches: watch::Sender::new(false),
            requests: Arc::default(),
            lists_read: watch::Sender::default(),
        }
    }

    /// A server that is too old to stream lists.
    pub(crate) fn without_streamed_lists(self) -> Self {
        Self { streams_lists: false, ..self }
    }

    /// Cuts everything that is under way, and lets nothing through.
    pub(crate) fn shut(&self) {
        self.is_shut.send_replace(true);
    }

    pub(crate) fn open(&self) {
        self.is_shut.send_replace(false);
    }

    /// Holds back what watches deliver, or lets it go. Lists go through.
    pub(crate) fn hold_watches(&self, holds: bool) {
        self.holds_watches.send_replace(holds);
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Waits until one more list, or a page of one, was read to its end, and returns how many were.
    pub(crate) async fn wait_for_list(&self, before: usize) -> usize {
        let mut read = self.lists_read.subscribe();
        *read.wait_for(|read| *read > before).await.expect("the sender lives")
    }

    async fn ask(&self, request: &Request) -> Result<Body, SourceError> {
        self.requests.lock().expect("no panic").push(request.clone());
        let is_stream = matches!(request, Request::Watch(watch) if watch.wants_initial_events());
        if is_stream && !self.streams_lists {
            return Err(too_old());
        }
        let mut is_shut = self.is_shut.subscribe();
        if *is_shut.borrow_and_update() {
            return Err(cut());
        }
        let body = self.server.request(request).await?;
        let body = match request {
            Request::Watch(_) => held(body, self.holds_watches.subscribe()),
            Request::List(_) => counted(body, self.lists_read.clone()),
        };
        Ok(until_shut(body, is_shut))
    }
}

/// A body whose chunks wait while watches are held back.
fn held(body: Body, holds: watch::Receiver<bool>) -> Body {
    Box::pin(stream::unfold((body, holds), |(mut body, mut holds)| async {
        let chunk = body.next().await?;
        holds.wait_for(|holds| !holds).await.ok()?;
        Some((chunk, (body, holds)))
    }))
}

/// A body that is counted when its reader drops it.
fn counted(body: Body, read: watch::Sender<usize>) -> Body {
    Box::pin(stream::unfold((body, CountOnDrop(read)), |(mut body, count)| async {
        let chunk = body.next().await?;
        Some((chunk, (body, count)))
    }))
}

struct CountOnDrop(watch::Sender<usize>);

impl Drop for CountOnDrop {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// A body that is cut when the gate is shut.
fn until_shut(body: Body, is_shut: watch::Receiver<bool>) -> Body {
    Box::pin(stream::unfold(Some((body, is_shut)), |state| async {
        let (mut body, mut is_shut) = state?;
        let chunk = tokio::select! {
            biased;
            _ = is_shut.wait_for(|is_shut| *is_shut) => return Some((Err(cut()), None)),
            chunk = body.next() => chunk?,
        };
        Some((chunk, Some((body, is_shut))))
    }))
}

impl ListWatch for Gated {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        Box::pin(self.ask(request))
    }
}

fn cut() -> SourceError {
    SourceError::transport(&io::Error::from(io::ErrorKind::ConnectionReset))
}

fn too_old() -> SourceError {
    let mut status = Status::default();
    status.code = 422;
    status.reason = "Invalid".into();
    status.message = "resourceVersionMatch is forbidden for watch".into();
    status.into()
}
