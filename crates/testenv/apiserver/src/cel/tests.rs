//! Tests of the rules of a definition: their messages for objects, and their compile errors.

use serde_json::{Value, json};

use crate::schema::Schema;

/// Returns the errors of an object with one rule on its `spec`.
fn spec_errors(properties: &Value, rule: &str, spec: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]}}});
    let schema = match Schema::parse(&schema) {
        Ok(schema) => schema,
        Err(errors) => return errors.iter().map(ToString::to_string).collect(),
    };
    let mut errors = Vec::new();
    schema.check_rules(&json!({"spec": spec}), None, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// Returns the only error of a rule on an object without fields.
fn only_error(rule: &str) -> String {
    let errors = spec_errors(&json!({}), rule, &json!({}));
    let [error] = errors.as_slice() else { panic!("{rule}: {errors:?}") };
    error.clone()
}

#[test]
fn expressions_evaluate_as_in_cel_go() {
    let rules = [
        "1 + 2 == 3 && 7 / 2 == 3 && 7 % 4 == 3 && -7 / 2 == -3",
        "!!true && --1 == 1 && 3 --1 == 4 && 3 - - 1 == 4 && !!!false",
        "'a' + 'b' == \"ab\" && r'\\d' == '\\\\d' && '''a'b''' == \"a'b\" && b'ab' == bytes('ab')",
        "r\"it's\" == 'it\\'s' && r'\\\\' == '\\\\\\\\' && '\\u00e4' == 'ä' && '\\x41' == 'A'",
        "dyn(1) == 1.0 && dyn(1u) == 1 && 1 < 1.5 && 2u > 1 && dyn([1, 2]) == [1.0, 2.0]",
        "size('äöü') == 3 && 'äöü'.size() == 3 && size([1]) == 1 && {'a': 1}.size() == 1",
        "true || 1 / 0 == 1",
        "(1 / 0 == 1) || true",
        "!(false && 1 / 0 == 1) && !((1 / 0 == 1) && false)",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 1].all(x, 1 / x == 2)",
        "[1, 2, 3].exists_one(x, x > 2) && [1, 2, 3].existsOne(i, v, v == i + 1 && i == 0)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3] && {'a': 1}.map(k, k) == ['a']",
        "{'a': 1, 'b': 2}.all(k, v, v > 0) && [1].transformList(i, v, i + v) == [1]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1] && [3, 1].sort() == [1, 3]",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().hasValue()",
        "[1][?5].orValue(7) == 7 && {'a': 1}.?a.value() == 1 && !{'a': 1}[?'b'].hasValue()",
        "[1, ?optional.none(), ?optional.of(2)] == [1, 2] && {?'a': optional.of(1)} == {'a': 1}",
        "type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type",
        "int('5') == 5 && int(2.9) == 2 && uint('5') == 5u && double('0.5') == 0.5 && bool('true')",
        "string(5) == '5' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a'",
        "duration('1h') > duration('59m') && string(duration('90m')) == '5400s'",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "string(timestamp('2024-01-01T00:00:00Z')) == '2024-01-01T00:00:00Z'",
        "timestamp('2024-01-01T12:30:00Z').getHours() == 12",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('86400s')",
        "'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1'.find('[0-9]') == '1' && 'abc'.matches('^a.c$')",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'Ab'.lowerAscii() == 'ab'",
        "'%s is %d'.format(['a', 1]) == 'a is 1' && 'tacocat'.substring(4) == 'cat'",
        "'%s'.format([[1, 'a', 2u, 1.5, true, null, b'b']]) == '[1, \"a\", 2, 1.500000, true, null, b\"b\"]'",
        "'%s %%'.format([[duration('1h'), duration('90s')]]) == '[duration(\"3600s\"), duration(\"90s\")] %'",
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && isQuantity('5') && !isQuantity('x')",
        "quantity('1').add(quantity('1')).compareTo(quantity('2')) == 0 && sign(quantity('-1')) == -1",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && ip.isCanonical('127.0.0.1')",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').prefixLength() == 8",
        "url('https://example.com:80/a?b=c').getHost() == 'example.com:80' && isURL('https://a.b')",
        "semver('1.2.3').isLessThan(semver('1.3.0')) && isSemver('1.0.0') && semver('1.2.3').major() == 1",
        "!format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A_').hasValue()",
        "[1, 2, 3].sum() == 6 && [1, 3].max() == 3 && [3, 1].min() == 1 && [1, 2].isSorted()",
        "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])",
        "[1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2] && lists.range(3) == [0, 1, 2]",
        "[1, 2, 3].slice(0, 2) == [1, 2] && [1, 2].reverse() == [2, 1] && [1].first().value() == 1",
        "1 in [1, 2] && 'a' in {'a': 1} && !(3 in [1])",
        "[1, 2][1] == 2 && {'a': 1}['a'] == 1 && {'a': 1}.a == 1 && has({'a': 1}.a)",
        "dyn(1) == 1 && dyn('a') != dyn(1)",
    ];
    let wrong: Vec<_> =
        rules.iter().flat_map(|rule| spec_errors(&json!({}), rule, &json!({}))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn evaluation_errors_are_reported() {
    for (rule, why) in [
        (
            "1 / 0 == 1",
            "spec: Invalid value: \"object\": division by zero evaluating rule: 1 / 0 == 1",
        ),
        (
            "[1][3] == 1",
            "spec: Invalid value: \"object\": index out of bounds: 3 evaluating rule: [1][3] == 1",
        ),
        (
            "{'a': 1}['b'] == 1",
            "spec: Invalid value: \"object\": no such key: b evaluating rule: {'a': 1}['b'] == 1",
        ),
        (
            "dyn('a') > 1",
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported \
             operator, function or macro signature for rule: dyn('a') > 1",
        ),
        (
            "9223372036854775807 + 1 == 1",
            "spec: Invalid value: \"object\": integer overflow evaluating rule: 9223372036854775807 + 1 == 1",
        ),
    ] {
        assert_eq!(only_error(rule), why);
    }
}

#[test]
fn expression_with_exploding_cost_fails() {
    let nested = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(b, \
        [1, 2, 3, 4, 5, 6, 7, 8, 9].all(c, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(d, \
        [1, 2, 3, 4, 5, 6, 7, 8, 9].all(e, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(f, a + b + c + d + e + f > 0))))))";
    for rule in [
        nested,
        "lists.range(100000).map(x, lists.range(100000)).size() > 0",
        "lists.range(10000000000).size() > 0",
        "lists.range(3000).all(x, ''.replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').size() > 0 && \
         lists.range(3000).size() > 0)",
        "'%10000000000f'.format([1.0]) == ''",
        "lists.range(5000).distinct().size() > 0",
    ] {
        let why = only_error(rule);
        assert!(why.contains("actual cost limit exceeded"), "{why}");
    }
}

#[test]
fn definition_with_invalid_rules_is_refused() {
    for (rule, why) in [
        (
            "self.nothing",
            "ERROR: <input>:1:5: undefined field 'nothing'\n | self.nothing\n | ....^",
        ),
        (
            "other == 1",
            "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other == 1\n | ^",
        ),
        (
            "1 == 'a'",
            "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, string)'\n | 1 == 'a'\n | ..^",
        ),
        (
            "'a'.nothing()",
            "ERROR: <input>:1:12: undeclared reference to 'nothing' (in container '')\n | 'a'.nothing()\n | ...........^",
        ),
        (
            "'ä' == 1",
            "ERROR: <input>:1:5: found no matching overload for '_==_' applied to '(string, int)'\n | 'ä' == 1\n | .．..^",
        ),
        (
            "[1].all(x, x)",
            "ERROR: <input>:1:12: expected type 'bool' but found 'int'\n | [1].all(x, x)\n | ...........^",
        ),
        (
            "'a'.matches('[')",
            "ERROR: <input>:1:13: invalid matches argument\n | 'a'.matches('[')\n | ............^",
        ),
        (
            "namespace == 'a'",
            "ERROR: <input>:1:1: reserved identifier: namespace\n | namespace == 'a'\n | ^",
        ),
    ] {
        let found = only_error(rule);
        assert!(found.contains(&format!("compilation failed: {why}")), "{found}");
    }
    assert!(only_error("1").ends_with("cel expression must evaluate to a bool"));
    assert!(only_error("self.").contains("Syntax error"), "{}", only_error("self."));
}

#[test]
fn maps_are_formatted_in_the_order_of_their_keys() {
    // With the order of a hash map, twenty keys would be sorted once in 20! runs.
    let keys: Vec<String> = (0..20).map(|key| format!("k{key:02}")).collect();
    let entries: Vec<String> = keys.iter().rev().map(|key| format!("'{key}': [1]")).collect();
    let shown: Vec<String> = keys.iter().map(|key| format!("\"{key}\":[1]")).collect();
    let (map, shown) = (format!("{{{}}}", entries.join(", ")), format!("{{{}}}", shown.join(", ")));
    for rule in [
        format!("'%s'.format([{map}]) == '{shown}'"),
        format!("'%d %s'.format([1, [{map}]]) == '1 [{shown}]'"),
        "'%s'.format([{10: 'a', 9: 'b'}]) == '{10:\"a\", 9:\"b\"}'".to_owned(),
        "'%s'.format([self.labels]) == '{\"a\":\"1\", \"b\":\"2\"}'".to_owned(),
    ] {
        let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let spec = json!({"labels": {"b": "2", "a": "1"}});
        assert_eq!(spec_errors(&json!({"labels": labels}), &rule, &spec), [""; 0]);
    }
    let why = only_error("'%d'.format([{'a': 1}]) == ''");
    assert!(why.contains("%d requires int or uint"), "{why}");
}

#[test]
fn long_lists_are_checked_in_linear_time() {
    const COUNT: usize = 20_000;
    // A quadratic algorithm would need hundreds of millions of comparisons, and the test would not
    // end.
    let rules = json!([{"rule": "self.v >= oldSelf.v"}, {"rule": "self.v > 0", "message": "no"}]);
    let item = json!({"type": "object", "required": ["k"], "x-kubernetes-validations": rules,
        "properties": {"k": {"type": "integer"}, "v": {"type": "integer"}}});
    let keyed = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"]});
    let plain = json!({"type": "array", "items": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 0", "message": "no"}]}});
    let schema = json!({"type": "object", "properties": {"keyed": keyed, "plain": plain}});
    let schema = Schema::parse(&schema).expect("a valid schema");
    let items = |keys: &mut dyn Iterator<Item = usize>| -> Value {
        keys.map(|key| json!({"k": key, "v": 0})).collect()
    };
    let zeros = json!(vec![0; COUNT]);
    let old = json!({"keyed": items(&mut (0..COUNT)), "plain": zeros});
    let new = json!({"keyed": items(&mut (0..COUNT).rev()), "plain": zeros});
    assert!(schema.validate_update(&new, &old).is_empty());
    let mut errors = Vec::new();
    let warnings = schema.check_rules(&new, Some(&old), &mut errors);
    assert!(errors.is_empty(), "{}", errors[0]);
    // Warnings and not errors, because both lists are unchanged.
    assert_eq!(warnings.len(), 2 * COUNT);
    assert_eq!(warnings[0], "keyed[0]: Invalid value: no");
    assert_eq!(warnings[COUNT], "plain[0]: Invalid value: 0: no");
}

#[test]
fn cost_of_comparing_sets_includes_every_item() {
    let text = json!({"type": "string"});
    let list = |kind: &str| json!({"type": "array", "items": text, "x-kubernetes-list-type": kind});
    let long = vec!["x".repeat(100_000)];
    let spec = json!({"long": long, "short": ["y"]});
    let rule = "lists.range(200).all(x, self.long != self.short)";
    let errors =
        |kind: &str| spec_errors(&json!({"long": list(kind), "short": list(kind)}), rule, &spec);
    assert_eq!(errors("atomic"), [""; 0]);
    let [error] = errors("set").try_into().expect("one error");
    assert!(error.contains("actual cost limit exceeded"), "{error}");
}

#[test]
fn the_depth_of_an_expression_is_bounded() {
    let deep = [
        format!("{}true{}", "(".repeat(2000), ")".repeat(2000)),
        "(".repeat(9000),
        format!("1{} == 1", " + 1".repeat(2000)),
        format!("1{}", " in 1".repeat(1900)),
        format!("{}1{} == [1]", "[".repeat(500), "]".repeat(500)),
        format!("{}1{} == {{}}", "{1:".repeat(500), "}".repeat(500)),
        format!("self{}", ".a".repeat(4000)),
        format!("self{}", ".?a".repeat(3000)),
        format!("self{}", "[0]".repeat(3000)),
        format!("{}true", "true ? true : ".repeat(700)),
        format!("{}true{}", "[1].all(x, ".repeat(400), ")".repeat(400)),
        // Each part is within the limit, but not the one nested in the other.
        format!("{}1{}", "(1 + 1 + 1 + 1 + ".repeat(60), ")".repeat(60)),
        format!("{}true{}", "!(".repeat(200), ")".repeat(200)),
        format!("{}1{} == 1", "-(".repeat(200), ")".repeat(200)),
    ];
    for rule in deep {
        let why = only_error(&rule);
        assert!(
            why.contains("ERROR: <input>:-1:0: expression recursion limit exceeded: 250"),
            "{why}"
        );
    }
    let why = only_error(&"a".repeat(20_000));
    assert!(why.contains("expression code point size exceeds limit: size: 20000"), "{why}");
}

#[test]
fn expressions_at_the_depth_limit_are_accepted() {
    let terms = vec!["true"; 1200].join(" && ");
    for rule in [
        format!("{}true{}", "(".repeat(248), ")".repeat(248)),
        format!("{}true", "!".repeat(5000)),
        format!("1{} == 248", " + 1".repeat(247)),
        format!("{}true{}", "!(".repeat(124), ")".repeat(124)),
        format!("{}1{} == 1", "-(".repeat(122), ")".repeat(122)),
        format!("size({}1{}) == 1", "[".repeat(120), "]".repeat(120)),
        format!("{}true", "true ? true : ".repeat(240)),
        format!("{}true{}", "[1].all(x, ".repeat(80), ")".repeat(80)),
        format!("{}true{}", "(true && true || ".repeat(60), ")".repeat(60)),
        terms,
    ] {
        let errors = spec_errors(&json!({}), &rule, &json!({}));
        assert!(errors.is_empty(), "{:.40}: {}", rule, errors[0].rsplit(": ").next().unwrap_or(""));
    }
}
