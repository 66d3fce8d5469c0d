//! Resource versions and uids.
//!
//! Every known server uses decimal numbers as resource versions, but the API does not promise a
//! form. So decimals of any length compare by value. All other texts are only equal or not.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use uuid::Uuid;

/// An object's resource version.
///
/// ```
/// use windlass_indexer::ResourceVersion;
///
/// let version = |text| ResourceVersion::new(text);
/// assert!(version("99") < version("100"));
/// assert!(version("18446744073709551616") > version("18446744073709551615"));
/// // Not decimal, so neither older nor newer.
/// assert_eq!(version("v2").partial_cmp(&version("v1")), None);
/// ```
#[derive(Clone, Debug)]
pub struct ResourceVersion(Box<str>);

/// An object's uid: sixteen bytes if it is a UUID in its usual form, and its text otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(UidForm);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum UidForm {
    Uuid(Uuid),
    Text(Box<str>),
}

impl ResourceVersion {
    /// Creates it from the server's text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether the server sent none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is a decimal number, so that it can be compared with others.
    pub fn is_decimal(&self) -> bool {
        self.value().is_ok()
    }

    /// The digits of a decimal number without leading zeros, or `Err` with any other text.
    fn value(&self) -> Result<&str, &str> {
        let is_decimal = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_digit());
        if is_decimal { Ok(self.0.trim_start_matches('0')) } else { Err(&self.0) }
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.0.len()
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.value(), other.value()) {
            // Of two numbers, the one with more digits is larger.
            (Ok(one), Ok(two)) => Some(one.len().cmp(&two.len()).then(one.cmp(two))),
            (one, two) => (one == two).then_some(Ordering::Equal),
        }
    }
}

impl PartialEq for ResourceVersion {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Eq for ResourceVersion {}

impl Hash for ResourceVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Uid {
    /// Creates it from the server's text.
    pub fn new(text: &str) -> Self {
        let mut buffer = Uuid::encode_buffer();
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut buffer) == text => {
                Self(UidForm::Uuid(uuid))
            }
            // Every other form is kept as a text, so that it is displayed unchanged.
            _ => Self(UidForm::Text(text.into())),
        }
    }

    /// Whether the server sent none.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidForm::Text(text) if text.is_empty())
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        match &self.0 {
            UidForm::Uuid(_) => 0,
            UidForm::Text(text) => text.len(),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Text(text) => f.pad(text),
            UidForm::Uuid(uuid) => uuid.hyphenated().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(one: &str, two: &str) -> Option<Ordering> {
        ResourceVersion::new(one).partial_cmp(&ResourceVersion::new(two))
    }

    #[test]
    fn decimals_of_any_length_compare_by_value() {
        let long = "9".repeat(40);
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("007", "7"), Some(Ordering::Equal));
        assert_eq!(compare(&long, "18446744073709551615"), Some(Ordering::Greater));
        assert_eq!(compare(&long, &format!("1{long}")), Some(Ordering::Less));
        assert_eq!(compare(&format!("0{long}"), &long), Some(Ordering::Equal));
    }

    #[test]
    fn other_texts_are_only_equal_or_not() {
        assert_eq!(compare("abc", "abd"), None);
        assert_eq!(compare("abc", "abc"), Some(Ordering::Equal));
        assert_eq!(compare("12", "12a"), None);
        assert_eq!(compare("+12", "12"), None);
        assert_eq!(compare("", "0"), None);
        assert_eq!(compare("", ""), Some(Ordering::Equal));
    }

    #[test]
    fn texts_are_displayed_unchanged() {
        for text in ["0", "00", "12", "+1", "", "x", "99999999999999999999999"] {
            assert_eq!(ResourceVersion::new(text).to_string(), text);
        }
        for text in [
            "3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5f",
            "3F0E4E4C-9DF3-4A19-8FC2-0A1B2C3D4E5F",
            "3f0e4e4c09df3-4a19-8fc2-0a1b2c3d4e5f",
            "3f0e-e4c-9df3-4a19-8fc2-0a1b2c3d4e5f",
            "3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5g",
            "3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5",
            "3f0e4e4c9df34a198fc20a1b2c3d4e5f",
            "{3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5f}",
            "u",
            "",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
    }

    #[test]
    fn uuids_in_their_usual_form_take_no_allocation() {
        let uid = Uid::new("3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5f");
        assert!(matches!(uid.0, UidForm::Uuid(_)), "{uid:?}");
    }
}
