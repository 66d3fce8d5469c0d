//! Decodes a body into an object of the kind that the path names.

use std::cell::RefCell;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::field_error::{FieldError, go_quote};
use crate::fields::text;
use crate::go_decoder::{go_syntax, go_type, not_registered};
use crate::json;
use crate::kinds::{Registry, convert_builtin, decode_builtin, decode_type, prune_metadata};
use crate::metadata;
use crate::protobuf;
use crate::query::FieldValidation;
use crate::target::Target;

/// The accepted media types of bodies, as the real server lists them.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The accepted media types of bodies of custom resources. The real server does not answer protobuf
/// there: it panics, and closes the connection.
const ACCEPTED_FOR_CUSTOM: &str = "application/json, application/yaml";

/// How many unknown fields are reported.
const FIELD_ERRORS_MAX: usize = 100;

/// Decodes and checks the body of a request.
pub(crate) struct Decoder<'a> {
    pub(crate) target: &'a Target,
    pub(crate) validation: &'a FieldValidation,
    /// The warnings. They are also sent if the request fails for another reason.
    pub(crate) warnings: &'a RefCell<Vec<String>>,
    /// The expected type of bodies: that of the target, or of the kind that its subresource takes.
    expected: protobuf::TypeMeta,
    /// Whether `expected` is the kind of a subresource.
    is_subresource: bool,
}

/// Why a body cannot be parsed.
pub(crate) enum ParseError {
    Media(Failure),
    Syntax(String),
}

impl<'a> Decoder<'a> {
    /// Returns a decoder for bodies of the target's kind.
    pub(crate) fn new(
        target: &'a Target,
        validation: &'a FieldValidation,
        warnings: &'a RefCell<Vec<String>>,
    ) -> Self {
        let expected = protobuf::TypeMeta {
            api_version: target.kind.api_version(&target.version().name),
            kind: target.kind.kind.clone(),
        };
        Self { target, validation, warnings, expected, is_subresource: false }
    }

    /// Returns a decoder for a subresource of a built-in kind that takes another kind, such as a
    /// `Binding`.
    pub(crate) fn of_subresource(self, (api_version, kind): (&str, &str)) -> Self {
        let expected =
            protobuf::TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
        Self { expected, is_subresource: true, ..self }
    }

    /// Decodes a body into an object of the expected kind. Objects of the target's kind are
    /// returned in the form of the storage version.
    pub(crate) fn body(
        &self,
        registry: &Registry,
        body: &[u8],
        content_type: Option<&str>,
    ) -> Result<Map<String, Value>, Failure> {
        let builtin = self.target.kind.is_builtin();
        let read = if is_protobuf(content_type) {
            if !builtin {
                return Err(Failure::unsupported_media_type(ACCEPTED_FOR_CUSTOM));
            }
            json::ParsedJson { value: self.protobuf(body)?, duplicates: Vec::new() }
        } else {
            parse(body, content_type).map_err(|error| match error {
                ParseError::Media(failure) => failure,
                ParseError::Syntax(why) => self.unrecognized(&why, body),
            })?
        };
        let object = match read.value {
            Value::Object(object) => object,
            Value::Null if builtin => Map::new(),
            Value::Null => {
                return Err(self.missing("Kind", body));
            }
            other => {
                let why = format!(
                    "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                     \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                    go_type(&other)
                );
                return Err(self.unrecognized(&why, body));
            }
        };
        if builtin {
            self.check_builtin_type(registry, &object)?;
        } else {
            self.check_custom_type(&object, body)?;
        }
        let mut field_errors: Vec<String> = read
            .duplicates
            .iter()
            .map(|path| format!("duplicate field {}", go_quote(path)))
            .collect();
        let object =
            self.convert_and_prune(object, &mut field_errors).map_err(|why| self.misfit(&why))?;
        if *self.validation == FieldValidation::Strict && !field_errors.is_empty() {
            return Err(self.misfit(&format!("strict decoding error: {}", field_errors.join(", "))));
        }
        self.warn(field_errors);
        if !builtin {
            self.check_custom_kind(&object)?;
        }
        Ok(self.stored(object))
    }

    /// Decodes a protobuf body. A body of another kind is rejected later, as for JSON.
    fn protobuf(&self, body: &[u8]) -> Result<Value, Failure> {
        protobuf::read(body, &self.expected).map_err(|refused| match refused.type_meta {
            None => self.unrecognized_object(&refused.why, body),
            Some(given) => {
                let (_, version) =
                    given.api_version.split_once('/').unwrap_or(("", &given.api_version));
                Failure::bad_request(format!(
                    "{} in version {version:?} cannot be handled as a {}: {}",
                    given.kind, self.expected.kind, refused.why
                ))
            }
        })
    }

