//! Events of tests, which are kept and not written.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::correlation::RecorderStatus;
use super::occurrence::Occurrence;

/// More events than this are not kept: the oldest are dropped.
const KEPT_MAX: usize = 10_000;

/// What a [`Recorder::in_memory`](crate::Recorder::in_memory) has recorded. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct RecordedEvents {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Occurrence>,
    recorded: u64,
}

impl RecordedEvents {
    /// All events, the oldest first.
    pub fn all(&self) -> Vec<Occurrence> {
        self.kept.lock().events.iter().cloned().collect()
    }

    /// The reasons of all events, the oldest first.
    pub fn reasons(&self) -> Vec<String> {
        self.kept.lock().events.iter().map(|event| event.reason.clone()).collect()
    }

    pub(super) fn push(&self, occurrence: Occurrence) {
        let mut kept = self.kept.lock();
        kept.recorded += 1;
        if kept.events.len() == KEPT_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(occurrence);
    }

    pub(super) fn status(&self) -> RecorderStatus {
        let recorded = self.kept.lock().recorded;
        RecorderStatus { recorded, written: recorded, ..RecorderStatus::default() }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    #[test]
    fn flood_of_events_is_bounded_and_the_newest_are_kept() {
        let events = RecordedEvents::default();
        for number in 0..KEPT_MAX + 5 {
            let about = ObjectReference::default();
            events.push(Occurrence::normal(about, format!("Reason{number}"), "all is well"));
        }
        let reasons = events.reasons();
        assert_eq!((reasons.len(), reasons[0].as_str()), (KEPT_MAX, "Reason5"));
        assert_eq!(events.status().recorded, u64::try_from(KEPT_MAX).expect("small") + 5);
    }
}
