//! How urgent a key is, and the group in which it takes turns.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU64;
use std::sync::LazyLock;

/// Seeded once per process. So the hash of a group is the same everywhere, and an attacker cannot
/// choose names that collide.
static GROUP_HASHER: LazyLock<foldhash::quality::RandomState> = LazyLock::new(Default::default);

/// How urgent a key is. Higher priorities are handed out first.
///
/// A key that is added again takes the higher of the two priorities; its priority never sinks while
/// it is queued. A key that has waited long at one level moves up by one (see
/// [`Builder::aging`](crate::Builder::aging)), so urgent keys do not starve the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Work that can wait, such as the first list of a cache.
    Low = 0,
    /// The priority of [`WorkQueue::add`](crate::WorkQueue::add).
    #[default]
    Normal = 1,
    /// Work that somebody is waiting for.
    High = 2,
}

/// The group of a key, when groups take turns; see [`Builder::fair_by`](crate::Builder::fair_by).
///
/// It is the hash of any value. If the hashes of two groups collide, these two share their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(NonZeroU64);

impl Priority {
    /// All levels, lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];
}

impl Group {
    /// The group of everything that is equal to `value`: a namespace, a tenant, a host name.
    #[must_use]
    pub fn of<T: Hash + ?Sized>(value: &T) -> Self {
        Self(NonZeroU64::new(GROUP_HASHER.hash_one(value)).unwrap_or(NonZeroU64::MIN))
    }
}
