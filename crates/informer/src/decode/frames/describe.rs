//! Describes a body that is not a JSON object by its first bytes.
//!
//! Invariant: text is shown only if it is in no format that an API server writes objects in.

/// The longest beginning of a text body that is shown, in characters.
const SHOWN_MAX: usize = 80;

/// What a body looks like, given the bytes that have arrived.
pub(crate) fn describe_body(start: &[u8]) -> String {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = start.trim_ascii_start();
    let described = match text {
        [] => "empty",
        [b'k', b'8', b's', 0, ..] => "protobuf: ask for application/json",
        [0xd9, 0xd9, 0xf7, ..] => "CBOR: ask for application/json",
        [0x1f, 0x8b, ..] => "compressed by gzip: ask for the encoding `identity`",
        [b'{' | b'[' | b'"', ..] => "other JSON",
        _ if looks_like_yaml(text) => "YAML: ask for application/json",
        _ => match first_line(text) {
            None => "binary data",
            Some(line) if line.starts_with('<') => {
                return format!("a web page that begins with {line:?}");
            }
            // It may be a part of an object, and so must not be shown.
            Some(line) if line.contains(['{', '[', '}', ']']) || line.contains("\":") => {
                "other JSON"
            }
            Some(line) => return format!("text that begins with {line:?}"),
        },
    };
    described.to_owned()
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
    // A chunk may end within a character, so invalid UTF-8 at the very end is ignored.
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
    fn bodies_are_described_by_their_first_bytes() {
        let html = r#"a web page that begins with "<!DOCTYPE html>""#;
        let text = r#"text that begins with "Zugriff für \"a\" verweigert""#;
        let gzip = "compressed by gzip: ask for the encoding `identity`";
        for (start, described) in [
            (&b" \n"[..], "empty"),
            (b"404 page not found\n", r#"text that begins with "404 page not found""#),
            (b"\n<!DOCTYPE html>\r\n<p>", html),
            (b"[{\"data\"", "other JSON"),
            (b"\"secret\"", "other JSON"),
            (b"apiVersion: v1\ndata: secret", "YAML: ask for application/json"),
            (b"---\n", "YAML: ask for application/json"),
            (b"data:\n  a: secret", "YAML: ask for application/json"),
            (b"k8s\0\x0a", "protobuf: ask for application/json"),
            (b"\xd9\xd9\xf7", "CBOR: ask for application/json"),
            (b"\x1f\x8b\x08", gzip),
            (b"\x00\x01", "binary data"),
            ("Zugriff für \"a\" verweigert".as_bytes(), text),
        ] {
            assert_eq!(describe_body(start), described);
        }
    }

    #[test]
    fn text_is_cut_short_between_characters() {
        let long = format!("text that begins with {:?}", "ü".repeat(SHOWN_MAX));
        assert_eq!(describe_body("ü".repeat(500).as_bytes()), long);
        assert_eq!(describe_body(&"aü".as_bytes()[..2]), r#"text that begins with "a""#);
    }

    #[test]
    fn parts_of_objects_are_not_shown() {
        for start in
            ["\u{feff}{\"data\":{\"p\":\"hunter2\"}}", ",{\"p\":\"hunter2\"}", "x\":\"hunter2\""]
        {
            assert_eq!(describe_body(start.as_bytes()), "other JSON", "{start}");
        }
    }
}
