//! Conversion through the router, kept fields, and the check of round trips.

use axum::Router;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_webhook::{Conversion, Error, RoundTripError, Webhooks};

use crate::webhooks::stage::{ask, v1, v1alpha1, v2};

fn conversion() -> Conversion<v2::Website> {
    Conversion::hub::<v2::Website>().spoke::<v1::Website>().spoke::<v1alpha1::Website>()
}

fn router() -> Router {
    Webhooks::new().convert(conversion()).router().unwrap()
}

fn object(version: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("example.com/{version}"),
        "kind": "Website",
        "metadata": {
            "name": "x",
            "namespace": "default",
            "uid": "u",
            "labels": {"a": "b"},
            "managedFields": [{"manager": "kubectl", "unknown": 1}],
            "unknown": {"deep": true},
        },
    });
    object["spec"] = spec;
    object
}

fn review(version: &str, objects: Vec<Value>) -> Value {
    let mut review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "705ab4f5",
            "desiredAPIVersion": format!("example.com/{version}"),
        },
    });
    review["request"]["objects"] = Value::Array(objects);
    review
}

#[tokio::test]
async fn every_version_becomes_every_other_in_the_order_of_the_request() {
    let objects = vec![
        object("v1", json!({"replicas": 2, "pages": [{"name": "a", "title": "A"}]})),
        object("v2", json!({"pages": [{"name": "b"}]})),
        object("v1alpha1", json!({"hosts": "c d"})),
    ];
    let names = |version: &str| match version {
        "v1" | "v2" => json!([["a"], ["b"], ["c", "d"]]),
        _ => json!(["a", "b", "c d"]),
    };
    for version in ["v1", "v2", "v1alpha1"] {
        let response = ask(&router(), "/convert", &review(version, objects.clone())).await;
        assert_eq!(response["result"], json!({"status": "Success"}));
        let converted = response["convertedObjects"].as_array().unwrap();
        let seen: Vec<Value> = converted
            .iter()
            .map(|object| {
                assert_eq!(object["apiVersion"], format!("example.com/{version}"));
                assert_eq!(object["kind"], "Website");
                match object["spec"]["pages"].as_array() {
                    Some(pages) => pages.iter().map(|page| page["name"].clone()).collect(),
                    None => object["spec"]["hosts"].clone(),
                }
            })
            .collect();
        assert_eq!(json!(seen), names(version), "{version}");
    }
}

#[tokio::test]
async fn metadata_is_carried_over_raw() {
    let source = object("v1", json!({}));
    let response = ask(&router(), "/convert", &review("v2", vec![source.clone()])).await;
    assert_eq!(response["convertedObjects"][0]["metadata"], source["metadata"]);
    // Server-side apply sends parts of objects.
    let part = json!({"apiVersion": "example.com/v1", "kind": "Website", "spec": {"replicas": 3}});
    let response = ask(&router(), "/convert", &review("v2", vec![part])).await;
    assert_eq!(response["convertedObjects"][0]["spec"]["scale"]["replicas"], 3);
    let part = json!({"apiVersion": "example.com/v1", "kind": "Website"});
    let response = ask(&router(), "/convert", &review("v2", vec![part])).await;
    assert_eq!(response["result"], json!({"status": "Success"}));
}

#[tokio::test]
async fn a_conversion_that_fails_names_the_object_and_shows_no_content() {
    let spaced = object("v2", json!({"pages": [{"name": "hunter2 x"}]}));
    let mistyped = object("v1", json!({"replicas": "hunter2"}));
    let panicking = object("v1alpha1", json!({"hosts": "panic"}));
    let no_version = "there is no version v3 of Website.example.com";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}});
    let failing = [
        (spaced, "v1alpha1", 500, "default/x", "spec.pages: a name has a space"),
        (mistyped, "v2", 500, "default/x", "it does not decode: invalid type, expected i64"),
        (panicking, "v2", 500, "default/x", "the converter panicked"),
        (object("v3", json!({})), "v2", 500, "default/x", no_version),
        (object("v1", json!({})), "v3", 500, "default/x", no_version),
        (pod, "v2", 400, "x", "there is no conversion of Pod"),
    ];
    for (failing, to, code, name, message) in failing {
        let fine = object(to, json!({}));
        let objects = if to == "v3" { vec![failing] } else { vec![fine, failing] };
        let at = objects.len() - 1;
        let response = ask(&router(), "/convert", &review(to, objects)).await;
        assert_eq!(response["result"]["status"], "Failure");
        assert_eq!(response["result"]["message"], format!("object {at} ({name}): {message}"));
        assert_eq!(response["result"]["code"], code);
        assert_eq!(response["convertedObjects"], json!([]));
    }
}

