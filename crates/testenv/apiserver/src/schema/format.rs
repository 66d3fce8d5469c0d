//! The `format` of a value.
//!
//! Only the formats that the real server knows are kept, and others are ignored. Three that it
//! checks (isbn, creditcard and ssn) are accepted here without a check.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::value_type::Type;

/// A format that the real server knows for the type of the schema.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    /// The name as the schema spells it, for messages.
    pub(super) name: String,
    check: Check,
}

#[derive(Clone, Copy, Debug)]
enum Check {
    /// Accepts everything.
    Unchecked,
    /// Accepts strings for which this function returns true.
    Text(fn(&str) -> bool),
}

impl Format {
    /// Returns the format, unless the real server ignores it for these types.
    pub(super) fn new(name: &str, types: &[Type]) -> Option<Self> {
        let check = match types {
            [Type::Integer] => matches!(name, "int32" | "int64").then_some(Check::Unchecked)?,
            [Type::Number] => matches!(name, "float" | "double").then_some(Check::Unchecked)?,
            [Type::Object | Type::Array | Type::Boolean] => return None,
            _ => text_check(&name.replace('-', ""))?,
        };
        Some(Self { name: name.to_owned(), check })
    }

    /// Whether a string has the format.
    pub(super) fn accepts(&self, text: &str) -> bool {
        match self.check {
            Check::Unchecked => true,
            Check::Text(check) => check(text),
        }
    }
}

/// Returns the check of a string format, by its name without dashes.
fn text_check(name: &str) -> Option<Check> {
    Some(Check::Text(match name {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_uri,
        "email" => |text| EMAIL.is_match(text),
        "hostname" => |text| {
            text.len() <= 255 && text.split('.').all(|p| p.len() <= 63) && HOSTNAME.is_match(text)
        },
        "ipv4" => |text| text.contains('.') && parse_ip(text).is_some(),
        "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => |text| MAC.is_match(text),
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some(b'3')),
        "uuid4" => |text| is_uuid(text, Some(b'4')),
        "uuid5" => |text| is_uuid(text, Some(b'5')),
        "hexcolor" => |text| HEX_COLOR.is_match(text),
        "rgbcolor" => |text| RGB_COLOR.is_match(text),
        "byte" => |text| BASE64.is_match(text),
        "date" => is_date,
        "datetime" => is_date_time,
        "duration" => is_duration,
        "k8sshortname" => |text| crate::metadata::names::label(text).is_empty(),
        "k8slongname" => |text| crate::metadata::names::subdomain(text).is_empty(),
        "isbn" | "isbn10" | "isbn13" | "creditcard" | "ssn" | "password" => {
            return Some(Check::Unchecked);
        }
        _ => return None,
    }))
}

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a built-in pattern must compile")
}

static EMAIL: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^(?:[^<>@]*<)?[^\s<>@"(),:;\[\]\\]+@[^\s<>@"(),:;\\]+>?$"#));
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|",
        r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
        r"([a-zA-Z\p{L}]){2,63})$",
    ))
});
static MAC: LazyLock<Regex> = LazyLock::new(|| {
    let bytes = |n: u8| {
        let (more, pairs) = (n - 1, n / 2 - 1);
        format!(
            "[0-9A-Fa-f]{{2}}(:[0-9A-Fa-f]{{2}}){{{more}}}|[0-9A-Fa-f]{{2}}(-[0-9A-Fa-f]{{2}}){{{more}}}|\
             [0-9A-Fa-f]{{4}}(\\.[0-9A-Fa-f]{{4}}){{{pairs}}}"
        )
    };
    regex(&format!("^({}|{}|{})$", bytes(6), bytes(8), bytes(20)))
});
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| regex("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    regex(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    regex("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});
static GO_DURATION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"));
static LOOSE_DURATION: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)[0-9]+\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)")
});

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let hex: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    let dashes_fit = {
        // A dash is only allowed after each group.
        let mut digits = 0;
        let mut last_dash = false;
        text.bytes().all(|b| {
            if b == b'-' {
                let fits = matches!(digits, 8 | 12 | 16 | 20) && !last_dash;
                last_dash = true;
                fits
            } else {
                digits += 1;
                last_dash = false;
                true
            }
        })
    };
    let version_fits =
        |version: u8| hex[12] == version && (version == b'3' || b"89abAB".contains(&hex[16]));
    dashes_fit
        && hex.len() == 32
        && hex.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(version_fits)
}