    /// Reports the duplicate fields of a configuration to apply: as an error or as warnings.
    pub(crate) fn duplicates(&self, paths: &[String]) -> Result<(), Failure> {
        let twice = |path: &String| format!("key {} already set in map", go_quote(path));
        let field_errors: Vec<String> = paths.iter().map(twice).collect();
        if *self.validation == FieldValidation::Strict && !field_errors.is_empty() {
            let why = field_errors.join(", ");
            return Err(Failure::bad_request(format!("error strict decoding YAML: {why}")));
        }
        self.warn(field_errors);
        Ok(())
    }

    /// Checks the result of a patch.
    pub(crate) fn patched(
        &self,
        object: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let mut field_errors = Vec::new();
        let is_strict = *self.validation == FieldValidation::Strict;
        // The error quotes the object as it was before unknown fields were removed.
        let before = object.clone();
        let refused = |why: &str| {
            let text = Value::Object(before).to_string();
            let error = FieldError::invalid("patch", &text.into(), why);
            Failure::invalid("", "", "", &[error])
        };
        let object = match self.convert_and_prune(object, &mut field_errors) {
            Ok(object) => object,
            Err(why) if self.target.kind.is_builtin() => return Err(refused(&why)),
            Err(why) => return Err(self.misfit(&why)),
        };
        if is_strict && !field_errors.is_empty() {
            return Err(refused(&format!("strict decoding error: {}", field_errors.join(", "))));
        }
        self.warn(field_errors);
        if !self.target.kind.is_builtin() {
            self.check_custom_kind(&object)?;
        }
        Ok(self.stored(object))
    }

    /// Checks the result of a strategic merge patch. `shown` is the text of the rest of the patch,
    /// for errors, and `duplicates` are its duplicate fields.
    pub(crate) fn converted(
        &self,
        object: Map<String, Value>,
        shown: &str,
        duplicates: &[String],
    ) -> Result<Map<String, Value>, Failure> {
        let kind = &self.target.kind;
        let refused = |why: &str| misfit(shown, why);
        let mut value = Value::Object(object);
        let unknown = convert_builtin(kind, &self.target.version().name, &mut value);
        let unknown = unknown.map_err(|why| refused(&why))?;
        let twice = duplicates.iter().map(|path| format!("duplicate field {}", go_quote(path)));
        let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let field_errors: Vec<String> = twice.chain(unknown.take(FIELD_ERRORS_MAX)).collect();
        if *self.validation == FieldValidation::Strict && !field_errors.is_empty() {
            return Err(refused(&format!("strict decoding error: {}", field_errors.join(", "))));
        }
        self.warn(field_errors);
        match value {
            Value::Object(object) => Ok(self.stored(object)),
            _ => unreachable!("an object was put in"),
        }
    }

    /// Checks the types of values and removes unknown fields, which it adds to `field_errors`. The
    /// error is that of Go's decoder for the first value of a wrong type.
    fn convert_and_prune(
        &self,
        object: Map<String, Value>,
        field_errors: &mut Vec<String>,
    ) -> Result<Map<String, Value>, String> {
        let mut value = Value::Object(object);
        let kind = &self.target.kind;
        let version = self.target.version();
        let unknown = if kind.is_builtin() {
            decode_type(&self.expected.api_version, &self.expected.kind, &mut value)?
        } else {
            let misfit = |why: String| custom_metadata_error(&why, &kind.kind);
            metadata::check_types(&value).map_err(misfit)?;
            let mut unknown = prune_metadata(&mut value);
            unknown.extend(
                version.schema().map(|schema| schema.prune(&mut value)).unwrap_or_default(),
            );
            unknown
        };
        // The real server reports no more than this either.
        field_errors.extend(
            unknown
                .into_iter()
                .take(FIELD_ERRORS_MAX)
                .map(|path| format!("unknown field {}", go_quote(&path))),
        );
        match value {
            Value::Object(object) => Ok(object),
            _ => unreachable!("an object was put in"),
        }
    }

    fn stored(&self, object: Map<String, Value>) -> Map<String, Value> {
        if self.is_subresource {
            return object;
        }
        let mut value = Value::Object(object);
        self.target.version().to_stored(&mut value);
        match value {
            Value::Object(object) => object,
            _ => unreachable!("an object was put in"),
        }
    }

    fn warn(&self, field_errors: Vec<String>) {
        if *self.validation != FieldValidation::Ignore {
            self.warnings.borrow_mut().extend(field_errors);
        }
    }

