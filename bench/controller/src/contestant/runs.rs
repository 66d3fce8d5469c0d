//! What the reconciler of every contestant does: it counts objects until every one has run, and
//! then the changes that it was told to expect.

use std::sync::{Mutex, MutexGuard};

use windlass_bench_controller::index;
use windlass_bench_stage::Latencies;

/// The runs so far.
#[derive(Debug)]
pub(crate) struct Runs {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    count: usize,
    /// How many objects have not run yet.
    left: usize,
    /// By index: whether the object has run, or its change has.
    seen: Vec<bool>,
    latencies: Latencies,
}

impl Runs {
    /// Of so many objects.
    pub(crate) fn new(objects: usize) -> Self {
        let seen = vec![false; objects];
        let state = State { count: 0, left: objects, seen, latencies: Latencies::default() };
        Self { state: Mutex::new(state) }
    }

    /// Makes it count so many objects that are stamped after `since`.
    pub(crate) fn expect(&self, count: usize, since: u64) {
        let mut state = self.state();
        state.seen.fill(false);
        state.latencies.expect(count, since);
    }

    /// An object of this name and stamp has run. Others than the stage's do not count.
    pub(crate) fn ran(&self, name: &str, stamp: Option<&str>) {
        let Some(index) = index(name) else { return };
        let mut state = self.state();
        if index >= state.seen.len() {
            return;
        }
        state.count += 1;
        if state.seen[index] {
            return;
        }
        if state.left == 0 {
            state.seen[index] = state.latencies.changed(stamp);
            return;
        }
        state.seen[index] = true;
        state.left -= 1;
        if state.left == 0 {
            println!("reconciled {}", state.count);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing must panic while it counts")
    }
}

#[cfg(test)]
mod tests {
    use windlass_bench_controller::name;

    use super::*;

    /// How many runs there were, and how many objects are left.
    fn counted(runs: &Runs) -> (usize, usize) {
        let state = runs.state();
        (state.count, state.left)
    }

    #[test]
    fn every_object_has_to_run() {
        let runs = Runs::new(2);
        for ran in [name(1), name(1), "kube-root-ca.crt".to_owned(), name(2)] {
            runs.ran(&ran, None);
        }
        assert_eq!(counted(&runs), (2, 1));
        runs.ran(&name(0), None);
        assert_eq!(counted(&runs), (3, 0));
    }

    #[test]
    fn change_counts_once_and_from_its_stamp_on() {
        let runs = Runs::new(1);
        runs.ran(&name(0), Some("5"));
        runs.expect(2, 10);
        runs.ran(&name(0), Some("10"));
        assert!(!runs.state().seen[0]);
        runs.ran(&name(0), Some("11"));
        assert!(runs.state().seen[0]);
    }
}