/// Whether the text is an absolute path, or has a scheme.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b.is_ascii_control()) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return has_whole_escapes(text);
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let scheme_fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let Some(after) = rest.strip_prefix("//") else { return scheme_fits };
    let authority = after.split(['/', '?']).next().unwrap_or_default();
    scheme_fits
        && !authority.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
        && has_whole_escapes(after)
}

/// Whether every percent sign is followed by two hexadecimal digits.
fn has_whole_escapes(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default();
    path.split('%').skip(1).all(|part| {
        part.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Parses an IP address. Leading zeros are allowed in IPv4, as in old versions of Go.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let octets: Vec<&str> = text
        .split('.')
        .map(|octet| match octet.trim_start_matches('0') {
            "" if !octet.is_empty() => "0",
            trimmed => trimmed,
        })
        .collect();
    octets.join(".").parse().ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match parse_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_date(text: &str) -> bool {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text.as_bytes() else { return false };
    let number = |digits: &[u8]| {
        std::str::from_utf8(digits)
            .ok()
            .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse::<i16>().ok())
    };
    let (Some(year), Some(month), Some(day)) =
        (number(&[y0, y1, y2, y3]), number(&[m0, m1]), number(&[d0, d1]))
    else {
        return false;
    };
    let (Ok(month), Ok(day)) = (month.try_into(), day.try_into()) else { return false };
    jiff::civil::Date::new(year, month, day).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|found| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59")
}

/// Whether the text is a Go duration, or contains one in the loose form `2 hours`.
fn is_duration(text: &str) -> bool {
    GO_DURATION.is_match(text) || LOOSE_DURATION.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_checked_against_their_format() {
        for (name, good, bad) in [
            ("date", "2026-02-28", "2026-02-30"),
            ("date-time", "2026-11-15T00:43:50.5Z", "2026-11-15 00:43:50"),
            ("uuid", "F6D5D612-cdb4-4a0c-b5b7-ebbe131cee33", "f6d5d612-cdb4-4a0c-b5b7"),
            (
                "uuid4",
                "f6d5d612-cdb4-4a0c-b5b7-ebbe131cee33",
                "f6d5d612-cdb4-3a0c-b5b7-ebbe131cee33",
            ),
            ("byte", "aGVsbG8=", "aGVsbG8"),
            ("email", "a.b@example.com", "example.com"),
            ("ipv4", "10.0.0.01", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab", "01:23:45"),
            ("uri", "https://example.com/a?b=%", "example.com"),
            ("duration", "1h30m", "soon"),
            ("duration", "2 hours", ""),
            ("hostname", "example.com", "-a"),
            ("hexcolor", "#ff00AA", "red"),
            ("k8s-short-name", "a-1", "A"),
        ] {
            let format = Format::new(name, &[Type::String]).expect(name);
            assert!(format.accepts(good), "{name} {good}");
            assert!(!format.accepts(bad), "{name} {bad}");
        }
    }

    #[test]
    fn unknown_formats_are_ignored() {
        assert!(Format::new("int32", &[Type::String]).is_none());
        assert!(Format::new("date", &[Type::Integer]).is_none());
        assert!(Format::new("date", &[Type::Array]).is_none());
        assert!(Format::new("int64", &[Type::Integer]).is_some());
        assert!(Format::new("float", &[Type::Number]).is_some());
        assert!(Format::new("date", &[Type::Integer, Type::String]).is_some());
    }
}
