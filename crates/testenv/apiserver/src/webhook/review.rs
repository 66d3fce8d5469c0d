//! The wire format of reviews: encodes questions to webhooks, and checks their answers as the real
//! server does.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::attributes::Attributes;
use crate::go_decoder::{go_syntax, go_type, not_registered};
use crate::json;

/// The answer of an admission webhook.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// A `Status`, or null.
    pub(super) status: Value,
    /// A JSON patch, if there is one.
    pub(super) patch: Option<Vec<u8>>,
    pub(super) patch_type: String,
    pub(super) warnings: Vec<String>,
}

/// Why an answer cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerError {
    /// It could not be decoded. This counts as a failed call.
    Undecodable(String),
    /// It does not answer the question.
    Invalid(String),
}

/// The group and kind of a review.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
}

pub(super) const ADMISSION: Kind = Kind { group: "admission.k8s.io", name: "AdmissionReview" };
pub(super) const CONVERSION: Kind =
    Kind { group: "apiextensions.k8s.io", name: "ConversionReview" };

/// Returns the question about a write whose objects are in `version`.
pub(super) fn admission(
    write: &Attributes,
    version: &str,
    review_version: &str,
    uid: &str,
) -> Value {
    let mut request = write.request(version);
    request.insert("uid".to_owned(), uid.into());
    request.insert("object".to_owned(), write.object.clone());
    request.insert("oldObject".to_owned(), write.old.clone());
    json!({
        "kind": ADMISSION.name,
        "apiVersion": format!("{}/{review_version}", ADMISSION.group),
        "request": request,
    })
}

impl Kind {
    /// Decodes a body into a review of this version.
    ///
    /// # Errors
    /// Returns the error of Go's decoder.
    pub(super) fn decode(self, body: &[u8], version: &str) -> Result<Map<String, Value>, String> {
        let value = match json::read(body) {
            Ok(read) => read.value,
            // An answer that is not JSON is parsed as YAML, as on the real server.
            Err(error) => {
                let is_shallow = windlass_nesting::depth(body) <= json::depth_max();
                let text = std::str::from_utf8(body).ok().filter(|_| is_shallow);
                let value = text.and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
                value.ok_or_else(|| {
                    let why = go_syntax(&error, body);
                    format!("couldn't get version/kind; json parse error: {why}")
                })?
            }
        };
        let Value::Object(review) = value else {
            return Err(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value \
                 of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }}",
                go_type(&value)
            ));
        };
        let (given_version, given_kind) = type_of(&review);
        let wanted = format!("{}/{version}", self.group);
        let api_version = if given_version.is_empty() { wanted.as_str() } else { given_version };
        let kind = if given_kind.is_empty() { self.name } else { given_kind };
        let short = api_version.strip_prefix(self.group).and_then(|rest| rest.strip_prefix('/'));
        match short {
            Some(short) if kind == self.name && short == version => Ok(review),
            Some(short @ ("v1" | "v1beta1")) if kind == self.name => Err(format!(
                "converting ({short}.{kind}) to ({version}.{kind}): unknown conversion"
            )),
            _ => Err(not_registered(kind, api_version)),
        }
    }

    /// Returns an error if the type of the review is not exactly this.
    pub(super) fn check_type(self, review: &Map<String, Value>) -> Result<(), String> {
        let (version, kind) = type_of(review);
        let wanted = format!("{}/v1", self.group);
        if version == wanted && kind == self.name {
            return Ok(());
        }
        let slash = if version.contains('/') { "" } else { "/" };
        Err(format!(
            "expected webhook response of {wanted}, Kind={}, got {slash}{version}, Kind={kind}",
            self.name
        ))
    }
}

fn type_of(review: &Map<String, Value>) -> (&str, &str) {
    let text = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

impl Answer {
    /// Reads the answer to the question `uid`.
    pub(super) fn read(
        body: &[u8],
        version: &str,
        uid: &str,
        mutating: bool,
    ) -> Result<Self, AnswerError> {
        let review = ADMISSION.decode(body, version).map_err(AnswerError::Undecodable)?;
        let response = review.get("response").filter(|response| !response.is_null());
        let fields = Fields(response.and_then(Value::as_object)).read();
        let fields = fields.map_err(AnswerError::Undecodable)?;
        let invalid = |why: &str| Err(AnswerError::Invalid(why.to_owned()));
        if response.is_none() {
            return invalid("webhook response was absent");
        }
        // The real server does not check `v1beta1` reviews.
        if version == "v1" {
            if fields.uid != uid {
                let why = format!("expected response.uid={uid:?}, got {:?}", fields.uid);
                return Err(AnswerError::Invalid(why));
            }
            ADMISSION.check_type(&review).map_err(AnswerError::Invalid)?;
            match (mutating, &fields.patch, &fields.patch_type) {
                (false, Some(_), _) => {
                    return invalid("validating webhook may not return response.patch");
                }
                (false, None, Some(_)) => {
                    return invalid("validating webhook may not return response.patchType");
                }
                (true, Some(_), None) => {
                    return invalid("webhook returned response.patch but not response.patchType");
                }
                (true, None, Some(_)) => {
                    return invalid("webhook returned response.patchType but not response.patch");
                }
                (true, Some(_), Some(given)) if given.is_empty() => {
                    return invalid("webhook returned invalid response.patchType of \"\"");
                }
                _ => {}
            }
        }
        let patch_type = if version == "v1" { fields.patch_type } else { None };
        Ok(Self {
            allowed: fields.allowed,
            status: response
                .and_then(|response| response.get("status"))
                .cloned()
                .unwrap_or_default(),
            patch: fields.patch.filter(|_| mutating),
            patch_type: patch_type.unwrap_or_else(|| "JSONPatch".to_owned()),
            warnings: fields.warnings,
        })
    }
}

/// The fields of a response, if there is one.
struct Fields<'a>(Option<&'a Map<String, Value>>);

