//! What the Secret should contain: a pure function of what it contains, and of the times.
//!
//! ```text
//!            half of the time is over        next is in all bundles
//!                                            for the overlap
//!  ┌─────────┐                 ┌───────────┐                 ┌─────────┐
//!  │ current │ ──────────────► │ current   │ ──────────────► │ current │ (was next)
//!  └─────────┘                 │ next      │                 │ previous│ (was current)
//!       ▲                      └───────────┘                 └─────────┘
//!       └──────────────── previous has expired ───────────────────┘
//! ```
//!
//! Invariants:
//! - All replicas serve leaves of `current`, or of a certificate that was `current` when they read
//!   the Secret last. Its CA is in `previous` until it has expired, so the leaf of a replica that
//!   is late is accepted as long as it is valid.
//! - A certificate of ours leaves the bundles only when it has expired, by the API server's clock
//!   and by this machine's: what is in a bundle and not in the Secret becomes `previous` again.
//! - All else is decided by the API server's clock, which all replicas share. This machine's
//!   decides only if that is not known, and then nothing leaves.
//! - A certificate becomes `current` only after it has been in all bundles for the overlap. The
//!   exceptions have no alternative: there was none before, or the one before is at its end.
//! - The same input gives the same output on all replicas, apart from the keys that are made.

use std::time::Duration;

use super::authority::{Authority, Certificate};
use super::clock::Times;
use super::schedule::Schedule;

#[cfg(test)]
mod tests;

/// How many certificates of the past are kept. A rotation leaves one behind; only somebody who
/// deletes the Secret again and again leaves more.
const PREVIOUS_MAX: usize = 8;

/// The certificate authorities that the Secret contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authorities {
    /// Signs the leaves that are served.
    pub(super) current: Authority,
    /// Is in the bundles, and signs nothing yet.
    pub(super) next: Option<Authority>,
    /// Signed leaves that a late replica may still serve. The keys are gone.
    pub(super) previous: Vec<Certificate>,
}

/// The same, as far as the Secret contains it. Anything else in the Secret counts as nothing.
/// `previous` also has what is in the bundles.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) current: Option<Authority>,
    pub(super) next: Option<Authority>,
    pub(super) previous: Vec<Certificate>,
}

/// What a plan depends on beside the Secret.
pub(super) struct Situation<'a> {
    pub(super) schedule: Schedule,
    pub(super) times: Times,
    /// What this replica read or wrote last. It is the fallback if somebody deleted the Secret.
    pub(super) held: Option<&'a Authorities>,
    /// A certificate that is in all bundles, and for how long.
    pub(super) published: Option<(&'a Certificate, Duration)>,
}

impl Situation<'_> {
    /// What the Secret should contain. `make` makes a certificate authority that is valid now.
    ///
    /// # Errors
    /// Returns what `make` returns.
    pub(super) fn plan<E>(
        &self,
        found: Found,
        mut make: impl FnMut() -> Result<Authority, E>,
    ) -> Result<Authorities, E> {
        let now = self.times.now;
        let usable = |authority: &Authority| authority.certificate.is_valid_at(now);
        let Found { mut current, mut next, mut previous } = found;
        // By another clock they may be usable, so leaves of them stay trusted.
        for unusable in [&mut current, &mut next] {
            let unusable = unusable.take_if(|authority| !usable(authority));
            previous.extend(unusable.map(|authority| authority.certificate));
        }

        // Somebody deleted or broke the Secret. Whatever this replica serves goes on, so nothing
        // fails; and as a deleted Secret usually means that new keys are wanted, they are made.
        let held = self.held.filter(|held| current.is_none() && usable(&held.current));
        if let Some(held) = held {
            next = next.or_else(|| held.next.clone().filter(usable));
            previous.extend(held.previous.iter().cloned());
        }
        let restored = held.map(|held| held.current.clone());
        let is_restored = restored.is_some();
        let mut current = match current.or(restored).or_else(|| next.take()) {
            Some(current) => current,
            None => make()?,
        };

        if next.is_none() && (is_restored || now >= self.schedule.renew_at(&current.certificate)) {
            next = Some(make()?);
        }
        if let Some(promoted) = next.take_if(|next| self.is_ready(&current, next)) {
            previous.push(current.certificate);
            current = promoted;
        }
        let mut authorities = Authorities { current, next, previous };
        authorities.tidy(self.times);
        Ok(authorities)
    }

    fn is_ready(&self, current: &Authority, next: &Authority) -> bool {
        let overlap = self.schedule.overlap(&current.certificate);
        let is_published = self
            .published
            .is_some_and(|(certificate, time)| *certificate == next.certificate && time >= overlap);
        is_published || self.times.now >= Schedule::deadline(&current.certificate)
    }
}

impl Authorities {
    /// The certificates that clients have to trust. The same authorities give the same order.
    pub(super) fn trusted(&self) -> impl Iterator<Item = &Certificate> {
        let next = self.next.as_ref().map(|next| &next.certificate);
        [&self.current.certificate].into_iter().chain(next).chain(&self.previous)
    }

    /// What a `caBundle` should contain.
    pub(super) fn bundle(&self) -> String {
        self.trusted().map(|certificate| certificate.pem.as_str()).collect()
    }

    /// Drops what is useless or there twice, in a way that does not depend on the order.
    fn tidy(&mut self, times: Times) {
        let Self { current, next, previous } = self;
        next.take_if(|next| next.certificate == current.certificate);
        previous.retain(|certificate| {
            times.certain.is_none_or(|certain| certain < Schedule::useless_at(certificate))
                && *certificate != current.certificate
                && next.as_ref().is_none_or(|next| *certificate != next.certificate)
        });
        previous.sort_by(|a, b| (b.not_after, &b.pem).cmp(&(a.not_after, &a.pem)));
        previous.dedup();
        if previous.len() > PREVIOUS_MAX {
            // Leaves of what is not valid now are of no use to anybody whose clock is right.
            previous.sort_by_key(|certificate| !certificate.is_valid_at(times.now));
            previous.truncate(PREVIOUS_MAX);
            previous.sort_by(|a, b| (b.not_after, &b.pem).cmp(&(a.not_after, &a.pem)));
        }
    }
}
