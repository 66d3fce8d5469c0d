//! What the end of a request means, and what follows from it: the right half of the diagram.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::jitter;
use super::exchange::{Exchange, later};
use super::failure::{Failure, Refusal, refuses_streams};
use super::{Doubt, Listed, Page, Paged, Plan, Reaction, Reflector, Relist, State};
use crate::transport::source::SourceError;

/// A watch that ended sooner, and brought nothing, has failed. As client-go has it.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// A watch that was open for longer before it failed has no trouble with its position.
const STUCK_WITHIN: Duration = Duration::from_secs(30);

/// How often a watch may fail at the same position.
const STUCK_MAX: u32 = 5;

/// How often a server may not have reached the position.
const AHEAD_MAX: u32 = 2;

/// How often a streamed list may end before it is complete, until pages are tried.
const UNFINISHED_MAX: u32 = 2;

/// How often a list without a version is repeated at most.
const UNVERSIONED_PACE: Duration = Duration::from_secs(30);

impl Reflector {
    /// A list has arrived in full.
    pub(super) fn completed(&mut self, version: Option<&str>, now: Instant) -> Listed {
        let listed = self.versions.listed(version);
        if listed == Listed::Refused {
            self.back_off(Plan::List, None, now);
            return listed;
        }
        (self.stuck, self.ahead, self.doubt) = (0, 0, None);
        self.audit_at = self.config.audit.map(|audit| {
            let spread = jitter(audit / 10, &mut self.random);
            later(later(now, audit), spread)
        });
        let versioned = self.position().is_some();
        self.unversioned_until = (!versioned).then(|| later(now, UNVERSIONED_PACE));
        self.rest(Plan::Watch);
        listed
    }

    /// The position has moved, so the server is well, and is the one that it was.
    pub(super) fn advanced(&mut self) {
        (self.stuck, self.ahead, self.doubt) = (0, 0, None);
        if let Some(exchange) = self.exchange_mut() {
            exchange.brought = true;
        }
    }

    pub(super) fn watch_closed(&mut self, exchange: Exchange, now: Instant) -> Reaction {
        if self.position().is_none() {
            return self.relist_unversioned(None, now);
        }
        if exchange.lasted(now) < exchange.timeout / 10 * 9 {
            self.cuts.cut(exchange.silence(now), now);
        }
        if !exchange.brought && exchange.lasted(now) < SHORT_WATCH {
            // This is also how a server ends watches while it reads its storage anew.
            self.doubt = Some(Doubt::Away);
            let (plan, reaction) = self.watch_broke(exchange, Failure::Other, now);
            self.back_off(plan, None, now);
            return reaction;
        }
        self.rest(Plan::Watch);
        Reaction::Resume
    }

    pub(super) fn watch_failed(
        &mut self,
        exchange: Exchange,
        error: &SourceError,
        now: Instant,
    ) -> Reaction {
        let failure = Failure::of(error);
        if failure != Failure::Silent {
            self.cadence.interrupt();
        }
        // An open watch that is silent may only have been given up too early: that is no absence. Nor is it one if
        // something on the way cuts what is silent.
        let was_open = exchange.opened.is_some();
        let was_given_up = failure == Failure::Silent && was_open;
        let was_cut =
            failure == Failure::Away && was_open && self.cuts.cut(exchange.silence(now), now);
        if failure.is_absence(error) && !was_given_up && !was_cut {
            self.doubt = Some(Doubt::Away);
        }
        let (plan, reaction) = match failure {
            Failure::Gone => (Plan::List, Reaction::Relist(Relist::Expired)),
            Failure::Unreadable => (Plan::List, Reaction::Relist(Relist::Unreadable)),
            Failure::Throttled => (Plan::Watch, Reaction::Throttled),
            Failure::Unauthorized => (Plan::Watch, Reaction::Unauthorized),
            Failure::Forbidden => (Plan::Watch, Reaction::Forbidden),
            // What was deleted with its definition, and came back, is another history.
            Failure::NotFound => (Plan::List, Reaction::NotFound),
            Failure::Ahead => self.server_behind(),
            Failure::Silent | Failure::Away | Failure::Other => {
                self.watch_broke(exchange, failure, now)
            }
        };
        if self.position().is_none() {
            let relisted = self.relist_unversioned(error.retry_after(), now);
            return if reaction == Reaction::Retry { relisted } else { reaction };
        }
        self.back_off(plan, error.retry_after(), now);
        reaction
    }

