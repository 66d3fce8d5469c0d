//! How long requests, answers and lines of watches take.
//!
//! A latency is not the next number of a random sequence, but a hash of the seed, of what is sent
//! and of how often it was sent before. So a request that comes earlier or later than in another
//! run changes no latency but its own, and a fault changes nothing before it strikes.

use std::collections::BTreeMap;

use crate::process::Time;

/// Draws latencies.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    seed: u64,
    /// The longest latency of lines of watches. Requests and answers take a fifth of it at most.
    longest: Time,
    counts: BTreeMap<String, u64>,
}

impl Latencies {
    pub(crate) fn new(seed: u64, longest: Time) -> Self {
        Self { seed, longest, counts: BTreeMap::new() }
    }

    /// Draws the latency of a request or of its answer.
    pub(crate) fn of_request(&mut self, what: &str) -> (Time, u64) {
        self.draw(what, self.longest / 5)
    }

    /// Draws the latency of a line.
    pub(crate) fn of_line(&mut self, what: &str) -> (Time, u64) {
        self.draw(what, self.longest)
    }

    /// Returns a latency of at least one millisecond, and a number that decides which of two things
    /// at the same time comes first.
    fn draw(&mut self, what: &str, longest: Time) -> (Time, u64) {
        let count = self.counts.entry(what.to_owned()).or_default();
        *count += 1;
        let drawn = mix(mix(self.seed, what.as_bytes()), &count.to_le_bytes());
        (1 + drawn % longest.max(1), mix(drawn, b"order"))
    }
}

/// A hash that is the same on every machine: FNV-1a, and the finalizer of `SplitMix64`.
pub(crate) fn mix(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_depends_on_the_seed_on_what_is_sent_and_how_often() {
        let mut latencies = Latencies::new(1, 1_000_000);
        let first = latencies.of_line("a");
        let second = latencies.of_line("a");
        assert_ne!(first, second);
        assert_ne!(Latencies::new(2, 1_000_000).of_line("a"), first);
        let mut again = Latencies::new(1, 1_000_000);
        again.of_line("b");
        assert_eq!(again.of_line("a"), first, "others do not count");
    }
}
