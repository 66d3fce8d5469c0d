//! Decides what follows when a request has ended.

use std::time::Duration;

use tokio::time::Instant;

use super::active_request::{ActiveRequest, saturating_add};
use super::backoff::jitter;
use super::failure::{
    is_initializing, list_reaction_to, reaction_to, refuses_streams, says_no_watch, was_unreachable,
};
use super::{
    Listed, Outage, Page, Paged, Plan, PositionTrouble, Reaction, Reflector, Relist, State,
};
use crate::transport::source::SourceError;

/// A watch that ends sooner, without a new version, counts as failed. As in client-go.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// If a watch was open for longer before it failed, its position is not the reason.
const STUCK_WITHIN: Duration = Duration::from_secs(30);

/// After how many failures at the same position everything is listed.
const STUCK_MAX: u32 = 5;

/// After how many watches that the server refused, because it has not reached the position,
/// everything is listed.
const BEHIND_MAX: u32 = 2;

/// After how many streamed lists that ended early the next one is read in pages.
const UNFINISHED_MAX: u32 = 2;

/// The shortest time between two lists without a version.
const UNVERSIONED_PACE: Duration = Duration::from_secs(30);

impl Reflector {
    /// A list is complete.
    pub(super) fn complete_list(&mut self, version: Option<&str>, now: Instant) -> Listed {
        let listed = self.versions.accept_list(version);
        if let Listed::Refused(_) = listed {
            self.back_off(Plan::List, None, now);
            return listed;
        }
        self.trouble = PositionTrouble::default();
        self.audit_at = self.config.audit.map(|audit| {
            let spread = jitter(audit / 10, &mut self.random);
            saturating_add(saturating_add(now, audit), spread)
        });
        let is_versioned = self.position().is_some();
        self.unversioned_until = (!is_versioned).then(|| saturating_add(now, UNVERSIONED_PACE));
        self.plan_at_once(Plan::Watch);
        listed
    }

    /// The position has moved, so the server works, and its history is still the same.
    pub(super) fn note_advance(&mut self) {
        self.trouble = PositionTrouble::default();
        if let Some(request) = self.active_request_mut() {
            request.has_advanced = true;
        }
    }

    /// Returns `None` if the watch is resumed at once.
    pub(super) fn watch_closed(
        &mut self,
        request: ActiveRequest,
        now: Instant,
    ) -> Option<Reaction> {
        if self.position().is_none() {
            return Some(self.relist_unversioned(None, now));
        }
        if request.lasted(now) < request.timeout / 10 * 9 {
            self.cuts.note_cut(request.silence(now), now);
        }
        if !request.has_advanced && request.lasted(now) < SHORT_WATCH {
            // A server that reloads its watch cache ends watches like this: treat it as an outage.
            self.trouble.outage = Some(Outage::Ongoing);
            let (plan, reaction) = self.watch_broke(request, true, now);
            self.back_off(plan, None, now);
            return Some(reaction);
        }
        self.plan_at_once(Plan::Watch);
        None
    }

    pub(super) fn watch_failed(
        &mut self,
        request: ActiveRequest,
        error: &SourceError,
        now: Instant,
    ) -> Reaction {
        let is_silent = matches!(error, SourceError::Silent(_));
        let is_unreachable = was_unreachable(error);
        if !is_silent {
            self.bookmark_interval.interrupt();
        }
        // A broken connection counts as an outage: if the server restarts quickly, the next request
        // is delayed and not refused, so there may be no other sign. Two cases are not an outage:
        // an open watch that is silent, because the deadline may have been too short, and a watch
        // that a proxy cut because it was idle.
        let was_open = request.opened.is_some();
        let was_cut = is_unreachable && was_open && self.cuts.note_cut(request.silence(now), now);
        if (is_silent && !was_open) || (is_unreachable && !was_cut) || is_initializing(error) {
            self.trouble.outage = Some(Outage::Ongoing);
        }
        let reaction = reaction_to(error);
        let (plan, reaction) = match reaction {
            Reaction::Relist(Relist::ServerBehind) => self.server_behind(),
            Reaction::Retry => self.watch_broke(request, !is_silent && !is_unreachable, now),
            // A definition that is deleted and created again has another history.
            Reaction::Relist(_) | Reaction::NotFound => (Plan::List, reaction),
            _ => (Plan::Watch, reaction),
        };
        if self.position().is_none() {
            let relisted = self.relist_unversioned(error.retry_after(), now);
            return if reaction == Reaction::Retry { relisted } else { reaction };
        }
        self.back_off(plan, error.retry_after(), now);
        reaction
    }