    fn server_behind(&mut self) -> (Plan, Reaction) {
        self.ahead += 1;
        match self.ahead {
            AHEAD_MAX.. => (Plan::List, Reaction::Relist(Relist::Ahead)),
            _ => (Plan::Watch, Reaction::Retry),
        }
    }

    fn watch_broke(&mut self, watch: Exchange, failure: Failure, now: Instant) -> (Plan, Reaction) {
        let position_is_at_fault = match watch.opened {
            Some(_) => !watch.brought && watch.lasted(now) < STUCK_WITHIN,
            None => failure == Failure::Other,
        };
        self.stuck += u32::from(position_is_at_fault);
        match self.stuck {
            STUCK_MAX.. => (Plan::List, Reaction::Relist(Relist::Stuck)),
            _ => (Plan::Watch, Reaction::Retry),
        }
    }

    /// A watch has ended that cannot be resumed.
    pub(super) fn relist_unversioned(
        &mut self,
        at_least: Option<Duration>,
        now: Instant,
    ) -> Reaction {
        self.back_off(Plan::List, at_least, now);
        if let (State::Resting { until, .. }, Some(pace)) =
            (&mut self.state, self.unversioned_until)
        {
            *until = (*until).max(Some(pace));
        }
        Reaction::Relist(Relist::Unversioned)
    }

    pub(super) fn stream_failed(
        &mut self,
        exchange: Exchange,
        error: &SourceError,
        now: Instant,
    ) -> Reaction {
        if let Some(refusal) = refuses_streams(error) {
            match refusal {
                Refusal::Server => self.server.refused(),
                Refusal::Resource => self.paged = Paged::Every,
            }
            self.rest(Plan::List);
            return Reaction::Fallback;
        }
        let failure = Failure::of(error);
        if failure == Failure::Silent && exchange.opened.is_some() {
            return self.stream_unfinished(error.retry_after(), now);
        }
        self.back_off(Plan::List, error.retry_after(), now);
        list_reaction(failure)
    }

    /// A streamed list has ended, or fell silent, without the bookmark that completes it.
    pub(super) fn stream_unfinished(
        &mut self,
        at_least: Option<Duration>,
        now: Instant,
    ) -> Reaction {
        self.unfinished += 1;
        self.back_off(Plan::List, at_least, now);
        if self.unfinished < UNFINISHED_MAX {
            return Reaction::Retry;
        }
        self.unfinished = 0;
        self.server.unfinished();
        self.paged = Paged::Next;
        Reaction::Fallback
    }

    pub(super) fn page_failed(
        &mut self,
        page: &Page,
        error: &SourceError,
        now: Instant,
    ) -> Reaction {
        let failure = Failure::of(error);
        // The pages took longer than the server remembers: in one piece they do not have to wait for us. If that
        // fails as well, the next list is in pages again.
        let continued = page.token.is_some();
        let plan = if failure == Failure::Gone && continued { Plan::WholeList } else { Plan::List };
        self.back_off(plan, error.retry_after(), now);
        list_reaction(failure)
    }
}

/// What the failure of a list means: whatever it was, the list begins from its start.
fn list_reaction(failure: Failure) -> Reaction {
    match failure {
        Failure::Gone => Reaction::Relist(Relist::Expired),
        Failure::Throttled => Reaction::Throttled,
        Failure::Unauthorized => Reaction::Unauthorized,
        Failure::Forbidden => Reaction::Forbidden,
        Failure::NotFound => Reaction::NotFound,
        Failure::Ahead | Failure::Unreadable | Failure::Silent | Failure::Away | Failure::Other => {
            Reaction::Retry
        }
    }
}