#[tokio::test]
async fn a_converter_that_changes_the_name_is_refused() {
    let mut source = object("v1alpha1", json!({}));
    source["metadata"]["name"] = json!("renamed");
    let response = ask(&router(), "/convert", &review("v2", vec![source])).await;
    assert_eq!(
        response["result"]["message"],
        "object 0 (default/renamed): the converter changes metadata.name, which must stay as it is"
    );
}

#[tokio::test]
async fn an_invalid_review_is_refused_with_its_uid() {
    let mut other = review("v2", Vec::new());
    other["request"]["objects"] = json!({});
    let response = ask(&router(), "/convert", &other).await;
    assert_eq!(response["result"]["status"], "Failure");
    assert_eq!(response["result"]["code"], 400);
}

#[tokio::test(start_paused = true)]
async fn a_conversion_ends_when_its_time_is_up() {
    let review = review("v2", vec![object("v1", json!({}))]);
    let response = ask(&router(), "/convert?timeout=1ms", &review).await;
    assert_eq!(
        response["result"]["message"],
        "the conversion took too long: ask for fewer objects at a time"
    );
    assert_eq!(response["convertedObjects"], json!([]));
}

#[test]
fn two_conversions_of_one_kind_are_an_error() {
    let webhooks = Webhooks::new().convert(conversion()).convert(conversion());
    let error = webhooks.router().map(drop).unwrap_err();
    assert!(matches!(error, Error::DuplicateConversion { .. }), "{error}");
    let webhooks = Webhooks::new().convert(conversion());
    assert_eq!(webhooks.converted_definitions().collect::<Vec<_>>(), ["websites.example.com"]);
}

#[test]
fn fields_that_a_version_does_not_know_are_kept_and_restored() {
    let conversion = conversion().keep_unknown_fields();
    let mut source = object(
        "v2",
        json!({
            "theme": "dark",
            "future": {"x": 1},
            "pages": [{"name": "a", "heading": "A", "future": 1}, {"name": "b", "future": 2}],
        }),
    );
    source["data"] = json!({"of": "nobody"});
    for through in ["v1", "v1alpha1"] {
        let there = conversion.convert(&source, through).unwrap();
        let back = conversion.convert(&there, "v2").unwrap();
        assert_eq!(back["metadata"], source["metadata"]);
        assert_eq!(back["spec"], source["spec"]);
        assert_eq!(back["data"], source["data"]);
    }
}

#[test]
fn changes_that_are_made_in_another_version_are_laid_over_what_was_kept() {
    let conversion = conversion().keep_unknown_fields();
    let pages = json!([{"name": "a", "heading": "A", "future": 1}, {"name": "b", "future": 2}]);
    let source = object("v2", json!({"theme": "dark", "pages": pages}));
    let mut there = conversion.convert(&source, "v1").unwrap();
    assert!(there["metadata"]["annotations"]["kept-fields.windlass.dev/v2"].is_string());
    there["spec"]["replicas"] = json!(5);
    there["spec"]["pages"] = json!([{"name": "c"}, {"name": "a", "title": "New"}]);
    there["metadata"]["annotations"]["mine"] = json!("stays");
    let back = conversion.convert(&there, "v2").unwrap();
    assert_eq!(back["metadata"]["annotations"], json!({"mine": "stays"}));
    let spec = &back["spec"];
    assert_eq!(spec["theme"], "dark");
    assert_eq!(spec["scale"]["replicas"], 5);
    assert_eq!(spec["pages"][0]["name"], "c");
    assert_eq!(spec["pages"][1], json!({"name": "a", "heading": "New", "future": 1}));
    assert_eq!(spec["pages"].as_array().unwrap().len(), 2);
}

#[test]
fn an_annotation_that_somebody_broke_does_no_harm() {
    let conversion = conversion().keep_unknown_fields();
    for broken in ["", "[]", "{", "{\"spec\": 7}", "{\"metadata\": {\"name\": \"other\"}}"] {
        let mut there = object("v1", json!({"replicas": 1}));
        there["metadata"]["annotations"] = json!({"kept-fields.windlass.dev/v2": broken});
        let back = conversion.convert(&there, "v2").unwrap();
        assert_eq!(back["metadata"]["name"], "x");
        assert_eq!(back["spec"]["scale"]["replicas"], 1, "{broken}");
        assert_eq!(back["metadata"].get("annotations"), None, "{broken}");
    }
}

