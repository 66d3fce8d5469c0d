//! Tests of strategic merge patches. Items have letters as names, since most cases are about order.

use serde_json::json;

use super::*;

fn pod_spec() -> PatchPlace {
    let pod = PatchPlace::of("v1", "Pod").expect("pods are built in");
    pod.map("spec").expect("a pod has a spec").0
}

/// Applies a patch to the spec of a pod.
fn patched(original: Value, patch: Value) -> Result<Value, PatchError> {
    let (Value::Object(original), Value::Object(mut patch)) = (original, patch) else {
        panic!("both must be objects");
    };
    merge(original, &mut patch, pod_spec()).map(Value::Object)
}

fn merged(original: Value, patch: Value) -> Value {
    let shown = patch.clone();
    patched(original, patch).unwrap_or_else(|refusal| panic!("{shown}: {refusal:?}"))
}

/// Returns a list with one item for each letter.
fn named(letters: &str) -> Value {
    letters.chars().map(|name| json!({"name": name.to_string()})).collect()
}

fn letters(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str());
    names.collect()
}

#[test]
fn maps_merge_and_null_removes() {
    let original = json!({"hostname": "a", "nodeSelector": {"x": "1", "y": "2"}});
    let patch = json!({"hostname": null, "nodeSelector": {"x": null, "z": "3"}, "absent": null});
    assert_eq!(merged(original, patch), json!({"nodeSelector": {"y": "2", "z": "3"}}));
}

#[test]
fn new_fields_lose_nulls_and_directives() {
    let patch = json!({
        "affinity": {"a": null, "b": {"$patch": "replace"}, "c": [{"$patch": "delete"}, {"d": null}]},
    });
    assert_eq!(merged(json!({}), patch), json!({"affinity": {"c": [{}]}}));
    assert_eq!(merged(json!({}), json!({"affinity": {"$patch": "delete"}})), json!({}));
}

#[test]
fn a_value_of_another_type_is_replaced() {
    let original = json!({"nodeSelector": {"x": "1"}});
    let patch = json!({"nodeSelector": "text"});
    assert_eq!(merged(original, patch), json!({"nodeSelector": "text"}));
}

#[test]
fn directives_replace_and_empty_maps() {
    let original = json!({"nodeSelector": {"x": "1"}});
    let replace = json!({"nodeSelector": {"$patch": "replace", "y": "2"}});
    assert_eq!(merged(original.clone(), replace), json!({"nodeSelector": {"y": "2"}}));
    let delete = json!({"nodeSelector": {"$patch": "delete", "y": "2"}});
    assert_eq!(merged(original, delete), json!({"nodeSelector": {}}));
}

