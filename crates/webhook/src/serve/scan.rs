//! Fields of a review, found without decoding it.
//!
//! The text need not be JSON, nor complete: what is found is still decoded.

/// Where the value begins that the field `outer` has in its field `inner`. Keys with escapes are
/// not found.
pub(super) fn field(review: &[u8], outer: &str, inner: &str) -> Option<usize> {
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
                return Some(at + 1 + blanks.count());
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the string ends that begins here, after its quote.
pub(super) fn string_end(text: &[u8], start: usize) -> usize {
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
