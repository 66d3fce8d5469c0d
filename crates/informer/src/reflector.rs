//! The reflector: decides what to request from a [`ListWatch`](crate::source::ListWatch) next, and
//! what each answer means.
//!
//! A pure state machine: no I/O, no task, no clock, and random numbers from a seed. client-go's
//! Reflector is split in two here: this one decides, and the feed (`feed.rs`) does the I/O. It
//! sends the requests, splits the bodies and reports what arrives.
//!
//! ```text
//! state              event                                        next state          wait?
//! ─────────────────────────────────────────────────────────────────────────────────────────
//! Resting(List)      sent as a watch that begins with a list      Streaming
//!                    sent in pages                                Paging
//! Resting(WholeList) sent as a list without pages                 Paging
//! Resting(Page)      sent                                         Paging
//! Resting(Watch)     sent; a list instead if one is due           Watching
//! Streaming          the initial events end                       Watching
//!                    the list is older than what is known         Resting(List)       yes
//!                    the server does not stream lists             Resting(List)
//!                    failed, or closed early                      Resting(List)       yes
//! Paging             there are more pages                         Resting(Page)
//!                    the list is complete                         Resting(Watch)
//!                    the list is older than what is known         Resting(List)       yes
//!                    410 after the first page; a repeated token   Resting(WholeList)  yes
//!                    failed otherwise, or closed early            Resting(List)       yes
//! Watching           ended cleanly                                Resting(Watch)      see below
//!                    failed                                       Resting(Watch)      yes
//!                    a reason in `Relist`, or 404                 Resting(List)       yes, but for
//!                                                                                     an audit
//! Watching, or       the cache refuses the list that was just     Resting(List)       yes
//!   Resting(Watch)   completed (`refuse_list`)
//! ```
//!
//! A resting reflector is either ready at once, or backs off until some time. The rules, and why:
//!
//! - A list is requested without a resourceVersion, so the server answers with the newest state. It
//!   is streamed as the first part of a watch where the server can do that ([`ServerFeatures`]),
//!   and read in pages elsewhere. A list that was interrupted starts over, and deletes nothing.
//! - The position is the version from which the next watch resumes. A watch that ends is resumed
//!   from there: at once after a clean end, after a wait otherwise. A clean end within a second
//!   that did not move the position counts as a failure, to avoid a busy loop.
//! - If a proxy cuts idle watches, they are requested with a shorter timeout: a watch that the
//!   server ends itself has a bookmark at its end.
//! - Everything is listed again if the position is lost: 410, a server that has not reached it
//!   (twice), or five watches from the same position were refused, or broke within 30 s of opening:
//!   the server probably cannot send the next event, or we cannot read it. [`Relist`] has all
//!   reasons. A resource that was missing (404) is also listed again when it returns.
//! - An unreachable server does not invalidate the position: after an outage, the reflectors of a
//!   fleet resume their watches, and do not all list at once. But if the resumed watch delivers
//!   nothing for two minutes ([`ReflectorConfig::outage_silence`]), the server may have been
//!   restored from a backup, and everything is listed. This also applies after a broken connection,
//!   which may hide a short outage.
//! - A list whose version is lower than what was received before is refused. If the next one is
//!   lower too, the cluster was restored from a backup, and a new epoch begins.
//! - A watch cannot resume from a list that has no version. It starts without one: the server sends
//!   all objects, and then changes. No event reports an object that was deleted between the list
//!   and the watch, so bookmarks give no position, and a list follows the end of the watch. Such an
//!   object is cached until then: for the timeout of a watch (5 to 10 min) and
//!   [`ReflectorConfig::idle_grace`] at most. These lists are at least 30 s apart.
//!
//! Invariants: within an epoch the position never goes back. After a failure there is always a
//! wait, with one exception: if a server does not stream, pages are requested at once. Whatever a
//! server sends, a call that does not fit the state is harmless: a change is stale, a page is
//! ignored, and a failure while nothing is under way only makes the next request wait. Only `next`
//! must not be called while a request is under way.

mod active_request;
mod backoff;
mod config;
mod cuts;
mod ending;
mod failure;
mod outcome;
mod requests;
mod server;
mod versions;

use std::mem;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;
use windlass_indexer::ResourceVersion;

pub use backoff::BackoffConfig;
pub use config::ReflectorConfig;
pub(crate) use outcome::{ChangeKind, DeadlineCheck, Listed, NextStep};
pub use outcome::{ListFault, Reaction, Relist};
pub(crate) use server::ServerFeatures;

