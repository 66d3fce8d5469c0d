//! The id of a run, which finds its log lines, its span and its entry in the journal.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;

use fastrand::Rng;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::lock::lock;

/// The id of a run, as controller-runtime's `reconcileID`. It is shown as a random UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(u128);

/// Makes the ids of a controller's runs.
#[derive(Debug)]
pub(crate) struct RunIds {
    random: Mutex<Rng>,
}

/// The bits of a UUID that say that it is a random one: version 4, variant 1.
const UUID_KIND: u128 = (0x4 << 76) | (0b10 << 62);

/// The bits that [`UUID_KIND`] determines.
const UUID_KIND_MASK: u128 = (0xf << 76) | (0b11 << 62);

impl RunIds {
    /// The ids of a controller that was built at this time. The time tells the ids of a process
    /// from those of the process before it, whose controllers had the same names.
    pub(crate) fn of(controller: &str, instance: &str, built: Timestamp) -> Self {
        let mut hasher = DefaultHasher::new();
        (controller, instance, built.as_nanosecond()).hash(&mut hasher);
        Self { random: Mutex::new(Rng::with_seed(hasher.finish())) }
    }

    pub(crate) fn next(&self) -> RunId {
        let random = lock(&self.random).u128(..);
        RunId((random & !UUID_KIND_MASK) | UUID_KIND)
    }
}

impl RunId {
    /// A seed for what is random within the run.
    pub(crate) fn seed(self) -> u64 {
        let [_, _, _, _, _, _, _, _, seed @ ..] = self.0.to_be_bytes();
        u64::from_be_bytes(seed)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| (self.0 >> shift) & ((1 << bits) - 1);
        write!(f, "{:08x}-{:04x}-", part(96, 32), part(80, 16))?;
        write!(f, "{:04x}-{:04x}-{:012x}", part(64, 16), part(48, 16), part(0, 48))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn id_is_written_as_a_random_uuid() {
        let id = RunId(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "01234567-89ab-4def-8123-456789abcdef");
        for _ in 0..100 {
            let text = RunIds::of("web", "web-0", Timestamp::UNIX_EPOCH).next().to_string();
            assert_eq!((text.len(), &text[14..15]), (36, "4"), "{text}");
            assert!("89ab".contains(&text[19..20]), "{text}");
        }
    }

    #[test]
    fn ids_differ_between_runs_controllers_replicas_and_processes() {
        let (now, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_nanosecond(1).expect("a time"));
        let sources = [("a", "0", now), ("b", "0", now), ("a", "1", now), ("a", "0", later)];
        let ids = sources.map(|(controller, instance, built)| {
            let ids = RunIds::of(controller, instance, built);
            [ids.next(), ids.next()]
        });
        let different: BTreeSet<_> = ids.into_iter().flatten().collect();
        assert_eq!(different.len(), 8);
    }
}
