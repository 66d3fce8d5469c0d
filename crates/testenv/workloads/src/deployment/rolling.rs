//! The next step of a rolling update, computed from the sizes of the replica sets alone.
//!
//! Two invariants hold after each step, whatever the pods do meanwhile. First, the sizes add up to
//! at most the maximum, or to what they were before. Second, enough pods stay available, as long as
//! no status reports more available pods than there are. After a size is lowered, its status still
//! counts pods that will be removed; so at most as many available pods count as the size allows.
//! Until they are gone, these pods count against the surge. Upstream considers only sizes, and may
//! exceed the surge for a moment.

use super::limits::Limits;
use crate::objects::ReplicaSet;

/// The numbers of a replica set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Its desired number of pods.
    pub(super) replicas: i32,
    /// The number of pods in its status.
    pub(super) observed: i32,
    /// The number of available pods in its status.
    pub(super) available: i32,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Do nothing until a pod changes.
    Wait,
    /// Scale the new replica set to this size.
    ScaleNew(i32),
    /// Scale the old replica sets to these sizes, in their order.
    ScaleOld(Vec<i32>),
}

/// Returns the next step. `old` is ordered from the oldest to the newest.
pub(super) fn step(limits: &Limits, new: Size, old: &[Size]) -> Step {
    let target = new_size(limits, new.replicas, occupied(old));
    if target != new.replicas {
        return Step::ScaleNew(target);
    }
    let sizes = old_sizes(limits, new, old);
    let is_changed = sizes.iter().zip(old).any(|(size, old)| *size != old.replicas);
    if is_changed { Step::ScaleOld(sizes) } else { Step::Wait }
}

/// Returns how many pods the old replica sets account for: for each, the larger of its desired and
/// its current number.
pub(super) fn occupied<'a>(old: impl IntoIterator<Item = &'a Size>) -> i32 {
    old.into_iter().map(|size| size.replicas.max(size.observed)).sum()
}

/// Returns the size of the new replica set: as large as the surge allows beside the pods of the old
/// ones, at most the desired number.
pub(super) fn new_size(limits: &Limits, replicas: i32, occupied: i32) -> i32 {
    if replicas >= limits.desired {
        return limits.desired;
    }
    let room = limits.total_max() - occupied - replicas;
    replicas + room.clamp(0, limits.desired - replicas)
}

/// Returns the sizes of the old replica sets: first without the unavailable pods, then without as
/// many available ones as `maxUnavailable` permits.
fn old_sizes(limits: &Limits, new: Size, old: &[Size]) -> Vec<i32> {
    let mut sizes: Vec<i32> = old.iter().map(|size| size.replicas).collect();
    let new_unavailable = new.replicas - new.counted();
    let mut budget = new.replicas + total(old) - limits.available_min() - new_unavailable;
    if budget <= 0 {
        return sizes;
    }
    for (size, old) in sizes.iter_mut().zip(old) {
        let taken = (old.replicas - old.counted()).min(budget);
        *size -= taken;
        budget -= taken;
    }
    let available: i32 = new.counted() + old.iter().map(|size| size.counted()).sum::<i32>();
    let mut spare = (available - limits.available_min()).max(0);
    for size in &mut sizes {
        let taken = (*size).min(spare);
        *size -= taken;
        spare -= taken;
    }
    sizes
}

fn total(sets: &[Size]) -> i32 {
    sets.iter().map(|size| size.replicas).sum()
}

impl Size {
    pub(super) fn of(set: &ReplicaSet) -> Self {
        let observed = set.status.replicas;
        Self { replicas: set.replicas(), observed, available: set.available() }
    }

