//! What the audit log shows of an election: who held the Lease when, and who wrote when.
//!
//! All times are the server's, so no clock of a replica matters.

use jiff::{SignedDuration, Timestamp};
use windlass_testserver::{AuditRecord, AuditStage};

/// The name of the Lease.
pub const LEASE: &str = "operator";
/// The label of the operator's objects: `parent` or `child`.
pub const LABEL: &str = "failover";
/// The field that is copied from a parent to its child.
pub const VALUE: &str = "value";
/// The annotation of a parent with the last value that the operator has seen.
pub const SEEN: &str = "windlass.dev/seen";
/// The annotation of a parent with the number of values that the operator has seen.
pub const COUNT: &str = "windlass.dev/count";
/// How many parents the operator reconciles at once.
pub const WORKERS: usize = 4;

/// The prefix of the operator's user agents.
const AGENT: &str = "begun/";

/// Returns the user agent of a request that begins at this time, so that the audit log shows the
/// time.
pub fn agent(begun: Timestamp) -> String {
    format!("{AGENT}{begun}")
}

/// A successful write of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseWrite {
    /// The resulting version.
    pub version: u64,
    /// The user that wrote.
    pub user: String,
    /// The holder since then; empty if there is none.
    pub holder: String,
    /// How often the holder has changed.
    pub transitions: i64,
    /// How long the Lease lasts without a renewal.
    pub duration: SignedDuration,
    /// When the server received the write.
    pub received: Timestamp,
}

/// A write of a replica that did not hold the Lease when the server received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateWrite {
    /// The user that wrote.
    pub user: String,
    /// The verb and the path.
    pub request: String,
    /// The status code of the answer, if there was one.
    pub code: Option<u16>,
    /// When its process began the write: see [`agent`].
    pub begun: Option<Timestamp>,
    /// How long ago the user had lost the Lease; `None` if it never held it.
    pub late: Option<SignedDuration>,
    /// Whether it can do no harm: it was applied, so the leader's next run repairs it, or it
    /// carries a version, so it cannot overwrite a change.
    pub is_harmless: bool,
}

/// Returns the successful writes of a Lease, in the order of its versions.
pub fn lease_writes(log: &[AuditRecord], namespace: &str, name: &str) -> Vec<LeaseWrite> {
    let mut writes: Vec<_> = log
        .iter()
        .filter(|record| record.stage == AuditStage::ResponseComplete)
        .filter(|record| record.resource == "leases" && record.namespace == namespace)
        .filter(|record| matches!(record.code, Some(200 | 201)))
        .filter_map(|record| {
            let lease = record.answer.as_ref()?;
            let (metadata, spec) = (&lease["metadata"], &lease["spec"]);
            (metadata["name"] == name).then(|| LeaseWrite {
                version: metadata["resourceVersion"]
                    .as_str()
                    .and_then(|v| v.parse().ok())
                    .unwrap_or(0),
                user: record.user.clone(),
                holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
                transitions: spec["leaseTransitions"].as_i64().unwrap_or_default(),
                duration: SignedDuration::from_secs(
                    spec["leaseDurationSeconds"].as_i64().unwrap_or_default(),
                ),
                received: record.received,
            })
        })
        .collect();
    writes.sort_by_key(|write| write.version);
    writes
}

/// Checks that a Lease had one holder at a time: the holder changes only after a release, or after
/// the Lease has expired. Returns the number of changes.
///
/// # Errors
/// Returns the first two writes that are not allowed to follow each other.
pub fn check_history(writes: &[LeaseWrite]) -> Result<usize, String> {
    let mut changes = 0;
    for pair in writes.windows(2) {
        let [before, after] = pair else { continue };
        let is_renewed = before.holder == after.holder;
        let is_released = after.holder.is_empty() && before.user == after.user;
        let is_free = before.holder.is_empty()
            || after.received.duration_since(before.received) >= before.duration;
        // A replica that is being stopped does not wait for the answer to a write that takes the
        // Lease. The log then has no answer, and only shows the release.
        let is_taken_unseen =
            before.holder.is_empty() && after.holder.is_empty() && before.user != after.user;
        let is_change = (!is_renewed && !is_released) || is_taken_unseen;
        let is_counted = after.transitions == before.transitions + i64::from(is_change);
        if !(is_renewed || is_released || is_free) || !is_counted {
            return Err(format!("{before:?} was followed by {after:?}"));
        }
        changes += usize::from(is_change);
    }
    Ok(changes)
}

/// Resources that standbys write as well: the Lease itself, events, and reviews of their rights.
const NO_LEADERSHIP_NEEDED: [&str; 3] = ["leases", "events", "selfsubjectaccessreviews"];

