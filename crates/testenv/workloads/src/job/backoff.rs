//! How long a job waits before it retries: ten seconds after the first failure, then twice as long
//! each time, until a pod succeeds.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::objects::Pod;

/// The first and the longest wait: as upstream.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(10);

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    last: Option<Timestamp>,
}

impl Backoff {
    /// Returns the backoff after these pods have finished as well.
    pub(super) fn after(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let last_success = succeeded.iter().filter_map(|pod| ended(pod)).max();
        let (before, counts) =
            if succeeded.is_empty() { (self, None) } else { (Self::default(), last_success) };
        let ends = failed.iter().filter_map(|pod| ended(pod));
        let ends: Vec<Timestamp> =
            ends.filter(|end| counts.is_none_or(|last| *end > last)).collect();
        Self {
            failures: before.failures.saturating_add(u32::try_from(ends.len()).unwrap_or(u32::MAX)),
            last: ends.into_iter().max().or(before.last),
        }
    }

    /// Returns the remaining wait.
    pub(super) fn left(self, now: Timestamp) -> Duration {
        let Some(last) = self.last.filter(|_| self.failures > 0) else { return Duration::ZERO };
        let doublings = (self.failures - 1).min(16);
        let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
        let end = last.saturating_add(wait).unwrap_or(Timestamp::MAX);
        Duration::try_from(end.duration_since(now)).unwrap_or(Duration::ZERO)
    }
}

/// Returns when the last container of the pod ended; else when it was deleted, or created.
fn ended(pod: &Pod) -> Option<Timestamp> {
    let time = |status: &Value| -> Option<Timestamp> {
        status["state"]["terminated"]["finishedAt"].as_str()?.parse().ok()
    };
    let ends: Option<Vec<Timestamp>> = pod.status.container_statuses.iter().map(time).collect();
    let of_containers = ends.and_then(|ends| ends.into_iter().max());
    let metadata = &pod.metadata;
    let known = metadata.deletion_timestamp.as_ref().or(metadata.creation_timestamp.as_ref());
    of_containers.or_else(|| known.map(|time| time.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(second: u32) -> Arc<Pod> {
        let end = format!("2026-01-01T00:00:{second:02}Z");
        Arc::new(
            serde_json::from_value(json!({"metadata": {}, "status": {"containerStatuses": [
                {"state": {"terminated": {"finishedAt": end}}},
            ]}}))
            .expect("a pod"),
        )
    }

    fn at(second: i64) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        start + Duration::from_secs(second.unsigned_abs())
    }

    #[test]
    fn wait_doubles_with_each_failure() {
        let backoff = Backoff::default();
        assert_eq!(backoff.left(at(0)), Duration::ZERO);
        let once = backoff.after(&[], &[pod(5)]);
        assert_eq!(once.left(at(7)), Duration::from_secs(8));
        assert_eq!(once.left(at(15)), Duration::ZERO);
        let twice = once.after(&[], &[pod(20)]);
        assert_eq!(twice.left(at(20)), Duration::from_secs(20));
        let often = (0..50).fold(twice, |backoff, _| backoff.after(&[], &[pod(20)]));
        assert_eq!(often.left(at(20)), LONGEST);
    }

    #[test]
    fn success_ends_the_wait_but_not_for_later_failures() {
        let failed = Backoff::default().after(&[], &[pod(1), pod(2)]);
        assert_eq!(failed.after(&[pod(3)], &[]), Backoff::default());
        let after = failed.after(&[pod(3)], &[pod(2), pod(4)]);
        assert_eq!(after.left(at(4)), Duration::from_secs(10));
    }
}