use crate::decode::frames::{Bookmark, EventType, ListEnd};
use crate::transport::source::SourceError;
use active_request::{ActiveRequest, BookmarkInterval, saturating_add};
use backoff::Backoff;
use cuts::Cuts;
use versions::Versions;

/// Decides what to request next, and what each answer means.
///
/// The caller sends the request that [`next`](Self::next) returns and reports what happens:
/// `on_opened`, then `on_progress`, `on_change`, `on_bookmark` and `on_page_end`. The request ends
/// with `on_closed` or `on_failed`, with the end of a page, with a bookmark that refuses the list,
/// or if [`check_deadline`](Self::check_deadline) returns [`DeadlineCheck::Relist`]. Then the
/// caller calls `next` again. A bookmark that completes a streamed list leaves the request open as
/// a watch.
#[derive(Debug)]
pub(crate) struct Reflector {
    config: ReflectorConfig,
    server: ServerFeatures,
    random: Rng,
    backoff: Backoff,
    state: State,
    versions: Versions,
    bookmark_interval: BookmarkInterval,
    cuts: Cuts,
    /// How many streamed lists in a row were not completed.
    unfinished_streams: u32,
    trouble: PositionTrouble,
    paged: Paged,
    /// When the next audit is due; see [`ReflectorConfig::audit`].
    audit_at: Option<Instant>,
    /// If the last list had no version: the next list is not sent before this time.
    unversioned_until: Option<Instant>,
}

/// See the table in the module documentation.
#[derive(Debug)]
enum State {
    /// No request is under way. The next one is `plan`, not before `until`.
    Resting { plan: Plan, until: Option<Instant> },
    /// A page of a list is being read.
    Paging { request: ActiveRequest, page: Page },
    /// The initial events of a watch are being read.
    Streaming(ActiveRequest),
    /// Changes are being read.
    Watching(ActiveRequest),
}

/// What a resting reflector will request.
#[derive(Debug)]
enum Plan {
    /// A list from its start, streamed if the server can do that.
    List,
    /// A list from its start, without pages.
    WholeList,
    /// The next page of a list.
    Page(Page),
    /// A watch from the position.
    Watch,
}

/// A page of a list.
#[derive(Clone, Debug)]
struct Page {
    limit: Option<u32>,
    /// The continue token; `None` for the first page.
    token: Option<String>,
}

/// What went wrong at the current position. It is reset when the position moves or a list is
/// complete.
#[derive(Debug, Default)]
struct PositionTrouble {
    /// How many watches in a row failed.
    failures: u32,
    /// How many watches in a row the server refused because it has not reached the position.
    behind: u32,
    /// Set if the server had an outage.
    outage: Option<Outage>,
}

/// An outage of the server, during which it may have been restored from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    Ongoing,
    /// A watch has been open since this time.
    WatchOpenSince(Instant),
}

/// Which lists are read in pages although the server may be able to stream them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paged {
    None,
    /// The next one, because streamed lists were not completed.
    Next,
    /// All of them, because the resource cannot be watched.
    Every,
}

