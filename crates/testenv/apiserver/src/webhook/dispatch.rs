//! Calls the webhooks of a write in their order, and combines their answers.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use super::attributes::{Attributes, Operation};
use super::backend::Webhooks;
use super::caller::Caller;
use super::convert::{self, default_custom};
use super::hook::Hook;
use super::matching::RuleInput;
use super::patch::{self, PatchError};
use super::review::{self, Answer, AnswerError};
use crate::failure::Failure;
use crate::json;
use crate::kinds::{decode_type, default_builtin, prune_metadata};
use crate::metadata;

/// A write, and the webhooks that may have to be called for it.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) attributes: Attributes,
    /// The webhooks whose rules match, in the order in which they are called.
    pub(crate) hooks: Vec<Arc<Hook>>,
    pub(crate) namespace_labels: Value,
}

/// The result of all webhooks of a write.
#[derive(Debug)]
pub(crate) struct AdmissionOutcome {
    /// The object if a webhook has changed it, or the refusal.
    pub(crate) result: Result<Option<Value>, Failure>,
    pub(crate) warnings: Vec<String>,
}

/// The outcome of calling one webhook.
enum CallOutcome {
    Answered(Answer),
    /// The call failed: the failure policy of the webhook decides whether the write continues.
    Failed(String),
    /// The write is refused, whatever the failure policy says.
    Refused(Failure),
}

/// Calls mutating webhooks one after the other. Webhooks with the reinvocation policy `IfNeeded`
/// are called once more if others have changed the object after them.
pub(crate) async fn mutate(write: Write, mut caller: Caller<'_>) -> AdmissionOutcome {
    let Write { attributes, hooks, namespace_labels } = write;
    let mut run = Mutation {
        version: attributes.resource.version.clone(),
        write: attributes,
        namespace_labels,
        is_changed: false,
        warnings: Vec::new(),
        invoked: Vec::new(),
        reinvoked: Vec::new(),
    };
    let mut result = run.round(&hooks, false, &mut caller).await;
    if result.is_ok() && run.is_changed {
        result = run.round(&hooks, true, &mut caller).await;
    }
    let requested = run.write.resource.version.clone();
    if result.is_ok() && run.is_changed {
        let converted = run.convert(&requested, &mut caller).await;
        result = converted.map_err(|why| Failure::internal_error(&why));
    }
    let object = run.is_changed.then_some(run.write.object);
    AdmissionOutcome { result: result.map(|()| object), warnings: run.warnings }
}

/// Calls validating webhooks, all at once. If several refuse, the first one in their order is
/// reported.
pub(crate) async fn validate(write: Write, caller: Caller<'_>) -> AdmissionOutcome {
    let Write { attributes, hooks, namespace_labels } = write;
    let mut warnings = Vec::new();
    let result = validated(attributes, &hooks, &namespace_labels, caller, &mut warnings).await;
    AdmissionOutcome { result: result.map(|()| None), warnings }
}

async fn validated(
    write: Attributes,
    hooks: &[Arc<Hook>],
    namespace_labels: &Value,
    mut caller: Caller<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut relevant = Vec::new();
    for hook in hooks {
        if !hook.selects(&write, namespace_labels) {
            continue;
        }
        let Some(version) = hook.version_for(&write.place()) else { continue };
        let version = version.to_owned();
        let shown = in_version(&write, &write.resource.version, &version, &mut caller).await;
        let shown = shown.map_err(|why| Failure::internal_error(&why))?;
        if hook.meets_conditions(&shown, &version)? {
            relevant.push((hook, shown, version, caller.ids.uid()));
        }
    }
    let calls = relevant
        .iter()
        .map(|(hook, write, version, uid)| call(hook, write, version, uid, false, caller.webhooks));
    let answers = join_all(calls).await;
    let mut refusal = None;
    for ((hook, ..), answer) in relevant.iter().zip(answers) {
        let refused = match answer {
            CallOutcome::Answered(answer) => {
                warnings.extend(answer.warnings);
                (!answer.allowed).then(|| Failure::denied_by(&hook.name, &answer.status))
            }
            CallOutcome::Failed(why) => hook.failed(&why).err(),
            CallOutcome::Refused(failure) => Some(failure),
        };
        refusal = refusal.or(refused);
    }
    refusal.map_or(Ok(()), Err)
}