/// Whoever may write an object, but not its status, could put one into the annotation.
#[test]
fn a_status_is_neither_kept_nor_restored() {
    let conversion = conversion().keep_unknown_fields();
    let mut there = object("v1", json!({"replicas": 1}));
    let forged = json!({"spec": {"theme": "dark"}, "status": {"ready": true}}).to_string();
    there["metadata"]["annotations"] = json!({"kept-fields.windlass.dev/v2": forged});
    let back = conversion.convert(&there, "v2").unwrap();
    assert_eq!(back["spec"]["theme"], "dark");
    assert_eq!(back.get("status"), None);

    let mut source = object("v2", json!({}));
    source["status"] = json!({"ready": true});
    let there = conversion.convert(&source, "v1").unwrap();
    assert_eq!(there["metadata"].get("annotations"), None);
}

#[test]
fn too_much_is_not_kept_and_the_object_stays_readable() {
    let conversion = conversion().keep_unknown_fields();
    let source = object("v2", json!({"theme": "x".repeat(200 * 1024)}));
    let there = conversion.convert(&source, "v1").unwrap();
    assert_eq!(there["metadata"].get("annotations"), None);
}

#[test]
fn a_loss_is_reported_with_version_and_field() {
    let conversion = conversion();
    let page = |name: &str| v2::Page { name: name.to_owned(), heading: None };
    let mut website = v2::Website::new("x", v2::WebsiteSpec::default());
    conversion.check_round_trip(&website).unwrap();
    website.spec.pages = vec![page("a"), page("b")];
    conversion.check_round_trip(&website).unwrap();
    website.spec.pages[1].heading = Some("B".to_owned());
    let error = conversion.check_round_trip(&website).unwrap_err();
    assert_eq!(
        error,
        RoundTripError::Differs {
            version: "v2".to_owned(),
            kind: "Website".to_owned(),
            through: "v1alpha1".to_owned(),
            change: "loses",
            path: "spec.pages[1].heading".to_owned(),
        }
    );
    website.spec.theme = Some("hunter2".to_owned());
    let error = conversion.check_round_trip(&website).unwrap_err().to_string();
    assert_eq!(error, "v2 of Website loses spec.theme on its way through v1");
    conversion.clone().keep_unknown_fields().check_round_trip(&website).unwrap();
    website.spec.pages[0].name = "a b".to_owned();
    let error = conversion.keep_unknown_fields().check_round_trip(&website).unwrap_err();
    assert!(error.to_string().contains("to v1alpha1 and back"), "{error}");
}

#[test]
fn a_version_without_an_object_is_not_proven() {
    let objects = [object("v1", json!({})), object("v2", json!({}))];
    let error = conversion().check_round_trips(objects).unwrap_err();
    assert_eq!(error, RoundTripError::NoObject { version: "v1alpha1".to_owned() });
    let objects = ["v1", "v2", "v1alpha1"].map(|version| object(version, json!({})));
    conversion().check_round_trips(objects).unwrap();
}

fn unknown() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(1)), Just(json!({"x": [1, {"y": "z"}]})), Just(json!(["a", {}]))]
}

/// Websites of `v2` with unknown fields everywhere.
fn websites() -> impl Strategy<Value = Value> {
    let page = (proptest::option::of("[a-z]{0,3}"), proptest::option::of(unknown()));
    let pages = proptest::collection::btree_map("[a-z]{1,2}", page, 0..4);
    let theme = proptest::option::of("[a-z]");
    (pages, theme, proptest::option::of(unknown()), proptest::option::of(0..5i64)).prop_map(
        |(pages, theme, unknown, replicas)| {
            let pages: Vec<Value> = pages
                .into_iter()
                .map(|(name, (heading, unknown))| {
                    json!({"name": name, "heading": heading, "unknown": unknown})
                })
                .collect();
            let scale = json!({"replicas": replicas, "unknown": unknown.clone()});
            object(
                "v2",
                json!({"scale": scale, "pages": pages, "theme": theme, "unknown": unknown}),
            )
        },
    )
}

proptest! {
    #[test]
    fn nothing_is_lost_between_any_two_versions_if_unknown_fields_are_kept(website in websites()) {
        let conversion = conversion().keep_unknown_fields();
        for version in ["v2", "v1", "v1alpha1"] {
            let object = conversion.convert(&website, version).unwrap();
            let mut object = object;
            // What is kept of other versions is not the object's own.
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("annotations");
            }
            object["spec"]["new"] = json!({"in": version});
            conversion.check_round_trips([object]).map_or_else(
                |error| match error {
                    RoundTripError::NoObject { .. } => Ok(()),
                    error => Err(TestCaseError::fail(error.to_string())),
                },
                Ok,
            )?;
        }
    }
}
