//! Texts that clients make up, cut for log lines and messages.
//!
//! Whoever reaches the port may send a review in which a name or a kind has megabytes. The names of
//! Kubernetes have 253 characters at most, but for few kinds.

/// How many bytes are left.
const BYTES_MAX: usize = 256;

/// The beginning of a text.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&format!("x{}", "ä".repeat(200))), format!("x{}", "ä".repeat(127)));
    }
}
