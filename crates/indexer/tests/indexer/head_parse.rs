//! Heads from bytes: what is read and what is refused. Errors name the object and show no content.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use proptest::prelude::*;
use windlass_indexer::{Head, HeadError, HeadParser, HeadProblem};

fn parse(json: &str) -> Result<Head, HeadError> {
    HeadParser::default().parse(json.as_bytes())
}

#[test]
fn all_of_the_metadata_is_read_in_any_order_and_with_white_space() {
    let head = parse(
        r#" { "spec" : {"a":[{"metadata":{"name":"wrong"}}]}, "metadata" : {
            "uid": "3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5f", "managedFields":[{"f:name":{}}],
            "labels": {"b":"2","a":"1"}, "name" : "web", "namespace":"shop", "generation": 3,
            "resourceVersion":"42", "creationTimestamp":"2026-01-02T03:04:05Z",
            "deletionTimestamp":"2026-01-02T04:04:05Z", "finalizers":["x/y","z"],
            "ownerReferences":[{"kind":"ReplicaSet","apiVersion":"apps/v1","name":"r","uid":"u",
                "controller":true,"blockOwnerDeletion":null,"extra":{}}],
            "annotations":{"k":"v"} },
            "kind":"Pod", "apiVersion":"v1" } "#,
    )
    .expect("valid");
    assert_eq!(head.key().to_string(), "shop/web");
    assert_eq!(head.uid().to_string(), "3f0e4e4c-9df3-4a19-8fc2-0a1b2c3d4e5f");
    assert_eq!(head.resource_version().to_string(), "42");
    assert_eq!((head.kind(), head.api_version()), (Some("Pod"), Some("v1")));
    assert_eq!(head.generation(), Some(3));
    assert_eq!(
        head.creation_timestamp().map(|time| time.to_string()).as_deref(),
        Some("2026-01-02T03:04:05Z")
    );
    assert_eq!(
        head.deletion_timestamp().map(|time| time.to_string()).as_deref(),
        Some("2026-01-02T04:04:05Z")
    );
    assert_eq!(head.labels().iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    assert_eq!(head.finalizers().collect::<Vec<_>>(), ["x/y", "z"]);
    let owner = head.controller().expect("one");
    assert_eq!((owner.api_version, owner.kind, owner.name), ("apps/v1", "ReplicaSet", "r"));
    assert_eq!((owner.uid.to_string().as_str(), owner.block_owner_deletion), ("u", false));
}

#[test]
fn what_is_missing_or_null_is_not_there() {
    let head = parse(
        r#"{"metadata":{"name":"n","namespace":"","labels":null,"creationTimestamp":null,
            "ownerReferences":[],"finalizers":null,"annotations":null,"generation":null}}"#,
    )
    .expect("valid");
    assert_eq!(head.key().to_string(), "n");
    assert!(
        head.uid().is_empty() && head.resource_version().is_empty() && head.labels().is_empty()
    );
    assert_eq!((head.generation(), head.creation_timestamp(), head.kind()), (None, None, None));
    assert_eq!(head.owner_references().count() + head.finalizers().count(), 0);
}

