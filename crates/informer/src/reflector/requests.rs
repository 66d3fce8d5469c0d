//! Builds the next request, and decides when it is sent.

use std::time::Duration;

use tokio::time::Instant;

use super::active_request::{ActiveRequest, saturating_add};
use super::backoff::jitter;
use super::{Outage, Page, Paged, Plan, Reflector, Relist, State};
use crate::transport::source::{ListRequest, Request, WatchRequest};

impl Reflector {
    /// Ends the request that is under way, and requests `plan` next, without a wait.
    pub(super) fn plan_at_once(&mut self, plan: Plan) {
        self.state = State::Resting { plan, until: None };
    }

    /// Schedules `plan` after the time that the server asks for, plus the backoff.
    pub(super) fn back_off(&mut self, plan: Plan, retry_after: Option<Duration>, now: Instant) {
        let wait = self.backoff.next_wait(now, &mut self.random);
        let until = saturating_add(saturating_add(now, retry_after.unwrap_or_default()), wait);
        self.state = State::Resting { plan, until: Some(until) };
    }

    /// Starts a list, streamed or in pages.
    pub(super) fn list(&mut self, now: Instant) -> Request {
        let is_paged = self.paged != Paged::None || self.server.streams_lists() == Some(false);
        if self.paged == Paged::Next {
            self.paged = Paged::None;
        }
        if is_paged {
            let limit = Some(self.config.page_size).filter(|&size| size > 0);
            return self.first_page(limit, now);
        }
        self.versions.begin_list();
        let timeout = self.draw_timeout();
        self.state = State::Streaming(ActiveRequest::new(now, timeout));
        Request::Watch(WatchRequest { from: None, timeout })
    }

    pub(super) fn first_page(&mut self, limit: Option<u32>, now: Instant) -> Request {
        self.versions.begin_list();
        self.page_request(Page { limit, token: None }, now)
    }

    pub(super) fn page_request(&mut self, page: Page, now: Instant) -> Request {
        let request = ListRequest { limit: page.limit, continue_token: page.token.clone() };
        self.state = State::Paging { request: ActiveRequest::new(now, Duration::ZERO), page };
        Request::List(request)
    }

    pub(super) fn watch(&mut self, now: Instant) -> Request {
        let mut timeout = self.draw_timeout();
        if let Some(most) = self.cuts.timeout_max(now) {
            let uncut = most.saturating_sub(jitter(most / 4, &mut self.random));
            // Requests carry whole seconds, and the deadline must match what the server was asked.
            timeout = timeout.min(Duration::from_secs(uncut.as_secs()));
        }
        self.state = State::Watching(ActiveRequest::new(now, timeout));
        // With an empty version the server sends all objects first, and then changes.
        let from = self.position().map(ToString::to_string).unwrap_or_default();
        Request::Watch(WatchRequest { from: Some(from), timeout })
    }

    fn draw_timeout(&mut self) -> Duration {
        let least = *self.config.watch_timeout.start();
        let most = *self.config.watch_timeout.end();
        least.saturating_add(jitter(most.saturating_sub(least), &mut self.random))
    }

    /// When a watch has to be replaced by a list, and why.
    pub(super) fn list_due(&self) -> Option<(Instant, Relist)> {
        let audit = self.audit_at.map(|at| (at, Relist::Audit));
        let silence = match self.trouble.outage {
            Some(Outage::WatchOpenSince(since)) => {
                Some((saturating_add(since, self.config.outage_silence), Relist::SilentAfterOutage))
            }
            Some(Outage::Ongoing) | None => None,
        };
        [audit, silence].into_iter().flatten().min_by_key(|&(due, _)| due)
    }

    /// Why the next request has to be a list, if it has to.
    pub(super) fn list_reason(&self, now: Instant) -> Option<Relist> {
        self.list_due().filter(|&(due, _)| due <= now).map(|(_, reason)| reason)
    }
}
