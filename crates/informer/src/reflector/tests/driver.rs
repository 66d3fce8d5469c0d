//! Drives a reflector as a feed does, on a clock that is a variable.

use std::time::Duration;

use tokio::time::Instant;
use windlass_indexer::ResourceVersion;

use super::super::{
    ChangeKind, DeadlineCheck, Listed, NextStep, Reaction, Reflector, ReflectorConfig,
    ServerFeatures, State,
};
use crate::decode::frames::{Bookmark, EventType, ListEnd, Status};
use crate::transport::source::{ListRequest, Request, SourceError, WatchRequest};

/// A complete list within the same epoch.
pub(crate) const COMPLETE: Listed = Listed::Complete { is_restored: false };

/// A reflector and its time.
pub(crate) struct Driver {
    pub(crate) reflector: Reflector,
    pub(crate) server: ServerFeatures,
    pub(crate) now: Instant,
}

impl Driver {
    pub(crate) fn new() -> Self {
        Self::with(ReflectorConfig::default(), ServerFeatures::default())
    }

    /// A reflector of a server that does not stream lists.
    pub(crate) fn paging() -> Self {
        Self::with(ReflectorConfig::default(), no_streaming())
    }

    pub(crate) fn with(config: ReflectorConfig, server: ServerFeatures) -> Self {
        Self::with_reflector(Reflector::new(config, server.clone(), 0), server)
    }

    pub(crate) fn with_seed(seed: u64) -> Self {
        let server = ServerFeatures::default();
        Self::with_reflector(
            Reflector::new(ReflectorConfig::default(), server.clone(), seed),
            server,
        )
    }

    fn with_reflector(reflector: Reflector, server: ServerFeatures) -> Self {
        Self { reflector, server, now: Instant::now() }
    }

    /// A reflector that has listed at this version, and watches from there.
    pub(crate) fn watching(version: &str) -> Self {
        let mut driver = Self::new();
        driver.list(version);
        driver
    }

    pub(crate) fn pass(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
    }

    pub(crate) fn next(&mut self) -> NextStep {
        self.reflector.next(self.now)
    }

    /// The next request, which must be due.
    #[track_caller]
    pub(crate) fn request(&mut self) -> Request {
        match self.next() {
            NextStep::Request(request) => request,
            NextStep::Wait(until) => panic!("it waits for {:?}", until - self.now),
        }
    }

    /// Passes the time that it waits, and returns it.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Duration {
        let NextStep::Wait(until) = self.next() else { panic!("it does not wait") };
        assert!(until > self.now, "the wait must be in the future");
        assert!(self.reflector.deadline().is_none() && !self.reflector.is_listing());
        let waited = until - self.now;
        self.now = until;
        waited
    }

    /// The next request, which must be a streamed list.
    #[track_caller]
    pub(crate) fn stream(&mut self) -> WatchRequest {
        match self.request() {
            Request::Watch(watch) if watch.wants_initial_events() => watch,
            other => panic!("not a streamed list: {other:?}"),
        }
    }

    /// The next request, which must be a watch from this version.
    #[track_caller]
    pub(crate) fn watch_from(&mut self, version: &str) -> WatchRequest {
        match self.request() {
            Request::Watch(watch) if watch.from.as_deref() == Some(version) => watch,
            other => panic!("not a watch from {version}: {other:?}"),
        }
    }

    /// The next request, which must be a page.
    #[track_caller]
    pub(crate) fn page_request(&mut self, limit: Option<u32>, token: Option<&str>) {
        let page = ListRequest { limit, continue_token: token.map(str::to_owned) };
        assert_eq!(self.request(), Request::List(page));
    }

    pub(crate) fn open(&mut self) {
        self.reflector.on_opened(self.now);
    }

    pub(crate) fn changed(&mut self, change: EventType, version: &str) -> ChangeKind {
        self.reflector.on_change(change, Some(&ResourceVersion::new(version)), self.now)
    }

    pub(crate) fn bookmark(&mut self, version: &str) -> Option<Listed> {
        self.reflector.on_bookmark(&bookmark(version, false), self.now)
    }

    /// The bookmark that ends the initial events.
    pub(crate) fn initial_events_end(&mut self, version: &str) -> Option<Listed> {
        self.reflector.on_bookmark(&bookmark(version, true), self.now)
    }

    pub(crate) fn page(&mut self, version: Option<&str>, token: Option<&str>) -> Listed {
        let listed = self.reflector.on_page_end(&list_end(version, token), self.now);
        listed.expect("a page must be under way")
    }

    /// Ends the body without an error.
    pub(crate) fn close(&mut self) -> Option<Reaction> {
        self.reflector.on_closed(self.now)
    }

    pub(crate) fn fail(&mut self, error: &SourceError) -> Reaction {
        self.reflector.on_failed(error, self.now)
    }

    pub(crate) fn time_out(&mut self) -> DeadlineCheck {
        self.reflector.check_deadline(self.now)
    }

    /// The time until the deadline.
    #[track_caller]
    pub(crate) fn patience(&self) -> Duration {
        let deadline = self.reflector.deadline().expect("a request must be under way");
        deadline.saturating_duration_since(self.now)
    }

    /// Streams a list, which continues as a watch.
    #[track_caller]
    pub(crate) fn list(&mut self, version: &str) {
        self.stream();
        self.open();
        assert_eq!(self.initial_events_end(version), Some(COMPLETE));
        assert!(self.is_watching());
    }

    pub(crate) fn is_watching(&self) -> bool {
        matches!(self.reflector.state, State::Watching(_))
    }

    pub(crate) fn position(&self) -> Option<String> {
        self.reflector.position().map(ToString::to_string)
    }

    pub(crate) fn high_water(&self) -> Option<String> {
        self.reflector.versions.high_water.as_ref().map(ToString::to_string)
    }
}

/// A server that is known not to stream lists.
pub(crate) fn no_streaming() -> ServerFeatures {
    let server = ServerFeatures::default();
    server.note_refusal();
    server
}

pub(crate) fn bookmark(version: &str, initial_events_end: bool) -> Bookmark {
    Bookmark { resource_version: version.into(), initial_events_end }
}

pub(crate) fn list_end(version: Option<&str>, token: Option<&str>) -> ListEnd {
    ListEnd {
        resource_version: version.map(str::to_owned),
        continue_token: token.map(str::to_owned),
    }
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> SourceError {
    let reason = reason.into();
    let message = message.into();
    Status { code, reason, message, ..Status::default() }.into()
}

pub(crate) fn gone() -> SourceError {
    status(410, "Expired", "too old resource version: 5 (9)")
}

pub(crate) fn too_large() -> SourceError {
    status(504, "Timeout", "Too large resource version: 100, current: 50")
}

pub(crate) fn throttled(seconds: Option<u64>) -> SourceError {
    let retry_after = seconds.map(Duration::from_secs);
    Status { code: 429, retry_after, ..Status::default() }.into()
}

/// The error of a server with the feature turned off.
pub(crate) fn no_streams() -> SourceError {
    status(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents \
         is forbidden for watch unless the WatchList feature gate is enabled",
    )
}

pub(crate) fn internal() -> SourceError {
    status(500, "InternalError", "something broke")
}

pub(crate) fn unreachable() -> SourceError {
    SourceError::transport(&std::io::Error::other("connection refused"))
}

pub(crate) fn silent() -> SourceError {
    SourceError::Silent(Duration::from_secs(30))
}
