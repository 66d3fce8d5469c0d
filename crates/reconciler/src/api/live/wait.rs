//! Waiting for an object: until it has a condition, or is gone.
//!
//! It asks the server again and again, after a growing pause. A reconciler should rarely wait: it
//! is run again when something changes. But some steps have to follow each other at once.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};
use windlass_indexer::{HeadParser, ObjectKey, Uid};

use super::Live;
use super::access::Access;
use crate::error::Error;
use crate::error::list;
use crate::objects::any_object::ObjectRef;

/// The pause after the first look.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Something did not happen in time. The run is retried, as after a broken connection.
#[derive(Debug, thiserror::Error)]
#[error("waited {waited:?} for {awaited}: {missing}")]
#[non_exhaustive]
pub struct WaitTimeout {
    /// What was waited for, as in `Deployment shop/web to be Available`.
    pub awaited: String,
    /// What was missing at the last look, as in `the condition Available is False
    /// (MinimumReplicasUnavailable)`.
    pub missing: String,
    /// How long was waited.
    pub waited: Duration,
    source: Elapsed,
}

impl<T: kube::Resource + Serialize + DeserializeOwned> Live<'_, T> {
    /// Waits until a condition in the status of an object is `True`, for its current generation if
    /// the condition names one. Returns the object.
    ///
    /// # Errors
    /// Returns the error of the server, or a [`WaitTimeout`] that says what was missing: the
    /// object, the condition, or which status it had.
    ///
    /// # Cancel safety
    /// Dropping it only ends the waiting.
    pub async fn wait_for_condition(
        self,
        key: &ObjectKey,
        condition: &str,
        limit: Duration,
    ) -> Result<T, Error> {
        let access = self.access();
        let awaited = format!("{} {key} to be {condition}", access.resource.kind());
        let look = || async {
            let Some(bytes) = access.read(key).await? else {
                return Ok(Err("it does not exist".to_owned()));
            };
            match unmet_condition(&access.decode(&bytes)?, condition) {
                None => access.decode(&bytes).map(Ok),
                Some(lack) => Ok(Err(lack)),
            }
        };
        wait_until(awaited, limit, look).await
    }

    /// Deletes this object, and waits until it is gone. Another object that has its name by then
    /// does not count.
    ///
    /// # Errors
    /// As for [`delete`](Self::delete), or a [`WaitTimeout`] that says what keeps the object: its
    /// finalizers, or its grace period.
    ///
    /// # Cancel safety
    /// Dropping it ends the waiting. The object may be deleted or not.
    pub async fn delete_and_wait(
        self,
        object: &impl ObjectRef<T>,
        limit: Duration,
    ) -> Result<(), Error> {
        let (access, meta) = (self.access(), object.as_object().meta());
        self.delete(object).await?;
        let key = access.key(meta, "deleted")?;
        let uid = Uid::new(meta.uid.as_deref().unwrap_or_default());
        let awaited = format!("{} {key} to be gone", access.resource.kind());
        wait_until(awaited, limit, || access.check_gone(&key, &uid)).await
    }
}

/// Looks again and again, until a look does not end with what is missing.
async fn wait_until<R, F>(
    awaited: String,
    limit: Duration,
    look: impl Fn() -> F,
) -> Result<R, Error>
where
    F: Future<Output = Result<Result<R, String>, Error>>,
{
    let mut missing = "the server has not answered".to_owned();
    let looking = timeout(limit, async {
        let mut pause = PAUSE_MIN;
        loop {
            match look().await? {
                Ok(found) => return Ok(found),
                Err(lack) => missing = lack,
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    });
    looking.await.unwrap_or_else(|source| {
        Err(WaitTimeout { awaited, missing, waited: limit, source }.into())
    })
}

impl Access<'_> {
    /// Whether an object is gone, or what keeps it.
    async fn check_gone(&self, key: &ObjectKey, uid: &Uid) -> Result<Result<(), String>, Error> {
        let Some(bytes) = self.read_metadata(key).await? else { return Ok(Ok(())) };
        let head = HeadParser::default().parse(&bytes)?;
        if head.uid() != uid {
            return Ok(Ok(()));
        }
        let finalizers: Vec<_> = head.finalizers().collect();
        Ok(Err(match (head.deletion_timestamp(), finalizers.as_slice()) {
            (None, _) => "it is not being deleted".to_owned(),
            (Some(_), []) => "its grace period is not over".to_owned(),
            (Some(_), names) => format!("it has the finalizers {}", list(names)),
        }))
    }
}

/// Why an object does not have a condition; `None` if it does. It shows no message, because that is
/// content of the object.
fn unmet_condition(object: &Value, type_: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let is_match = |condition: &&Value| condition["type"] == type_;
    let Some(condition) = conditions.into_iter().flatten().find(is_match) else {
        return Some(format!("it has no condition {type_}"));
    };
    if condition["status"] != "True" {
        let word = |field: &str| condition[field].as_str().unwrap_or_default();
        return Some(match (word("status"), word("reason")) {
            (status, "") => format!("the condition {type_} is {status}"),
            (status, reason) => format!("the condition {type_} is {status} ({reason})"),
        });
    }
    let generation = |value: &Value| value.as_i64();
    let observed = generation(&condition["observedGeneration"])?;
    let current = generation(&object["metadata"]["generation"])?;
    (observed < current).then(|| {
        format!("the condition {type_} is of generation {observed}, and the object of {current}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lack_of_a_condition_is_named() {
        let ready = |status: &str| json!({"type": "Ready", "status": status, "reason": "Starting"});
        let mut old = ready("True");
        old["observedGeneration"] = 1.into();
        let cases = [
            (json!([]), Some("it has no condition Ready")),
            (json!([ready("False")]), Some("the condition Ready is False (Starting)")),
            (json!([ready("True")]), None),
            (json!([old]), Some("the condition Ready is of generation 1, and the object of 2")),
        ];
        for (conditions, expected) in cases {
            let object =
                json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}});
            assert_eq!(unmet_condition(&object, "Ready").as_deref(), expected, "{conditions}");
        }
    }
}
