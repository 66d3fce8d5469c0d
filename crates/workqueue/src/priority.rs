//! How urgent a key is, and which group it takes turns in.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU64;
use std::sync::LazyLock;

/// Seeded once a process: a group's hash is the same wherever it is made, and nobody outside can choose
/// names that collide.
static GROUP_HASHER: LazyLock<foldhash::quality::RandomState> = LazyLock::new(Default::default);

/// How urgent a key is: a higher one is handed out first.
///
/// A key that is added again takes the higher of the two; its priority never sinks while it is queued.
/// A key that has waited long at one level is moved up by one (see
/// [`Builder::aging`](crate::Builder::aging)), so a flood of urgent keys starves nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Work that can wait, such as the first list of a cache.
    Low = 0,
    /// What [`WorkQueue::add`](crate::WorkQueue::add) uses.
    #[default]
    Normal = 1,
    /// Work that somebody is waiting for.
    High = 2,
}

/// The group that a key belongs to when groups take turns; see
/// [`Builder::fair_by`](crate::Builder::fair_by).
///
/// Made from anything that can be hashed. Should two groups' hashes ever collide, these two share their
/// turns and nothing else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(NonZeroU64);

impl Priority {
    /// All levels, lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    /// The next higher level, if there is one.
    #[must_use]
    pub fn raised(self) -> Option<Self> {
        match self {
            Self::Low => Some(Self::Normal),
            Self::Normal => Some(Self::High),
            Self::High => None,
        }
    }
}

impl Group {
    /// The group of everything that is equal to `value`: a namespace, a tenant, a host name.
    #[must_use]
    pub fn of<T: Hash + ?Sized>(value: &T) -> Self {
        Self(NonZeroU64::new(GROUP_HASHER.hash_one(value)).unwrap_or(NonZeroU64::MIN))
    }
}
