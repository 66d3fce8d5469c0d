//! Resource versions and uids, as small as they come.
//!
//! A resource version is a decimal number on every known server, but its form is the server's affair. So any
//! decimal, of whatever length, compares by its value; anything else is only equal or not.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// An object's resource version.
///
/// ```
/// use windlass_indexer::ResourceVersion;
///
/// let version = |text| ResourceVersion::new(text);
/// assert!(version("99") < version("100"));
/// assert!(version("18446744073709551616") > version("18446744073709551615"));
/// // Not decimal: neither older nor newer.
/// assert_eq!(version("v2").partial_cmp(&version("v1")), None);
/// ```
#[derive(Clone)]
pub struct ResourceVersion(Form);

#[derive(Clone)]
enum Form {
    /// A decimal in its shortest form that fits.
    Number(u64),
    /// Everything else: longer decimals, zeros in front, other texts, none.
    Text(Box<str>),
}

/// An object's uid: sixteen bytes if it is a UUID in its usual form, its text otherwise.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum UidForm {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl ResourceVersion {
    /// From the text that the server gave.
    pub fn new(text: &str) -> Self {
        // `parse` takes a plus sign, and zeros in front would not come back.
        let is_shortest = !text.starts_with(['+', '0']) || text == "0";
        match text.parse() {
            Ok(number) if is_shortest => Self(Form::Number(number)),
            _ => Self(Form::Text(text.into())),
        }
    }

    /// Whether the server gave none.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }

    /// Whether it is a decimal number, and so older or newer than others.
    pub fn is_decimal(&self) -> bool {
        self.digits().is_some()
    }

    /// The digits of a decimal without zeros in front; `None` for other texts.
    fn digits(&self) -> Option<Digits<'_>> {
        match &self.0 {
            Form::Number(number) => Some(Digits::Number(*number)),
            Form::Text(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
                let digits = text.trim_start_matches('0');
                Some(match digits {
                    "" => Digits::Number(0),
                    digits => digits.parse().map_or(Digits::Long(digits), Digits::Number),
                })
            }
            Form::Text(_) => None,
        }
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        match &self.0 {
            Form::Number(_) => 0,
            Form::Text(text) => text.len(),
        }
    }
}

/// The value of a decimal. `Long` does not fit into 64 bits, and so is the larger.
#[derive(PartialEq, Eq, Hash)]
enum Digits<'a> {
    Number(u64),
    Long(&'a str),
}

impl Digits<'_> {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(two)) => one.cmp(two),
            (Self::Number(_), Self::Long(_)) => Ordering::Less,
            (Self::Long(_), Self::Number(_)) => Ordering::Greater,
            (Self::Long(one), Self::Long(two)) => one.len().cmp(&two.len()).then(one.cmp(two)),
        }
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.digits(), other.digits()) {
            (Some(one), Some(two)) => Some(one.compare(&two)),
            _ => (self == other).then_some(Ordering::Equal),
        }
    }
}

impl PartialEq for ResourceVersion {
    fn eq(&self, other: &Self) -> bool {
        match (self.digits(), other.digits()) {
            (None, None) => self.text() == other.text(),
            (one, two) => one == two,
        }
    }
}

impl Eq for ResourceVersion {}

impl Hash for ResourceVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.digits() {
            Some(digits) => digits.hash(state),
            None => self.text().hash(state),
        }
    }
}

impl ResourceVersion {
    fn text(&self) -> Option<&str> {
        match &self.0 {
            Form::Number(_) => None,
            Form::Text(text) => Some(text),
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Number(number) => fmt::Display::fmt(number, f),
            Form::Text(text) => f.pad(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Where the dashes of a UUID are, one bit each.
const DASHES: u64 = 1 << 8 | 1 << 13 | 1 << 18 | 1 << 23;

impl Uid {
    /// From the text that the server gave.
    pub fn new(text: &str) -> Self {
        Self(parse_uuid(text.as_bytes()).map_or_else(|| UidForm::Text(text.into()), UidForm::Uuid))
    }

    /// Whether the server gave none.
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

/// The bytes of a UUID in lower case with its dashes, which is the only form that comes back as it was.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.try_into().ok()?;
    let mut uuid = 0_u128;
    for (at, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'-' if DASHES >> at & 1 == 1 => continue,
            b'0'..=b'9' if DASHES >> at & 1 == 0 => byte - b'0',
            b'a'..=b'f' if DASHES >> at & 1 == 0 => byte - b'a' + 10,
            _ => return None,
        };
        uuid = uuid << 4 | u128::from(digit);
    }
    Some(uuid.to_be_bytes())
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Text(text) => f.pad(text),
            UidForm::Uuid(uuid) => {
                for (index, byte) in uuid.iter().enumerate() {
                    // Dashes stand before the bytes 4, 6, 8 and 10.
                    if matches!(index, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
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
    fn texts_come_back_as_they_were() {
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
            "u",
            "",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
    }

    #[test]
    fn uuids_in_their_usual_form_take_no_allocation() {
        let uid = Uid::new("3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5f");
        assert!(matches!(uid.0, UidForm::Uuid([0x3f, 0x0e, .., 0x4e, 0x5f])), "{uid:?}");
    }
}
