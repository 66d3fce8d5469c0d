//! Calls operators and functions with values.
//!
//! The operators and the functions of the language itself are implemented here. Those of the
//! Kubernetes libraries are in [`library`], and their costs are charged here first. The charge
//! before a call also limits the size of its result.

use std::cmp::Ordering;
use std::sync::Arc;

use super::convert;
use super::eval::{Evaluation, show};
use super::format;
use super::library;
use super::stop::EvalError;
use super::value::{Key, Order, Val};
use crate::schema::pattern::Pattern;

/// The largest list that `lists.range` makes.
const RANGE_MAX: i64 = 100_000;

/// Calls a function.
pub(super) fn call(
    run: &mut Evaluation,
    function: &str,
    target: Option<&Val>,
    args: &[Val],
) -> Result<Val, EvalError> {
    if target.is_none() && function.starts_with(['_', '-', '!', '@']) {
        return operator(run, function, args);
    }
    let all: Vec<&Val> = target.into_iter().chain(args).collect();
    if let Some(result) = core(run, function, &all) {
        return result;
    }
    run.charge(cost(function, &all)?)?;
    let result = match (function, target, args) {
        ("format", Some(Val::String(text)), [Val::List(list)]) => {
            library::call(function, target, &[format::with_texts(text, list)?])
        }
        _ => library::call(function, target, args),
    };
    let result = result.map_err(|why| match (function, args) {
        ("duration", [Val::String(_)]) => convert::from_text("google.protobuf.Duration"),
        ("timestamp", [Val::String(_)]) => convert::from_text("google.protobuf.Timestamp"),
        _ => EvalError::Error(why),
    })?;
    if matches!(result, Val::String(_) | Val::List(_)) {
        run.charge(result.size() / 10)?;
    }
    Ok(result)
}

fn operator(run: &mut Evaluation, name: &str, args: &[Val]) -> Result<Val, EvalError> {
    let is = |wanted: fn(Ordering) -> bool, found: Option<Ordering>| {
        found.map(|order| Val::Bool(wanted(order))).ok_or_else(EvalError::no_overload)
    };
    match (name, args) {
        ("_==_" | "_!=_", [a, b]) => {
            run.charge(a.comparison_weight(b).div_ceil(10))?;
            Ok(Val::Bool(a.equals(b) == (name == "_==_")))
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
            run.charge(a.size().min(b.size()).div_ceil(10))?;
            if let (Val::Double(number), _) | (_, Val::Double(number)) = (a, b)
                && number.is_nan()
            {
                return Err(EvalError::error("NaN values cannot be ordered"));
            }
            let order = a.compare(b);
            match name {
                "_<_" => is(Ordering::is_lt, order),
                "_<=_" => is(Ordering::is_le, order),
                "_>_" => is(Ordering::is_gt, order),
                _ => is(Ordering::is_ge, order),
            }
        }
        ("!_", [Val::Bool(flag)]) => run.charge(1).map(|()| Val::Bool(!flag)),
        ("-_", [Val::Int(number)]) => {
            run.charge(1)?;
            number.checked_neg().map(Val::Int).ok_or_else(|| EvalError::error("integer overflow"))
        }
        ("-_", [Val::Double(number)]) => run.charge(1).map(|()| Val::Double(-number)),
        ("@in", [item, container]) => {
            run.charge(container.size() + item.weight() / 10)?;
            contains(container, item).map(Val::Bool)
        }
        ("_[_]", [container, key]) => index(run, container, key, false),
        ("_[?_]", [container, key]) => index(run, container, key, true),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(run, name, a, b),
        _ => Err(EvalError::no_overload()),
    }
}

fn contains(container: &Val, item: &Val) -> Result<bool, EvalError> {
    match (container, item) {
        (Val::List(list), item) => Ok(list.items.iter().any(|one| one.equals(item))),
        (Val::Map(map), item) => Ok(Key::new(item).is_some_and(|key| map.contains_key(&key))),
        (Val::Object(object), Val::String(name)) => Ok(object.fields.contains_key(&**name)),
        _ => Err(EvalError::no_overload()),
    }
}

