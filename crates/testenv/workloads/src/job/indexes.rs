//! Sets of completion indexes, as jobs write them: `0,2-5,7`.

use std::fmt;

/// A set of numbers, stored as sorted intervals that do not touch. Its size depends on the number
/// of intervals, not on their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Parses a set. Indexes from `bound` on and invalid intervals are ignored.
    pub(super) fn parse(text: &str, bound: i32) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
                indexes.add_all(first.max(0), last.min(bound.saturating_sub(1)));
            }
        }
        indexes
    }

    pub(super) fn add(&mut self, index: i32) {
        self.add_all(index, index);
    }

    fn add_all(&mut self, first: i32, last: i32) {
        if first > last {
            return;
        }
        let mut merged = (first, last);
        let touches = |one: &(i32, i32)| {
            i64::from(one.0) <= i64::from(merged.1) + 1
                && i64::from(merged.0) <= i64::from(one.1) + 1
        };
        let (joined, mut rest): (Vec<_>, Vec<_>) = self.0.iter().copied().partition(touches);
        for one in joined {
            merged = (merged.0.min(one.0), merged.1.max(one.1));
        }
        let at = rest.partition_point(|one| one.0 < merged.0);
        rest.insert(at, merged);
        self.0 = rest;
    }

    /// Returns the number of indexes.
    pub(super) fn len(&self) -> i32 {
        let total: i64 =
            self.0.iter().map(|(first, last)| i64::from(*last) - i64::from(*first) + 1).sum();
        i32::try_from(total).unwrap_or(i32::MAX)
    }

    /// Returns the first numbers below `bound` that are not in the set.
    pub(super) fn first_missing(&self, count: usize, bound: i32) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut next = 0;
        for &(first, last) in self.0.iter().chain([&(bound, i32::MAX)]) {
            let free = next..first.min(bound);
            missing.extend(free.take(count - missing.len()));
            next = last.saturating_add(1);
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_format_is_that_of_upstream() {
        for text in ["", "0", "0,1", "0-2", "0,2-5,7", "3,4,6"] {
            assert_eq!(Indexes::parse(text, 100).to_string(), text);
        }
        assert_eq!(Indexes::parse("1,2,3,x,7-5,9-", 100).to_string(), "1-3");
        assert_eq!(Indexes::parse("0-2000000000", 4).to_string(), "0-3");
        assert_eq!(Indexes::parse("0-2147483647", i32::MAX).len(), i32::MAX);
    }

    #[test]
    fn neighbours_become_one_interval() {
        let mut indexes = Indexes::default();
        for index in [4, 0, 2, 1, 9, 3, 4] {
            indexes.add(index);
        }
        assert_eq!((indexes.to_string(), indexes.len()), ("0-4,9".to_owned(), 6));
    }

    #[test]
    fn missing_ones_are_found_from_the_lowest() {
        let indexes = Indexes::parse("0,3-5", 10);
        assert_eq!(indexes.first_missing(3, 10), [1, 2, 6]);
        assert_eq!(indexes.first_missing(9, 8), [1, 2, 6, 7]);
        assert_eq!(indexes.first_missing(0, 10), [0; 0]);
        assert_eq!(Indexes::default().first_missing(2, i32::MAX), [0, 1]);
    }
}
