//! The values of an object that rules see, and what rules can do with them.

use serde_json::{Value, json};

use super::{given, kind, object, things, try_all, try_rules};
use crate::Script;
use crate::fixtures::with;

pub(in crate::cases) async fn names_of_fields_are_escaped(t: &mut Script) {
    let text = json!({"type": "string"});
    let rules = json!([{"rule": "self.__namespace__ == 'a' && self.a__dot__b == 'a' && self.a__dash__b == 'a' \
        && self.a__slash__b == 'a' && self.a__underscores__b == 'a' && self.a_b == 'a' && self.__if__ == 'a'"}]);
    let properties = json!({"namespace": text, "a.b": text, "a-b": text, "a/b": text, "a__b": text, "a_b": text,
        "if": text});
    kind(t, object(properties, rules)).await;
    let fine = json!({"namespace": "a", "a.b": "a", "a-b": "a", "a/b": "a", "a__b": "a", "a_b": "a", "if": "a"});
    try_all(t, &[fine.clone(), with(fine, "/a-b", json!("x"))]).await;
}

pub(in crate::cases) async fn keys_of_maps_are_not_escaped(t: &mut Script) {
    let rules = json!([
        {"rule": "!('a.b/c-d' in self) || self['a.b/c-d'] == 'x'", "message": "an x"},
        {"rule": "self.all(k, k.startsWith('a'))", "message": "keys start with a"},
        {"rule": "!has(self.alone) || self.alone != ''", "message": "not alone"},
    ]);
    let labels = json!({"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 9},
        "x-kubernetes-validations": rules});
    kind(t, object(json!({"labels": labels}), json!([]))).await;
    try_all(
        t,
        &[
            json!({"labels": {"a.b/c-d": "x"}}),
            json!({"labels": {"a.b/c-d": "y"}}),
            json!({"labels": {"b": "y"}}),
            json!({"labels": {"alone": ""}}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn formats_of_texts_have_types(t: &mut Script) {
    let text = |format: &str| json!({"type": "string", "format": format});
    let rules = json!([
        {"rule": "self.end - self.start >= self.least", "message": "too short"},
        {"rule": "self.day.getDayOfWeek() != 0", "message": "no Sundays"},
        {"rule": "self.raw.size() == 3", "message": "three bytes"},
        {"rule": "self.start.getFullYear() >= 2020", "message": "not so old"},
    ]);
    let properties = json!({"start": text("date-time"), "end": text("date-time"), "least": text("duration"),
        "day": text("date"), "raw": text("byte")});
    kind(t, object(properties, rules)).await;
    let fine = json!({"start": "2024-01-01T00:00:00Z", "end": "2024-01-01T03:00:00+01:00", "least": "1h30m",
        "day": "2024-01-01", "raw": "YWJj"});
    try_all(
        t,
        &[
            fine.clone(),
            with(fine.clone(), "/least", json!("3h")),
            with(fine.clone(), "/day", json!("2024-01-07")),
            with(fine.clone(), "/raw", json!("YWI=")),
            with(fine, "/start", json!("2019-12-31T23:59:59.5Z")),
        ],
    )
    .await;
}

pub(in crate::cases) async fn number_or_text(t: &mut Script) {
    let rules = json!([
        {"rule": "type(self.port) == int ? self.port > 0 : self.port.endsWith('%')", "message": "a share or a number"},
        {"rule": "self.limit < 5"},
    ]);
    let either = json!({"x-kubernetes-int-or-string": true});
    kind(t, object(json!({"port": either, "limit": either}), rules)).await;
    try_all(
        t,
        &[
            json!({"port": 5, "limit": 1}),
            json!({"port": "5%", "limit": 1}),
            json!({"port": "5", "limit": 1}),
            json!({"port": 0, "limit": 1}),
            json!({"port": 5, "limit": "1"}),
        ],
    )
    .await;
}

pub(in crate::cases) async fn libraries_of_kubernetes(t: &mut Script) {
    let rules = json!([
        {"rule": "isQuantity(self.memory) && quantity(self.memory).compareTo(quantity('64Mi')) >= 0", "message": "memory"},
        {"rule": "isIP(self.address) && ip(self.address).family() == 4 && !ip(self.address).isLoopback()", "message": "address"},
        {"rule": "isCIDR(self.network) && cidr(self.network).containsIP(self.address)", "message": "network"},
        {"rule": "isURL(self.url) && url(self.url).getScheme() == 'https' && url(self.url).getHostname() == 'example.com'", "message": "url"},
        {"rule": "isSemver(self.version) && semver(self.version).isGreaterThan(semver('1.0.0'))", "message": "version"},
        {"rule": "!format.dns1123Label().validate(self.label).hasValue()", "message": "label"},
        {"rule": "self.label.matches('^[a-z]+$') && self.label.find('[a-m]+') != ''", "message": "pattern"},
    ]);
    let text = json!({"type": "string", "maxLength": 64});
    let properties = json!({"memory": text, "address": text, "network": text, "url": text, "version": text, "label": text});
    kind(t, object(properties, rules)).await;
    let fine = json!({"memory": "1Gi", "address": "10.0.0.7", "network": "10.0.0.0/8", "label": "abc",
        "url": "https://example.com:8443/x?y=z", "version": "1.2.3-rc.1"});
    try_all(
        t,
        &[
            fine.clone(),
            with(fine.clone(), "/memory", json!("1Mi")),
            with(fine.clone(), "/memory", json!("lots")),
            with(fine.clone(), "/address", json!("11.0.0.1")),
            with(fine.clone(), "/address", json!("::1")),
            with(fine.clone(), "/url", json!("http://example.com")),
            with(fine.clone(), "/version", json!("1.0.0")),
            with(fine.clone(), "/version", json!("v1.0")),
            with(fine, "/label", json!("xyz")),
        ],
    )
    .await;
}

pub(in crate::cases) async fn macros_and_texts(t: &mut Script) {
    let rules = json!([
        {"rule": "self.names.map(n, n.size()).sum() < 10", "message": "sum"},
        {"rule": "self.names.filter(n, n.startsWith('x')).size() <= 1", "message": "filter"},
        {"rule": "self.names.all(i, n, i == 0 || n != self.names[i - 1])", "message": "neighbours"},
        {"rule": "self.names.join('-') != 'b-a'", "message": "join"},
        {"rule": "self.?other.orValue('z') != 'y' && self.names[?5].orValue('') == ''", "message": "optional"},
        {"rule": "'%s of %d'.format([self.names[0], size(self.names)]) != 'q of 1'", "message": "format"},
        {"rule": "self.names.transformList(i, n, n.startsWith('k') ? i : 9).exists(i, i == 0) == false", "message": "transform"},
        {"rule": "sets.intersects(self.names, ['s', 't']) == false", "message": "sets"},
        {"rule": "self.names.distinct().size() == self.names.size() || self.names.indexOf('d') < 0", "message": "distinct"},
        {"rule": "self.names[0].split('.').size() < 3 && self.names[0].replace('o', '0') != 'f00'", "message": "split"},
    ]);
    let properties = json!({"names": {"type": "array", "maxItems": 6, "items": {"type": "string", "maxLength": 12}},
        "other": {"type": "string", "maxLength": 9}});
    kind(t, object(properties, rules)).await;
    let specs = [
        json!(["a", "b"]),
        json!(["abcdef", "ghijkl"]),
        json!(["x1", "x2"]),
        json!(["a", "a"]),
        json!(["b", "a"]),
        json!(["q"]),
        json!(["k"]),
        json!(["s"]),
        json!(["d", "c", "d"]),
        json!(["a.b.c"]),
        json!(["foo"]),
    ];
    let specs: Vec<Value> = specs.into_iter().map(|names| json!({"names": names})).collect();
    try_all(t, &specs).await;
    try_all(t, &[json!({"names": ["a"], "other": "y"})]).await;
}

pub(in crate::cases) async fn errors_of_an_evaluation(t: &mut Script) {
    let rules = json!([
        {"rule": "self.a != 1 || 10 / (self.a - 1) > 0"},
        {"rule": "self.a != 2 || [1, 2][self.a] > 0"},
        {"rule": "self.a != 3 || {'x': 1}[self.text] > 0", "message": "named by its message"},
        {"rule": "self.a != 4 || self.a * 9223372036854775807 > 0"},
        {"rule": "self.a != 5 || int(self.text) > 0"},
        {"rule": "self.a != 6 || self.nested.deep == 1"},
        {"rule": "self.a != 7 || 10 % (self.a - 7) > 0"},
    ]);
    let properties = json!({"a": {"type": "integer"}, "text": {"type": "string", "maxLength": 9},
        "nested": {"type": "object", "properties": {"deep": {"type": "integer"}}}});
    kind(t, object(properties, rules)).await;
    let specs: Vec<Value> = (1..8).map(|a| json!({"a": a, "text": "y", "nested": {}})).collect();
    try_all(t, &specs).await;
}

pub(in crate::cases) async fn null_is_no_value(t: &mut Script) {
    let properties = json!({"a": {"type": "string", "nullable": true,
        "x-kubernetes-validations": [{"rule": "self != 'x'"}]}});
    kind(t, object(properties, json!([{"rule": "has(self.a)", "message": "a must be there"}])))
        .await;
    try_all(t, &[json!({"a": "x"}), json!({"a": null}), json!({})]).await;
}

pub(in crate::cases) async fn fields_that_are_kept_unknown(t: &mut Script) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"known": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "frozen, whatever it holds"}]});
    kind(t, object(json!({"open": open}), json!([]))).await;
    given(t, json!({"open": {"known": "a", "other": 1}})).await;
    let path = format!("{}/a", things(t));
    t.merge_patch(&path, json!({"spec": {"open": {"other": 2}}})).await;
    t.merge_patch(&path, json!({"spec": {"open": {"third": 1}}})).await;
    t.merge_patch(&path, json!({"spec": {"open": {"known": "b"}}})).await;
    try_rules(
        t,
        json!({"open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
        &[json!({"rule": "self.open.anything == 1"})],
    )
    .await;
}

pub(in crate::cases) async fn embedded_resources_have_a_name(t: &mut Script) {
    let template = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [
            {"rule": "self.kind == 'Pod' && self.metadata.name == 'x'", "message": "a pod named x"}]});
    kind(t, object(json!({"template": template}), json!([]))).await;
    let pod = |name: &str| json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}});
    try_all(t, &[pod("x"), pod("y")]).await;
}
