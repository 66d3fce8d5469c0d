//! The status of a stateful set, from the pods that belong to it.

use std::time::Duration;

use jiff::Timestamp;

use super::members::Members;
use super::pods::revision_of;
use crate::objects::{Pod, StatefulSet, StatefulSetStatus};
use crate::pod::{RUNNING, available_in, is_deleted, is_ready, phase};

/// The revisions of a set, by name.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The revision that all pods had when the last update was complete.
    pub(super) current: String,
    /// The revision of the template.
    pub(super) update: String,
    /// How often the name of a revision was already taken.
    pub(super) collisions: i32,
}

/// Returns the status, and when to recompute it: as soon as a ready pod becomes available.
/// `replaced` is the number of pods that this run deleted because of their revision.
pub(super) fn of(
    set: &StatefulSet,
    members: &Members,
    names: &Names,
    replaced: i32,
    now: Timestamp,
) -> (StatefulSetStatus, Option<Duration>) {
    let min_ready = set.spec.min_ready_seconds.unwrap_or(0);
    let is_serving = |pod: &Pod| phase(pod) == RUNNING && is_ready(pod);
    let waits = members.all().filter(|pod| is_serving(pod));
    let waits: Vec<Duration> = waits.filter_map(|pod| available_in(pod, min_ready, now)).collect();
    let of_revision = |name: &str| {
        let stays = members.all().filter(|pod| !is_deleted(pod));
        count(stays.filter(|pod| revision_of(pod) == Some(name)).count())
    };
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation.max(set.status.observed_generation),
        replicas: count(members.all().count()),
        ready_replicas: non_zero(count(waits.len())),
        available_replicas: count(waits.iter().filter(|wait| wait.is_zero()).count()),
        current_replicas: non_zero(of_revision(&names.current) - replaced),
        updated_replicas: non_zero(of_revision(&names.update)),
        current_revision: Some(names.current.clone()),
        update_revision: Some(names.update.clone()),
        collision_count: Some(names.collisions),
    };
    if !set.is_updated_on_delete() {
        complete(set, &mut status);
    }
    (status, waits.into_iter().filter(|wait| !wait.is_zero()).min())
}

/// Once all pods have the revision of the template, it becomes the current one.
fn complete(set: &StatefulSet, status: &mut StatefulSetStatus) {
    let wanted = set.replicas();
    let is_complete = status.updated_replicas.unwrap_or(0) == wanted
        && status.ready_replicas.unwrap_or(0) == wanted
        && status.replicas == wanted;
    if is_complete {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// Returns `None` for zero: the server omits zeros.
fn non_zero(pods: i32) -> Option<i32> {
    (pods != 0).then_some(pods)
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn set(replicas: i32) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "generation": 3},
            "spec": {"replicas": replicas, "minReadySeconds": 10},
        }))
        .expect("a set")
    }

    fn pod(ordinal: i32, revision: &str, ready_since: Option<&str>) -> Value {
        let ready = ready_since
            .map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since}));
        json!({
            "metadata": {
                "name": format!("db-{ordinal}"), "labels": {"controller-revision-hash": revision},
            },
            "status": {"phase": "Running", "conditions": ready.into_iter().collect::<Vec<_>>()},
        })
    }

    fn status(
        set: &StatefulSet,
        pods: Vec<Value>,
        replaced: i32,
    ) -> (StatefulSetStatus, Option<Duration>) {
        let pods: Vec<Arc<Pod>> = pods
            .into_iter()
            .map(|pod| Arc::new(serde_json::from_value(pod).expect("a pod")))
            .collect();
        let names = Names { current: "old".to_owned(), update: "new".to_owned(), collisions: 0 };
        let now = "2026-01-01T00:00:10Z".parse().expect("a time");
        of(set, &Members::of(set, &pods), &names, replaced, now)
    }

    #[test]
    fn pods_are_counted_by_state() {
        let (long, short) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z");
        let mut going = pod(5, "old", Some(long));
        going["metadata"]["deletionTimestamp"] = json!(long);
        let pods =
            vec![pod(0, "old", Some(long)), pod(1, "new", Some(short)), pod(2, "new", None), going];
        let (status, later) = status(&set(3), pods, 0);
        assert_eq!((status.replicas, status.ready_replicas), (4, Some(3)));
        assert_eq!((status.available_replicas, status.observed_generation), (2, Some(3)));
        assert_eq!((status.current_replicas, status.updated_replicas), (Some(1), Some(2)));
        assert_eq!(status.current_revision.as_deref(), Some("old"));
        assert_eq!(later, Some(Duration::from_secs(7)));
    }

    #[test]
    fn update_is_complete_when_all_have_its_revision() {
        let since = Some("2026-01-01T00:00:00Z");
        let (halfway, _) = status(&set(2), vec![pod(0, "old", since), pod(1, "old", since)], 1);
        assert_eq!((halfway.current_replicas, halfway.updated_replicas), (Some(1), None));
        let (done, _) = status(&set(2), vec![pod(0, "new", since), pod(1, "new", since)], 0);
        assert_eq!((done.current_replicas, done.updated_replicas), (Some(2), Some(2)));
        assert_eq!(done.current_revision.as_deref(), Some("new"));
    }
}
