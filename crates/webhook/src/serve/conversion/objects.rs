//! The objects of a conversion review, found without decoding them.
//!
//! What is found need not be JSON: the rest of the review and each object are still decoded, and
//! that fails for everything that is not.

use super::super::scan::{field, string_end};

/// The texts of the objects, one after the other.
#[derive(Clone)]
pub(super) struct Objects<'a> {
    /// What is left of the list, without its brackets; `None` at its end.
    rest: Option<&'a [u8]>,
}

/// What a review may have beside its objects. The API server sends a few hundred bytes.
const ENVELOPE_MAX: usize = 64 * 1024;

/// The review with an empty list of objects, and the objects. If there is no list, or its key is
/// written with escapes, the review is as it was. `None` if it is too large without the objects.
pub(super) fn take_out(review: &[u8]) -> Option<(Vec<u8>, Objects<'_>)> {
    let (start, end) = match list(review, "request", "objects") {
        Some(start) => (start, start + until(&review[start..], b']')),
        None => (review.len(), review.len()),
    };
    let (before, objects, after) = (&review[..start], &review[start..end], &review[end..]);
    if before.len() + after.len() > ENVELOPE_MAX {
        return None;
    }
    let is_blank = objects.iter().all(u8::is_ascii_whitespace);
    Some(([before, after].concat(), Objects { rest: Some(objects).filter(|_| !is_blank) }))
}

/// Where the list that the field `outer` has in its field `inner` begins, after its bracket.
pub(super) fn list(review: &[u8], outer: &str, inner: &str) -> Option<usize> {
    let start = field(review, outer, inner)?;
    (review.get(start) == Some(&b'[')).then_some(start + 1)
}

/// Where `end` comes outside of strings and brackets, or the end of the text.
fn until(text: &[u8], end: u8) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            byte if *byte == end && depth == 0 => return at,
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    text.len()
}

impl<'a> Iterator for Objects<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = until(rest, b',');
        self.rest = rest.get(end + 1..);
        Some(&rest[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(review: &str) -> (String, Vec<&str>) {
        let (envelope, objects) = take_out(review.as_bytes()).expect("it is small");
        let text = |bytes| std::str::from_utf8(bytes).expect("it was cut where it is ASCII");
        (String::from_utf8_lossy(&envelope).into_owned(), objects.map(text).collect())
    }

    #[test]
    fn objects_are_found_where_the_request_has_them() {
        for (review, envelope, objects) in [
            (
                r#"{"request":{"a":{"objects":[1]},"objects" : [{"b":[1,"],\""]},{}],"c":2},"d":3}"#,
                r#"{"request":{"a":{"objects":[1]},"objects" : [],"c":2},"d":3}"#,
                &[r#"{"b":[1,"],\""]}"#, "{}"][..],
            ),
            (r#"{"request":{"objects":[ ]}}"#, r#"{"request":{"objects":[]}}"#, &[]),
            // Not JSON, which shows when the parts are decoded.
            (r#"{"request":{"objects":[1,]}}"#, r#"{"request":{"objects":[]}}"#, &["1", ""]),
            (r#"{"request":{"objects":[1,"2"#, r#"{"request":{"objects":["#, &["1", r#""2"#]),
            (r#"{"objects":[1]}"#, r#"{"objects":[1]}"#, &[]),
            (r#"{"other":{"objects":[1]}}"#, r#"{"other":{"objects":[1]}}"#, &[]),
            (r#"{"request":{"objects":{}}}"#, r#"{"request":{"objects":{}}}"#, &[]),
            ("", "", &[]),
            (r#""\"#, r#""\"#, &[]),
        ] {
            assert_eq!(split(review), (envelope.to_owned(), objects.to_vec()), "{review}");
        }
    }
}
