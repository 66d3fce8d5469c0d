//! Why a key runs: the causes of the adds that were merged into one run, bounded.

use std::ops::Deref;
use std::sync::Arc;

/// How many of the oldest causes are kept.
const OLDEST_KEPT: usize = 4;

/// The most causes that a run keeps: half of them the oldest, half the newest.
const KEPT_MAX: usize = 2 * OLDEST_KEPT;

/// The causes of one run, oldest first.
///
/// A run keeps the first four and the last four causes and counts the others: what started it and
/// what happened last are what people ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes<C> {
    /// Most runs have one cause or none, so the first needs no allocation.
    first: Option<C>,
    others: Option<Box<Others<C>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Others<C> {
    kept: Vec<C>,
    omitted: u64,
}

/// The causes of a run that is under way. Shared with its lease after the first call of
/// [`Lease::causes`](crate::Lease::causes).
#[derive(Debug)]
pub(crate) enum RunCauses<C> {
    Own(Causes<C>),
    Shared(Arc<Causes<C>>),
}

impl<C> Causes<C> {
    /// The kept causes, oldest first. The [omitted](Self::omitted) ones came between the fourth and
    /// the fifth.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.first.iter().chain(self.others.iter().flat_map(|others| &others.kept))
    }

    /// How many causes were left out.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.others.as_ref().map_or(0, |others| others.omitted)
    }

    /// Whether there is no cause.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds a cause. Returns the cause that is left out instead, for the caller to drop.
    pub(crate) fn push(&mut self, cause: C) -> Option<C> {
        if self.first.is_none() {
            self.first = Some(cause);
            return None;
        }
        let others = self.others.get_or_insert_default();
        let mut left_out = None;
        // `first` is not in `kept`, so lengths and indexes are one lower.
        if 1 + others.kept.len() == KEPT_MAX {
            left_out = Some(others.kept.remove(OLDEST_KEPT - 1));
            others.omitted += 1;
        }
        others.kept.push(cause);
        left_out
    }

    /// Adds the causes of `later` after these. Returns those that are left out, for the caller to
    /// drop.
    pub(crate) fn append(&mut self, later: Self) -> Vec<C> {
        if self.is_empty() {
            *self = later;
            return Vec::new();
        }
        self.omit(later.omitted());
        later.into_kept().filter_map(|cause| self.push(cause)).collect()
    }

    /// A copy of these causes followed by those of `later`. Clones only what it keeps: the queue is
    /// locked, and a clone must not be dropped there.
    pub(crate) fn join(&self, later: &Self) -> Self
    where
        C: Clone,
    {
        let all: Vec<_> = self.iter().chain(later.iter()).collect();
        let newest_start = OLDEST_KEPT.max(all.len().saturating_sub(KEPT_MAX - OLDEST_KEPT));
        let oldest = all.iter().take(OLDEST_KEPT);
        let mut joined = Self::default();
        for &cause in oldest.chain(all.iter().skip(newest_start)) {
            joined.push(cause.clone());
        }
        let left_out = all.len().saturating_sub(KEPT_MAX) as u64;
        joined.omit(self.omitted() + later.omitted() + left_out);
        joined
    }

    /// Counts causes that were left out.
    fn omit(&mut self, causes: u64) {
        if causes > 0 {
            self.others.get_or_insert_default().omitted += causes;
        }
    }

    pub(crate) fn into_kept(self) -> impl Iterator<Item = C> {
        self.first.into_iter().chain(self.others.into_iter().flat_map(|others| others.kept))
    }
}

impl<C> Default for Causes<C> {
    fn default() -> Self {
        Self { first: None, others: None }
    }
}

impl<C> Default for Others<C> {
    fn default() -> Self {
        Self { kept: Vec::new(), omitted: 0 }
    }
}

impl<C> RunCauses<C> {
    /// Lets the lease share the causes.
    pub(crate) fn share(&mut self) -> Arc<Causes<C>> {
        if let Self::Own(causes) = self {
            *self = Self::Shared(Arc::new(std::mem::take(causes)));
        }
        match self {
            Self::Shared(causes) => Arc::clone(causes),
            Self::Own(_) => unreachable!("the causes must be shared now"),
        }
    }

    /// Takes the causes. Empty if the lease still shares them.
    pub(crate) fn take(&mut self) -> Causes<C> {
        match std::mem::replace(self, Self::Own(Causes::default())) {
            Self::Own(causes) => causes,
            Self::Shared(causes) => Arc::into_inner(causes).unwrap_or_default(),
        }
    }
}

impl<C> Deref for RunCauses<C> {
    type Target = Causes<C>;

    fn deref(&self) -> &Causes<C> {
        match self {
            Self::Own(causes) => causes,
            Self::Shared(causes) => causes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_and_newest_are_kept_and_the_rest_is_counted() {
        let mut causes = Causes::default();
        for cause in 0..1_000 {
            causes.push(cause);
        }
        assert_eq!(causes.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 996, 997, 998, 999]);
        assert_eq!(causes.omitted(), 992);
    }

    #[test]
    fn appended_and_joined_causes_count_as_one_sequence() {
        let mut whole = Causes::default();
        let mut first = Causes::default();
        let mut second = Causes::default();
        for cause in 0..40 {
            whole.push(cause);
            if cause < 15 {
                first.push(cause)
            } else {
                second.push(cause)
            };
        }
        assert_eq!(first.join(&second), whole);
        let left_out = first.append(second);
        assert_eq!(first, whole);
        assert_eq!(left_out, [11, 12, 13, 14, 15, 16, 17, 18]);
    }

    #[test]
    fn few_causes_are_all_kept() {
        let mut causes = Causes::default();
        assert!(causes.is_empty());
        for cause in 0..8 {
            assert_eq!(causes.push(cause), None);
        }
        assert_eq!(causes.iter().count(), 8);
        assert_eq!(causes.omitted(), 0);
    }
}
