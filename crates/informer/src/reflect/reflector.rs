//! The reflector: decides what to ask of a [`ListWatch`](crate::ListWatch) next, and what each answer means.
//!
//! A pure state machine: no I/O, no task, no clock, and dice from a seed. The shell around it sends the requests,
//! splits the bodies, and tells what came; another judges the objects. All of it is tested without either.
//!
//! ```text
//!            ┌───────────────────────────────────────────────────────────────────────┐
//!            │ 410, twice ahead, stuck, doubt, audit, asked; failed, refused         │
//!            ▼                                                                       │
//!  new ──▶ Resting(List) ──▶ Streaming ─────────── initial events end ────────▶ Watching
//!            ▲      │  ▲         │ failed, closed early:                           ▲ │
//!            │      │  └─────────┘ again, or in pages if the server cannot         │ │
//!            │      ▼                                                              │ │ closed, failed
//!            └── Paging ── complete ──▶ Resting(Watch) ────────────────────────────┘ │
//!      failed,  │    ▲                       ▲                                      │
//!      refused  ▼    │ more                  └──────────────────────────────────────┘
//!             Resting(Page)
//! ```
//!
//! Resting is both: ready at once, and backing off until some time. The rules, and why:
//!
//! - A list names no version, so it is consistent: a stale server cannot answer it. It is streamed as the first
//!   part of a watch where the server can do that ([`ServerTraits`]), and read in pages elsewhere. A list that
//!   was interrupted begins from its start, and nothing may be swept for it.
//! - A watch that ends is resumed from the position: at once after a clean end, after a wait otherwise. A clean
//!   end within a second that brought nothing counts as a failure, or it would be a hot loop.
//! - Watches that are cut after the same silence, as proxies do, are asked for with a timeout below it: what the
//!   server ends by itself has a bookmark at its end.
//! - Everything is listed again only if the position is lost: 410, a server that has not reached it (twice), five
//!   failures in a row right after opening, or in the answer (something at that position cannot be sent or read).
//!   A server that is not reached says nothing about the position: after an outage a fleet resumes, and does not
//!   stampede. If however nothing comes from the resumed watch for two minutes ([`ReflectorConfig::doubt`]), the
//!   server may have been restored from a backup, and there is a list. The same if only the connection broke.
//! - A consistent list that is lower than what was seen is refused once. The second time the cluster was restored:
//!   a new epoch begins.
//! - A watch cannot go on from a list that has no version. It starts without one: the server sends
//!   what is there, and then changes. Nobody tells of an object that was deleted between the list
//!   and the watch, so bookmarks give no position, and when the watch ends there is another list.
//!   Such an object is held until then: for the timeout of a watch (5 to 10 min) and
//!   [`ReflectorConfig::idle_grace`] at most. These lists are at least 30 s apart.
//!
//! Invariants: within an epoch the position never goes back. After a failure there is always a wait, except once:
//! a server that does not stream is asked for pages at once. A call that does not fit the state changes nothing
//! that would lose data: what arrives is stale, what ends is refused.

mod asking;
mod backoff;
mod config;
mod cuts;
mod ending;
mod exchange;
mod failure;
mod outcome;
mod server;
mod versions;

use std::mem;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;
use windlass_indexer::ResourceVersion;

pub use backoff::BackoffConfig;
pub use config::ReflectorConfig;
pub use outcome::{Action, Arrival, Listed, Phase, Reaction, Relist, TimedOut};
pub use server::ServerTraits;

use crate::decode::frames::{Bookmark, Change, ListEnd};
use crate::transport::source::SourceError;
use backoff::Backoff;
use cuts::Cuts;
use exchange::{Cadence, Exchange, later};
use versions::Versions;