    /// The available pods that remain at its desired size.
    fn counted(self) -> i32 {
        self.available.clamp(0, self.replicas.max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(desired: i32, surge: i32, unavailable: i32) -> Limits {
        Limits { desired, surge, unavailable }
    }

    fn size(replicas: i32, available: i32) -> Size {
        Size { replicas, observed: replicas, available }
    }

    #[test]
    fn new_grows_into_the_surge_before_old_shrinks() {
        let limits = limits(10, 3, 2);
        assert_eq!(step(&limits, size(0, 0), &[size(10, 10)]), Step::ScaleNew(3));
        assert_eq!(step(&limits, size(3, 0), &[size(10, 10)]), Step::ScaleOld(vec![8]));
        assert_eq!(step(&limits, size(3, 0), &[size(8, 8)]), Step::ScaleNew(5));
        assert_eq!(step(&limits, size(5, 0), &[size(8, 8)]), Step::Wait);
        assert_eq!(step(&limits, size(5, 2), &[size(8, 8)]), Step::ScaleOld(vec![6]));
    }

    #[test]
    fn stale_status_after_a_scale_down_is_not_trusted() {
        // Ten were available before the size became eight.
        assert_eq!(step(&limits(10, 3, 2), size(5, 0), &[size(8, 10)]), Step::Wait);
    }

    #[test]
    fn pods_that_are_not_gone_yet_count_against_the_surge() {
        let shrinking = Size { replicas: 8, observed: 10, available: 8 };
        assert_eq!(step(&limits(10, 3, 2), size(3, 0), &[shrinking]), Step::Wait);
    }

    #[test]
    fn pods_that_are_not_available_go_first_wherever_they_are() {
        let limits = limits(4, 1, 0);
        // The newer of the old sets never became ready; four of the oldest must stay.
        assert_eq!(
            step(&limits, size(0, 0), &[size(4, 4), size(1, 0)]),
            Step::ScaleOld(vec![4, 0])
        );
    }

    #[test]
    fn oldest_shrinks_first() {
        let limits = limits(6, 0, 2);
        assert_eq!(
            step(&limits, size(0, 0), &[size(3, 3), size(3, 3)]),
            Step::ScaleOld(vec![1, 3])
        );
    }

    #[test]
    fn scaled_down_deployment_takes_from_the_new_set_at_once() {
        assert_eq!(step(&limits(2, 1, 0), size(5, 5), &[]), Step::ScaleNew(2));
        assert_eq!(step(&limits(0, 1, 0), size(5, 5), &[]), Step::ScaleNew(0));
    }

    #[test]
    fn finished_rollout_takes_no_step() {
        assert_eq!(step(&limits(3, 1, 0), size(3, 3), &[size(0, 0)]), Step::Wait);
    }

    /// Runs rollouts in which pods become available one at a time, and statuses lag as far as they
    /// can. The pods that a lowered size removes may be gone already or still there: both must be
    /// within the bounds.
    #[test]
    fn every_rollout_ends_within_its_bounds() {
        for (desired, surge, unavailable) in
            [(1, 1, 0), (1, 0, 1), (3, 1, 0), (10, 3, 2), (7, 0, 1), (7, 0, 7), (4, 4, 0)]
        {
            let limits = limits(desired, surge, unavailable);
            let (mut new, mut old) = (size(0, 0), size(desired, desired));
            for turn in 0.. {
                assert!(turn < 1000, "{limits:?} never ends: {new:?} {old:?}");
                match step(&limits, new, &[old]) {
                    Step::ScaleNew(replicas) => new.replicas = replicas,
                    Step::ScaleOld(sizes) => old.replicas = sizes[0],
                    Step::Wait if old.observed > old.replicas => {
                        old = size(old.replicas, old.counted());
                    }
                    Step::Wait if new.available < new.replicas => new.available += 1,
                    Step::Wait => break,
                }
                assert!(new.replicas + occupied(&[old]) <= limits.total_max(), "{new:?} {old:?}");
                assert!(new.available + old.counted() >= limits.available_min(), "{new:?} {old:?}");
            }
            assert_eq!((new.available, old.observed), (desired, 0), "{limits:?}");
        }
    }
}
