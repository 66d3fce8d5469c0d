//! Validation of scalars: types, numbers, strings and enums.

use serde_json::Value;

use super::node::{Bound, Node};
use super::outcome::{Outcome, Position};
use super::value_type::Type;
use crate::field_error::{go_float, go_json, go_value, integer};

/// A number as Go holds it.
#[derive(Clone, Copy)]
enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    fn of(number: &serde_json::Number) -> Self {
        match integer(number) {
            Some(whole) => Self::Int(whole),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the real server compares after the same loss")]
    fn as_f64(self) -> f64 {
        match self {
            Self::Int(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }
}

/// Returns the type of a value, and the format of its Go type.
fn type_of(value: &Value) -> (Option<Type>, &'static str) {
    match value {
        Value::Null => (None, ""),
        Value::Bool(_) => (Some(Type::Boolean), ""),
        Value::Number(number) => match Num::of(number) {
            Num::Int(_) => (Some(Type::Integer), "int64"),
            Num::Float(_) => (Some(Type::Number), "float64"),
        },
        Value::String(_) => (Some(Type::String), ""),
        Value::Array(_) => (Some(Type::Array), ""),
        Value::Object(_) => (Some(Type::Object), ""),
    }
}

/// Lists the types of a schema for messages.
fn listed(types: &[Type]) -> String {
    let names: Vec<_> = types.iter().map(|one| one.name()).collect();
    names.join(",")
}

/// Checks that the value has one of the types. If there is a format, strings and lists always pass.
pub(super) fn check_type(node: &Node, value: &Value, at: Position<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let types = &node.types;
    let (Some(actual), implied) = type_of(value) else {
        if types.is_empty() || node.nullable {
            return Outcome::one_match();
        }
        outcome.wrong_type(at, &listed(types), "null");
        return outcome;
    };
    let numeric = types.contains(&Type::Number) || types.contains(&Type::Integer);
    let whole_float = match value {
        Value::Number(number) => {
            actual == Type::Number
                && types.contains(&Type::Integer)
                && is_whole(number.as_f64().unwrap_or_default())
        }
        _ => false,
    };
    let whole_for_float = actual == Type::Integer && types.contains(&Type::Number);
    let one_match = types.contains(&actual) || whole_float || whole_for_float;
    let text_or_list = matches!(actual, Type::String | Type::Array);
    match &node.format {
        Some(format) if !text_or_list && !one_match && implied != format.name => {
            outcome.wrong_type(at, &format.name, implied);
            outcome
        }
        Some(_) if text_or_list && !numeric => Outcome::one_match(),
        _ if !one_match => {
            outcome.wrong_type(at, &listed(types), actual.name());
            outcome
        }
        _ => Outcome::one_match(),
    }
}

/// Checks the length, in characters, and the pattern of a string. Only the first error is reported.
pub(super) fn check_text(node: &Node, text: &str, at: Position<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let rules = &node.text;
    if let Some(max) = rules.max.filter(|max| length > *max) {
        outcome.too_long(at, max);
    } else if let Some(min) = rules.min.filter(|min| length < *min) {
        outcome.invalid(at, &text.into(), &format!("should be at least {min} chars long"));
    } else if let Some(pattern) = rules.pattern.as_ref().filter(|one| !one.matches(text)) {
        outcome.invalid(at, &text.into(), &format!("should match '{}'", pattern.text));
    }
    outcome
}

/// Checks that a string has the format.
pub(super) fn check_format(node: &Node, text: &str, at: Position<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(format) = node.format.as_ref().filter(|format| !format.accepts(text)) {
        outcome.wrong_type(at, &format.name, text);
    }
    outcome
}

/// Checks the range of the type and format, then multiples, minimum and maximum.
pub(super) fn check_number(node: &Node, number: &serde_json::Number, at: Position<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let value = Num::of(number);
    let rules = &node.number;
    check_range(node, value, "Checked", at, &mut outcome);
    if let Some(factor) = rules.multiple_of {
        let native = check_range(node, Num::Float(factor), "MultipleOf", at, &mut outcome);
        check_multiple(value, factor, native, at, &mut outcome);
    }
    if let Some(bound) = rules.min {
        let native =
            check_range(node, Num::Float(bound.limit), "Minimum boundary", at, &mut outcome);
        check_bound(value, bound, native, Side::Min, at, &mut outcome);
    }
    if let Some(bound) = rules.max {
        let native =
            check_range(node, Num::Float(bound.limit), "Maximum boundary", at, &mut outcome);
        check_bound(value, bound, native, Side::Max, at, &mut outcome);
    }
    outcome.match_count += 1;
    outcome
}

/// Checks that a number is in the range of the type and format. The limits of a schema are checked
/// in the same way.
#[expect(clippy::cast_possible_truncation, reason = "whether it can be narrowed is the question")]
fn check_range(
    node: &Node,
    value: Num,
    what: &str,
    at: Position<'_>,
    outcome: &mut Outcome,
) -> bool {
    let [kind @ (Type::Integer | Type::Number)] = node.types[..] else { return true };
    let format = node.format.as_ref().map_or("", |format| &format.name);
    let digits = match value {
        Num::Int(whole) => whole.to_string(),
        Num::Float(float) => float.to_string(),
    };
    let one_match = match (kind, format) {
        (Type::Integer, "int32") => digits.parse::<i32>().is_ok(),
        (Type::Integer, _) => digits.parse::<i64>().is_ok(),
        (_, "float") => (value.as_f64() as f32).is_finite(),
        _ => true,
    };
    if !one_match {
        let form = if format.is_empty() {
            "(default format)".to_owned()
        } else {
            format!("with format {format}")
        };
        let text = format!("{what} value must be of type {} {form} in {}", kind.name(), at.path);
        outcome.without_field(at, text);
    }
    one_match
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Min,
    Max,
}

/// Checks a limit. If `native` is set, it is compared as an integer with integer values.
fn check_bound(
    value: Num,
    bound: Bound,
    native: bool,
    side: Side,
    at: Position<'_>,
    outcome: &mut Outcome,
) {
    let (order, limit, shown) = match value {
        Num::Int(whole) if native => {
            let limit = go_i64(bound.limit);
            (Some(whole.cmp(&limit)), limit.to_string(), Value::from(whole))
        }
        _ => {
            let float = value.as_f64();
            (float.partial_cmp(&bound.limit), go_float(bound.limit), Value::from(float))
        }
    };
    let Some(order) = order else { return };
    let beyond = match side {
        Side::Min => order.is_lt(),
        Side::Max => order.is_gt(),
    };
    if beyond || (bound.exclusive && order.is_eq()) {
        let relation = if side == Side::Min { "greater" } else { "less" };
        let equal = if bound.exclusive { "" } else { " or equal to" };
        outcome.invalid(at, &shown, &format!("should be {relation} than{equal} {limit}"));
    }
}

fn check_multiple(value: Num, factor: f64, native: bool, at: Position<'_>, outcome: &mut Outcome) {
    let (positive, one_match, factor, value) = match value {
        Num::Int(whole) if native => {
            let factor = go_i64(factor);
            let one_match = factor > 0 && whole % factor == 0;
            (factor > 0, one_match, Value::from(factor), Value::from(whole))
        }
        _ => {
            let float = value.as_f64();
            let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
            (factor > 0.0, is_whole(times), Value::from(factor), Value::from(float))
        }
    };
    let shown = go_value(&factor);
    if !positive {
        let text = format!("factor MultipleOf declared for {} must be positive: {shown}", at.path);
        outcome.invalid_text(at, &factor, text);
    } else if !one_match {
        outcome.invalid(at, &value, &format!("should be a multiple of {shown}"));
    }
}

/// Converts a float to an integer as Go does on common processors: a value that is too large
/// becomes the smallest integer.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn go_i64(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

/// Whether a float is an integer, except for rounding errors.
fn is_whole(float: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !float.is_finite() || float.abs() > MAX {
        return false;
    }
    let whole = float.trunc();
    let off = (float - whole).abs();
    off == 0.0 || (whole != 0.0 && off / (float.abs() + whole.abs()) < EPSILON)
}

/// Checks that the value is one of the enum's choices, if there are any. Null never is, even if it
/// is listed.
pub(super) fn check_choices(node: &Node, value: &Value, at: Position<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let choices = &node.choices;
    if choices.is_empty() || choices.iter().any(|choice| is_choice(value, choice)) {
        return outcome;
    }
    let supported: Vec<String> = choices
        .iter()
        .map(|choice| choice.as_str().map_or_else(|| go_json(choice), ToOwned::to_owned))
        .collect();
    outcome.not_supported(at, value, &supported);
    outcome
}

/// Compares a value with a choice. Numbers are first converted to the type of the choice.
#[expect(clippy::float_cmp, reason = "as the real server does")]
fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => match (Num::of(value), Num::of(choice)) {
            (Num::Int(value), Num::Int(choice)) => value == choice,
            (Num::Float(value), Num::Int(choice)) => go_i64(value) == choice,
            (value, Num::Float(choice)) => value.as_f64() == choice,
        },
        _ => value == choice,
    }
}
