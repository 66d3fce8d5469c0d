//! How objects are written: each verb takes a request that was understood and gives what to answer.
//!
//! Reading order: [`decode`] turns a body into an object, [`create`], [`update`], [`patch`],
//! [`apply`], [`delete`] and [`evict`] are the verbs, `admit` asks webhooks, `check` is what an
//! object must pass, [`scale`] and [`review`] the kinds of things that only look like objects.

mod admit;
pub(crate) mod apply;
pub(crate) mod bind;
mod check;
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

/// What a write answers with.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) code: StatusCode,
    pub(crate) answer: Answer,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An object of the target's kind, in the version and form that were asked for.
    Object(Arc<Stored>),
    /// Something else, as it stands.
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

/// Fills in what the kind's schema, or Kubernetes, says about fields that are missing.
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