/// The state of a write while mutating webhooks are called.
struct Mutation {
    write: Attributes,
    /// The current version of its objects.
    version: String,
    namespace_labels: Value,
    is_changed: bool,
    warnings: Vec<String>,
    /// The indices of called webhooks that have to be called again if others change the object.
    invoked: Vec<usize>,
    /// The indices of webhooks that have to be called again.
    reinvoked: Vec<usize>,
}

impl Mutation {
    async fn round(
        &mut self,
        hooks: &[Arc<Hook>],
        again: bool,
        caller: &mut Caller<'_>,
    ) -> Result<(), Failure> {
        for (index, hook) in hooks.iter().enumerate() {
            if !hook.selects(&self.write, &self.namespace_labels) {
                continue;
            }
            let Some(version) = hook.version_for(&self.write.place()) else { continue };
            let version = version.to_owned();
            if !hook.conditions.is_empty() {
                self.convert(&version, caller).await.map_err(|why| conversion_failed(&why))?;
                if !hook.meets_conditions(&self.write, &version)? {
                    continue;
                }
            }
            if again && !self.reinvoked.contains(&index) {
                continue;
            }
            self.convert(&version, caller).await.map_err(|why| conversion_failed(&why))?;
            let changed = self.ask(hook, caller).await?;
            if changed {
                self.is_changed = true;
                self.reinvoked.append(&mut self.invoked);
            }
            if hook.is_reinvoked {
                self.invoked.push(index);
            }
        }
        Ok(())
    }

    /// Calls one webhook. Returns whether it has changed the object.
    async fn ask(&mut self, hook: &Hook, caller: &mut Caller<'_>) -> Result<bool, Failure> {
        let uid = caller.ids.uid();
        let outcome = call(hook, &self.write, &self.version, &uid, true, caller.webhooks).await;
        let answer = match outcome {
            CallOutcome::Answered(answer) => answer,
            CallOutcome::Failed(why) => return hook.failed(&why).map(|()| false),
            CallOutcome::Refused(failure) => return Err(failure),
        };
        self.warnings.extend(answer.warnings);
        if !answer.allowed {
            return Err(Failure::denied_by(&hook.name, &answer.status));
        }
        let Some(patch) = answer.patch else { return Ok(false) };
        let patched = match patch::apply(&patch, &self.write.object) {
            Ok(None) => return Ok(false),
            // A deletion has no object to patch.
            _ if self.write.operation == Operation::Delete => {
                return Err(Failure::internal_error(&format!(
                    "admission webhook {:?} attempted to modify the object, which is not supported for \
                     this operation",
                    hook.name
                )));
            }
            _ if answer.patch_type != "JSONPatch" => {
                let why = format!("unsupported patch type {:?}", answer.patch_type);
                return hook.failed(&why).map(|()| false);
            }
            Ok(Some(patched)) => patched,
            Err(PatchError::Undecodable(why)) => {
                let why = format!("received undecodable patch in webhook response: {why}");
                return hook.failed(&why).map(|()| false);
            }
            Err(PatchError::DoesNotApply(why)) => return Err(Failure::internal_error(&why)),
        };
        if json::depth(&patched) > json::depth_max() {
            return Err(Failure::internal_error("the patched object is nested too deeply"));
        }
        let decoded = decoded(&self.write, &self.version, patched)?;
        let changed = decoded != self.write.object;
        self.write.object = decoded;
        Ok(changed)
    }

