//! Match conditions of webhooks: expressions about a request with untyped objects.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use super::ast::Expr;
use super::eval::Evaluation;
use super::parse;
use super::rule;
use super::stop::EvalError;
use super::types::{Object, Type};
use super::value::{Key, Val};

/// A compiled condition.
#[derive(Debug)]
pub(crate) struct Condition {
    source: String,
    program: Expr,
}

/// The request as conditions see it. Missing objects are null.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) object: &'a Json,
    pub(crate) old_object: &'a Json,
    /// An `AdmissionRequest` without its objects.
    pub(crate) request: &'a Json,
}

/// The type of `request`, as the real server declares it.
static REQUEST: LazyLock<Type> = LazyLock::new(|| {
    let group = |last: &str| {
        let fields = ["group", "version", last].map(|name| (name.to_owned(), Type::String));
        let name = if last == "kind" { "GroupVersionKind" } else { "GroupVersionResource" };
        declared(name, fields.into())
    };
    let user = declared(
        "UserInfo",
        BTreeMap::from([
            ("username".to_owned(), Type::String),
            ("uid".to_owned(), Type::String),
            ("groups".to_owned(), Type::list(Type::String)),
            ("extra".to_owned(), Type::map(Type::String, Type::list(Type::String))),
        ]),
    );
    let fields = [
        ("kind", group("kind")),
        ("resource", group("resource")),
        ("subResource", Type::String),
        ("requestKind", group("kind")),
        ("requestResource", group("resource")),
        ("requestSubResource", Type::String),
        ("name", Type::String),
        ("namespace", Type::String),
        ("operation", Type::String),
        ("userInfo", user),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ];
    declared("AdmissionRequest", fields.map(|(name, is)| (name.to_owned(), is)).into())
});

fn declared(name: &str, fields: BTreeMap<String, Type>) -> Type {
    Type::Object(Arc::new(Object { name: format!("kubernetes.{name}"), fields }))
}

impl Condition {
    /// Compiles an expression, whose type must be bool.
    ///
    /// # Errors
    /// Returns the error of the real server if the expression is invalid.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        let compiled = parse::on_parser_stack(|| {
            let variables = BTreeMap::from([
                ("object".to_owned(), Type::Dyn),
                ("oldObject".to_owned(), Type::Dyn),
                ("request".to_owned(), REQUEST.clone()),
            ]);
            let (program, checked) = rule::compile(source, variables)
                .map_err(|issues| format!("compilation failed: {issues}"))?;
            match checked.result {
                Type::Bool => Ok(Self { source: source.to_owned(), program }),
                other => Err(format!("must evaluate to bool but got {other}")),
            }
        });
        compiled.unwrap_or_else(|| Err("compilation failed: it cannot be compiled".to_owned()))
    }

    /// Whether the request meets the condition.
    ///
    /// # Errors
    /// Returns the error of the real server if the expression cannot be evaluated.
    pub(crate) fn holds(&self, subject: &Subject<'_>) -> Result<bool, String> {
        let variables = [
            ("object", subject.object),
            ("oldObject", subject.old_object),
            ("request", subject.request),
        ];
        let variables = variables.map(|(name, value)| (name.into(), untyped(value)));
        match Evaluation::new(variables.into()).eval(&self.program) {
            Ok(value) => Ok(matches!(value, Val::Bool(true))),
            Err(EvalError::Cost) => Err(format!(
                "expression '{}' resulted in error: operation cancelled: actual cost limit exceeded",
                self.source
            )),
            Err(EvalError::Error(why)) => {
                Err(format!("expression '{}' resulted in error: {why}", self.source))
            }
        }
    }
}

/// Converts a value without a schema.
fn untyped(json: &Json) -> Val {
    match json {
        Json::Null => Val::Null,
        Json::Bool(flag) => Val::Bool(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Val::Int(number),
            None => Val::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Val::text(text),
        Json::Array(items) => Val::list(items.iter().map(untyped).collect()),
        Json::Object(fields) => {
            let entries = fields.iter().map(|(name, field)| {
                let key = Key::String(name.as_str().into());
                (key, untyped(field))
            });
            Val::Map(Arc::new(entries.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(source: &str) -> Result<bool, String> {
        let subject = Subject {
            object: &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 3}}),
            old_object: &Json::Null,
            request: &json!({"operation": "CREATE", "namespace": "default",
                "userInfo": {"username": "me", "groups": ["g"]}, "options": {"dryRun": ["All"]}}),
        };
        Condition::compile(source)?.holds(&subject)
    }

    #[test]
    fn conditions_see_the_object_and_the_request() {
        for (source, expected) in [
            ("object.spec.size > 2", true),
            ("oldObject == null", true),
            ("has(object.metadata.labels) && object.metadata.labels['a'] == 'b'", true),
            ("request.operation == 'UPDATE'", false),
            ("request.namespace == 'default'", true),
            ("request.userInfo.groups.exists(group, group == 'g')", true),
            ("'All' in request.options.dryRun", true),
            ("!(request.userInfo.username in ['me', 'you'])", false),
        ] {
            assert_eq!(holds(source), Ok(expected), "{source}");
        }
    }

    #[test]
    fn invalid_conditions_are_refused() {
        let refused = |source: &str| holds(source).expect_err("it must be refused");
        assert_eq!(refused("object.spec"), "must evaluate to bool but got dyn");
        assert!(refused("request.nix == 1").contains("undefined field 'nix'"));
        let missing = "expression 'object.nix == 1' resulted in error: no such key: nix";
        assert_eq!(refused("object.nix == 1"), missing);
    }
}
