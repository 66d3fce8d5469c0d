//! What stays in lists that a patch replaces.

use serde_json::json;

use super::*;
use crate::objects::merge_patch::merge;

/// The new list, from what the server has, and what the type shows before and after.
fn written([raw, old, new]: [Value; 3]) -> Value {
    let (raw, old, new) = (json!({"l": raw}), json!({"l": old}), json!({"l": new}));
    let mut patch = merge(&old, &new).expect("they differ");
    assert!(replaces_objects(&patch, &old));
    carry_over(&mut patch, &old, &raw).expect("it can be told");
    patch["l"].take()
}

#[test]
fn changed_element_keeps_what_the_type_does_not_know() {
    let list = written([
        json!([
            {"name": "a", "image": "1", "tty": true},
            {"name": "b", "image": "1", "stdin": true},
        ]),
        json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]),
        json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
    ]);
    assert_eq!(
        list,
        json!([
            {"name": "a", "image": "1", "tty": true},
            {"name": "b", "image": "2", "stdin": true},
        ])
    );
}

#[test]
fn elements_that_move_take_along_what_the_type_does_not_know() {
    let list = written([
        json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}]),
        json!([{"name": "a"}, {"name": "b"}]),
        json!([{"name": "new"}, {"name": "b", "image": "2"}, {"name": "a"}]),
    ]);
    assert_eq!(
        list,
        json!([{"name": "new"}, {"name": "b", "image": "2", "x": 2}, {"name": "a", "x": 1}])
    );
}

#[test]
fn element_that_goes_takes_nothing_else_along() {
    let list = written([
        json!([{"ip": "1", "x": 1}, {"ip": "2", "x": 2}]),
        json!([{"ip": "1"}, {"ip": "2"}]),
        json!([{"ip": "2"}]),
    ]);
    assert_eq!(list, json!([{"ip": "2", "x": 2}]));
}

#[test]
fn element_of_another_name_is_another_element() {
    let list =
        written([json!([{"name": "a", "x": 1}]), json!([{"name": "a"}]), json!([{"name": "b"}])]);
    assert_eq!(list, json!([{"name": "b"}]));
}

#[test]
fn name_that_changes_is_known_by_the_port() {
    let list = written([
        json!([{"name": "a", "port": 1, "nodePort": 31}, {"name": "b", "port": 2, "nodePort": 32}]),
        json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]),
        json!([{"name": "b", "port": 2}, {"name": "c", "port": 1}]),
    ]);
    assert_eq!(
        list,
        json!([{"name": "b", "port": 2, "nodePort": 32}, {"name": "c", "port": 1, "nodePort": 31}])
    );
}

#[test]
fn name_that_two_have_tells_nothing() {
    let list = written([
        json!([{"name": "v", "mountPath": "/a", "x": 1}, {"name": "v", "mountPath": "/b", "x": 2}]),
        json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]),
        json!([{"name": "w", "mountPath": "/b"}, {"name": "v", "mountPath": "/a", "y": 0}]),
    ]);
    assert_eq!(
        list,
        json!([
            {"name": "w", "mountPath": "/b", "x": 2},
            {"name": "v", "mountPath": "/a", "x": 1, "y": 0},
        ])
    );
}

#[test]
fn nameless_element_is_known_by_its_place() {
    let list = written([
        json!([{"from": 1, "x": 1}, {"from": 2, "x": 2}]),
        json!([{"from": 1}, {"from": 2}]),
        json!([{"from": 1}, {"from": 3}]),
    ]);
    assert_eq!(list, json!([{"from": 1, "x": 1}, {"from": 3, "x": 2}]));
}

#[test]
fn lists_and_objects_within_elements_are_kept_too() {
    let list = written([
        json!([{
            "name": "a", "env": [{"name": "E", "value": "1", "x": 1}], "deep": {"u": 1, "k": 1},
        }]),
        json!([{"name": "a", "env": [{"name": "E", "value": "1"}], "deep": {"k": 1}}]),
        json!([{"name": "a", "env": [{"name": "E", "value": "2"}], "deep": {"k": 2}}]),
    ]);
    assert_eq!(
        list,
        json!([{
            "name": "a", "env": [{"name": "E", "value": "2", "x": 1}], "deep": {"u": 1, "k": 2},
        }])
    );
}

#[test]
fn field_that_goes_from_an_element_goes() {
    let list = written([
        json!([{"name": "a", "k": 1, "x": 1}]),
        json!([{"name": "a", "k": 1}]),
        json!([{"name": "a"}]),
    ]);
    assert_eq!(list, json!([{"name": "a", "x": 1}]));
}

#[test]
fn what_the_type_shows_as_a_default_is_not_written() {
    let list = written([
        json!([{"name": "a", "resources": {"claims": 1}}]),
        json!([{"name": "a", "policy": null}]),
        json!([{"name": "a", "policy": null, "resources": {"limits": 2}}]),
    ]);
    assert_eq!(list, json!([{"name": "a", "resources": {"claims": 1, "limits": 2}}]));
}

#[test]
fn list_that_the_type_has_ordered_anew_is_kept() {
    let list = written([
        json!([{"name": "b", "x": 2}, {"name": "a", "x": 1}]),
        json!([{"name": "a"}, {"name": "b"}]),
        json!([{"name": "a", "k": 1}, {"name": "b"}]),
    ]);
    assert_eq!(list, json!([{"name": "a", "k": 1, "x": 1}, {"name": "b", "x": 2}]));
}

#[test]
fn name_that_the_type_does_not_know_stays() {
    let list = written([
        json!([{"type": "Novel", "x": 1}, {"type": "Ready", "x": 2}]),
        json!([{"type": "Unknown"}, {"type": "Ready"}]),
        json!([{"type": "Unknown"}, {"type": "Ready", "k": 1}]),
    ]);
    assert_eq!(list, json!([{"type": "Novel", "x": 1}, {"type": "Ready", "k": 1, "x": 2}]));
}

#[test]
fn list_of_which_the_type_shows_less_is_not_written() {
    let (old, raw) = (
        json!({"spec": {"l": [{"name": "a", "m": [{"k": 1}]}]}}),
        json!({"spec": {"l": [{"name": "a", "m": [{"k": 1}, {"k": 2}]}]}}),
    );
    let mut patch = json!({"spec": {"l": [{"name": "a", "m": [{"k": 3}]}]}});
    let error = carry_over(&mut patch, &old, &raw).expect_err("one would be erased");
    assert_eq!(
        error.to_string(),
        "the list at /spec/l/0/m has 2 elements, of which the type shows 1: what it does not show \
         would be erased"
    );
}

#[test]
fn lists_of_plain_values_need_nothing_from_the_server() {
    let (old, new) = (
        json!({"metadata": {"finalizers": ["a"]}, "l": [{"k": 1}]}),
        json!({"metadata": {"finalizers": ["a", "b"]}, "l": [{"k": 1}]}),
    );
    let patch = merge(&old, &new).expect("they differ");
    assert!(!replaces_objects(&patch, &old));
}