    async fn convert(&mut self, to: &str, caller: &mut Caller<'_>) -> Result<(), String> {
        if self.version != to {
            self.write = in_version(&self.write, &self.version, to, caller).await?;
            to.clone_into(&mut self.version);
        }
        Ok(())
    }
}

impl Hook {
    /// Applies the failure policy to a call that failed.
    fn failed(&self, why: &str) -> Result<(), Failure> {
        let told = format!("failed calling webhook {:?}: {why}", self.name);
        let configuration = &self.configuration;
        if self.ignores_failure {
            tracing::warn!(configuration, "{told}; the write goes on");
            return Ok(());
        }
        tracing::warn!(configuration, "{told}");
        Err(Failure::internal_error(&told))
    }
}

impl Attributes {
    /// Returns the properties of the write that rules match.
    pub(crate) fn place(&self) -> RuleInput<'_> {
        RuleInput {
            of: &self.of,
            version: &self.resource.version,
            subresource: &self.subresource,
            namespace: &self.namespace,
            operation: self.operation,
        }
    }
}

/// Calls one webhook.
async fn call(
    hook: &Hook,
    write: &Attributes,
    version: &str,
    uid: &str,
    mutating: bool,
    webhooks: &Webhooks,
) -> CallOutcome {
    if write.dry_run && !hook.is_free_of_side_effects {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return CallOutcome::Refused(Failure::bad_request(why));
    }
    let Some(review_version) = hook.review_version else {
        return CallOutcome::Failed(
            "could not create admission objects: webhook does not accept known AdmissionReview \
             versions (v1, v1beta1)"
                .to_owned(),
        );
    };
    let review = review::admission(write, version, review_version, uid);
    let body = match hook.client.post(webhooks, &review, hook.timeout).await {
        Ok(body) => body,
        Err(why) => return CallOutcome::Failed(format!("failed to call webhook: {why}")),
    };
    match Answer::read(&body, review_version, uid, mutating) {
        Ok(answer) => CallOutcome::Answered(answer),
        Err(AnswerError::Undecodable(why)) => {
            CallOutcome::Failed(format!("failed to call webhook: {why}"))
        }
        Err(AnswerError::Invalid(why)) => {
            CallOutcome::Failed(format!("received invalid webhook response: {why}"))
        }
    }
}

/// Returns the error for an object that cannot be converted for a mutating webhook. The message of
/// the real server has the prefix twice, too.
fn conversion_failed(why: &str) -> Failure {
    Failure::internal_error(&format!("Internal error occurred: {why}"))
}

/// Returns the write with its objects in another version of the kind.
///
/// # Errors
/// Returns the real server's error if the conversion fails.
async fn in_version(
    write: &Attributes,
    from: &str,
    to: &str,
    caller: &mut Caller<'_>,
) -> Result<Attributes, String> {
    let mut write = write.clone();
    // Subresources of another group are not converted.
    if from == to || write.kind.group != write.resource.group {
        return Ok(write);
    }
    for object in [&mut write.object, &mut write.old] {
        if object.is_object() {
            *object = convert::object(&write.of, to, object.take(), caller).await?;
        }
    }
    Ok(write)
}

/// Decodes a patched object: keeps its known fields and sets its defaults.
fn decoded(write: &Attributes, version: &str, mut object: Value) -> Result<Value, Failure> {
    let of = &write.of;
    let is_part = write.kind.name != of.kind;
    if of.is_builtin() {
        let refused = |why: String| Failure::internal_error(&why);
        decode_type(&write.kind.api_version(), &write.kind.name, &mut object).map_err(refused)?;
        // Defaults belong to the stored form.
        if !is_part && of.stored_as.is_none() {
            default_builtin(of, &mut object, false);
        }
        return Ok(object);
    }
    if is_part {
        return Ok(object);
    }
    metadata::check_types(&object).map_err(|why| Failure::internal_error(&why))?;
    prune_metadata(&mut object);
    default_custom(of, version, &mut object, true);
    Ok(object)
}