/// Decides what to ask for next, and what each answer means.
///
/// The shell calls [`next`](Self::next), sends the request that it gets, and tells what comes of it: `opened`, then
/// `progressed`, `changed`, `bookmark` and `page`, and at last one of `closed`, `failed` and
/// [`timed_out`](Self::timed_out). Then it calls `next` again.
///
/// ```
/// use tokio::time::Instant;
/// use windlass_indexer::ResourceVersion;
/// use windlass_informer::{
///     Action, Arrival, Change, Phase, Reaction, Reflector, ReflectorConfig, Request, ServerTraits,
/// };
/// # use windlass_informer::{Bookmark, Listed};
/// # let bookmark = Bookmark { resource_version: "7".into(), initial_events_end: true };
/// let now = Instant::now();
/// let mut reflector = Reflector::new(ReflectorConfig::default(), ServerTraits::default());
///
/// // The first request is a watch that first sends what is there.
/// let Action::Request(Request::Watch(watch)) = reflector.next(now) else { panic!() };
/// assert!(watch.wants_initial_events());
/// reflector.opened(now);
/// assert_eq!(reflector.changed(Change::Added, Some(&ResourceVersion::new("5")), now), Arrival::Initial);
///
/// // A bookmark says that this was all; from now on changes are live.
/// let listed = reflector.bookmark(&bookmark, now);
/// assert_eq!(listed, Some(Listed::Complete { epoch_changed: false }));
/// assert_eq!(reflector.phase(), Phase::Watching);
/// assert_eq!(reflector.changed(Change::Modified, Some(&ResourceVersion::new("9")), now), Arrival::Live);
///
/// // The server ends the watch: the next one goes on where it has ended.
/// assert_eq!(reflector.closed(now), Reaction::Resume);
/// let Action::Request(Request::Watch(watch)) = reflector.next(now) else { panic!() };
/// assert_eq!(watch.from.as_deref(), Some("9"));
/// ```
#[derive(Debug)]
pub struct Reflector {
    config: ReflectorConfig,
    server: ServerTraits,
    random: Rng,
    backoff: Backoff,
    state: State,
    versions: Versions,
    cadence: Cadence,
    cuts: Cuts,
    /// The streamed lists in a row that did not come to their end.
    unfinished: u32,
    /// The watches in a row that failed at this position.
    stuck: u32,
    /// The watches in a row for which the server was not far enough.
    ahead: u32,
    doubt: Option<Doubt>,
    /// The next list, or every list, is read in pages, whatever the server can do.
    paged: Paged,
    /// Someone asked for a list.
    asked: bool,
    audit_at: Option<Instant>,
    /// When a list that had no version may be repeated.
    unversioned_until: Option<Instant>,
}

/// See the diagram in the file's header.
#[derive(Debug)]
enum State {
    /// Nothing is under way. This comes next, and not before that time.
    Resting { plan: Plan, until: Option<Instant> },
    /// A list, or one page of it, is being read.
    Paging { exchange: Exchange, page: Page },
    /// The initial events of a watch are being read.
    Streaming(Exchange),
    /// Changes are being read.
    Watching(Exchange),
}

/// What comes next.
#[derive(Debug)]
enum Plan {
    /// A list from its start, by what means the server has.
    List,
    /// A list in one piece.
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
    /// Where the page before has ended; `None` for the first.
    token: Option<String>,
}

/// The server was away, and the position has not moved since: it may be another than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// It is still away.
    Away,
    /// It is back since then.
    Back(Instant),
}

/// Which lists are read in pages though the server may know to stream them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paged {
    None,
    /// The server streams lists, but just now it did not.
    Next,
    /// The resource cannot be watched.
    Every,
}

impl Reflector {
    /// A reflector that has seen nothing yet.
    pub fn new(config: ReflectorConfig, server: ServerTraits) -> Self {
        Self {
            random: Rng::with_seed(config.seed),
            backoff: Backoff::new(config.backoff),
            config,
            server,
            state: State::Resting { plan: Plan::List, until: None },
            versions: Versions::default(),
            cadence: Cadence::default(),
            cuts: Cuts::default(),
            unfinished: 0,
            stuck: 0,
            ahead: 0,
            doubt: None,
            paged: Paged::None,
            asked: false,
            audit_at: None,
            unversioned_until: None,
        }
    }

    /// What to do now. Called when a request has ended; one that is still under way is given up with it.
    pub fn next(&mut self, now: Instant) -> Action {
        self.abandon(now);
        let State::Resting { plan, until } = &mut self.state else {
            unreachable!("nothing must be under way after it was abandoned")
        };
        if let Some(until) = until.filter(|&until| now < until) {
            return Action::Wait(until);
        }
        let plan = mem::replace(plan, Plan::List);
        Action::Request(match plan {
            Plan::Watch if self.list_reason(now).is_some() => self.list(now),
            Plan::Watch => self.watch(now),
            Plan::Page(page) => self.page_request(page, now),
            Plan::WholeList => self.first_page(None, now),
            Plan::List => self.list(now),
        })
    }

