//! What a body is that is not a JSON object, told by its first bytes.
//!
//! Invariant: text is shown only if it is not in a format that API servers write objects in.

use std::fmt;

/// The longest beginning of a text body that is shown, in characters.
const SHOWN_MAX: usize = 80;

/// What the first bytes of a body look like.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// Nothing but whitespace.
    Empty,
    /// A web page, as proxies and login portals send. With its first line.
    Html(String),
    /// Other text. With its first line.
    Text(String),
    /// JSON that is not an object.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf envelope.
    Protobuf,
    /// CBOR.
    Cbor,
    /// Compressed by gzip.
    Gzip,
    /// None of these.
    Binary,
}

impl Seen {
    /// Tells by `start`, the bytes that have arrived.
    pub(crate) fn from_start(start: &[u8]) -> Self {
        let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
        let text = start.trim_ascii_start();
        match text {
            [] => Self::Empty,
            [b'k', b'8', b's', 0, ..] => Self::Protobuf,
            [0xd9, 0xd9, 0xf7, ..] => Self::Cbor,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [b'{' | b'[' | b'"', ..] => Self::Json,
            _ if looks_like_yaml(text) => Self::Yaml,
            _ => match first_line(text) {
                None => Self::Binary,
                Some(line) if line.starts_with('<') => Self::Html(line),
                // It may be a piece of an object, and then it is nobody's business.
                Some(line) if line.contains(['{', '[', '}', ']']) || line.contains("\":") => {
                    Self::Json
                }
                Some(line) => Self::Text(line),
            },
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Html(line) => write!(f, "a web page that begins with {line:?}"),
            Self::Text(line) => write!(f, "text that begins with {line:?}"),
            Self::Json => f.write_str("other JSON"),
            Self::Yaml => f.write_str("YAML: ask for application/json"),
            Self::Protobuf => f.write_str("protobuf: ask for application/json"),
            Self::Cbor => f.write_str("CBOR: ask for application/json"),
            Self::Gzip => f.write_str("compressed by gzip: ask for the encoding `identity`"),
            Self::Binary => f.write_str("binary data"),
        }
    }
}

/// A document, or a first line of the form `key:`, `key: value` or `- …`.
fn looks_like_yaml(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let key = line.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let is_member = key > 0
        && (&line[key..] == b":" || line[key..].starts_with(b": "))
        && [b"apiVersion".as_slice(), b"kind", b"metadata", b"items", b"data", b"stringData"]
            .contains(&&line[..key]);
    is_member || line.starts_with(b"---") || line.starts_with(b"- ") || line.starts_with(b"%YAML")
}

/// The first line, cut short, if it is text.
fn first_line(text: &[u8]) -> Option<String> {
    let line = text.split(|&byte| byte == b'\n').next()?.trim_ascii_end();
    // Pieces of a body may end within a character, so what is not UTF-8 at the very end is forgiven.
    let start = &line[..line.len().min(SHOWN_MAX * 4)];
    let valid = match std::str::from_utf8(start) {
        Ok(line) => line,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_text = valid.chars().all(|char| !char.is_control() || char == '\t');
    is_text.then(|| valid.chars().take(SHOWN_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_told_by_their_first_bytes() {
        let seen = |start: &[u8]| Seen::from_start(start);
        assert_eq!(seen(b" \n"), Seen::Empty);
        assert_eq!(seen(b"404 page not found\n"), Seen::Text("404 page not found".to_owned()));
        assert_eq!(seen(b"\n<!DOCTYPE html>\r\n<p>"), Seen::Html("<!DOCTYPE html>".to_owned()));
        assert_eq!(seen(b"[{\"data\""), Seen::Json);
        assert_eq!(seen(b"\"secret\""), Seen::Json);
        assert_eq!(seen(b"apiVersion: v1\ndata: secret"), Seen::Yaml);
        assert_eq!(seen(b"---\n"), Seen::Yaml);
        assert_eq!(seen(b"data:\n  a: secret"), Seen::Yaml);
        assert_eq!(seen(b"k8s\0\x0a"), Seen::Protobuf);
        assert_eq!(seen(b"\xd9\xd9\xf7"), Seen::Cbor);
        assert_eq!(seen(b"\x1f\x8b\x08"), Seen::Gzip);
        assert_eq!(seen(b"\x00\x01"), Seen::Binary);
        assert_eq!(
            seen("Zugriff für \"a\" verweigert".as_bytes()).to_string(),
            r#"text that begins with "Zugriff für \"a\" verweigert""#
        );
    }

    #[test]
    fn text_is_cut_short_between_characters() {
        let Seen::Text(line) = Seen::from_start("ü".repeat(500).as_bytes()) else {
            panic!("text")
        };
        assert_eq!(line, "ü".repeat(SHOWN_MAX));
        let Seen::Text(line) = Seen::from_start(&"aü".as_bytes()[..2]) else { panic!("text") };
        assert_eq!(line, "a");
    }

    #[test]
    fn pieces_of_objects_are_not_shown() {
        for start in
            ["\u{feff}{\"data\":{\"p\":\"hunter2\"}}", ",{\"p\":\"hunter2\"}", "x\":\"hunter2\""]
        {
            assert_eq!(Seen::from_start(start.as_bytes()), Seen::Json, "{start}");
        }
    }
}
