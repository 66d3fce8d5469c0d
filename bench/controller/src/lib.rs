//! What the stage of the controller benchmark and its contestants have agreed upon beside what is
//! in `bench/stage`: what objects are called, so that a contestant knows which of them it has run.

/// What the names of the stage's objects begin with; their index follows.
const PREFIX: &str = "object-";

/// The name of the object with this index.
pub fn name(index: usize) -> String {
    format!("{PREFIX}{index:06}")
}

/// The index of the object with this name; `None` for one that the stage has not made.
pub fn index(name: &str) -> Option<usize> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_found_in_the_name() {
        assert_eq!(index(&name(7)), Some(7));
        assert_eq!(index(&name(999_999)), Some(999_999));
        assert_eq!(index("extension-apiserver-authentication"), None);
    }
}
