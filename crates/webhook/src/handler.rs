//! Handlers of all types behind one interface: decode, call, and make the patch.

use std::marker::PhantomData;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use json_patch::Patch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::{Admission, Defaulter, Mutate, Operation, Validate};
use crate::decode;
use crate::overlay::overlay;
use crate::review::Verb;
use crate::verdict::Verdict;

/// A handler whose type is erased.
pub(crate) trait Handle: Send + Sync {
    /// How often a review, or something as large, is in memory at once.
    fn copies(&self) -> usize;

    fn handle<'a>(&'a self, cx: &'a Admission) -> BoxFuture<'a, Result<Answer, Failure>>;
}

/// What a handler returned.
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    pub(crate) patch: Option<Patch>,
}

/// Why a handler could not be asked, or not be understood.
pub(crate) enum Failure {
    /// The request is wrong. The message shows no content.
    BadRequest(String),
    /// The handler is wrong. The message shows no content.
    Internal(String),
}

pub(crate) struct Validating<K, H>(pub(crate) H, pub(crate) PhantomData<fn() -> K>);

pub(crate) struct Mutating<K, H>(pub(crate) H, pub(crate) PhantomData<fn() -> K>);

/// A defaulter as a mutating handler that never refuses.
pub(crate) struct Defaulting<H>(pub(crate) H);

impl<K, H> Handle for Validating<K, H>
where
    K: DeserializeOwned + Send + Sync + 'static,
    H: Validate<K>,
{
    /// As it came, and as the handler's type.
    fn copies(&self) -> usize {
        2
    }

    fn handle<'a>(&'a self, cx: &'a Admission) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            let handler = &self.0;
            let verdict = match cx.verb() {
                Verb::Create => {
                    let new = new::<K>(cx)?;
                    handler.validate(Operation::Create { new: &new }, cx).await
                }
                Verb::Update => {
                    let (old, new) = (old::<K>(cx)?, new::<K>(cx)?);
                    handler.validate(Operation::Update { old: &old, new: &new }, cx).await
                }
                Verb::Delete => {
                    let old = old::<K>(cx)?;
                    handler.validate(Operation::Delete { old: &old }, cx).await
                }
                Verb::Connect => {
                    let options = cx.raw().unwrap_or(&Value::Null);
                    handler.validate(Operation::Connect { options }, cx).await
                }
            };
            Ok(Answer { verdict, patch: None })
        }
        .boxed()
    }
}

impl<K, H> Handle for Mutating<K, H>
where
    K: DeserializeOwned + Serialize + Send + Sync + 'static,
    H: Mutate<K>,
{
    /// As it came, what the type shows before and after the handler, and first the object of the
    /// type, then the patched one.
    fn copies(&self) -> usize {
        4
    }

    fn handle<'a>(&'a self, cx: &'a Admission) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            // There is nothing to change in an object that is deleted or connected to.
            if matches!(cx.verb(), Verb::Delete | Verb::Connect) {
                return Ok(Answer { verdict: Verdict::allow(), patch: None });
            }
            let raw = raw(cx)?;
            let mut object = new::<K>(cx)?;
            let old = if cx.verb() == Verb::Update { Some(old::<K>(cx)?) } else { None };
            let before = shown(&object)?;
            let verdict = self.0.mutate(&mut object, old.as_ref(), cx).await;
            if !verdict.is_allowed() {
                return Ok(Answer { verdict, patch: None });
            }
            let after = shown(&object)?;
            drop((object, old));
            let changed = overlay(raw, &before, &after)
                .map_err(|error| Failure::Internal(format!("no patch can be made: {error}")))?;
            let patch = json_patch::diff(raw, &changed);
            Ok(Answer { verdict, patch: Some(patch).filter(|patch| !patch.0.is_empty()) })
        }
        .boxed()
    }
}

impl<K: Send + Sync, H: Defaulter<K>> Mutate<K> for Defaulting<H> {
    async fn mutate(&self, object: &mut K, _: Option<&K>, cx: &Admission) -> Verdict {
        self.0.default(object, cx);
        Verdict::allow()
    }
}

fn new<K: DeserializeOwned>(cx: &Admission) -> Result<K, Failure> {
    object(raw(cx)?, "object", cx)
}

fn old<K: DeserializeOwned>(cx: &Admission) -> Result<K, Failure> {
    object(cx.old_raw().ok_or_else(|| missing("oldObject", cx))?, "oldObject", cx)
}

fn raw(cx: &Admission) -> Result<&Value, Failure> {
    cx.raw().ok_or_else(|| missing("object", cx))
}

fn missing(field: &str, cx: &Admission) -> Failure {
    Failure::BadRequest(format!("the request is a {} without `{field}`", cx.verb().as_str()))
}

fn object<K: DeserializeOwned>(raw: &Value, field: &str, cx: &Admission) -> Result<K, Failure> {
    K::deserialize(raw).map_err(|error| {
        let (kind, problem) = (&cx.kind().kind, decode::problem(&error));
        Failure::BadRequest(format!("`{field}` does not decode as the webhook's {kind}: {problem}"))
    })
}

fn shown<K: Serialize>(object: &K) -> Result<Value, Failure> {
    serde_json::to_value(object)
        .map_err(|_| Failure::Internal("the object cannot be written as JSON".to_owned()))
}
