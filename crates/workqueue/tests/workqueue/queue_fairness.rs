//! Groups of keys take turns within a priority.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{SECOND, run_next, run_ready};
use tokio::time::advance;
use windlass_workqueue::{Add, Group, Priority, WorkQueue};

/// A namespace and a number.
type Key = (&'static str, u32);

fn fair_queue() -> WorkQueue<Key> {
    let builder = WorkQueue::builder().aging(10 * SECOND);
    builder.fair_by(|(namespace, _): &Key| Group::of(*namespace)).build().unwrap()
}

#[test]
fn a_flood_of_one_group_delays_another_by_one_key() {
    let queue = fair_queue();
    for number in 0..1_000 {
        queue.add(("noisy", number)).unwrap();
    }
    queue.add(("quiet", 0)).unwrap();
    assert_eq!(run_next(&queue), Some(("noisy", 0)));
    assert_eq!(run_next(&queue), Some(("quiet", 0)));
    assert_eq!(run_ready(&queue).len(), 999);
}

#[test]
fn groups_take_turns_and_each_keeps_its_order() {
    let queue = fair_queue();
    for key in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("c", 2)] {
        queue.add(key).unwrap();
    }
    let turns = [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("c", 2), ("a", 3)];
    assert_eq!(run_ready(&queue), turns);
}

#[test]
fn every_group_gets_its_share_at_any_moment() {
    let queue = fair_queue();
    for (namespace, keys) in [("big", 300), ("middle", 200), ("small", 100)] {
        for number in 0..keys {
            queue.add((namespace, number)).unwrap();
        }
    }
    let mut shares = HashMap::new();
    for (namespace, _) in run_ready(&queue).into_iter().take(300) {
        *shares.entry(namespace).or_insert(0) += 1;
        let most = shares.values().max().unwrap();
        let least = shares.values().min().unwrap();
        assert!(shares.len() < 3 || most - least <= 1, "{shares:?}");
    }
    assert_eq!(shares, HashMap::from([("big", 100), ("middle", 100), ("small", 100)]));
}

#[test]
fn a_group_that_comes_back_goes_to_the_end_of_the_ring() {
    let queue = fair_queue();
    for key in [("a", 1), ("b", 1), ("b", 2), ("c", 1)] {
        queue.add(key).unwrap();
    }
    assert_eq!(run_next(&queue), Some(("a", 1)));
    queue.add(("a", 2)).unwrap();
    assert_eq!(run_ready(&queue), [("b", 1), ("c", 1), ("a", 2), ("b", 2)]);
}

#[test]
fn keys_are_merged_and_stay_in_their_group() {
    let queue = fair_queue();
    for _ in 0..10 {
        for key in [("a", 1), ("b", 1), ("a", 2)] {
            queue.add(key).unwrap();
        }
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(run_ready(&queue), [("a", 1), ("b", 1), ("a", 2)]);
}

#[test]
fn priority_comes_before_turns() {
    let queue = fair_queue();
    for number in 0..3 {
        queue.add_with(("a", number), Add::now().priority(Priority::High)).unwrap();
    }
    queue.add(("b", 0)).unwrap();
    queue.add_with(("c", 0), Add::now().priority(Priority::Low)).unwrap();
    assert_eq!(run_ready(&queue), [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0)]);
}

#[test]
fn a_raised_key_takes_turns_at_its_new_level() {
    let queue = fair_queue();
    for key in [("a", 1), ("a", 2), ("b", 1)] {
        queue.add(key).unwrap();
    }
    for key in [("a", 2), ("b", 1)] {
        queue.add_with(key, Add::now().priority(Priority::High)).unwrap();
    }
    assert_eq!(run_ready(&queue), [("a", 2), ("b", 1), ("a", 1)]);
}

#[test]
fn keys_raised_over_and_over_in_groups_run_once() {
    let queue = fair_queue();
    for priority in Priority::ALL {
        for number in 0..500 {
            queue.add_with(("a", number), Add::now().priority(priority)).unwrap();
            queue.add_with(("b", number), Add::now().priority(priority)).unwrap();
        }
    }
    let expected: Vec<_> = (0..500).flat_map(|number| [("a", number), ("b", number)]).collect();
    assert_eq!(run_ready(&queue), expected);
}

#[test]
fn a_running_key_does_not_hold_up_its_group() {
    let queue = fair_queue();
    queue.add(("a", 1)).unwrap();
    let running = queue.try_get().unwrap();
    for key in [("a", 1), ("a", 2), ("b", 1), ("a", 3)] {
        queue.add(key).unwrap();
    }
    assert_eq!(run_next(&queue), Some(("a", 2)), "it is passed over, and its group keeps its turn");
    assert_eq!(run_next(&queue), Some(("b", 1)));
    drop(running);
    assert_eq!(run_ready(&queue), [("a", 1), ("a", 3)], "it comes first in its group");
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_take_turns_when_they_are_due() {
    let queue = fair_queue();
    for number in 0..3 {
        queue.add_after(("a", number), SECOND).unwrap();
    }
    queue.add_after(("b", 0), SECOND).unwrap();
    advance(SECOND).await;
    assert_eq!(run_ready(&queue), [("a", 0), ("b", 0), ("a", 1), ("a", 2)]);
}

#[tokio::test(start_paused = true)]
async fn aged_keys_take_turns_at_the_level_they_reach() {
    let queue = fair_queue();
    for number in 0..3 {
        queue.add_with(("old", number), Add::now().priority(Priority::Low)).unwrap();
    }
    advance(11 * SECOND).await;
    for number in 0..3 {
        queue.add(("new", number)).unwrap();
    }
    let turns = [("new", 0), ("old", 0), ("new", 1), ("old", 1), ("new", 2), ("old", 2)];
    assert_eq!(run_ready(&queue), turns);
}

#[test]
fn groups_that_come_and_go_are_served_in_order() {
    let queue = WorkQueue::<u32>::builder().fair_by(Group::of::<u32>).build().unwrap();
    for round in 0..20 {
        for key in 0..200 {
            queue.add(round * 1_000 + key).unwrap();
        }
        let expected: Vec<_> = (0..200).map(|key| round * 1_000 + key).collect();
        assert_eq!(run_ready(&queue), expected);
    }
}

#[test]
fn equal_values_are_one_group() {
    assert_eq!(Group::of("default"), Group::of(&"default".to_owned()));
    assert_ne!(Group::of("default"), Group::of("kube-system"));
}

/// A key stays in the group that it lined up in, though the caller's mapping changes under it.
#[test]
fn a_group_that_changes_while_a_key_is_in_line_loses_nothing() {
    let renamed = Arc::new(AtomicBool::new(false));
    let mapping = Arc::clone(&renamed);
    let group_of = move |key: &u32| {
        let offset = u32::from(mapping.load(Ordering::Relaxed)) * 100;
        Group::of(&(key % 2 + offset))
    };
    let queue = WorkQueue::<u32>::builder().fair_by(group_of).build().unwrap();
    let low = || Add::now().priority(Priority::Low);
    for key in 0..6 {
        queue.add_with(key, low()).unwrap();
    }
    assert_eq!(queue.len(), 6);
    renamed.store(true, Ordering::Relaxed);
    for key in 0..3 {
        queue.add_with(key, Add::now().priority(Priority::High)).unwrap();
    }
    let mut ran = run_ready(&queue);
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2, 3, 4, 5]);
    assert!(queue.is_empty());
}
