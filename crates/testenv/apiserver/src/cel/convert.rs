//! Conversions between the types of the language, with cel-go's limits and error texts.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::stop::EvalError;
use super::value::Val;

pub(super) fn int(value: &Val) -> Result<Val, EvalError> {
    let overflow = || EvalError::error("integer overflow");
    Ok(Val::Int(match value {
        Val::Int(number) => *number,
        Val::Uint(number) => i64::try_from(*number).map_err(|_| overflow())?,
        Val::Double(number) => {
            // A double cannot represent the bounds exactly, so they are excluded.
            if !(*number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_807.0) {
                return Err(overflow());
            }
            #[allow(clippy::cast_possible_truncation)] // in bounds
            let whole = *number as i64;
            whole
        }
        Val::String(text) => text.parse().map_err(|_| from_text("int"))?,
        Val::Foreign(Value::Duration(duration)) => {
            duration.num_nanoseconds().ok_or_else(|| EvalError::error("duration overflow"))?
        }
        Val::Foreign(Value::Timestamp(time)) => time.timestamp(),
        _ => return Err(EvalError::no_overload()),
    }))
}

pub(super) fn uint(value: &Val) -> Result<Val, EvalError> {
    let overflow = || EvalError::error("unsigned integer overflow");
    Ok(Val::Uint(match value {
        Val::Uint(number) => *number,
        Val::Int(number) => u64::try_from(*number).map_err(|_| overflow())?,
        Val::Double(number) => {
            if !(*number >= 0.0 && *number < 18_446_744_073_709_551_615.0) {
                return Err(overflow());
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in bounds
            let whole = *number as u64;
            whole
        }
        Val::String(text) => text.parse().map_err(|_| from_text("uint"))?,
        _ => return Err(EvalError::no_overload()),
    }))
}

pub(super) fn double(value: &Val) -> Result<Val, EvalError> {
    #[allow(clippy::cast_precision_loss)] // as in every language
    Ok(Val::Double(match value {
        Val::Double(number) => *number,
        Val::Int(number) => *number as f64,
        Val::Uint(number) => *number as f64,
        Val::String(text) => text.parse().map_err(|_| from_text("double"))?,
        _ => return Err(EvalError::no_overload()),
    }))
}

pub(super) fn bool(value: &Val) -> Result<Val, EvalError> {
    match value {
        Val::Bool(flag) => Ok(Val::Bool(*flag)),
        Val::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(from_text("bool")),
        },
        _ => Err(EvalError::no_overload()),
    }
}

pub(super) fn bytes(value: &Val) -> Result<Val, EvalError> {
    match value {
        Val::Bytes(bytes) => Ok(Val::Bytes(bytes.clone())),
        Val::String(text) => Ok(Val::Bytes(text.as_bytes().into())),
        _ => Err(EvalError::no_overload()),
    }
}

/// Converts a value to a string. Returns `None` if a library has to do it.
pub(super) fn string(value: &Val) -> Option<Result<Val, EvalError>> {
    let text: Arc<str> = match value {
        Val::String(text) => text.clone(),
        Val::Int(number) => number.to_string().into(),
        Val::Uint(number) => number.to_string().into(),
        Val::Bool(flag) => flag.to_string().into(),
        Val::Double(number) => shortest(*number).into(),
        Val::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| EvalError::error("invalid UTF-8 in bytes, cannot convert to string"));
            return Some(text.map(Val::text));
        }
        Val::Foreign(Value::Duration(duration)) => {
            #[allow(clippy::cast_precision_loss)] // cel-go makes a double of it too
            let seconds = duration.num_nanoseconds().unwrap_or(i64::MAX) as f64 / 1e9;
            format!("{seconds}s").into()
        }
        Val::Foreign(Value::Timestamp(time)) => {
            let text = time.to_rfc3339();
            text.strip_suffix("+00:00")
                .map_or_else(|| text.clone(), |text| format!("{text}Z"))
                .into()
        }
        _ => return None,
    };
    Some(Ok(Val::String(text)))
}

/// Formats a double as Go's `%g` does.
fn shortest(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let power: i32 = exponent.parse().unwrap_or_default();
    if number == 0.0 || (-4..21).contains(&power) {
        return number.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

/// Returns the error for a string that cannot be converted to this type.
pub(super) fn from_text(wanted: &str) -> EvalError {
    EvalError::error(format!("type conversion error from 'string' to '{wanted}'"))
}