fn index(
    run: &mut Evaluation,
    container: &Val,
    key: &Val,
    optional: bool,
) -> Result<Val, EvalError> {
    run.charge(1)?;
    let (container, optional) = match container {
        Val::Optional(None) => return Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => (&**inner, true),
        other => (other, optional),
    };
    let found = match (container, key) {
        (Val::List(list), key) => {
            let Some(Key::Int(index)) = Key::new(key) else { return Err(EvalError::no_overload()) };
            let item = usize::try_from(index).ok().and_then(|index| list.items.get(index));
            item.cloned().ok_or_else(|| format!("index out of bounds: {index}"))
        }
        (Val::Map(map), key) => Key::new(key)
            .and_then(|key| map.get(&key).cloned())
            .ok_or_else(|| format!("no such key: {}", show(key))),
        (Val::Object(object), Val::String(name)) => {
            object.fields.get(&**name).cloned().ok_or_else(|| format!("no such key: {name}"))
        }
        _ => return Err(EvalError::no_overload()),
    };
    match (found, optional) {
        (found, true) => Ok(Val::Optional(found.ok().map(Box::new))),
        (Ok(found), false) => Ok(found),
        (Err(text), false) => Err(EvalError::Error(text)),
    }
}

fn arithmetic(run: &mut Evaluation, name: &str, a: &Val, b: &Val) -> Result<Val, EvalError> {
    let whole = |result: Option<i64>| {
        result.map(Val::Int).ok_or_else(|| EvalError::error("integer overflow"))
    };
    let natural = |result: Option<u64>| {
        result.map(Val::Uint).ok_or_else(|| EvalError::error("unsigned integer overflow"))
    };
    let by_zero = |divides: bool| {
        Err(EvalError::error(if divides { "division by zero" } else { "modulus by zero" }))
    };
    match (a, b) {
        (Val::String(a), Val::String(b)) if name == "_+_" => {
            run.charge((a.len() + b.len()).div_ceil(10) as u64)?;
            Ok(Val::String(format!("{a}{b}").into()))
        }
        (Val::Bytes(a), Val::Bytes(b)) if name == "_+_" => {
            run.charge((a.len() + b.len()).div_ceil(10) as u64)?;
            Ok(Val::Bytes([&**a, &**b].concat().into()))
        }
        (Val::List(left), Val::List(right)) if name == "_+_" => {
            let work = match left.order {
                Order::Ordered => (left.items.len() + right.items.len()) as u64,
                // Sets and keyed lists compare their items.
                _ => a.weight() + b.weight(),
            };
            run.charge(1 + work / 10)?;
            Ok(Val::List(Arc::new(left.with(right))))
        }
        _ => {
            run.charge(1)?;
            match (a, b, name) {
                (Val::Int(_), Val::Int(0), "_/_") | (Val::Uint(_), Val::Uint(0), "_/_") => {
                    by_zero(true)
                }
                (Val::Int(_), Val::Int(0), "_%_") | (Val::Uint(_), Val::Uint(0), "_%_") => {
                    by_zero(false)
                }
                (Val::Int(a), Val::Int(b), "_+_") => whole(a.checked_add(*b)),
                (Val::Int(a), Val::Int(b), "_-_") => whole(a.checked_sub(*b)),
                (Val::Int(a), Val::Int(b), "_*_") => whole(a.checked_mul(*b)),
                (Val::Int(a), Val::Int(b), "_/_") => whole(a.checked_div(*b)),
                (Val::Int(a), Val::Int(b), "_%_") => whole(a.checked_rem(*b)),
                (Val::Uint(a), Val::Uint(b), "_+_") => natural(a.checked_add(*b)),
                (Val::Uint(a), Val::Uint(b), "_-_") => natural(a.checked_sub(*b)),
                (Val::Uint(a), Val::Uint(b), "_*_") => natural(a.checked_mul(*b)),
                (Val::Uint(a), Val::Uint(b), "_/_") => natural(a.checked_div(*b)),
                (Val::Uint(a), Val::Uint(b), "_%_") => natural(a.checked_rem(*b)),
                (Val::Double(a), Val::Double(b), "_+_") => Ok(Val::Double(a + b)),
                (Val::Double(a), Val::Double(b), "_-_") => Ok(Val::Double(a - b)),
                (Val::Double(a), Val::Double(b), "_*_") => Ok(Val::Double(a * b)),
                (Val::Double(a), Val::Double(b), "_/_") => Ok(Val::Double(a / b)),
                (Val::Foreign(a), Val::Foreign(b), "_+_") => {
                    library::arithmetic(false, a, b).map_err(EvalError::Error)
                }
                (Val::Foreign(a), Val::Foreign(b), "_-_") => {
                    library::arithmetic(true, a, b).map_err(EvalError::Error)
                }
                _ => Err(EvalError::no_overload()),
            }
        }
    }
}

