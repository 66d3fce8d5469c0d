//! What the handler of every contestant does: it counts pods until all are there, and then the
//! changes that it was told to expect.

use std::sync::Mutex;

use windlass_bench_stage::Latencies;

/// The handler. Its lock is never contended: every contestant calls it from one task.
#[derive(Debug)]
pub(crate) struct Handler {
    pods: usize,
    /// Whether every pod is to be read.
    reads: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    added: usize,
    touched: usize,
    latencies: Latencies,
}

impl Handler {
    /// A handler for so many pods.
    pub(crate) fn new(pods: usize, reads: bool) -> Self {
        Self { pods, reads, state: Mutex::default() }
    }

    /// Makes it count so many pods that are stamped after `since`.
    pub(crate) fn expect(&self, count: usize, since: u64) {
        self.state().latencies.expect(count, since);
    }

    /// A pod was added; returns whether it was the last.
    pub(crate) fn added(&self) -> bool {
        let mut state = self.state();
        state.added += 1;
        state.added == self.pods
    }

    /// A pod may have changed that has this stamp.
    pub(crate) fn changed(&self, stamp: Option<&str>) {
        self.state().latencies.changed(stamp);
    }

    /// Reads a pod, if pods are to be read; what is returned makes that not to be for nothing.
    pub(crate) fn read(&self, look: impl FnOnce() -> usize) {
        if self.reads {
            let read = look();
            self.state().touched += read;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing must panic while it counts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_pod_is_noticed_once() {
        let handler = Handler::new(2, false);
        assert_eq!([handler.added(), handler.added(), handler.added()], [false, true, false]);
    }
}
