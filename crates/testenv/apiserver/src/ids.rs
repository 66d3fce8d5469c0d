//! Uids and the random part of generated names, drawn from a seed: the same writes get the same
//! uids and names.

use fastrand::Rng;

/// The characters of a generated name: as in Kubernetes, without vowels and look-alikes.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The number of characters that are appended to `generateName`.
const SUFFIX_LENGTH: usize = 5;

/// The source of uids and generated names.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    rng: Rng,
}

impl Ids {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed) }
    }

    /// Returns a new source that is seeded from this one.
    pub(crate) fn fork(&mut self) -> Self {
        Self { rng: self.rng.fork() }
    }

    /// Returns a version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let bits = self.rng.u128(..);
        let bits = (bits & !(0xf << 76)) | (0x4 << 76);
        let bits = (bits & !(0x3 << 62)) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Returns a suffix for `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        (0..SUFFIX_LENGTH).map(|_| char::from(ALPHABET[self.rng.usize(..ALPHABET.len())])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_has_the_form_of_a_version_4_uuid() {
        let uid = Ids::from_seed(7).uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{uid}");
    }

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let draw = |seed| {
            let mut ids = Ids::from_seed(seed);
            (ids.uid(), ids.suffix(), ids.uid())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
