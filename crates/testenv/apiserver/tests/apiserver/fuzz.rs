//! Arbitrary paths, queries and bodies: no panic, and no 5xx except for those that the real server
//! also gives.

use crate::support::{call, cases, create, send, server};
use http::Method;
use http_body_util::BodyExt;
use proptest::prelude::*;

fn path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        4 => prop::sample::select(vec![
            "api", "apis", "v1", "namespaces", "default", "configmaps", "pods", "status", "scale", "apps",
            "deployments", "a", "apiextensions.k8s.io", "customresourcedefinitions", "watch", "events", "finalize",
            "binding", "authorization.k8s.io", "selfsubjectaccessreviews", "secrets", "leases",
        ]).prop_map(str::to_owned),
        1 => "[a-z%/.A-Z0-9:-]{0,8}",
    ];
    prop::collection::vec(segment, 0..8).prop_map(|segments| format!("/{}", segments.join("/")))
}

/// Paths that exist, so that the bodies below are parsed.
fn known_path() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/batch/v1/namespaces/default/cronjobs",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default/finalize",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    ])
    .prop_map(str::to_owned)
}

fn query() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "watch",
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "dryRun",
        "propagationPolicy",
        "fieldValidation",
        "fieldManager",
        "force",
        "gracePeriodSeconds",
    ]);
    let value = prop_oneof![
        prop::sample::select(vec![
            "",
            "0",
            "1",
            "5",
            "true",
            "All",
            "Exact",
            "NotOlderThan",
            "Foreground",
            "Strict",
            "a=b",
            "a in (b)",
            "metadata.name=a",
            "99999999999999999999",
            "-1",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,12}",
    ];
    prop::collection::vec((name, value), 0..4).prop_map(|pairs| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in pairs {
            query.append_pair(name, &value);
        }
        // Watches would take minutes of paused time; other tests cover them.
        query.append_pair("timeoutSeconds", "1");
        query.finish()
    })
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        "[a-zA-Z0-9/.-]{0,8}".prop_map(Into::into),
    ];
    let key = prop_oneof![
        6 => prop::sample::select(vec![
            "metadata", "name", "namespace", "labels", "finalizers", "ownerReferences", "uid", "spec", "status",
            "data", "replicas", "selector", "matchLabels", "template", "containers", "kind", "apiVersion",
            "generateName", "resourceVersion", "versions", "schema", "openAPIV3Schema", "properties", "items",
            "names", "plural", "group", "scope", "type", "default", "op", "path", "value", "from",
        ]).prop_map(str::to_owned),
        1 => "[a-z$]{0,5}",
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => json().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::support::cases(1500)))]

    #[test]
    fn no_request_brings_the_server_down(
        requests in prop::collection::vec(
            (
                prop::sample::select(vec![
                    Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD,
                    Method::OPTIONS,
                ]),
                prop_oneof![3 => known_path(), 1 => path()],
                query(),
                prop::sample::select(vec![
                    "application/json", "application/yaml", "application/merge-patch+json",
                    "application/json-patch+json", "application/strategic-merge-patch+json",
                    "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf", "text/plain", "",
                ]),
                body(),
            ),
            1..6,
        )
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = server();
            create(&server, "a").await;
            for (method, path, query, content_type, body) in requests {
                let uri = format!("{path}?{query}");
                if uri.parse::<http::Uri>().is_err() {
                    continue;
                }
                let answer = send(&server, method.clone(), &uri, content_type, body).await.expect("an answer");
                let status = answer.status();
                let content = answer.into_body().collect().await.expect("a whole body").to_bytes();
                let text = String::from_utf8_lossy(&content);
                // The real server answers these with 500: a create with a version, and a watch from
                // an invalid version. A version from the future gets a 504.
                let known = text.contains("resourceVersion") || status == 504;
                assert!(status.as_u16() < 500 || known, "{method} {uri}: {status} {text}");
            }
            create(&server, "still-there").await;
        });
    }
}

/// The error of an applied configuration that does not fit its type: the real server also answers
/// 500.
const NOT_TYPED: &str = "failed to create typed patch object";