    fn server_behind(&mut self) -> (Plan, Reaction) {
        self.trouble.behind += 1;
        match self.trouble.behind {
            BEHIND_MAX.. => (Plan::List, Reaction::Relist(Relist::ServerBehind)),
            _ => (Plan::Watch, Reaction::Retry),
        }
    }

    /// A watch failed, and the error alone does not decide what follows. It is resumed, unless too
    /// many watches have failed at this position. `was_reached` is whether the server itself, and
    /// not a proxy, answered the request.
    fn watch_broke(
        &mut self,
        watch: ActiveRequest,
        was_reached: bool,
        now: Instant,
    ) -> (Plan, Reaction) {
        let is_position_at_fault = match watch.opened {
            Some(_) => !watch.has_advanced && watch.lasted(now) < STUCK_WITHIN,
            None => was_reached,
        };
        self.trouble.failures += u32::from(is_position_at_fault);
        match self.trouble.failures {
            STUCK_MAX.. => (Plan::List, Reaction::Relist(Relist::Stuck)),
            _ => (Plan::Watch, Reaction::Retry),
        }
    }

    /// A watch without a position has ended. It cannot be resumed.
    fn relist_unversioned(&mut self, retry_after: Option<Duration>, now: Instant) -> Reaction {
        self.back_off(Plan::List, retry_after, now);
        if let (State::Resting { until, .. }, Some(pace)) =
            (&mut self.state, self.unversioned_until)
        {
            *until = (*until).max(Some(pace));
        }
        Reaction::Relist(Relist::Unversioned)
    }

    pub(super) fn stream_failed(
        &mut self,
        request: ActiveRequest,
        error: &SourceError,
        now: Instant,
    ) -> Reaction {
        let has_no_watch = says_no_watch(error);
        if has_no_watch || refuses_streams(error) {
            if has_no_watch {
                self.paged = Paged::Every;
            } else {
                self.server.note_refusal();
            }
            self.plan_at_once(Plan::List);
            return Reaction::Fallback;
        }
        if matches!(error, SourceError::Silent(_)) && request.opened.is_some() {
            return self.stream_unfinished(now);
        }
        self.back_off(Plan::List, error.retry_after(), now);
        list_reaction_to(error)
    }

    /// A streamed list ended, or became silent, before the bookmark that completes it.
    pub(super) fn stream_unfinished(&mut self, now: Instant) -> Reaction {
        self.unfinished_streams += 1;
        self.back_off(Plan::List, None, now);
        if self.unfinished_streams < UNFINISHED_MAX {
            return Reaction::Retry;
        }
        self.unfinished_streams = 0;
        self.server.note_unfinished_list();
        self.paged = Paged::Next;
        Reaction::Fallback
    }

    pub(super) fn page_failed(
        &mut self,
        page: &Page,
        error: &SourceError,
        now: Instant,
    ) -> Reaction {
        // The server dropped the version before the last page was read. A list without pages cannot
        // expire like this. If that fails as well, the next list is in pages again.
        let has_expired = error.is_gone() && page.token.is_some();
        let plan = if has_expired { Plan::WholeList } else { Plan::List };
        self.back_off(plan, error.retry_after(), now);
        list_reaction_to(error)
    }
}
