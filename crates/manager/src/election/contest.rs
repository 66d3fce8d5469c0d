//! The state machine of one replica in an election.
//!
//! It is pure: time and responses are arguments, requests are returned as [`Step`]s. See the parent
//! module for the rules. Invariants: `leads_until` is never later than the renew deadline, counted
//! from before the last successful renewal was sent; a replica that has lost the leadership never
//! leads again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use super::record::Record;
use super::timing::{JITTER, Timing};

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing before this time.
    Wait(Instant),
    /// Nothing ever again: the leadership is lost.
    Lost,
    /// Read the Lease.
    Read,
    /// Create the Lease with this record.
    Create(Record),
    /// Replace the Lease that was read, with this record in it.
    Replace(Box<Lease>, Record),
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The Lease was written, created or deleted since it was read.
    Conflict,
    /// Anything else. A write may or may not have been made.
    Other,
}

pub(super) struct Contest {
    identity: String,
    timing: Timing,
    rng: fastrand::Rng,
    /// The Lease as it was last read or written, and since when its record is unchanged.
    observed: Option<Observed>,
    /// The write that follows the last read.
    write: Option<Write>,
    /// Set while this replica leads: no write may start later.
    leads_until: Option<Instant>,
    is_lost: bool,
    next_try: Instant,
    /// Whether the Lease must be read before it is written. A leader that has the current version
    /// renews without a read.
    must_read: bool,
    /// Whether a write met a conflict since the last one that succeeded.
    has_conflicted: bool,
}

struct Observed {
    lease: Lease,
    record: Record,
    since: Instant,
}

enum Write {
    Create,
    Replace,
}

impl Observed {
    /// Whether a replica may write the Lease: it is the holder, there is none, or it has expired.
    fn is_available_to(&self, identity: &str, now: Instant) -> bool {
        let Record { holder, duration, .. } = &self.record;
        holder == identity || holder.is_empty() || now >= self.since + *duration
    }
}

impl Contest {
    pub(super) fn new(identity: String, timing: Timing, seed: u64, now: Instant) -> Self {
        Self {
            identity,
            timing,
            rng: fastrand::Rng::with_seed(seed),
            observed: None,
            write: None,
            leads_until: None,
            is_lost: false,
            next_try: now,
            must_read: true,
            has_conflicted: false,
        }
    }

    /// What to do now. `time` is the wall clock's, for the record.
    pub(super) fn next(&mut self, now: Instant, time: Timestamp) -> Step {
        if self.leads_until.is_some_and(|until| now >= until) {
            self.lose();
        }
        if self.is_lost {
            return Step::Lost;
        }
        if now < self.next_try {
            return Step::Wait(
                self.leads_until.map_or(self.next_try, |end| end.min(self.next_try)),
            );
        }
        match (self.write.take(), &self.observed) {
            (Some(Write::Create), _) => Step::Create(self.record(None, time)),
            (Some(Write::Replace), Some(observed)) => {
                let record = self.record(Some(&observed.record), time);
                Step::Replace(Box::new(observed.lease.clone()), record)
            }
            (None, Some(observed)) if self.leads_until.is_some() && !self.must_read => {
                let record = self.record(Some(&observed.record), time);
                Step::Replace(Box::new(observed.lease.clone()), record)
            }
            (Some(Write::Replace) | None, _) => Step::Read,
        }
    }

    /// The Lease was read: `None` if there is none.
    pub(super) fn read(&mut self, lease: Option<Lease>, sent: Instant, now: Instant) {
        self.must_read = false;
        let Some(lease) = lease else {
            // The Lease was deleted, or the server was restored from a backup. The holder will
            // create it again: a standby waits until the old Lease would have expired.
            let observed = self.observed.as_ref();
            if observed.is_some_and(|observed| !observed.is_available_to(&self.identity, now)) {
                self.schedule_retry(sent, now);
            } else {
                self.observed = None;
                self.write = Some(Write::Create);
            }
            return;
        };
        self.observe(lease, now);
        let observed = self.observed.as_ref().expect("it was just observed");
        if observed.is_available_to(&self.identity, now) {
            self.write = Some(Write::Replace);
        } else {
            // Another replica holds it, even if this one was leading.
            self.lose();
            self.schedule_retry(sent, now);
        }
    }