/// Arbitrary `metadata.managedFields` that look almost valid.
fn managers() -> impl Strategy<Value = serde_json::Value> {
    let element = prop_oneof![
        "[fkvi.]:?[a-z{}\"0-9:]{0,6}",
        prop::sample::select(vec![
            "f:metadata",
            "f:labels",
            "f:spec",
            "f:containers",
            "k:{\"name\":\"a\"}",
            "k:{\"name\":1}",
            "v:\"a\"",
            "i:0",
            ".",
            "f:data",
            "f:template",
        ])
        .prop_map(str::to_owned),
    ];
    let nothing = Just(serde_json::json!({}));
    let fields = nothing.prop_recursive(5, 24, 4, move |inner| {
        prop::collection::btree_map(element.clone(), inner, 0..4)
            .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
    });
    let operation = prop::sample::select(vec!["Apply", "Update", "Other"]);
    let version = prop::sample::select(vec!["apps/v1", "apps/v0", ""]);
    let manager = prop::sample::select(vec!["one", "two", ""]);
    let entry =
        (manager, operation, version, fields).prop_map(|(manager, operation, version, fields)| {
            serde_json::json!({
                "manager": manager,
                "operation": operation,
                "apiVersion": version,
                "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            })
        });
    prop::collection::vec(entry, 0..4).prop_map(Into::into)
}

/// A deployment with an odd value in it or in its pod template.
fn configuration() -> impl Strategy<Value = serde_json::Value> {
    let place = prop::sample::select(vec![
        "/metadata/labels",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/spec",
        "/spec/strategy",
        "/spec/template/spec",
        "/spec/template/spec/containers",
        "/spec/template/spec/containers/0/env",
        "/spec/template/spec/containers/0",
        "/status",
    ]);
    (place, json()).prop_map(|(place, odd)| {
        let mut config = serde_json::json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a", "labels": {"l": "1"}, "finalizers": [], "ownerReferences": []},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "strategy": {},
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"containers": [{"name": "a", "image": "a", "env": []}]},
                },
            },
            "status": {},
        });
        if let Some(found) = config.pointer_mut(place) {
            *found = odd;
        }
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::support::cases(400)))]

    #[test]
    fn no_configuration_and_no_managers_bring_the_server_down(
        rounds in prop::collection::vec((configuration(), managers(), any::<bool>()), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let server = server();
            let path = "/apis/apps/v1/namespaces/default/deployments/a";
            for (at, (config, managers, is_status)) in rounds.into_iter().enumerate() {
                let part = if is_status { "/status" } else { "" };
                let apply = format!("{path}{part}?force=true&fieldManager=m{}", at % 2);
                let managers = serde_json::json!({"metadata": {"managedFields": managers}});
                for (uri, media, body) in [
                    (apply.as_str(), "application/apply-patch+yaml", &config),
                    (path, "application/merge-patch+json", &managers),
                    (&apply, "application/apply-patch+yaml", &config),
                ] {
                    let body = body.to_string().into_bytes();
                    let answer = send(&server, Method::PATCH, uri, media, body).await.expect("an answer");
                    let status = answer.status();
                    let content = answer.into_body().collect().await.expect("a whole body").to_bytes();
                    let text = String::from_utf8_lossy(&content);
                    assert!(status.as_u16() < 500 || text.contains(NOT_TYPED), "{uri}: {status} {text}");
                }
            }
        });
    }
}

/// Valid and invalid parts of expressions, separated by semicolons.
const LEAVES: &str = r#"self; oldSelf; self.n; self.t; self.l; self.m; self.o.x; self.none; 1; -1; 0;
    1.5; 2u; 'a'; "b"; r'[a-z]+'; '''c'''; b'\xff'; true; false; null; []; {}; [1, 2]; {'a': 1}; 'ä';
    9223372036854775807; int; x; duration('1h'); timestamp('2024-01-01T00:00:00Z');
    quantity('1Gi'); optional.none(); lists.range(50)"#;
const OPERATORS: &str = "+; -; *; /; %; ==; !=; <; <=; >; >=; &&; ||; in; .";
const METHODS: &str = "size; contains; startsWith; matches; split; join; replace; format; sum; min;
    max; isSorted; indexOf; substring; upperAscii; trim; find; findAll; flatten; distinct; slice; sort;
    reverse; first; hasValue; value; orValue; isGreaterThan; add; getHours; charAt; lastIndexOf";
const FUNCTIONS: &str = "size; int; uint; double; string; bytes; bool; type; dyn; has; duration;
    timestamp; quantity; isQuantity; ip; isIP; cidr; url; isURL; semver; lists.range; sets.contains;
    optional.of; matches; strings.quote; sign";
const MACROS: &str = "all; exists; exists_one; map; filter; sortBy; optMap; optFlatMap";
const MACROS_OF_TWO: &str =
    "all; exists; existsOne; transformList; transformMap; transformMapEntry";

fn one_of(pieces: &'static str) -> impl Strategy<Value = String> + Clone {
    let pieces: Vec<String> = pieces.split(';').map(|piece| piece.trim().to_owned()).collect();
    prop::sample::select(pieces)
}

