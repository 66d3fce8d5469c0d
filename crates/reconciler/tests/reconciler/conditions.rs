//! Conditions: one of each type, whose time says since when its status has its value.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windlass_reconciler::{ConditionType, set_conditions};

const READY: ConditionType = ConditionType::new("Ready");
const STALLED: ConditionType = ConditionType::new("Stalled");

fn minute(number: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + 60 * number).expect("a time")
}

/// A condition with a time of its own.
fn at(condition: Condition, time: Timestamp) -> Condition {
    Condition { last_transition_time: Time(time), ..condition }
}

fn since(conditions: &[Condition]) -> Timestamp {
    READY.find(conditions).expect("a condition").last_transition_time.0
}

#[test]
fn transition_time_changes_with_the_status_and_with_nothing_else() {
    let mut conditions = Vec::new();
    for (condition, time, expected) in [
        (READY.no("Waits", "0 of 3"), minute(1), minute(1)),
        (READY.no("Waits", "1 of 3"), minute(2), minute(1)),
        (READY.yes("AllUp", "3 of 3"), minute(3), minute(3)),
    ] {
        assert!(set_conditions(&mut conditions, None, [at(condition.clone(), time)]));
        assert_eq!((since(&conditions), conditions.len()), (expected, 1));
        assert_eq!(conditions[0].message, condition.message);
    }
}

#[test]
fn same_condition_again_is_no_change() {
    let mut conditions = Vec::new();
    let ready = || READY.yes("AllUp", "");
    assert!(set_conditions(&mut conditions, Some(1), [ready()]));
    assert!(!set_conditions(&mut conditions, Some(1), [ready()]));
    assert!(!set_conditions(&mut conditions, Some(1), [at(ready(), minute(1))]));
}

#[test]
fn time_is_now_in_whole_seconds_as_the_server_stores_it() {
    let before = Timestamp::now().as_second();
    let mut conditions = Vec::new();
    set_conditions(&mut conditions, None, [READY.yes("AllUp", "")]);
    let since = since(&conditions);
    assert!((before..=Timestamp::now().as_second()).contains(&since.as_second()));
    assert_eq!(since.subsec_nanosecond(), 0);
    let stored = serde_json::to_value(&conditions).expect("json");
    let read: Vec<Condition> = serde_json::from_value(stored).expect("conditions");
    assert_eq!(read, conditions);
}

#[test]
fn conditions_of_other_types_stay_as_they_are() {
    let mut conditions = Vec::new();
    let new = [READY.yes("AllUp", ""), STALLED.unknown("NotKnown", "")];
    set_conditions(&mut conditions, None, new);
    set_conditions(&mut conditions, None, [READY.with(true, "Still", "")]);
    assert!(READY.is_true(&conditions));
    assert!(!STALLED.is_true(&conditions));
    assert!(!ConditionType::new("Missing").is_true(&conditions));
    assert!(READY.remove(&mut conditions));
    assert!(!READY.remove(&mut conditions));
    assert!(READY.find(&conditions).is_none());
    assert!(STALLED.find(&conditions).is_some());
}

#[test]
fn newer_generation_is_a_change_but_no_transition() {
    let mut conditions = Vec::new();
    let ready = |time| at(READY.yes("AllUp", "3 of 3"), time);
    assert!(set_conditions(&mut conditions, Some(1), [ready(minute(1))]));
    assert!(!set_conditions(&mut conditions, Some(1), [ready(minute(2))]));
    assert!(set_conditions(&mut conditions, Some(2), [ready(minute(2))]));
    let condition = READY.find(&conditions).expect("a condition");
    assert_eq!(condition.observed_generation, Some(2));
    assert_eq!(since(&conditions), minute(1));
    let lost = at(READY.unknown("Lost", ""), minute(2));
    assert!(set_conditions(&mut conditions, Some(2), [lost]));
    assert_eq!(since(&conditions), minute(2));
}

#[test]
fn condition_of_an_older_generation_is_left_out() {
    let mut conditions = Vec::new();
    set_conditions(&mut conditions, Some(3), [READY.with(true, "AllUp", "")]);
    assert!(!set_conditions(&mut conditions, Some(2), [READY.no("Starting", "")]));
    assert!(READY.is_true(&conditions));
    // One that names no generation may be as new as any.
    assert!(set_conditions(&mut conditions, None, [READY.no("Starting", "")]));
    assert!(!READY.is_true(&conditions));
}