/// Calls the functions of the language, and library functions that need the evaluation.
fn core(run: &mut Evaluation, name: &str, args: &[&Val]) -> Option<Result<Val, EvalError>> {
    let tenth = |text: &str| (text.len() as u64).div_ceil(10);
    let (charge, result) = match (name, args) {
        ("size", [value]) => (
            1,
            match value {
                Val::String(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_) | Val::Object(_) => {
                    convert::int(&Val::Uint(value.size()))
                }
                _ => Err(EvalError::no_overload()),
            },
        ),
        ("contains", [Val::String(text), Val::String(part)]) => {
            (tenth(text) * tenth(part), Ok(Val::Bool(text.contains(&**part))))
        }
        ("startsWith", [Val::String(text), Val::String(part)]) => {
            (tenth(text), Ok(Val::Bool(text.starts_with(&**part))))
        }
        ("endsWith", [Val::String(text), Val::String(part)]) => {
            (tenth(text), Ok(Val::Bool(text.ends_with(&**part))))
        }
        ("matches" | "find" | "findAll", [Val::String(text), Val::String(pattern), limit @ ..]) => {
            return Some(expression(run, name, text, pattern, limit));
        }
        ("type", [value]) => (1, Ok(Val::Type(value.type_name().into()))),
        ("dyn", [value]) => (1, Ok((*value).clone())),
        ("int", [value]) => (1, convert::int(value)),
        ("uint", [value]) => (1, convert::uint(value)),
        ("double", [value]) => (1, convert::double(value)),
        ("bool", [value]) => (1, convert::bool(value)),
        ("string", [value]) => (1 + value.size() / 10, convert::string(value)?),
        ("bytes", [value]) => (1 + value.size() / 10, convert::bytes(value)),
        ("duration" | "timestamp", [Val::Foreign(value)]) => (1, Ok(Val::Foreign(value.clone()))),
        ("hasValue", [Val::Optional(value)]) => (1, Ok(Val::Bool(value.is_some()))),
        ("value", [Val::Optional(value)]) => (
            1,
            match value {
                Some(value) => Ok((**value).clone()),
                None => Err(EvalError::error("optional.none() dereference")),
            },
        ),
        ("optional.none", []) => (1, Ok(Val::Optional(None))),
        ("optional.of", [value]) => (1, Ok(some(value))),
        ("optional.ofNonZeroValue", [value]) => {
            (1, Ok(if value.is_zero() { Val::Optional(None) } else { some(value) }))
        }
        ("optional.unwrap" | "unwrapOpt", [Val::List(list)]) => {
            let items = list.items.iter().filter_map(|item| match item {
                Val::Optional(value) => value.as_deref().cloned(),
                other => Some(other.clone()),
            });
            (list.items.len() as u64, Ok(Val::list(items.collect())))
        }
        ("first", [Val::List(list)]) => {
            (1, Ok(Val::Optional(list.items.first().cloned().map(Box::new))))
        }
        ("last", [Val::List(list)]) => {
            (1, Ok(Val::Optional(list.items.last().cloned().map(Box::new))))
        }
        ("lists.range", [Val::Int(end)]) if *end > RANGE_MAX => (0, Err(EvalError::Cost)),
        ("lists.range", [Val::Int(end)]) => {
            (u64::try_from(*end).unwrap_or(0), Ok(Val::list((0..*end).map(Val::Int).collect())))
        }
        ("sum", [Val::List(list)]) if list.items.is_empty() => return None,
        ("min" | "max", [Val::List(list)]) if list.items.is_empty() => {
            (1, Err(EvalError::error(format!("{name} called on empty list"))))
        }
        ("sort", [Val::List(list)]) => {
            if let Err(stop) = check_sortable(list.items.iter()) {
                return Some(Err(stop));
            }
            let mut items = list.items.clone();
            let weight = items.iter().map(Val::weight).sum::<u64>();
            items.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
            (weight, Ok(Val::list(items)))
        }
        _ => return None,
    };
    Some(run.charge(charge).and(result))
}

