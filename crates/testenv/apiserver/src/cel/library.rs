//! Calls the functions of `kube-cel` and `cel` with evaluated values.
//!
//! Both crates take arguments as expressions. So a call binds each value to a variable, and
//! evaluates a call expression with these variables as arguments.

use std::sync::LazyLock;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::value::Val;

static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// The names of the arguments.
const ARGUMENTS: [&str; 4] = ["a", "b", "c", "d"];

/// Calls a function, as a method if there is a target. Returns its error text.
pub(super) fn call(function: &str, target: Option<&Val>, args: &[Val]) -> Result<Val, String> {
    let mut scope = FUNCTIONS.new_inner_scope();
    let ident = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
    if let Some(target) = target {
        scope.add_variable_from_value("target", target.to_cel());
    }
    for (name, value) in ARGUMENTS.iter().zip(args) {
        scope.add_variable_from_value(*name, value.to_cel());
    }
    let call = CallExpr {
        func_name: function.to_owned(),
        target: target.map(|_| Box::new(ident("target"))),
        args: ARGUMENTS.iter().take(args.len()).map(|name| ident(name)).collect(),
    };
    let result = Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &scope);
    result.map(|value| Val::from_cel(&value)).map_err(|error| describe(&error))
}

fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::UnsupportedBinaryOperator(..) => "no such overload".to_owned(),
        other => other.to_string(),
    }
}

/// Adds or subtracts durations and timestamps.
pub(super) fn arithmetic(minus: bool, a: &Value, b: &Value) -> Result<Val, String> {
    let result = if minus { a.clone() - b.clone() } else { a.clone() + b.clone() };
    result.map(|value| Val::from_cel(&value)).map_err(|error| match (&error, a) {
        (ExecutionError::Overflow(..), Value::Duration(_)) => "duration overflow".to_owned(),
        (ExecutionError::Overflow(..), _) => "timestamp overflow".to_owned(),
        _ => describe(&error),
    })
}