    /// Where it is.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Resting { until: Some(until), .. } => Phase::BackingOff { until },
            State::Resting { plan: Plan::Page(_), .. }
            | State::Paging { .. }
            | State::Streaming(_) => Phase::Listing,
            State::Resting { .. } => Phase::Idle,
            State::Watching(_) => Phase::Watching,
        }
    }

    /// By when something must come of the request that is under way, or else
    /// [`timed_out`](Self::timed_out) says what to do. It moves with everything that is told. `None` if nothing
    /// is under way.
    ///
    /// - Until an answer begins, and within a list: [`ReflectorConfig::stall`] after something came.
    /// - Within a watch: its timeout and [`ReflectorConfig::idle_grace`] after it has opened. When two bookmarks
    ///   have come, on this watch or earlier ones, also three times the largest gap between bookmarks after
    ///   something came, but at least 2 min. A half-open connection is noticed after 3 min that way.
    /// - Earlier, if it is time for a list.
    pub fn deadline(&self) -> Option<Instant> {
        let exchange = self.exchange()?;
        let State::Watching(watch) = &self.state else {
            // What is listed comes as additions. A server that sends only changes has ended the list, or knows
            // nothing of it, and just does not say so.
            let stalled = exchange.live_since.unwrap_or(exchange.heard).min(exchange.heard);
            return Some(later(stalled, self.config.stall));
        };
        let patience = match watch.opened {
            None => later(watch.heard, self.config.stall),
            Some(opened) => later(later(opened, watch.timeout), self.config.idle_grace),
        };
        let silence = self.cadence.silence_max().filter(|_| watch.opened.is_some());
        let silence = silence.map(|silence| later(watch.heard, silence));
        // What was asked for is due since something was heard last, which is before any now.
        let asked = self.asked.then_some(watch.heard);
        let list = self.list_due().map(|(due, _)| due);
        [silence, asked, list].into_iter().flatten().chain([patience]).min()
    }

    /// After what silence something on the way to the server cuts watches, as was last known: after two were cut alike, and
    /// until one lives through a longer silence. Watches are asked for with a shorter timeout for an hour then.
    pub fn cut_after(&self) -> Option<Duration> {
        self.cuts.silence()
    }

    /// The deadline has passed: what to do about the request that is under way.
    pub fn timed_out(&mut self, now: Instant) -> TimedOut {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return TimedOut::NotYet;
        }
        let due = self.list_reason(now).filter(|_| matches!(self.state, State::Watching(_)));
        match (due, self.exchange()) {
            // A whole fleet has met the same outage, and doubts at the same time.
            (Some(Relist::Doubt), _) => self.back_off(Plan::List, None, now),
            (Some(_), _) => self.rest(Plan::List),
            (None, Some(exchange)) => {
                return TimedOut::Silent(exchange.silence(now));
            }
            (None, None) => {}
        }
        due.map_or(TimedOut::NotYet, TimedOut::Relist)
    }

    /// The answer has begun: the server agreed to send a body.
    pub fn opened(&mut self, now: Instant) {
        if let Some(exchange) = self.exchange_mut() {
            exchange.opened(now);
        }
        if matches!(self.state, State::Watching(_)) {
            self.backoff.healthy(now);
            if self.doubt == Some(Doubt::Away) {
                self.doubt = Some(Doubt::Back(now));
            }
        }
    }

    /// Something of the body has arrived.
    pub fn progressed(&mut self, now: Instant) {
        if let State::Watching(watch) = &self.state {
            self.cuts.survived(watch.silence(now));
        }
        if let Some(exchange) = self.exchange_mut() {
            exchange.heard(now);
        }
    }

    /// A change of a watch has arrived, with its object's version (`None` if that could not be read): how to
    /// judge it. Items of a list may be told as [`Change::Added`], so that the high-water mark knows of them even
    /// if the list is interrupted.
    ///
    /// A change whose version is not above the position is stale, except for a deletion.
    pub fn changed(
        &mut self,
        change: Change,
        version: Option<&ResourceVersion>,
        now: Instant,
    ) -> Arrival {
        self.progressed(now);
        match self.state {
            State::Paging { .. } | State::Streaming(_) => {
                if let Some(version) = version {
                    self.versions.item(version);
                }
                if let Some(exchange) = self.exchange_mut() {
                    exchange.listed(change, now);
                }
                Arrival::Initial
            }
            State::Watching(_) => {
                let (arrival, advanced) = self.versions.changed(change, version);
                if advanced {
                    self.advanced();
                }
                arrival
            }
            State::Resting { .. } => Arrival::Stale,
        }
    }

    /// A bookmark has arrived. Says what it means if it ends a list, for good or ill.
    pub fn bookmark(&mut self, bookmark: &Bookmark, now: Instant) -> Option<Listed> {
        self.progressed(now);
        match self.state {
            State::Watching(_) => {
                self.cadence.bookmark(now);
                if self.versions.reached(&bookmark.resource_version) {
                    self.advanced();
                }
                None
            }
            State::Streaming(exchange) if bookmark.initial_events_end => {
                self.server.streamed();
                self.unfinished = 0;
                let listed = self.completed(Some(&bookmark.resource_version), now);
                if let Listed::Complete { .. } = listed {
                    self.state = State::Watching(exchange);
                    self.backoff.healthy(now);
                }
                Some(listed)
            }
            State::Streaming(_) => {
                // A server that knows the parameter sends no bookmark before this one: it is being ignored.
                self.server.refused();
                self.rest(Plan::List);
                Some(Listed::Unsupported)
            }
            State::Paging { .. } | State::Resting { .. } => None,
        }
    }

    /// The body of a list, or of one page, has ended: what it means.
    pub fn page(&mut self, end: &ListEnd, now: Instant) -> Listed {
        let State::Paging { page, .. } = &self.state else {
            return Listed::Refused;
        };
        let (limit, token) = (page.limit, page.token.clone());
        match &end.continue_token {
            None => self.completed(end.resource_version.as_deref(), now),
            // The same page again, and again: this would never end.
            Some(next) if token.as_ref() == Some(next) => {
                self.back_off(Plan::WholeList, None, now);
                Listed::Refused
            }
            Some(next) => {
                if let Some(version) = &end.resource_version {
                    self.versions.item(&ResourceVersion::new(version));
                }
                self.rest(Plan::Page(Page { limit, token: Some(next.clone()) }));
                Listed::More
            }
        }
    }

    /// The body has ended where the server ended it. A list ends with [`page`](Self::page); this says that it did
    /// not.
    pub fn closed(&mut self, now: Instant) -> Reaction {
        match self.state {
            State::Watching(exchange) => self.watch_closed(exchange, now),
            State::Streaming(_) => self.stream_unfinished(None, now),
            State::Paging { .. } => {
                self.back_off(Plan::List, None, now);
                Reaction::Retry
            }
            State::Resting { .. } => Reaction::Resume,
        }
    }

    /// The request has failed, before its answer or within its body, as an ERROR event or by its silence: what
    /// that means.
    pub fn failed(&mut self, error: &SourceError, now: Instant) -> Reaction {
        match mem::replace(&mut self.state, State::Resting { plan: Plan::List, until: None }) {
            State::Watching(exchange) => self.watch_failed(exchange, error, now),
            State::Streaming(exchange) => self.stream_failed(exchange, error, now),
            State::Paging { page, .. } => self.page_failed(&page, error, now),
            State::Resting { plan, .. } => {
                self.back_off(plan, error.retry_after(), now);
                Reaction::Retry
            }
        }
    }

    /// Asks for a list, to compare. A watch that is under way is over its [`deadline`](Self::deadline) with it. A
    /// list that is under way is enough.
    pub fn relist(&mut self) {
        self.asked =
            matches!(self.state, State::Watching(_) | State::Resting { plan: Plan::Watch, .. });
    }

    /// The highest version of this epoch, in lists, changes and bookmarks.
    pub fn high_water(&self) -> Option<&ResourceVersion> {
        self.versions.high_water()
    }

    /// Where a watch would resume. `None` before the first list, and after a list without a version
    /// until a list has one.
    pub fn position(&self) -> Option<&ResourceVersion> {
        self.versions.position()
    }

    /// Whether a list was complete.
    pub fn has_listed(&self) -> bool {
        self.versions.has_listed()
    }

    /// Whether the last list was not believed, so that the next one decides.
    pub fn is_in_doubt(&self) -> bool {
        self.versions.is_suspicious()
    }

    /// The list that was just complete contradicts what is held: it is not believed, and asked for again.
    pub fn doubt(&mut self, now: Instant) {
        self.versions.suspect();
        self.back_off(Plan::List, None, now);
    }

    /// How often the cluster was found to be restored.
    pub fn epoch(&self) -> u64 {
        self.versions.epoch()
    }

    fn exchange(&self) -> Option<&Exchange> {
        match &self.state {
            State::Resting { .. } => None,
            State::Paging { exchange, .. }
            | State::Streaming(exchange)
            | State::Watching(exchange) => Some(exchange),
        }
    }

    fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        match &mut self.state {
            State::Resting { .. } => None,
            State::Paging { exchange, .. }
            | State::Streaming(exchange)
            | State::Watching(exchange) => Some(exchange),
        }
    }
}