    /// The Lease was written, by a request that was sent at `sent`.
    pub(super) fn wrote(&mut self, lease: Lease, sent: Instant, now: Instant) {
        self.observe(lease, now);
        self.leads_until = Some(sent + self.timing.renew_deadline);
        (self.must_read, self.has_conflicted) = (false, false);
        self.next_try = now + self.timing.retry_period;
    }

    /// A request failed.
    pub(super) fn failed(&mut self, failure: Failure, sent: Instant, now: Instant) {
        self.must_read = true;
        // The Lease has changed since the leader read it, or the server was restored from a backup:
        // read it again at once. After a second conflict, wait as usual.
        let is_conflict = failure == Failure::Conflict && self.leads_until.is_some();
        if is_conflict && !self.has_conflicted {
            self.has_conflicted = true;
            self.next_try = now;
        } else {
            self.schedule_retry(sent, now);
        }
    }

    /// Until when this replica leads, if it does.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.leads_until
    }

    /// Whether the Lease that was read is to be written next.
    pub(super) fn is_to_write(&self) -> bool {
        self.write.is_some()
    }

    /// The latest time for the answer to a request that is sent now.
    pub(super) fn request_deadline(&self, now: Instant) -> Instant {
        let bound = now + self.timing.request_timeout();
        self.leads_until.map_or(bound, |until| bound.min(until))
    }

    /// The last known holder of the Lease. `None` if it has none.
    pub(super) fn holder(&self) -> Option<&str> {
        let holder = self.observed.as_ref().map(|observed| observed.record.holder.as_str());
        holder.filter(|holder| !holder.is_empty())
    }

    /// The record that releases a Lease, if this replica holds it.
    pub(super) fn release(&self, lease: &Lease, time: Timestamp) -> Option<Record> {
        let held = Record::of(lease);
        (held.holder == self.identity).then(|| Record {
            holder: String::new(),
            // As in client-go: older versions wait for the duration even if a Lease has no holder.
            duration: Duration::from_secs(1),
            acquired: Some(time),
            renewed: Some(time),
            transitions: held.transitions,
        })
    }

    /// The record that follows the one that was read.
    fn record(&self, held: Option<&Record>, time: Timestamp) -> Record {
        let is_ours = held.is_some_and(|held| held.holder == self.identity);
        let transitions = held.map_or(0, |held| held.transitions);
        // Standbys detect a renewal by its new time. If the wall clock stands still or goes back,
        // the time is one microsecond after the last one, which is the resolution of a Lease.
        let last = held.filter(|_| is_ours).and_then(|held| held.renewed);
        let after_last =
            last.and_then(|last| last.checked_add(SignedDuration::from_micros(1)).ok());
        let time = after_last.map_or(time, |after_last| time.max(after_last));
        Record {
            holder: self.identity.clone(),
            duration: self.timing.lease_duration,
            acquired: held.filter(|_| is_ours).map_or(Some(time), |held| held.acquired),
            renewed: Some(time),
            transitions: match held {
                Some(_) if !is_ours => transitions.saturating_add(1),
                _ => transitions,
            },
        }
    }

    /// Stores the Lease. `since` changes only when the record does: other changes of the Lease,
    /// such as to its labels, do not show that its holder is alive.
    fn observe(&mut self, lease: Lease, now: Instant) {
        let record = Record::of(&lease);
        let known = self.observed.as_ref().filter(|observed| observed.record == record);
        let since = known.map_or(now, |observed| observed.since);
        self.observed = Some(Observed { lease, record, since });
    }

    /// Ends the leadership, if there is one.
    fn lose(&mut self) {
        self.is_lost |= self.leads_until.take().is_some();
        self.write = None;
        self.must_read = true;
    }

    /// Schedules the next try a retry period after this one was sent, on a standby with jitter.
    fn schedule_retry(&mut self, sent: Instant, now: Instant) {
        let factor =
            if self.leads_until.is_some() { 1.0 } else { 1.0 + self.rng.f64() * (JITTER - 1.0) };
        self.next_try = now.max(sent + self.timing.retry_period.mul_f64(factor));
    }
}

#[cfg(test)]
mod tests;