fn some(value: &Val) -> Val {
    Val::Optional(Some(Box::new(value.clone())))
}

/// Checks that all sort keys have one type that can be sorted.
pub(super) fn check_sortable<'a>(mut keys: impl Iterator<Item = &'a Val>) -> Result<(), EvalError> {
    let Some(first) = keys.next() else { return Ok(()) };
    let is_alike = |key: &Val| key.compare(first).is_some();
    if is_alike(first) && keys.all(is_alike) { Ok(()) } else { Err(EvalError::no_overload()) }
}

/// Calls a function with a regular expression, which is compiled once per evaluation.
fn expression(
    run: &mut Evaluation,
    name: &str,
    text: &str,
    pattern: &Arc<str>,
    limit: &[&Val],
) -> Result<Val, EvalError> {
    let strings = (text.len() as u64 + 1).div_ceil(10);
    run.charge(strings * (pattern.len() as u64).div_ceil(4))?;
    let compiled = compiled(run, pattern)?;
    Ok(match (name, limit) {
        ("matches", _) => Val::Bool(compiled.matches(text)),
        ("find", _) => Val::text(compiled.find_all(text).next().unwrap_or_default()),
        (_, [Val::Int(limit)]) if *limit >= 0 => {
            let found = compiled.find_all(text).take(usize::try_from(*limit).unwrap_or(usize::MAX));
            Val::list(found.map(Val::text).collect())
        }
        _ => Val::list(compiled.find_all(text).map(Val::text).collect()),
    })
}

/// The cost of compiling a pattern, in addition to its length.
const COMPILE_COST: u64 = 1_000;

/// The size limit of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// How many compiled patterns are kept during an evaluation.
const PATTERNS_MAX: usize = 16;

fn compiled(run: &mut Evaluation, pattern: &Arc<str>) -> Result<Arc<Pattern>, EvalError> {
    if let Some(compiled) = run.patterns.get(pattern) {
        return Ok(compiled.clone());
    }
    // Compiling takes far longer than matching, and a rule can build any number of patterns.
    run.charge(COMPILE_COST + pattern.len() as u64)?;
    if run.patterns.len() >= PATTERNS_MAX {
        run.patterns.clear();
    }
    let compiled = Pattern::with_limit(pattern, PATTERN_BYTES_MAX)
        .map_err(|why| EvalError::error(format!("error parsing regexp: {why}: `{pattern}`")))?;
    let compiled = Arc::new(compiled);
    run.patterns.insert(pattern.clone(), compiled.clone());
    Ok(compiled)
}

/// Returns the cost of calling a library function: the size of its arguments plus the maximum size
/// of its result.
fn cost(function: &str, args: &[&Val]) -> Result<u64, EvalError> {
    let weight: u64 = args.iter().map(|arg| arg.weight()).sum();
    let size = |index: usize| args.get(index).map_or(0, |arg| arg.size());
    Ok(1 + weight.div_ceil(10)
        + match (function, args) {
            // These compare all pairs of items.
            ("sets.contains" | "sets.equivalent" | "sets.intersects", _) => size(0) * size(1),
            ("distinct", _) => size(0) * size(0),
            ("indexOf" | "lastIndexOf", [Val::String(_), ..]) => {
                size(0).div_ceil(10) * size(1).div_ceil(10)
            }
            ("replace", [Val::String(text), Val::String(old), Val::String(new), ..]) => {
                let times = if old.is_empty() {
                    text.len() as u64 + 1
                } else {
                    text.len() as u64 / old.len() as u64
                };
                times * new.len() as u64 / 10
            }
            ("join", [Val::List(list), Val::String(separator)]) => {
                (list.items.len() as u64) * separator.len() as u64 / 10
            }
            ("format", [Val::String(text), _]) => format_cost(text)?,
            ("validate", _) => size(1) * 4,
            _ => 0,
        })
}

/// Returns the cost of `format`. Large widths or precisions make a long string from a short format.
fn format_cost(text: &str) -> Result<u64, EvalError> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut total = text.len() as u64;
    for part in digits {
        total = total
            .saturating_add(part.parse::<u64>().map_err(|_| EvalError::Cost)?.min(u64::MAX / 64));
    }
    Ok(total / 10)
}