impl Reflector {
    /// `seed` determines jitter and timeouts. Each reflector of a fleet needs a different one.
    pub(crate) fn new(config: ReflectorConfig, server: ServerFeatures, seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            backoff: Backoff::new(config.backoff),
            config,
            server,
            state: State::Resting { plan: Plan::List, until: None },
            versions: Versions::default(),
            bookmark_interval: BookmarkInterval::default(),
            cuts: Cuts::default(),
            unfinished_streams: 0,
            trouble: PositionTrouble::default(),
            paged: Paged::None,
            audit_at: None,
            unversioned_until: None,
        }
    }

    /// What to do next. No request may be under way.
    pub(crate) fn next(&mut self, now: Instant) -> NextStep {
        let State::Resting { plan, until } = &mut self.state else {
            // A feed reads a request to its end, or drops it once the reflector rests.
            unreachable!("a request must have ended before the next one")
        };
        if let Some(until) = until.filter(|&until| now < until) {
            return NextStep::Wait(until);
        }
        let plan = mem::replace(plan, Plan::List);
        NextStep::Request(match plan {
            Plan::Watch if self.list_reason(now).is_some() => self.list(now),
            Plan::Watch => self.watch(now),
            Plan::Page(page) => self.page_request(page, now),
            Plan::WholeList => self.first_page(None, now),
            Plan::List => self.list(now),
        })
    }

    /// Whether a list is under way, or its next page is to be requested.
    pub(crate) fn is_listing(&self) -> bool {
        matches!(
            self.state,
            State::Resting { plan: Plan::Page(_), until: None }
                | State::Paging { .. }
                | State::Streaming(_)
        )
    }

    /// When the caller has to call [`check_deadline`](Self::check_deadline), unless something
    /// arrives earlier. `None` if no request is under way.
    ///
    /// - Until an answer begins, and within a list: [`ReflectorConfig::stall`] after something
    ///   arrived.
    /// - Within a watch: its timeout and [`ReflectorConfig::idle_grace`] after it has opened. Once
    ///   two bookmarks have been seen, on this watch or earlier ones: also when nothing has arrived
    ///   for three times the largest gap between bookmarks, at least 2 min. With a bookmark a
    ///   minute, a half-open connection is noticed after 3 min.
    /// - Earlier, if it is time for a list.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let request = self.active_request()?;
        let State::Watching(watch) = &self.state else {
            // Items of a list arrive as additions. If only modifications arrive, the server has
            // ended the list silently, or has ignored the request to stream it.
            let last_received = request.last_received;
            let last_progress = request.live_since.unwrap_or(last_received).min(last_received);
            return Some(saturating_add(last_progress, self.config.stall));
        };
        let hard_limit = match watch.opened {
            None => saturating_add(watch.last_received, self.config.stall),
            Some(opened) => {
                saturating_add(saturating_add(opened, watch.timeout), self.config.idle_grace)
            }
        };
        let silence = self.bookmark_interval.silence_max().filter(|_| watch.opened.is_some());
        let silence = silence.map(|silence| saturating_add(watch.last_received, silence));
        let list = self.list_due().map(|(due, _)| due);
        [silence, list].into_iter().flatten().chain([hard_limit]).min()
    }

    /// The silence after which a proxy cuts watches. Known after two watches were cut after a
    /// similar silence, until one survives a longer silence.
    pub(crate) fn cut_after(&self) -> Option<Duration> {
        self.cuts.silence()
    }

    /// Call this when the deadline of a request has passed. After [`DeadlineCheck::Silent`] the
    /// caller calls [`on_failed`](Self::on_failed).
    pub(crate) fn check_deadline(&mut self, now: Instant) -> DeadlineCheck {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return DeadlineCheck::NotYet;
        }
        let reason = self.list_reason(now).filter(|_| matches!(self.state, State::Watching(_)));
        match (reason, self.active_request()) {
            (Some(reason), _) => {
                match reason {
                    // Every reflector of a fleet had the same outage: spread their lists.
                    Relist::SilentAfterOutage => self.back_off(Plan::List, None, now),
                    _ => self.plan_at_once(Plan::List),
                }
                DeadlineCheck::Relist(reason)
            }
            (None, Some(request)) => DeadlineCheck::Silent(request.silence(now)),
            (None, None) => DeadlineCheck::NotYet,
        }
    }

    /// The server accepted the request, and its body follows.
    pub(crate) fn on_opened(&mut self, now: Instant) {
        if let Some(request) = self.active_request_mut() {
            request.on_opened(now);
        }
        if matches!(self.state, State::Watching(_)) {
            self.backoff.note_healthy(now);
            if self.trouble.outage == Some(Outage::Ongoing) {
                self.trouble.outage = Some(Outage::WatchOpenSince(now));
            }
        }
    }

    /// A part of the body has arrived.
    pub(crate) fn on_progress(&mut self, now: Instant) {
        if let State::Watching(watch) = &self.state {
            self.cuts.note_survived(watch.silence(now));
        }
        if let Some(request) = self.active_request_mut() {
            request.on_received(now);
        }
    }

    /// A change has arrived, with the version of its object (`None` if that cannot be read).
    /// Returns how to treat it. Items of a list are reported as [`EventType::Added`], so that the
    /// high-water mark includes them even if the list is interrupted.
    ///
    /// A change whose version is not above the position is stale, except for a deletion.
    pub(crate) fn on_change(
        &mut self,
        change: EventType,
        version: Option<&ResourceVersion>,
        now: Instant,
    ) -> ChangeKind {
        self.on_progress(now);
        match self.state {
            State::Paging { .. } | State::Streaming(_) => {
                if let Some(version) = version {
                    self.versions.note_item(version);
                }
                if let Some(request) = self.active_request_mut() {
                    request.note_initial_event(change, now);
                }
                ChangeKind::Initial
            }
            State::Watching(_) => {
                let (kind, has_advanced) = self.versions.accept_change(change, version);
                if has_advanced {
                    self.note_advance();
                }
                kind
            }
            State::Resting { .. } => ChangeKind::Stale,
        }
    }

    /// A bookmark has arrived. Returns what it means for a list, if it ends one.
    pub(crate) fn on_bookmark(&mut self, bookmark: &Bookmark, now: Instant) -> Option<Listed> {
        self.on_progress(now);
        match self.state {
            State::Watching(_) => {
                self.bookmark_interval.note_bookmark(now);
                if self.versions.accept_bookmark(&bookmark.resource_version) {
                    self.note_advance();
                }
                None
            }
            State::Streaming(request) if bookmark.initial_events_end => {
                self.server.note_streamed_list();
                self.unfinished_streams = 0;
                let listed = self.complete_list(Some(&bookmark.resource_version), now);
                if let Listed::Complete { .. } = listed {
                    self.state = State::Watching(request);
                    self.backoff.note_healthy(now);
                }
                Some(listed)
            }
            State::Streaming(_) => {
                // A server that streams lists sends no bookmark before that one.
                self.server.note_refusal();
                self.plan_at_once(Plan::List);
                Some(Listed::Refused(ListFault::NotStreamed))
            }
            State::Paging { .. } | State::Resting { .. } => None,
        }
    }

    /// The body of a page has ended. Returns what that means for the list, if one is read in pages.
    pub(crate) fn on_page_end(&mut self, end: &ListEnd, now: Instant) -> Option<Listed> {
        let State::Paging { page, .. } = &self.state else { return None };
        let limit = page.limit;
        let token = page.token.clone();
        Some(match &end.continue_token {
            None => self.complete_list(end.resource_version.as_deref(), now),
            Some(next) if token.as_ref() == Some(next) => {
                self.back_off(Plan::WholeList, None, now);
                Listed::Refused(ListFault::RepeatedToken)
            }
            Some(next) => {
                if let Some(version) = &end.resource_version {
                    self.versions.note_item(&ResourceVersion::new(version));
                }
                self.plan_at_once(Plan::Page(Page { limit, token: Some(next.clone()) }));
                Listed::More
            }
        })
    }

    /// The server ended the body. For a list, this means that it is incomplete: a complete one ends
    /// with [`on_page_end`](Self::on_page_end). Returns `None` if a watch ended normally and is
    /// resumed at once.
    pub(crate) fn on_closed(&mut self, now: Instant) -> Option<Reaction> {
        match self.state {
            State::Watching(request) => self.watch_closed(request, now),
            State::Streaming(_) => Some(self.stream_unfinished(now)),
            State::Paging { .. } => {
                self.back_off(Plan::List, None, now);
                Some(Reaction::Retry)
            }
            State::Resting { .. } => None,
        }
    }

    /// The request has failed: before its answer, within its body, by an ERROR event or by a
    /// timeout.
    pub(crate) fn on_failed(&mut self, error: &SourceError, now: Instant) -> Reaction {
        match mem::replace(&mut self.state, State::Resting { plan: Plan::List, until: None }) {
            State::Watching(request) => self.watch_failed(request, error, now),
            State::Streaming(request) => self.stream_failed(request, error, now),
            State::Paging { page, .. } => self.page_failed(&page, error, now),
            State::Resting { plan, .. } => {
                self.back_off(plan, error.retry_after(), now);
                Reaction::Retry
            }
        }
    }

    /// Where a watch would resume. `None` before the first list, and after a list without a version
    /// until a list has one.
    pub(crate) fn position(&self) -> Option<&ResourceVersion> {
        self.versions.position.as_ref()
    }

    /// Whether the last list was refused because it was older than what was received before. The
    /// next list decides.
    pub(crate) fn is_last_list_refused(&self) -> bool {
        self.versions.is_last_list_refused
    }

    /// Refuses the list that was just completed, because it contradicts the cache.
    pub(crate) fn refuse_list(&mut self, now: Instant) {
        self.versions.is_last_list_refused = true;
        self.back_off(Plan::List, None, now);
    }

    fn active_request(&self) -> Option<&ActiveRequest> {
        match &self.state {
            State::Resting { .. } => None,
            State::Paging { request, .. }
            | State::Streaming(request)
            | State::Watching(request) => Some(request),
        }
    }

    fn active_request_mut(&mut self) -> Option<&mut ActiveRequest> {
        match &mut self.state {
            State::Resting { .. } => None,
            State::Paging { request, .. }
            | State::Streaming(request)
            | State::Watching(request) => Some(request),
        }
    }
}

#[cfg(test)]
mod tests;