/// The decoded fields of a response.
#[derive(Default)]
struct ResponseFields {
    uid: String,
    allowed: bool,
    patch: Option<Vec<u8>>,
    patch_type: Option<String>,
    warnings: Vec<String>,
}

impl Fields<'_> {
    fn read(&self) -> Result<ResponseFields, String> {
        let warnings = match self.get("warnings") {
            None => Vec::new(),
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(other) => return Err(wrong_type(other, "warnings", "[]string")),
        };
        let patch = match self.text("patch", "[]uint8")? {
            None => None,
            Some(text) => Some(BASE64_STANDARD.decode(&text).map_err(|why| match why {
                base64::DecodeError::InvalidByte(at, _) => {
                    format!("illegal base64 data at input byte {at}")
                }
                _ => format!("illegal base64 data at input byte {}", text.len()),
            })?),
        };
        Ok(ResponseFields {
            uid: self.text("uid", "types.UID")?.unwrap_or_default(),
            allowed: match self.get("allowed") {
                None => false,
                Some(Value::Bool(allowed)) => *allowed,
                Some(other) => return Err(wrong_type(other, "allowed", "bool")),
            },
            patch: patch.filter(|patch| !patch.is_empty()),
            patch_type: self.text("patchType", "v1.PatchType")?,
            warnings,
        })
    }

    fn get(&self, field: &str) -> Option<&Value> {
        self.0?.get(field).filter(|value| !value.is_null())
    }

    fn text(&self, field: &str, go: &str) -> Result<Option<String>, String> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong_type(other, field, go)),
        }
    }
}

fn wrong_type(value: &Value, field: &str, go: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go struct field AdmissionResponse.response.{field} of type {go}",
        go_type(value)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(review: &Value, mutating: bool) -> Result<Answer, AnswerError> {
        Answer::read(review.to_string().as_bytes(), "v1", "u", mutating)
    }

    fn review(response: &Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    #[test]
    fn answer_must_have_the_uid_and_type_of_the_request() {
        let other = read(&review(&json!({"uid": "x", "allowed": true})), false);
        let why = "expected response.uid=\"u\", got \"x\"".to_owned();
        assert_eq!(other, Err(AnswerError::Invalid(why)));
        let absent = AnswerError::Invalid("webhook response was absent".to_owned());
        assert_eq!(read(&json!({}), false), Err(absent));
    }

    #[test]
    fn patch_comes_with_its_type_and_only_from_mutating_webhooks() {
        let patched = review(
            &json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"}),
        );
        let answer = read(&patched, true).expect("it must be accepted");
        assert_eq!(answer.patch.as_deref(), Some(b"[]".as_slice()));
        assert!(matches!(read(&patched, false), Err(AnswerError::Invalid(_))));
        let untyped = review(&json!({"uid": "u", "allowed": true, "patch": "W10="}));
        assert!(matches!(read(&untyped, true), Err(AnswerError::Invalid(_))));
    }

    #[test]
    fn bodies_other_than_reviews_are_undecodable() {
        let undecodable = |body: &str| match Answer::read(body.as_bytes(), "v1", "u", false) {
            Err(AnswerError::Undecodable(why)) => why,
            other => panic!("{body}: {other:?}"),
        };
        assert!(undecodable("garbage").contains("cannot unmarshal string into Go value"));
        assert!(undecodable("[]").contains("cannot unmarshal array"));
        let pod = undecodable(r#"{"kind": "Pod", "apiVersion": "v1"}"#);
        assert!(pod.starts_with("no kind \"Pod\" is registered for version \"v1\""), "{pod}");
        let old = r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}"#;
        let why =
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion";
        assert_eq!(undecodable(old), why);
    }
}