#[test]
fn escapes_are_decoded() {
    let head = parse(r#"{"metadata":{"name":"a\u002db\/c","labels":{"k\u0065y":"\"\u00e9\""}}}"#);
    let head = head.expect("valid");
    assert_eq!(head.name(), "a-b/c");
    assert_eq!(head.labels().get("key"), Some("\"é\""));
}

#[test]
fn of_a_label_given_twice_the_later_counts() {
    let head =
        parse(r#"{"metadata":{"name":"a","labels":{"k":"1","j":"0","k":"2"}}}"#).expect("valid");
    assert_eq!(head.labels().iter().collect::<Vec<_>>(), [("j", "0"), ("k", "2")]);
}

#[test]
fn annotations_are_hashed_whatever_their_order() {
    let hash = |annotations: &str| {
        let json = format!(r#"{{"metadata":{{"name":"a","annotations":{annotations}}}}}"#);
        parse(&json).expect("valid").annotations_hash()
    };
    assert_eq!(hash(r#"{"a":"1","b":"2"}"#), hash(r#"{ "b":"2", "a":"1" }"#));
    assert_ne!(hash(r#"{"a":"1","b":"2"}"#), hash(r#"{"a":"2","b":"1"}"#));
    assert_ne!(hash(r#"{"a":"1"}"#), hash(r#"{"a":"1","b":""}"#));
}

/// Tenants choose annotations. With a fixed seed, they could choose ones with the same hash as the
/// ones before, and so hide a change from a predicate.
#[test]
fn hash_of_annotations_differs_between_processes() {
    #[expect(clippy::disallowed_types, reason = "what it must not be")]
    let hasher = foldhash::fast::FixedState::with_seed(0);
    let foreseen = hasher.hash_one(BTreeMap::from([("a", "1")]));
    let head = parse(r#"{"metadata":{"name":"a","annotations":{"a":"1"}}}"#).expect("valid");
    assert_ne!(head.annotations_hash(), foreseen);
}

#[test]
fn errors_name_the_object_even_if_its_name_comes_later() {
    for (field, value) in [
        ("labels", r#"{"a":7}"#),
        ("labels", r#"["hunter2"]"#),
        ("annotations", r#""hunter2""#),
        ("creationTimestamp", r#""hunter2""#),
        ("generation", r#""hunter2""#),
        ("finalizers", r#"{"hunter2":{}}"#),
        ("finalizers", "[null]"),
        ("ownerReferences", r#"[{"name":"hunter2"}]"#),
        ("ownerReferences", r#"["hunter2"]"#),
        ("uid", "17"),
    ] {
        let json = format!(r#"{{"metadata":{{"{field}":{value},"name":"n","namespace":"ns"}}}}"#);
        let error = parse(&json).expect_err(&json);
        assert_eq!(error.key().map(ToString::to_string).as_deref(), Some("ns/n"), "{json}");
        assert!(
            error.to_string().starts_with(&format!("object ns/n: metadata.{field} is not")),
            "{error}"
        );
        assert!(!format!("{error}{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn what_is_no_object_is_refused() {
    for (json, wanted) in [
        ("", HeadProblem::Syntax { line: 1, column: 0 }),
        ("[]", HeadProblem::Syntax { line: 1, column: 0 }),
        ("{}", HeadProblem::Missing { field: "metadata" }),
        (r#"{"metadata":{}}"#, HeadProblem::Missing { field: "metadata.name" }),
        (r#"{"metadata":{"name":""}}"#, HeadProblem::Missing { field: "metadata.name" }),
        (r#"{"metadata":3}"#, HeadProblem::Shape { field: "metadata", expected: "an object" }),
        (r#"{"metadata":{"name":"a"#, HeadProblem::Syntax { line: 1, column: 22 }),
    ] {
        assert_eq!(parse(json).expect_err(json).problem(), &wanted, "{json}");
    }
    // The key is known although the rest is cut off.
    let cut = parse(r#"{"metadata":{"name":"a","namespace":"b","uid":"#).expect_err("cut");
    assert_eq!(cut.key().map(ToString::to_string).as_deref(), Some("b/a"));
}

#[test]
fn what_is_broken_after_the_metadata_does_not_affect_the_head() {
    for rest in [r#""spec":{"a":nonsense}}"#, r#""spec":"\q"}"#, r#""spec":"#, "}}"] {
        let head = parse(&format!(r#"{{"metadata":{{"name":"a","uid":"u"}},{rest}"#));
        assert_eq!(head.expect("the metadata is complete").key().to_string(), "a", "{rest}");
    }
    let deep = format!(r#"{{"metadata":{{"name":"a"}},"spec":{}1"#, "[".repeat(1_000));
    assert!(parse(&deep).is_ok(), "only decoding limits the depth");
}

#[test]
fn what_the_pods_of_a_workload_have_in_common_is_shared() {
    let parser = HeadParser::default();
    let heads: Vec<_> = (0..100)
        .map(|number| {
            let workload = number % 4;
            let json = format!(
                r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{
                    "name":"n{number}","namespace":"ns","uid":"u{number}",
                    "labels":{{"l":"w{workload}"}},"finalizers":["f"],
                    "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet",
                        "name":"r{workload}","uid":"r{workload}"}}]}}}}"#
            );
            parser.parse(json.as_bytes()).expect("valid")
        })
        .collect();
    let texts = |head: &Head| {
        let owner = head.owner_references().next().expect("one");
        let of_owner = [owner.api_version, owner.kind, owner.name].map(str::as_ptr);
        let label = head.labels().get("l").map(str::as_ptr);
        let of_type = [head.api_version(), head.kind(), head.namespace()];
        let finalizers: Vec<_> = head.finalizers().map(str::as_ptr).collect();
        (of_owner, label, of_type.map(|text| text.map(str::as_ptr)), finalizers)
    };
    assert_eq!(texts(&heads[3]), texts(&heads[7]), "two pods of a workload have the same texts");
    // Pods of different workloads share each text that they have in common.
    let common = |head: &Head| {
        let owner = head.owner_references().next().expect("one");
        let label = head.labels().iter().next().map(|(key, _)| key.as_ptr());
        let finalizer = head.finalizers().next().map(str::as_ptr);
        let of_type = [head.api_version(), head.kind(), head.namespace()];
        let of_type = of_type.map(|text| text.map(str::as_ptr));
        ([owner.api_version, owner.kind].map(str::as_ptr), label, finalizer, of_type)
    };
    assert_eq!(common(&heads[3]), common(&heads[4]));
    assert_eq!(heads[7].labels().get("l"), Some("w3"));
    assert_eq!(heads[7].owner_references().next().expect("one").name, "r3");
    assert!(heads[7].finalizers().eq(["f"]));
}

proptest! {
    /// Cut or changed bytes are an error or a head, never a panic.
    #[test]
    fn no_bytes_make_it_panic(at in 0..230_usize, byte in any::<u8>(), cut in any::<bool>()) {
        let mut json = br#"{"kind":"Pod","metadata":{"name":"n","labels":{"a\n":"b"},
            "ownerReferences":[{"uid":"u"}],"generation":1,"finalizers":["f"],
            "creationTimestamp":"2026-01-02T03:04:05Z"},"spec":[{}]}"#.to_vec();
        let at = at.min(json.len() - 1);
        if cut { json.truncate(at) } else { json[at] = byte }
        drop(HeadParser::default().parse(&json));
    }

    #[test]
    fn no_text_makes_it_panic(text in r#"[{}\[\]",:a\\ n1]{0,40}"#) {
        drop(parse(&text));
    }
}
