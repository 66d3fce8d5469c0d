//! The write verbs: each takes a parsed request and returns the response.
//!
//! Reading order: [`decode`] turns a body into an object. [`create`], [`update`], [`patch`],
//! [`apply`], [`delete`] and [`evict`] are the verbs. `admit` calls webhooks, and `check` validates
//! an object before it is stored. [`scale`] and [`review`] handle the kinds that are never stored.

mod admit;
pub(crate) mod apply;
pub(crate) mod bind;
mod check;
pub(crate) mod condition;
pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod evict;
pub(crate) mod patch;
pub(crate) mod review;
pub(crate) mod scale;
mod service;
pub(crate) mod update;

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::object::Stored;
use crate::target::Target;

/// The response to a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) code: StatusCode,
    pub(crate) answer: Answer,
}

/// The body of the response.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An object of the target's kind. It is sent in the version and form that the client asked
    /// for.
    Object(Arc<Stored>),
    /// Any other value, sent unchanged.
    Value(Value),
}

impl Written {
    pub(crate) fn object(code: StatusCode, object: Arc<Stored>) -> Self {
        Self { code, answer: Answer::Object(object) }
    }

    pub(crate) fn value(code: StatusCode, value: Value) -> Self {
        Self { code, answer: Answer::Value(value) }
    }
}

/// Fills in missing fields with the defaults of the kind's schema, or of the built-in kind.
fn apply_defaults(target: &Target, object: &mut Map<String, Value>, create: bool) {
    let mut value = Value::Object(std::mem::take(object));
    if target.kind.is_builtin() {
        crate::kinds::default_builtin(&target.kind, &mut value, create);
    } else if let Some(schema) = target.version().schema() {
        schema.default(&mut value);
    }
    if let Value::Object(filled) = value {
        *object = filled;
    }
}
