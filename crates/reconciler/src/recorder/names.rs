//! Names that the server accepts: of events, and of the controller that reports them.

use fastrand::Rng;
use jiff::Timestamp;

/// The longest name that the server accepts.
const NAME_MAX: usize = 253;

/// The length of a dot and sixteen digits.
const SUFFIX: usize = 17;

/// The longest name of a controller, without its domain.
const CONTROLLER_MAX: usize = 63;

/// By how much two names at the same moment differ at most, in nanoseconds. Without it, recorders
/// whose clocks show the same moment would make the same names.
const SPREAD: u64 = 0xffff;

/// Makes the names of events as client-go does: the name of the object and a time in hexadecimal
/// digits. No two names of one source are the same.
pub(super) struct Names {
    random: Rng,
    /// The time in the last name. The next one is always later, even if the clock stands still.
    last: u64,
}

impl Names {
    pub(super) fn from_seed(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), last: 0 }
    }

    /// A name for an event about the object of this name.
    pub(super) fn next(&mut self, object: &str, wall: Timestamp) -> String {
        let nanoseconds = u64::try_from(wall.as_nanosecond()).unwrap_or_default();
        self.last = self.last.max(nanoseconds).saturating_add(self.random.u64(1..=SPREAD));
        format!("{}.{:016x}", stem(object), self.last)
    }
}

/// The name of the object, if an event may have it. Some kinds allow more than events do, as
/// `system:node`.
fn stem(object: &str) -> &str {
    let end = object.floor_char_boundary(NAME_MAX - SUFFIX);
    let stem = object[..end].trim_end_matches(['-', '.']);
    if is_subdomain(stem) { stem } else { "event" }
}

/// Whether it is a DNS subdomain: labels of small letters, digits and dashes, separated by dots.
fn is_subdomain(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        let has_dash_at_end = label.starts_with('-') || label.ends_with('-');
        !label.is_empty() && !has_dash_at_end && label.bytes().all(is_valid)
    };
    name.len() <= NAME_MAX && name.split('.').all(is_label)
}

/// The name of a controller as the server accepts it: a qualified name, with a domain and a slash
/// before it or not. Invalid characters become dashes, because an event with an almost correct name
/// is better than none.
pub(super) fn controller_name(name: &str) -> String {
    let (domain, name) = match name.split_once('/') {
        Some((domain, name)) => (domain.to_ascii_lowercase(), name),
        None => (String::new(), name),
    };
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = name.chars().map(|c| if is_valid(c) { c } else { '-' });
    let name: String = name.take(CONTROLLER_MAX).collect();
    let name = match name.trim_matches(|c: char| !c.is_ascii_alphanumeric()) {
        "" => "controller",
        name => name,
    };
    if is_subdomain(&domain) { format!("{domain}/{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn moment() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    #[test]
    fn name_is_that_of_the_object_and_a_time() {
        let name = Names::from_seed(1).next("web-0", moment());
        let (object, time) = name.split_once('.').expect("two parts");
        assert_eq!(object, "web-0");
        let time = i128::from(u64::from_str_radix(time, 16).expect("a number"));
        let apart = time - moment().as_nanosecond();
        assert!((1..=i128::from(SPREAD)).contains(&apart), "{apart}");
    }

    #[test]
    fn names_differ_while_the_clock_stands_still_and_come_again_from_the_seed() {
        let names = |seed| {
            let mut names = Names::from_seed(seed);
            (0..1000).map(|_| names.next("web", moment())).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(1).len(), 1000);
        assert_eq!(names(1), names(1));
        assert_ne!(names(1).first(), names(2).first());
    }

    #[test]
    fn object_whose_name_an_event_may_not_have_is_not_named() {
        for object in ["", "system:node", "Upper", "a..b", ".a", "a b", "ä"] {
            let name = Names::from_seed(1).next(object, moment());
            assert!(name.starts_with("event."), "{name}");
        }
    }

    #[test]
    fn long_name_is_cut_to_what_is_allowed() {
        let object = format!("{}-.{}", "a".repeat(234), "b".repeat(17));
        let name = Names::from_seed(1).next(&object, moment());
        assert_eq!(name.len(), 234 + SUFFIX);
        assert!(is_subdomain(&name), "{name}");
        let name = Names::from_seed(1).next(&"c".repeat(253), moment());
        assert_eq!(name.len(), NAME_MAX);
    }

    #[test]
    fn name_of_a_controller_becomes_one_that_the_server_accepts() {
        assert_eq!(controller_name("foo-controller"), "foo-controller");
        assert_eq!(controller_name("example.com/Foo_1.x"), "example.com/Foo_1.x");
        assert_eq!(controller_name("Example.com/foo"), "example.com/foo");
        assert_eq!(controller_name("no domain/foo bar!"), "foo-bar");
        assert_eq!(controller_name("a/b/c"), "a/b-c");
        assert_eq!(controller_name("///"), "controller");
        assert_eq!(controller_name(""), "controller");
        assert_eq!(controller_name(&"x".repeat(100)), "x".repeat(63));
    }
}