/// Returns the writes of replicas that did not hold the Lease, and the total number of writes.
/// Writes that need no leadership are not counted.
pub fn late_writes(
    log: &[AuditRecord],
    leases: &[LeaseWrite],
    is_replica: impl Fn(&str) -> bool,
) -> (Vec<LateWrite>, usize) {
    let spans = spans(leases);
    let received = log
        .iter()
        .filter(|record| record.stage == AuditStage::RequestReceived && is_replica(&record.user))
        .filter(|record| !NO_LEADERSHIP_NEEDED.contains(&record.resource.as_str()));
    let (mut late, mut total) = (Vec::new(), 0);
    for record in received {
        total += 1;
        let past = &spans[..spans.partition_point(|(_, since)| *since <= record.received)];
        if past.last().is_some_and(|(holder, _)| *holder == record.user) {
            continue;
        }
        let held = past.iter().rposition(|(holder, _)| *holder == record.user);
        let lost = held.map(|held| past[held + 1].1);
        let is_answer = |answer: &&AuditRecord| {
            answer.id == record.id && answer.stage == AuditStage::ResponseComplete
        };
        let is_applied = record.verb == "patch" && record.uri.contains("force=true");
        late.push(LateWrite {
            user: record.user.clone(),
            request: format!("{} {}", record.verb, record.uri),
            code: log.iter().find(is_answer).and_then(|answer| answer.code),
            begun: record.agent.strip_prefix(AGENT).and_then(|time| time.parse().ok()),
            late: lost.map(|since| record.received.duration_since(since)),
            is_harmless: is_applied || record.verb == "update",
        });
    }
    (late, total)
}

/// Returns which user held the Lease, since when. A span ends when the server *receives* the write
/// that ends it, which is a little early: leaders stop long before.
fn spans(leases: &[LeaseWrite]) -> Vec<(&str, Timestamp)> {
    let mut spans: Vec<(&str, Timestamp)> = Vec::new();
    for write in leases {
        // A writer of the Lease sets itself as the holder, or releases it.
        let user = if write.holder.is_empty() { "" } else { &write.user };
        if spans.last().is_none_or(|(holder, _)| *holder != user) {
            spans.push((user, write.received));
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn lease(holder: &str, transitions: i64, second: i64) -> LeaseWrite {
        LeaseWrite {
            version: second.unsigned_abs(),
            user: if holder.is_empty() { "a" } else { holder }.to_owned(),
            holder: holder.to_owned(),
            transitions,
            duration: SignedDuration::from_secs(4),
            received: time(second),
        }
    }

    #[test]
    fn lease_changes_hands_after_a_release_or_when_it_has_expired() {
        let history = [
            lease("a", 0, 1),
            lease("a", 0, 3),
            lease("", 0, 4),
            lease("b", 1, 5),
            lease("c", 2, 9),
        ];
        assert_eq!(check_history(&history), Ok(2));
        check_history(&[lease("a", 0, 1), lease("b", 1, 4)]).expect_err("it was not expired");
        check_history(&[lease("a", 0, 1), lease("b", 0, 9)]).expect_err("it was not counted");
        let release =
            |transitions| LeaseWrite { user: "b".to_owned(), ..lease("", transitions, 2) };
        check_history(&[lease("a", 0, 1), release(0)]).expect_err("somebody else released it");
        check_history(&[lease("", 0, 1), release(0)]).expect_err("it was not counted");
        assert_eq!(check_history(&[lease("", 0, 1), release(1)]), Ok(1), "it was taken meanwhile");
    }

    #[test]
    fn write_of_a_replica_that_does_not_hold_the_lease_is_found() {
        let leases = [lease("a", 0, 2), lease("a", 0, 4), lease("b", 1, 9)];
        let write = |user: &str, verb: &str, uri: &str, second| AuditRecord {
            user: user.to_owned(),
            verb: verb.to_owned(),
            uri: uri.to_owned(),
            agent: agent(time(second - 1)),
            received: time(second),
            ..AuditRecord::default()
        };
        let log = [
            write("a", "update", "/x", 1),
            write("a", "update", "/x", 3),
            write("a", "patch", "/x?force=true", 10),
            write("a", "patch", "/x", 11),
            write("b", "update", "/x", 10),
            write("controller-manager", "delete", "/x", 10),
        ];
        let (late, total) = late_writes(&log, &leases, |user| user.len() == 1);
        assert_eq!(total, 5);
        assert_eq!(late[0].begun, Some(time(0)));
        let shown: Vec<_> = late.iter().map(|write| (write.late, write.is_harmless)).collect();
        let seconds = |seconds| Some(SignedDuration::from_secs(seconds));
        assert_eq!(shown, [(None, true), (seconds(1), true), (seconds(2), false)]);
    }
}