    /// Checks the type meta of a built-in kind: it may be missing, but must otherwise match the
    /// path.
    fn check_builtin_type(
        &self,
        registry: &Registry,
        object: &Map<String, Value>,
    ) -> Result<(), Failure> {
        let wanted = &self.expected;
        let kind = top(object, "kind").unwrap_or(&wanted.kind);
        let version = top(object, "apiVersion").unwrap_or(&wanted.api_version);
        if kind == wanted.kind && (version == wanted.api_version || is_old_eviction(version, kind))
        {
            return Ok(());
        }
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let of_kind = registry.iter().find(|known| {
            known.kind == kind && known.group == group && known.served(short).is_some()
        });
        let decoded = of_kind.map(|known| {
            decode_builtin(known, short, &mut Value::Object(object.clone())).map(drop)
        });
        let why = if let Some(Err(why)) = decoded {
            why
        } else if of_kind.is_some() {
            let group = wanted.api_version.split_once('/').map_or("core", |(group, _)| group);
            let package = group.split('.').next().unwrap_or_default();
            format!(
                "converting ({short}.{kind}) to ({package}.{}): unknown conversion",
                wanted.kind
            )
        } else {
            not_registered(kind, version)
        };
        Err(Failure::bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a {}: {why}",
            wanted.kind
        )))
    }

    fn check_custom_type(&self, object: &Map<String, Value>, body: &[u8]) -> Result<(), Failure> {
        if top(object, "kind").is_none() {
            return Err(self.missing("Kind", body));
        }
        let version = top(object, "apiVersion").unwrap_or_default();
        let wanted = self.target.kind.api_version(&self.target.version().name);
        if version == wanted {
            return Ok(());
        }
        Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        )))
    }

    fn check_custom_kind(&self, object: &Map<String, Value>) -> Result<(), Failure> {
        let kind = &self.target.kind;
        let version = kind.api_version(&self.target.version().name);
        for (field, wanted) in [("kind", &kind.kind), ("apiVersion", &version)] {
            let given = top(object, field).unwrap_or_default();
            if given != wanted {
                let error = FieldError::invalid(field, &given.into(), &format!("must be {wanted}"));
                let shown = top(object, "kind").unwrap_or_default();
                return Err(Failure::invalid(&kind.group, shown, text(object, "name"), &[error]));
            }
        }
        Ok(())
    }

    fn misfit(&self, why: &str) -> Failure {
        let protobuf::TypeMeta { api_version, kind } = &self.expected;
        let version = api_version.rsplit('/').next().unwrap_or_default();
        Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    }

    fn unrecognized(&self, why: &str, body: &[u8]) -> Failure {
        self.unrecognized_object(
            &format!("couldn't get version/kind; json parse error: {why}"),
            body,
        )
    }

    fn missing(&self, field: &str, body: &[u8]) -> Failure {
        let shown = String::from_utf8_lossy(body);
        self.unrecognized_object(&format!("Object '{field}' is missing in '{shown}'"), body)
    }

    fn unrecognized_object(&self, why: &str, body: &[u8]) -> Failure {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            self.expected.kind,
            summary(body)
        ))
    }
}

/// Returns the error for a strategic merge patch that gives a field a value of a wrong type.
/// `patch` is the text of the rest of the patch.
pub(super) fn misfit(patch: &str, why: &str) -> Failure {
    Failure::invalid("", "", "", &[FieldError::invalid_str("patch", patch, why)])
}

/// Whether the content type of a body is protobuf.
pub(crate) fn is_protobuf(content_type: Option<&str>) -> bool {
    let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    media.trim() == protobuf::MEDIA_TYPE
}

/// Parses a body without checking its fields, such as delete options.
pub(crate) fn parse_as(
    body: &[u8],
    content_type: Option<&str>,
    expected: (&str, &str),
) -> Result<Value, Failure> {
    if is_protobuf(content_type) {
        let (api_version, kind) = (expected.0.to_owned(), expected.1.to_owned());
        return protobuf::read(body, &protobuf::TypeMeta { api_version, kind })
            .map_err(|refused| Failure::bad_request(refused.why));
    }
    parse(body, content_type).map(|read| read.value).map_err(|error| match error {
        ParseError::Media(failure) => failure,
        ParseError::Syntax(why) => {
            Failure::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
        }
    })
}

/// Parses JSON or YAML.
pub(crate) fn parse(
    body: &[u8],
    content_type: Option<&str>,
) -> Result<json::ParsedJson, ParseError> {
    let media = content_type.unwrap_or_default();
    match media.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => {
            json::read(body).map_err(|error| ParseError::Syntax(go_syntax(&error, body)))
        }
        "application/yaml" => std::str::from_utf8(body)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_saphyr::from_str(text).map_err(|error| error.to_string()))
            .map(|value| json::ParsedJson { value, duplicates: Vec::new() })
            .map_err(ParseError::Syntax),
        _ => Err(ParseError::Media(Failure::unsupported_media_type(ACCEPTED))),
    }
}

/// Evictions of `policy/v1beta1` are still accepted, although the version is not served otherwise.
/// Both versions have the same fields.
fn is_old_eviction(version: &str, kind: &str) -> bool {
    (version, kind) == ("policy/v1beta1", "Eviction")
}

fn top<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Rewrites an error about metadata for custom resources: the real server decodes them in another
/// way, with other field names in its errors.
fn custom_metadata_error(why: &str, kind: &str) -> String {
    why.replace("Go struct field ObjectMeta.metadata.", "Go struct field ObjectMeta.")
        .replace(&format!("Go struct field {kind}.metadata of type"), "Go value of type")
}

/// Returns the beginning of a body, as the real server shows it in errors.
fn summary(body: &[u8]) -> String {
    /// How many bytes are shown.
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
