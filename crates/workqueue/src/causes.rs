//! Why a key runs: the causes of the adds that were merged into one run, bounded.

/// How many causes after the first are among the oldest, which are kept.
const OLDER_KEPT: usize = 3;

/// How many causes after the first are kept at most; those that are not among the oldest are the newest.
const MORE_KEPT: usize = 7;

/// The causes of one run, in the order in which they came.
///
/// However many adds were merged, the first four and the last four causes are kept, and the rest is
/// counted: what started it and what it last heard of are what a person asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes<C> {
    /// Most runs have one cause, and it takes no allocation.
    first: Option<C>,
    more: Vec<C>,
    omitted: u64,
}

impl<C> Causes<C> {
    /// A single cause.
    pub(crate) fn of(cause: C) -> Self {
        Self { first: Some(cause), ..Self::default() }
    }

    /// The kept causes, oldest first. Those that were [omitted](Self::omitted) lay between the fourth
    /// and the fifth.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.first.iter().chain(&self.more)
    }

    /// How many causes were left out.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Whether there is no cause at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Puts the causes that came later behind these.
    pub(crate) fn append(&mut self, later: Self) {
        self.omitted += later.omitted;
        for cause in later.first.into_iter().chain(later.more) {
            self.push(cause);
        }
    }

    pub(crate) fn push(&mut self, cause: C) {
        if self.first.is_none() {
            self.first = Some(cause);
            return;
        }
        if self.more.len() == MORE_KEPT {
            self.more.remove(OLDER_KEPT);
            self.omitted += 1;
        }
        self.more.push(cause);
    }
}

impl<C> Default for Causes<C> {
    fn default() -> Self {
        Self { first: None, more: Vec::new(), omitted: 0 }
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
    fn appended_causes_count_as_one_sequence() {
        let (mut whole, mut first, mut second) =
            (Causes::default(), Causes::default(), Causes::default());
        for cause in 0..40 {
            whole.push(cause);
            if cause < 15 { first.push(cause) } else { second.push(cause) }
        }
        first.append(second);
        assert_eq!(first, whole);
    }

    #[test]
    fn few_causes_are_all_kept() {
        let mut causes = Causes::default();
        assert!(causes.is_empty());
        for cause in 0..8 {
            causes.push(cause);
        }
        assert_eq!(causes.iter().count(), 8);
        assert_eq!(causes.omitted(), 0);
    }
}
