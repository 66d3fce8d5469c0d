//! When what is due, as fractions of a lifetime: 30 s in a test, a year in production.
//!
//! ```text
//! not_before  made        renewed                     deadline  not_after
//!     ├─ skew ─┼──────────────┼─ overlap ─┼───────────────┼─ rest ──┤
//!              │ signs leaves │ next one  │ next one signs leaves,
//!              │              │ published │ this one stays in the bundles
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::authority::Certificate;

/// The default of [`Certificates::lifetime`](super::Certificates::lifetime).
pub(super) const LIFETIME: Duration = Duration::from_hours(365 * 24);

/// Certificates have whole seconds, and there must be some of them in each step.
const LIFETIME_MIN: Duration = Duration::from_secs(10);

/// Longer than any cluster lives, and far from where times overflow.
const LIFETIME_MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// How much clocks may differ, if a tenth of the lifetime allows it. As in cert-controller.
const SKEW_MAX: Duration = Duration::from_hours(1);

/// How much of the lifetime is left at the deadline, if a sixth of it is not less: replicas learn
/// of the next certificate one after the other, by clocks that differ.
const REST_MAX: Duration = Duration::from_hours(1);

/// How long a certificate is in all bundles before a leaf of it is served. API servers learn of a
/// bundle by a watch, which takes seconds; this is for one that lags behind.
const OVERLAP_MAX: Duration = Duration::from_mins(10);

/// How often everything is checked. While a bundle that somebody reset is wrong, the API server
/// refuses requests, so it is checked as often as controller-runtime checks files.
const LOOK_MAX: Duration = Duration::from_secs(10);
const LOOK_MIN: Duration = Duration::from_millis(100);

/// How long a request to the API server may take.
const REQUEST_MAX: Duration = Duration::from_secs(10);
const REQUEST_MIN: Duration = Duration::from_secs(1);

/// The durations that follow from a lifetime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    lifetime: Duration,
}

impl Schedule {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { lifetime: lifetime.clamp(LIFETIME_MIN, LIFETIME_MAX) }
    }

    /// From when until when a certificate is valid that is made now. It begins earlier, for clocks
    /// that are behind. Both times are whole seconds, as in the certificate.
    pub(super) fn validity(self, now: Timestamp) -> (Timestamp, Timestamp) {
        let whole = |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time);
        let not_before = whole(earlier(now, skew_of(self.lifetime)));
        (not_before, whole(later(now, self.lifetime)))
    }

    /// When the next certificate is made: after half of the time, so that the other half is left
    /// for whatever goes wrong. A lifetime that was shortened meanwhile counts at once.
    pub(super) fn renew_at(self, certificate: &Certificate) -> Timestamp {
        later(certificate.not_before, self.span(certificate) / 2)
    }

    /// How long the next certificate has to be in all bundles before it replaces this one.
    pub(super) fn overlap(self, certificate: &Certificate) -> Duration {
        (self.span(certificate) / 10).min(OVERLAP_MAX)
    }

    /// When the next certificate replaces this one in any case, published or not: soon no client
    /// will accept this one.
    pub(super) fn deadline(certificate: &Certificate) -> Timestamp {
        earlier(certificate.not_after, (certificate.validity() / 6).min(REST_MAX))
    }

    /// When no client accepts this certificate any more, even one whose clock is a little behind.
    pub(super) fn useless_at(certificate: &Certificate) -> Timestamp {
        later(certificate.not_after, skew_of(certificate.validity()))
    }

    /// How long to wait between two checks.
    pub(super) fn look(self) -> Duration {
        (self.lifetime / 60).clamp(LOOK_MIN, LOOK_MAX)
    }

    pub(super) fn request_timeout(self) -> Duration {
        (self.lifetime / 10).clamp(REQUEST_MIN, REQUEST_MAX)
    }

    fn span(self, certificate: &Certificate) -> Duration {
        certificate.validity().min(self.lifetime + skew_of(self.lifetime))
    }
}

fn skew_of(lifetime: Duration) -> Duration {
    (lifetime / 10).min(SKEW_MAX)
}

// A certificate that somebody else made may end in the year 9999, so sums may be out of range.

fn later(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn earlier(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.checked_sub(duration).unwrap_or(Timestamp::MIN)
}
