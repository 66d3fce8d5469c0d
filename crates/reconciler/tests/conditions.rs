//! Conditions: one of each type, whose time tells since when its status is what it is.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windlass_reconciler::{
    ConditionType, condition, find_condition, is_condition_true, remove_condition, set_condition,
    set_condition_at, set_conditions_at,
};

fn moment(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn since(conditions: &[Condition], type_: &str) -> Timestamp {
    find_condition(conditions, type_).expect("a condition").last_transition_time.0
}

#[test]
fn transition_time_changes_with_the_status_and_with_nothing_else() {
    let (one, two, three) = (
        moment("2026-01-01T00:00:00Z"),
        moment("2026-01-01T00:01:00Z"),
        moment("2026-01-01T00:02:00Z"),
    );
    let mut conditions = Vec::new();
    assert!(set_condition_at(&mut conditions, condition("Ready", "False", "Waits", "0 of 3"), one));
    assert!(set_condition_at(&mut conditions, condition("Ready", "False", "Waits", "1 of 3"), two));
    assert_eq!(since(&conditions, "Ready"), one);
    assert_eq!(conditions[0].message, "1 of 3");
    assert!(set_condition_at(
        &mut conditions,
        condition("Ready", "True", "AllUp", "3 of 3"),
        three
    ));
    assert_eq!(since(&conditions, "Ready"), three);
    assert_eq!(conditions.len(), 1);
}

#[test]
fn same_condition_again_is_no_change() {
    let now = moment("2026-01-01T00:00:00Z");
    let later = moment("2026-01-01T01:00:00Z");
    let mut conditions = Vec::new();
    let ready = || condition("Ready", "True", "AllUp", "");
    assert!(set_condition_at(&mut conditions, ready(), now));
    assert!(!set_condition_at(&mut conditions, ready(), later));
    let observed = Condition { observed_generation: Some(2), ..ready() };
    assert!(set_condition_at(&mut conditions, observed, later));
    assert_eq!(since(&conditions, "Ready"), now);
}

#[test]
fn time_that_is_given_counts_when_the_status_changes() {
    let (given, now) = (moment("2025-06-01T00:00:00Z"), moment("2026-01-01T00:00:00Z"));
    let mut conditions = vec![condition("Ready", "False", "Waits", "")];
    let ready =
        Condition { last_transition_time: Time(given), ..condition("Ready", "True", "AllUp", "") };
    assert!(set_condition_at(&mut conditions, ready, now));
    assert_eq!(since(&conditions, "Ready"), given);
}

#[test]
fn time_is_in_whole_seconds_as_the_server_stores_it() {
    let mut conditions = Vec::new();
    let now = moment("2026-01-01T00:00:00.75Z");
    set_condition_at(&mut conditions, condition("Ready", "True", "AllUp", ""), now);
    assert_eq!(since(&conditions, "Ready"), moment("2026-01-01T00:00:00Z"));
    let stored = serde_json::to_value(&conditions).expect("json");
    let read: Vec<Condition> = serde_json::from_value(stored).expect("conditions");
    assert_eq!(read, conditions);
}

#[test]
fn now_is_the_machines_unless_it_is_given() {
    let before = Timestamp::now().as_second();
    let mut conditions = Vec::new();
    set_condition(&mut conditions, condition("Ready", "True", "AllUp", ""));
    let since = since(&conditions, "Ready").as_second();
    assert!((before..=Timestamp::now().as_second()).contains(&since));
}

#[test]
fn conditions_of_other_types_stay_as_they_are() {
    let mut conditions = Vec::new();
    set_condition(&mut conditions, condition("Ready", "True", "AllUp", ""));
    set_condition(&mut conditions, condition("Stalled", "Unknown", "NotKnown", ""));
    assert!(is_condition_true(&conditions, "Ready"));
    assert!(!is_condition_true(&conditions, "Stalled"));
    assert!(!is_condition_true(&conditions, "Missing"));
    assert!(remove_condition(&mut conditions, "Ready"));
    assert!(!remove_condition(&mut conditions, "Ready"));
    assert!(find_condition(&conditions, "Ready").is_none());
    assert!(find_condition(&conditions, "Stalled").is_some());
}

const READY: ConditionType = ConditionType::new("Ready");

#[test]
fn newer_generation_is_a_change_but_no_transition() {
    let (one, two) = (moment("2026-01-01T00:00:00Z"), moment("2026-01-01T00:01:00Z"));
    let mut conditions = Vec::new();
    let ready = || READY.yes("AllUp", "3 of 3");
    assert!(set_conditions_at(&mut conditions, Some(1), [ready()], one));
    assert!(!set_conditions_at(&mut conditions, Some(1), [ready()], two));
    assert!(set_conditions_at(&mut conditions, Some(2), [ready()], two));
    let condition = READY.find(&conditions).expect("a condition");
    assert_eq!((condition.observed_generation, condition.last_transition_time.0), (Some(2), one));
    assert!(set_conditions_at(&mut conditions, Some(2), [READY.unknown("Lost", "")], two));
    assert_eq!(since(&conditions, "Ready"), two);
}

#[test]
fn condition_of_an_older_generation_is_left_out() {
    let now = moment("2026-01-01T00:00:00Z");
    let mut conditions = Vec::new();
    set_conditions_at(&mut conditions, Some(3), [READY.with(true, "AllUp", "")], now);
    assert!(!set_conditions_at(&mut conditions, Some(2), [READY.no("Starting", "")], now));
    assert!(READY.is_true(&conditions));
    // One that names no generation may be as new as any.
    assert!(set_conditions_at(&mut conditions, None, [READY.no("Starting", "")], now));
    assert!(!READY.is_true(&conditions));
}
