//! Why a key runs: the causes of the adds that were merged into one run, bounded.

/// How many of the oldest causes are kept.
const OLDEST_KEPT: usize = 4;

/// How many causes are kept in all: the oldest, and as many of the newest.
const KEPT_MAX: usize = 2 * OLDEST_KEPT;

/// The causes of one run, oldest first.
///
/// A run keeps the first four and the last four causes and counts the others: what started it and
/// what happened last are what people ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes<C> {
    kept: Vec<C>,
    omitted: u64,
}

impl<C> Causes<C> {
    /// The kept causes, oldest first. The [omitted](Self::omitted) ones came between the fourth and
    /// the fifth.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.kept.iter()
    }

    /// How many causes were left out.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Whether there is no cause.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Adds a cause. Returns the cause that is left out instead, for the caller to drop.
    pub(crate) fn push(&mut self, cause: C) -> Option<C> {
        let mut left_out = None;
        if self.kept.len() == KEPT_MAX {
            left_out = Some(self.kept.remove(OLDEST_KEPT));
            self.omitted += 1;
        }
        self.kept.push(cause);
        left_out
    }

    /// Adds the causes of `later` after these. Returns those that are left out, for the caller to
    /// drop.
    pub(crate) fn append(&mut self, later: Self) -> Vec<C> {
        self.omitted += later.omitted;
        later.kept.into_iter().filter_map(|cause| self.push(cause)).collect()
    }

    /// A copy of these causes followed by those of `later`. It copies only the causes it keeps.
    pub(crate) fn join(&self, later: &Self) -> Self
    where
        C: Clone,
    {
        let mut joined = Causes { kept: self.iter().collect(), omitted: self.omitted };
        joined.append(Causes { kept: later.iter().collect(), omitted: later.omitted });
        Self { kept: joined.kept.into_iter().cloned().collect(), omitted: joined.omitted }
    }

    pub(crate) fn into_kept(self) -> Vec<C> {
        self.kept
    }
}

impl<C> Default for Causes<C> {
    fn default() -> Self {
        Self { kept: Vec::new(), omitted: 0 }
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