#[test]
fn items_merge_by_key_and_only_the_first_of_two() {
    let original = json!({"containers": [
        {"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"name": "b"},
    ]});
    let patch = json!({"containers": [{"name": "a", "image": "3"}]});
    let containers =
        json!([{"name": "a", "image": "3"}, {"name": "a", "image": "2"}, {"name": "b"}]);
    assert_eq!(merged(original, patch), json!({ "containers": containers }));
}

#[test]
fn new_list_item_is_added_unchanged() {
    let item = json!({"name": "b", "image": null, "$setElementOrder/env": []});
    let patch = json!({"containers": [item]});
    let merged = merged(json!({"containers": named("a")}), patch);
    assert_eq!(merged["containers"][0], item);
}

#[test]
fn order_of_the_patch_has_precedence() {
    // Present items, items of the patch, and the result.
    for (held, patch, expected) in [
        ("abc", "d", "dabc"),
        ("abc", "a", "abc"),
        ("abc", "ca", "bca"),
        ("abc", "dc", "dabc"),
        ("abcd", "db", "acdb"),
        ("ab", "xay", "xayb"),
        ("", "ba", "ba"),
    ] {
        let original = if held.is_empty() { json!({}) } else { json!({"containers": named(held)}) };
        let merged = merged(original, json!({"containers": named(patch)}));
        assert_eq!(letters(&merged["containers"]), expected, "{held} patched with {patch}");
    }
}

#[test]
fn order_of_the_directive_has_precedence() {
    for (held, order, patch, expected) in [
        ("abc", "cba", "", "cba"),
        ("abc", "cb", "", "acb"),
        ("abc", "ca", "", "bca"),
        ("abc", "dba", "d", "dbac"),
        ("abc", "xabc", "x", "xabc"),
        ("abc", "", "d", "abcd"),
        ("abc", "", "de", "abced"),
    ] {
        let mut change = json!({"$setElementOrder/containers": named(order)});
        if !patch.is_empty() {
            change["containers"] = named(patch);
        }
        let merged = merged(json!({"containers": named(held)}), change);
        assert_eq!(letters(&merged["containers"]), expected, "{held} in the order {order}");
    }
}

#[test]
fn items_are_deleted_and_lists_replaced() {
    let original = || json!({"containers": named("abc")});
    let delete = json!({"containers": [{"$patch": "delete", "name": "b"}, {"name": "d"}]});
    assert_eq!(letters(&merged(original(), delete)["containers"]), "dac");
    // The new item takes the position of the deleted one in the server's order.
    let renamed = json!({
        "$setElementOrder/containers": named("dc"),
        "containers": [{"$patch": "delete", "name": "b"}, {"name": "d"}],
    });
    assert_eq!(letters(&merged(original(), renamed)["containers"]), "adc");
    let replace = json!({"containers": [{"$patch": "replace"}, {"name": "z"}, {"name": "y"}]});
    assert_eq!(letters(&merged(original(), replace)["containers"]), "zy");
    let empty = json!({"containers": [{"$patch": "replace"}]});
    assert_eq!(merged(original(), empty)["containers"], json!([]));
}

#[test]
fn lists_without_a_strategy_are_replaced_as_they_are() {
    let original = json!({"tolerations": [{"key": "a"}]});
    let patch = json!({"tolerations": [{"key": "b", "value": null}]});
    assert_eq!(merged(original, patch.clone()), patch);
}

#[test]
fn scalars_are_a_set_in_the_order_of_the_patch() {
    let metadata = PatchPlace::of("v1", "Pod").and_then(|pod| pod.map("metadata").ok());
    let (metadata, _) = metadata.expect("a pod has metadata");
    let merged = |change: Value| {
        let original = json!({"finalizers": ["a", "b", "c"]});
        let (Value::Object(original), Value::Object(mut change)) = (original, change) else {
            panic!("both must be objects");
        };
        merge(original, &mut change, metadata).map(|merged| merged["finalizers"].clone())
    };
    assert_eq!(merged(json!({"finalizers": ["d", "d", "b"]})), Ok(json!(["d", "a", "b", "c"])));
    let delete = json!({"$deleteFromPrimitiveList/finalizers": ["b", "x"]});
    assert_eq!(merged(delete), Ok(json!(["a", "c"])));
    let all = json!({
        "$deleteFromPrimitiveList/finalizers": ["a"],
        "$setElementOrder/finalizers": ["c", "x", "b"],
        "finalizers": ["x"],
    });
    assert_eq!(merged(all), Ok(json!(["c", "x", "b"])));
    let refusal = merged(json!({"finalizers": [1]}));
    let why = "list element types are not identical: [[a b c] [1]]";
    assert_eq!(refusal, Err(PatchError::Mismatch(why.to_owned())));
}

#[test]
fn many_keys_are_retained_in_linear_time() {
    // A quadratic algorithm would need ten billion comparisons, and the test would not end.
    let names: Vec<String> = (0..100_000).map(|name| name.to_string()).collect();
    let held: Map<String, Value> = names.iter().map(|name| (name.clone(), json!("1"))).collect();
    let kept: Vec<&String> = names.iter().skip(50_000).collect();
    let merged = merged(
        json!({"nodeSelector": held}),
        json!({"nodeSelector": {"$retainKeys": kept, "99999": "2"}}),
    );
    let left = merged["nodeSelector"].as_object().expect("a map");
    assert_eq!((left.len(), &left["99999"]), (50_000, &json!("2")));
}

#[test]
fn keys_that_are_not_retained_are_removed() {
    let original = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
    let volume =
        json!({"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "c"}});
    let merged = merged(original.clone(), json!({"volumes": [volume]}));
    assert_eq!(merged, json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}));
    let volume = json!({"$retainKeys": ["name"], "name": "v", "configMap": {"name": "c"}});
    assert_eq!(patched(original, json!({"volumes": [volume]})), Err(PatchError::KEYS));
}

#[test]
fn patches_that_panic_the_real_server_are_refused() {
    for patch in [
        json!({"containers": [{"name": {}}]}),
        json!({"$retainKeys": [[]]}),
        json!({"$setElementOrder/tolerations": [{"key": "a"}]}),
    ] {
        let original = json!({"containers": named("a"), "tolerations": [{"key": "a"}]});
        assert_eq!(patched(original, patch.clone()), Err(PatchError::Panic), "{patch}");
    }
}

#[test]
fn errors_name_the_cause() {
    for (patch, why) in [
        (
            json!({"containers": [{"image": "x"}]}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"nodeSelector": {"$patch": 1}}),
            "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
        ),
        (
            json!({"containers": [{"$patch": "merge", "name": "a"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "a"}]}),
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n\
             [map[name:x]]\n",
        ),
        (
            json!({"$setElementOrder/containers": "a"}),
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"nodeSelector": {"x": {"y": 1}}}),
            "merging an object in json but data type is not struct, instead is: map",
        ),
        (
            json!({"$deleteFromPrimitiveList/tolerations": [{"key": "a"}]}),
            "cannot merge lists without merge key for struct",
        ),
    ] {
        let original = json!({
            "containers": named("a"),
            "tolerations": [{"key": "a"}],
            "nodeSelector": {"x": {}},
        });
        let refusal = patched(original, patch);
        assert_eq!(refusal, Err(PatchError::Mismatch(why.to_owned())));
    }
    let broken = json!({"$deleteFromPrimitiveListOf/x": []});
    assert_eq!(patched(json!({}), broken), Err(PatchError::VALUES));
    assert_eq!(patched(json!({}), json!({"$setElementOrder": []})), Err(PatchError::ORDER));
}
