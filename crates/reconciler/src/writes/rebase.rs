//! Object versions that this run itself has replaced.
//!
//! The kinds of its children are noted at an owner, which gives the owner a new version. The
//! reconciler still holds the one before. If it then wrote a status with that version, it would get
//! a conflict with its own controller. So the run remembers which version came of which, and a
//! difference that was made from the older one is sent with the newer one. That is safe, because
//! the note was written with the older version as a condition: nobody else wrote in between.

use parking_lot::Mutex;

/// The versions that a run has made of others.
#[derive(Default)]
pub(crate) struct Rebased {
    steps: Mutex<Vec<Step>>,
}

struct Step {
    uid: String,
    from: String,
    to: String,
    /// The note that was written.
    note: String,
}

/// How many steps are remembered. A run has few owners, each of which makes one or two.
const STEPS_MAX: usize = 64;

impl Rebased {
    /// Notes that `to` is `from`, except for a note of the controller.
    pub(crate) fn add(&self, uid: &str, from: &str, to: &str, note: &str) {
        let mut steps = self.steps.lock();
        if steps.len() < STEPS_MAX && from != to {
            let [uid, from, to, note] = [uid, from, to, note].map(str::to_owned);
            steps.push(Step { uid, from, to, note });
        }
    }

    /// The version to name instead of one that was read.
    pub(crate) fn latest(&self, uid: Option<&str>, version: &str) -> String {
        self.follow(uid, version).map_or_else(|| version.to_owned(), |(version, _)| version)
    }

    /// The version that came of one that was read, and its note; `None` if none came of it.
    pub(crate) fn follow(&self, uid: Option<&str>, version: &str) -> Option<(String, String)> {
        let steps = self.steps.lock();
        let mut last: Option<&Step> = None;
        for step in steps.iter().filter(|step| Some(&*step.uid) == uid) {
            if step.from == last.map_or(version, |last| &last.to) {
                last = Some(step);
            }
        }
        last.map(|step| (step.to.clone(), step.note.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_followed_from_the_version_that_was_read() {
        let rebased = Rebased::default();
        rebased.add("a", "1", "2", "one");
        rebased.add("b", "2", "9", "");
        rebased.add("a", "2", "3", "two");
        assert_eq!(rebased.follow(Some("a"), "1"), Some(("3".to_owned(), "two".to_owned())));
        assert_eq!(rebased.latest(Some("a"), "1"), "3");
        assert_eq!(rebased.latest(Some("a"), "2"), "3");
        assert_eq!(rebased.latest(Some("a"), "0"), "0");
        assert_eq!(rebased.latest(Some("b"), "1"), "1");
        assert_eq!(rebased.latest(None, "1"), "1");
    }
}
