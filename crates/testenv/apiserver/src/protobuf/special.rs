//! Messages with another form in JSON: times are strings, a value of any type is wrapped into
//! bytes, a schema may be a boolean.
//!
//! Such a message is first decoded like any other. [`to_json`] then converts its fields to the JSON
//! that Go writes, and [`from_json`] converts back.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// The form that a message has in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    /// A string with seconds.
    Time,
    /// A string with microseconds.
    MicroTime,
    Quantity,
    IntOrString,
    /// Any value, as its JSON text in protobuf.
    Raw,
    SchemaOrSchemas,
    SchemaOrBool,
    SchemaOrTexts,
}

impl Special {
    /// Returns the form of the message with that name, if it is a special one.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "meta.v1.Time" => Self::Time,
            "meta.v1.MicroTime" => Self::MicroTime,
            "api.resource.Quantity" => Self::Quantity,
            "util.intstr.IntOrString" => Self::IntOrString,
            "meta.v1.FieldsV1" | "pkg.runtime.RawExtension" | "apiextensions.v1.JSON" => Self::Raw,
            "apiextensions.v1.JSONSchemaPropsOrArray" => Self::SchemaOrSchemas,
            "apiextensions.v1.JSONSchemaPropsOrBool" => Self::SchemaOrBool,
            "apiextensions.v1.JSONSchemaPropsOrStringArray" => Self::SchemaOrTexts,
            _ => return None,
        })
    }
}

/// Returns the JSON that Go writes for an empty message.
pub(super) fn nothing(special: Special) -> Value {
    match special {
        Special::Quantity => "0".into(),
        Special::IntOrString => 0.into(),
        Special::SchemaOrBool => false.into(),
        _ => Value::Null,
    }
}

/// Returns the JSON that Go writes for a message with these fields.
pub(super) fn to_json(special: Special, mut fields: Map<String, Value>) -> Result<Value, String> {
    let number = |name: &str| fields.get(name).and_then(Value::as_i64).unwrap_or(0);
    match special {
        Special::Time => time(number("seconds"), None),
        Special::MicroTime => time(number("seconds"), Some(number("nanos"))),
        Special::Quantity => Ok(fields.remove("string").unwrap_or_else(|| nothing(special))),
        Special::IntOrString => match number("type") {
            0 => Ok(number("intVal").into()),
            1 => Ok(fields.remove("strVal").unwrap_or_else(|| "".into())),
            _ => Err("impossible IntOrString.Type".to_owned()),
        },
        Special::Raw => raw(&fields),
        Special::SchemaOrSchemas => Ok(match fields.remove("schema") {
            Some(schema) if !fields.contains_key("jSONSchemas") => schema,
            _ => fields.remove("jSONSchemas").unwrap_or_default(),
        }),
        Special::SchemaOrBool => Ok(match fields.remove("schema") {
            Some(schema) => schema,
            None => fields.remove("allows").unwrap_or_else(|| false.into()),
        }),
        Special::SchemaOrTexts => Ok(match fields.remove("property") {
            Some(texts) => texts,
            None => fields.remove("schema").unwrap_or_default(),
        }),
    }
}

/// Returns the fields of the message that Go encodes for a value, or `None` if it encodes no bytes
/// at all.
pub(super) fn from_json(
    special: Special,
    value: &Value,
) -> Result<Option<Map<String, Value>>, String> {
    let fields = match (special, value) {
        (Special::Quantity, Value::Null) => json!({"string": "0"}),
        (Special::IntOrString, Value::Null) => json!({}),
        (_, Value::Null) => return Ok(None),
        (Special::Time | Special::MicroTime, Value::String(text)) => {
            let time: Timestamp = text.parse().map_err(|error: jiff::Error| error.to_string())?;
            let (seconds, nanos) = parts(time);
            if seconds == ZERO_SECONDS && nanos == 0 {
                return Ok(None);
            }
            let nanos = if special == Special::Time { 0 } else { nanos };
            json!({"seconds": seconds, "nanos": nanos})
        }
        (Special::Quantity, Value::String(text)) => json!({ "string": text }),
        (Special::Quantity, Value::Number(number)) => json!({"string": number.to_string()}),
        (Special::IntOrString, Value::Number(number)) => json!({"type": 0, "intVal": number}),
        (Special::IntOrString, Value::String(text)) => json!({"type": 1, "strVal": text}),
        (Special::Raw, value) => json!({"raw": BASE64_STANDARD.encode(value.to_string())}),
        (Special::SchemaOrSchemas, Value::Array(_)) => json!({ "jSONSchemas": value }),
        (Special::SchemaOrBool, Value::Bool(_)) => json!({ "allows": value }),
        (Special::SchemaOrBool, Value::Object(_)) => json!({"allows": true, "schema": value}),
        (Special::SchemaOrTexts, Value::Array(_)) => json!({ "property": value }),
        (Special::SchemaOrSchemas | Special::SchemaOrTexts, Value::Object(_)) => {
            json!({ "schema": value })
        }
        _ => return Err("the value is of another type".to_owned()),
    };
    match fields {
        Value::Object(fields) => Ok(Some(fields)),
        _ => unreachable!("all fields above are objects"),
    }
}

/// The seconds of the start of year 1, which is Go's zero time.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// The nanoseconds in a microsecond.
const MICRO: i64 = 1_000;

fn time(seconds: i64, nanos: Option<i64>) -> Result<Value, String> {
    let micros = nanos.unwrap_or(0) / MICRO;
    if seconds == ZERO_SECONDS && micros == 0 {
        return Ok(Value::Null);
    }
    let whole = Timestamp::from_second(seconds);
    let time = whole.and_then(|time| time.checked_add(SignedDuration::from_micros(micros)));
    match time {
        Ok(time) if time.as_second() >= ZERO_SECONDS => {
            let layout =
                if nanos.is_some() { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
            Ok(time.strftime(layout).to_string().into())
        }
        _ => Err("a time is outside of the years 1 to 9999".to_owned()),
    }
}

/// Returns the seconds, rounded down, and the remaining nanoseconds.
fn parts(time: Timestamp) -> (i64, i64) {
    let (seconds, nanos) = (time.as_second(), i64::from(time.subsec_nanosecond()));
    if nanos < 0 { (seconds - 1, nanos + 1_000_000_000) } else { (seconds, nanos) }
}

/// Parses the JSON text in the bytes.
fn raw(fields: &Map<String, Value>) -> Result<Value, String> {
    let encoded = fields.get("raw").and_then(Value::as_str).unwrap_or_default();
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let read = crate::json::read(&bytes);
    read.map(|read| read.value).map_err(|error| crate::go_decoder::go_syntax(&error, &bytes))
}
