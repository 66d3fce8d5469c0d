//! Tests of common paths, and of odd ones as client-go evaluates them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "metadata": {"labels": {"app.kubernetes.io/name": "web", "a": "1"}},
        "spec": {
            "items": [{"name": "x", "size": 1}, {"name": "y", "size": 2}, {"name": "z"}],
            "ratio": 0.5,
            "nothing": null,
            "quoted": "it's",
            "lists": [[1], [], [2]],
            "others": [[], [1]],
        },
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Stalled", "status": "False", "reason": "None"},
            ],
        },
    })
}

fn first(path: &str) -> Option<Value> {
    JsonPath::parse(path).unwrap_or_else(|| panic!("{path} must be a path")).first(&object())
}

#[test]
fn paths_of_columns_find_their_values() {
    for (path, found) in [
        (".spec.ratio", json!(0.5)),
        (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
        (".status.conditions[?(@.type=='Stalled')].reason", json!("None")),
        (".status.conditions[?(@.type!=\"Ready\")].type", json!("Stalled")),
        (".status.conditions[?(@.reason)].type", json!("Stalled")),
        (".metadata.labels.app\\.kubernetes\\.io/name", json!("web")),
        (".metadata.labels['app\\.kubernetes\\.io/name']", json!("web")),
        (".metadata.labels.*", json!("1")),
        (".spec.items[*].name", json!("x")),
        (".spec.items[1].name", json!("y")),
        (".spec.items[-1].name", json!("z")),
        (".spec.items[1:].name", json!("y")),
        (".spec.items[-2:].name", json!("y")),
        (".spec.items[0:3:2].name", json!("x")),
        (".spec.items[2,0].name", json!("z")),
        (".spec.items[?(@.size>1)].name", json!("y")),
        (".spec.items[?(@.size<=1)].name", json!("x")),
        (".spec.lists[*][*]", json!(1)),
        (".spec.items[]", json!({"name": "x", "size": 1})),
        ("..conditions[0].type", json!("Ready")),
        (".spec['ratio']", json!(0.5)),
        (".spec.nothing", Value::Null),
        (".spec.ratio}{.spec.items", json!(0.5)),
    ] {
        assert_eq!(first(path), Some(found), "{path}");
    }
}

#[test]
fn missing_and_incomparable_values_find_nothing() {
    for path in [
        ".spec.absent",
        ".spec.absent.deeper",
        ".spec.absent[0].name",
        ".spec.nothing.deeper",
        ".spec.items[7].name",
        ".spec.items[-7].name",
        ".spec.items[2:1]",
        ".spec.others[*][*]",
        ".spec.items[1:1]",
        ".spec.items[0:2:0]",
        ".spec.ratio[0]",
        ".spec[?(@.a)]",
        ".status.conditions[?(@.type==1)].status",
        ".spec.items[?(@.size>0.5)].name",
        ".spec.items[?(@.size===1)].name",
        ".metadata.labels['app.kubernetes.io/name']",
        ".spec range",
        ".spec.ratio}{.spec.items[9]",
        ".",
    ] {
        assert_eq!(first(path), None, "{path}");
    }
}

#[test]
fn invalid_paths_are_refused() {
    for path in [
        ".a[",
        ".a[x]",
        ".a[1:2:3:4]",
        ".a[+1]",
        ".a[99999999999999999999]",
        ".a[?(@.b==\"x]",
        ".a[?(@.b)",
        ".a[?(=='x')]",
        ".a[?(@.b=~1)]",
        ".a....b",
        ".a\n",
        ".a[?(@.b==\"\\q\")]",
        ".a {",
    ] {
        assert_eq!(JsonPath::parse(path), None, "{path:?}");
    }
}

#[test]
fn escapes_in_quotes_are_those_of_go() {
    let constant = |text: &str| {
        let path = JsonPath::parse(&format!(". {text}"))?;
        path.first(&json!({}))
    };
    assert_eq!(constant(r#""a\"b\\\n\x41\u00e9\101""#), Some(json!("a\"b\\\nAéA")));
    assert_eq!(constant(r"'it\'s'"), Some(json!("it's")));
}

#[test]
fn path_that_visits_too_many_values_finds_nothing() {
    let mut deep = json!({"a": 1});
    for _ in 0..100 {
        deep = json!({"a": deep});
    }
    let many = json!({"big": vec![0; 10_000], "empty": vec![json!([]); 10_000]});
    let repeated = |key: &str| vec![format!("'{key}'"); 10_000].join(",");
    for (path, object) in [
        ("..a".repeat(6), &deep),
        (format!(".['x',{}].*", repeated("big")), &many),
        (format!(".[{}][:]", repeated("big")), &many),
        (format!(".[{}][?(@)]", repeated("big")), &many),
        (format!(".[{}]..", repeated("big")), &many),
        (format!(".[{}]..", repeated("empty")), &many),
    ] {
        let found = JsonPath::parse(&path).expect("a path").first(object);
        assert_eq!(found, None, "{}", &path[path.len().saturating_sub(12)..]);
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(path in r#"[.\[\]?()@*,:'"\\a-c0-2=<> {}$-]{0,24}"#) {
        if let Some(path) = JsonPath::parse(&path) {
            path.first(&object());
        }
    }
}
