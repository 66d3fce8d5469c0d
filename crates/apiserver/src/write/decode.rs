//! From a body to an object of the kind that the path names.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::metadata;
use crate::query::FieldValidation;
use crate::state::Target;

/// An object from a body, in the stored version's words, and what to warn of.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Map<String, Value>,
    pub(crate) warnings: Vec<String>,
}

/// Media types that bodies may have, as the real server lists them.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Reads a body that stands for an object of the target's kind.
pub(crate) fn object(
    target: &Target,
    body: &[u8],
    content_type: Option<&str>,
    validation: &FieldValidation,
) -> Result<Decoded, Failure> {
    let mut value = parse(body, content_type).map_err(|error| match error {
        ParseError::Media(failure) => failure,
        ParseError::Syntax(why) => unrecognized(
            target,
            &format!("couldn't get version/kind; json parse error: {why}"),
            body,
        ),
    })?;
    check_type(target, &mut value, body)?;
    let Value::Object(object) = value else {
        let why = "couldn't get version/kind; json parse error: the body is not a JSON object";
        return Err(unrecognized(target, why, body));
    };
    checked(target, object, validation)
}

/// The checks that an object passes however it was made: by a body or by a patch.
pub(crate) fn checked(
    target: &Target,
    object: Map<String, Value>,
    validation: &FieldValidation,
) -> Result<Decoded, Failure> {
    let kind = &target.kind.kind;
    let version = &target.version().name;
    let misfit = |why: &str| {
        Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    };
    let mut value = Value::Object(object);
    metadata::check_types(&value).map_err(|why| misfit(&why))?;
    let unknown = match &target.version().schema {
        Some(schema) => schema.prune(&mut value),
        None => Vec::new(),
    };
    let unknown: Vec<String> =
        unknown.into_iter().map(|path| format!("unknown field {path:?}")).collect();
    if *validation == FieldValidation::Strict && !unknown.is_empty() {
        return Err(misfit(&format!("strict decoding error: {}", unknown.join(", "))));
    }
    let warnings = if *validation == FieldValidation::Ignore { Vec::new() } else { unknown };
    target.version().to_stored(&mut value);
    let Value::Object(object) = value else { unreachable!("an object was put in") };
    Ok(Decoded { object, warnings })
}

/// Why a body is not a value.
pub(crate) enum ParseError {
    Media(Failure),
    Syntax(String),
}

/// Reads JSON or YAML.
pub(crate) fn parse(body: &[u8], content_type: Option<&str>) -> Result<Value, ParseError> {
    let media = content_type.unwrap_or_default();
    match media.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => serde_json::from_slice(body)
            .map_err(|error| ParseError::Syntax(go_syntax(&error, body))),
        "application/yaml" => std::str::from_utf8(body)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_saphyr::from_str(text).map_err(|error| error.to_string()))
            .map_err(ParseError::Syntax),
        "application/vnd.kubernetes.protobuf" => Err(ParseError::Media(Failure::unsupported_body(
            "protobuf bodies",
            "send application/json",
        ))),
        _ => Err(ParseError::Media(Failure::unsupported_media_type(ACCEPTED))),
    }
}

/// The body's type meta must be the path's; bodies for built-ins may leave it out.
fn check_type(target: &Target, value: &mut Value, body: &[u8]) -> Result<(), Failure> {
    let Value::Object(object) = value else { return Ok(()) };
    let wanted_version = target.kind.api_version(&target.version().name);
    let given =
        |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, version) = (given("kind"), given("apiVersion"));
    if !target.kind.is_builtin() {
        for (field, text) in [("Kind", &kind), ("apiVersion", &version)] {
            if text.is_empty() {
                let why =
                    format!("Object '{field}' is missing in '{}'", String::from_utf8_lossy(body));
                return Err(unrecognized(target, &why, body));
            }
        }
    }
    let same_kind = kind.is_empty() || kind == target.kind.kind;
    let same_version = version.is_empty() || version == wanted_version;
    if same_kind && same_version {
        object.insert("kind".into(), target.kind.kind.as_str().into());
        object.insert("apiVersion".into(), wanted_version.into());
        return Ok(());
    }
    let given_kind = if kind.is_empty() { &target.kind.kind } else { &kind };
    let why = if same_version && target.kind.is_builtin() {
        let group = if target.kind.group.is_empty() { "core" } else { &target.kind.group };
        let version = &target.version().name;
        format!(
            "converting ({version}.{kind}) to ({}.{}): unknown conversion",
            group.split('.').next().unwrap_or_default(),
            target.kind.kind
        )
    } else {
        format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted_version})"
        )
    };
    let short_version = version.rsplit('/').next().unwrap_or_default();
    Err(Failure::bad_request(format!(
        "{given_kind} in version {short_version:?} cannot be handled as a {}: {why}",
        target.kind.kind
    )))
}

fn unrecognized(target: &Target, why: &str, body: &[u8]) -> Failure {
    Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        target.kind.kind,
        summary(body)
    ))
}

/// The beginning of a body, as the real server shows it in errors.
fn summary(body: &[u8]) -> String {
    /// Bytes that are shown.
    const SHOWN: usize = 30;
    let cut = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(cut)),
        Some(_) => {
            let mut hex = String::with_capacity(2 * cut.len());
            for byte in cut {
                let _ = write!(hex, "{byte:02x}");
            }
            hex + more
        }
    }
}

/// A syntax error in the words of Go's decoder, as far as they can be told from ours.
pub(crate) fn go_syntax(error: &serde_json::Error, body: &[u8]) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line = body.split(|&byte| byte == b'\n').nth(error.line().saturating_sub(1));
    let at = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    let Some(&byte) = at else { return error.to_string() };
    let shown = char::from(byte).escape_default();
    let context = error.to_string();
    if context.starts_with("trailing characters") {
        format!("invalid character '{shown}' after top-level value")
    } else if context.starts_with("key must be a string") {
        format!("invalid character '{shown}' looking for beginning of object key string")
    } else if context.starts_with("expected `,` or `}`") {
        format!("invalid character '{shown}' after object key:value pair")
    } else {
        format!("invalid character '{shown}' looking for beginning of value")
    }
}
