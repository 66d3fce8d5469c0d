//! The objects of a conversion review, found without decoding them.
//!
//! What is found need not be JSON: the rest of the review and each object are still decoded, and
//! that fails for everything that is not.

use std::borrow::Cow;

/// The texts of the objects, one after the other.
#[derive(Clone)]
pub(super) struct Objects<'a> {
    /// What is left of the list, without its brackets; `None` at its end.
    rest: Option<&'a [u8]>,
}

/// The review with an empty list of objects, and the objects. If there is no list, or its key is
/// written with escapes, the review is as it was.
pub(super) fn take_out(review: &[u8]) -> (Cow<'_, [u8]>, Objects<'_>) {
    let Some(start) = list(review, "request", "objects") else {
        return (Cow::Borrowed(review), Objects { rest: None });
    };
    let list = &review[start..];
    let end = start + until(list, b']');
    let objects = &review[start..end];
    let is_blank = objects.iter().all(u8::is_ascii_whitespace);
    let envelope = [&review[..start], &review[end..]].concat();
    (Cow::Owned(envelope), Objects { rest: Some(objects).filter(|_| !is_blank) })
}

/// Where the list that the field `outer` has in its field `inner` begins, after its bracket.
pub(super) fn list(review: &[u8], outer: &str, inner: &str) -> Option<usize> {
    let (mut depth, mut at, mut is_within) = (0_usize, 0, false);
    let mut string: &[u8] = &[];
    while let Some(byte) = review.get(at) {
        match byte {
            b'"' => {
                let end = string_end(review, at);
                string = review.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => is_within = string == outer.as_bytes(),
            b':' if depth == 2 && is_within && string == inner.as_bytes() => {
                let blanks = review[at + 1..].iter().take_while(|byte| byte.is_ascii_whitespace());
                let bracket = at + 1 + blanks.count();
                return (review.get(bracket) == Some(&b'[')).then_some(bracket + 1);
            }
            _ => {}
        }
        at += 1;
    }
    None
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

/// Where the string ends that begins here, after its quote.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
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
        let (envelope, objects) = take_out(review.as_bytes());
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
