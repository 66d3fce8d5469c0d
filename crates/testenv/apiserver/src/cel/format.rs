//! Lists and maps in `format`: like cel-go, written as literals with sorted map keys.
//!
//! `format` itself is that of `kube-cel`, which writes maps in random order. So list and map
//! arguments are replaced by strings before the call.

use kube_cel::cel;

use super::convert;
use super::stop::EvalError;
use super::value::{Key, List, Val};
use crate::field_error::go_quote;

/// Returns the arguments of `format`, with strings in place of the lists and maps for `%s`.
pub(super) fn with_texts(format: &str, args: &List) -> Result<Val, EvalError> {
    let mut items = args.items.clone();
    for (item, verb) in items.iter_mut().zip(verbs(format)) {
        if verb == 's' && matches!(item, Val::List(_) | Val::Map(_) | Val::Object(_)) {
            *item = Val::text(&literal(item)?);
        }
    }
    Ok(Val::list(items))
}

/// Returns the verbs of a format, such as the `f` of `%.2f`: one for each argument.
fn verbs(format: &str) -> impl Iterator<Item = char> + '_ {
    let mut chars = format.chars();
    std::iter::from_fn(move || {
        loop {
            chars.find(|c| *c == '%')?;
            match chars.next()? {
                '%' => {}
                '.' => return chars.find(|c| !c.is_ascii_digit()),
                verb => return Some(verb),
            }
        }
    })
}

/// Formats a value as a literal.
fn literal(value: &Val) -> Result<String, EvalError> {
    Ok(match value {
        Val::Null => "null".to_owned(),
        Val::Bool(flag) => flag.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => double(*number),
        Val::String(text) => go_quote(text),
        Val::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|_| invalid_utf8())?;
            format!("b{}", go_quote(text))
        }
        Val::Type(name) => name.to_string(),
        Val::Foreign(cel::Value::Duration(_)) => format!("duration({})", quoted(value)?),
        Val::Foreign(cel::Value::Timestamp(_)) => format!("timestamp({})", quoted(value)?),
        Val::List(list) => {
            let items = list.items.iter().map(literal).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Val::Map(map) => entries(map.iter().map(|(key, value)| (key_literal(key), value)))?,
        Val::Object(object) => {
            entries(object.fields.iter().map(|(name, value)| (go_quote(name), value)))?
        }
        Val::Optional(_) | Val::Foreign(_) => {
            let text = format!("no formatting function for {}", value.type_name());
            return Err(EvalError::error(format!("error during formatting: {text}")));
        }
    })
}

/// Formats the entries of a map, sorted by their keys as strings: 10 comes before 2.
fn entries<'a>(entries: impl Iterator<Item = (String, &'a Val)>) -> Result<String, EvalError> {
    let mut sorted: Vec<(String, &Val)> = entries.collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let shown = sorted.into_iter().map(|(key, value)| Ok(format!("{key}:{}", literal(value)?)));
    Ok(format!("{{{}}}", shown.collect::<Result<Vec<_>, EvalError>>()?.join(", ")))
}

fn key_literal(key: &Key) -> String {
    match key {
        Key::Bool(flag) => flag.to_string(),
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => number.to_string(),
        Key::String(text) => go_quote(text),
    }
}

fn double(number: f64) -> String {
    if number.is_nan() {
        "\"NaN\"".to_owned()
    } else if number.is_infinite() {
        format!("\"{}Inf\"", if number > 0.0 { '+' } else { '-' })
    } else {
        format!("{number:.6}")
    }
}

/// Formats a time as `string()` does, in quotes.
fn quoted(value: &Val) -> Result<String, EvalError> {
    match convert::string(value) {
        Some(Ok(Val::String(text))) => Ok(go_quote(&text)),
        Some(Err(stop)) => Err(stop),
        _ => Err(EvalError::no_overload()),
    }
}

fn invalid_utf8() -> EvalError {
    EvalError::error("invalid UTF-8 in bytes, cannot convert to string")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_has_a_verb() {
        let found: String = verbs("%s 100%% of %d, %.3f and %").collect();
        assert_eq!(found, "sdf");
    }
}