fn expression() -> impl Strategy<Value = String> {
    // `dyn` passes the type checker, so that functions are called with values of types that they do
    // not accept.
    let leaf = (one_of(LEAVES), any::<bool>())
        .prop_map(|(leaf, dynamic)| if dynamic { format!("dyn({leaf})") } else { leaf });
    leaf.prop_recursive(5, 40, 3, |inner| {
        let args = prop::collection::vec(inner.clone(), 0..3);
        let (one, two) = (inner.clone(), (inner.clone(), inner.clone()));
        prop_oneof![
            (two.clone(), one_of(OPERATORS)).prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            (one.clone(), one_of(METHODS), args.clone())
                .prop_map(|(a, f, args)| format!("{a}.{f}({})", args.join(", "))),
            (one_of(FUNCTIONS), args.clone())
                .prop_map(|(f, args)| format!("{f}({})", args.join(", "))),
            (two.clone(), one_of(MACROS)).prop_map(|((a, b), f)| format!("{a}.{f}(x, {b})")),
            (two.clone(), one_of(MACROS_OF_TWO))
                .prop_map(|((a, b), f)| format!("{a}.{f}(i, x, {b})")),
            (two.clone(), one.clone()).prop_map(|((a, b), c)| format!("({a} ? {b} : {c})")),
            two.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
            two.prop_map(|(a, b)| format!("{a}[?{b}]")),
            args.prop_map(|args| format!("[{}]", args.join(", "))),
            one.clone().prop_map(|a| format!("!!{a}")),
            one.clone().prop_map(|a| format!("--{a}")),
            one.prop_map(|a| format!("{a}.?x")),
        ]
    })
}

fn with_rule(rule: &str) -> serde_json::Value {
    let text = serde_json::json!({"type": "string"});
    let spec = serde_json::json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "t": text, "l": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": text},
        "o": {"type": "object", "properties": {"x": {"x-kubernetes-int-or-string": true}}}},
        "x-kubernetes-validations": [{"rule": rule, "message": "refused"}]});
    serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": spec}}}}]},
    })
}

/// Creates a definition with a rule, and an object of it. Returns the status codes.
fn try_rule(rule: &str, spec: &serde_json::Value) -> (u16, Option<u16>) {
    const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime must start");
    runtime.block_on(async {
        let server = server();
        let (defined, _) = call(&server, Method::POST, CRDS, Some(with_rule(rule))).await;
        if defined != 201 {
            return (defined.as_u16(), None);
        }
        let thing = serde_json::json!({"apiVersion": "example.dev/v1", "kind": "Thing",
            "metadata": {"name": "a"}, "spec": spec});
        let path = "/apis/example.dev/v1/namespaces/default/things";
        let (made, _) = call(&server, Method::POST, path, Some(thing)).await;
        (201, Some(made.as_u16()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(200)))]

    /// A rule is refused or accepted, an object passes it or does not, and nothing panics or hangs.
    #[test]
    fn any_rule_is_compiled_or_refused(rule in expression(), n in -3_i64..3, t in "[a-c]{0,3}") {
        let spec = serde_json::json!({"n": n, "t": t, "l": [n, 1, 2], "m": {t.clone(): t}, "o": {"x": n}});
        let (defined, made) = try_rule(&format!("dyn({rule}) != 'nothing'"), &spec);
        prop_assert!(matches!(defined, 201 | 422), "{rule}: {defined}");
        prop_assert!(matches!(made, None | Some(201 | 422)), "{rule}: {made:?}");
    }

    #[test]
    fn any_text_as_a_rule_is_compiled_or_refused(rule in "\\PC{0,60}|[-!()\\[\\]{}'\"a.?:,+ \\\\]{0,40}") {
        let (defined, made) = try_rule(&rule, &serde_json::json!({}));
        prop_assert!(matches!(defined, 201 | 422), "{rule}: {defined}");
        prop_assert!(matches!(made, None | Some(201 | 422)), "{rule}: {made:?}");
    }
}

proptest! {
    // Each input makes three rules, and checks more than the tests above.
    #![proptest_config(ProptestConfig::with_cases(cases(600) / 6))]

    /// A rule and its negation never both hold, and a rule that is always false accepts no object.
    #[test]
    fn nothing_that_is_false_is_taken(rule in expression()) {
        // A rule with `oldSelf` is not evaluated for a new object.
        if rule.contains("oldSelf") {
            return Ok(());
        }
        let spec = serde_json::json!({"n": 1, "t": "a", "l": [1, 2], "m": {"a": "b"}, "o": {"x": "y"}});
        let (_, made) = try_rule(&rule, &spec);
        let (_, negated) = try_rule(&format!("!({rule})"), &spec);
        prop_assert!(!(made == Some(201) && negated == Some(201)), "{rule}");
        let (_, never) = try_rule(&format!("({rule}) && false"), &spec);
        prop_assert!(never != Some(201), "{rule}");
    }
}
