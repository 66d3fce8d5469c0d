//! Handlers of all types behind one interface: decode, call, and make the patch.

use std::marker::PhantomData;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use json_patch::Patch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::{Admission, Defaulter, Mutate, Operation, Validate};
use crate::bounded::{self, DecodeError};
use crate::cut::cut;
use crate::overlay::overlay;
use crate::review::Verb;
use crate::serve::body::Shortage;
use crate::serve::memory::Memory;
use crate::verdict::Verdict;

/// A handler whose type is erased.
pub(crate) trait Handle: Send + Sync {
    /// How often a review, or something as large, is in memory at once.
    fn copies(&self) -> usize;

    /// `memory` is what the request takes beyond these copies, which is more if the type is.
    fn handle<'a>(
        &'a self,
        cx: &'a Admission,
        memory: Memory,
    ) -> BoxFuture<'a, Result<Answer, Failure>>;
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
    /// There is not enough memory for the object.
    Memory(Shortage),
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

    fn handle<'a>(
        &'a self,
        cx: &'a Admission,
        mut memory: Memory,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            let handler = &self.0;
            let verdict = match cx.verb() {
                Verb::Create => {
                    let new = new::<K>(cx, &mut memory)?;
                    handler.validate(Operation::Create { new: &new }, cx).await
                }
                Verb::Update => {
                    let (old, new) = (old::<K>(cx, &mut memory)?, new::<K>(cx, &mut memory)?);
                    handler.validate(Operation::Update { old: &old, new: &new }, cx).await
                }
                Verb::Delete => {
                    let old = old::<K>(cx, &mut memory)?;
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

    fn handle<'a>(
        &'a self,
        cx: &'a Admission,
        mut memory: Memory,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            // There is nothing to change in an object that is deleted or connected to.
            if matches!(cx.verb(), Verb::Delete | Verb::Connect) {
                return Ok(Answer { verdict: Verdict::allow(), patch: None });
            }
            let raw = raw(cx)?;
            let mut object = new::<K>(cx, &mut memory)?;
            let old =
                if cx.verb() == Verb::Update { Some(old::<K>(cx, &mut memory)?) } else { None };
            let before = shown(&object, &mut memory)?;
            let verdict = self.0.mutate(&mut object, old.as_ref(), cx).await;
            if !verdict.is_allowed() {
                return Ok(Answer { verdict, patch: None });
            }
            let after = shown(&object, &mut memory)?;
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

fn new<K: DeserializeOwned>(cx: &Admission, memory: &mut Memory) -> Result<K, Failure> {
    object(raw(cx)?, "object", cx, memory)
}

fn old<K: DeserializeOwned>(cx: &Admission, memory: &mut Memory) -> Result<K, Failure> {
    object(cx.old_raw().ok_or_else(|| missing("oldObject", cx))?, "oldObject", cx, memory)
}

fn raw(cx: &Admission) -> Result<&Value, Failure> {
    cx.raw().ok_or_else(|| missing("object", cx))
}

fn missing(field: &str, cx: &Admission) -> Failure {
    Failure::BadRequest(format!("the request is a {} without `{field}`", cx.verb().as_str()))
}

fn object<K: DeserializeOwned>(
    raw: &Value,
    field: &str,
    cx: &Admission,
    memory: &mut Memory,
) -> Result<K, Failure> {
    bounded::decode(raw, memory).map_err(|error| match error {
        DecodeError::Memory(shortage) => Failure::Memory(shortage),
        DecodeError::Invalid(problem) => {
            let kind = cut(&cx.kind().kind);
            Failure::BadRequest(format!(
                "`{field}` does not decode as the webhook's {kind}: {problem}"
            ))
        }
    })
}

/// The object as JSON. It may be larger than it came, if the type writes its defaults.
fn shown<K: Serialize>(object: &K, memory: &mut Memory) -> Result<Value, Failure> {
    let unwritten = |_| Failure::Internal("the object cannot be written as JSON".to_owned());
    let measured = windlass_nesting::measure_written(object).map_err(unwritten)?;
    memory.take_copy(measured.memory).map_err(Failure::Memory)?;
    serde_json::to_value(object).map_err(unwritten)
}
