//! Writing the difference between what was read and what should be.

use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use kube::core::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_indexer::ObjectKey;

use super::Live;
use super::access::{Access, JSON, STATUS, get, json_error};
use crate::error::has_code;
use crate::error::{Class, Error};
use crate::objects::any_object::ObjectRef;
use crate::objects::merge_patch::lists::{carry_over, replaces_objects};
use crate::objects::merge_patch::{merge, set_version};

/// How often a change is repeated because somebody else has written meanwhile.
pub(crate) const CONFLICTS_MAX: u32 = 10;

/// The wait before the first repetition. As in client-go's `retry.DefaultBackoff`.
const BACKOFF_MIN: Duration = Duration::from_millis(10);

/// The longest wait before a repetition: ten of them take less than five seconds.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

impl<T: kube::Resource + Serialize + DeserializeOwned> Live<'_, T> {
    /// Writes the difference between `old`, the object as it was read, and `new`. If somebody has
    /// written the object since then, that is a conflict. If there is no difference, nothing is
    /// sent. For kinds with a status subresource, the status is left alone: see
    /// [`update_status`](Self::update_status).
    ///
    /// Fields that the type does not know stay, also within lists: if a list of objects differs,
    /// the object is read first, and the unknown fields of the elements are sent along.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if `old` was not read from a server, or if a
    /// list differs of which the type shows only a part of the elements.
    pub async fn update(self, old: &impl ObjectRef<T>, new: &T) -> Result<T, Error> {
        self.write_difference(old.as_object(), new, None, None).await
    }

    /// Like [`update`](Self::update), but writes the status and nothing else.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub async fn update_status(self, old: &impl ObjectRef<T>, new: &T) -> Result<T, Error> {
        self.write_difference(old.as_object(), new, Some(STATUS), None).await
    }

    /// Writes the difference of whole objects, or of a part of them. `bytes` is what `old` was
    /// decoded from, if the caller has it.
    async fn write_difference(
        self,
        old: &T,
        new: &T,
        part: Option<&'static str>,
        bytes: Option<Bytes>,
    ) -> Result<T, Error> {
        let (access, meta) = (self.access(), old.meta());
        let (version, key) = (access.version(meta, "updated")?, access.key(meta, "updated")?);
        let (was, is) = (access.encode(old)?, access.encode(new)?);
        let Some(mut patch) = merge(within(&was, part), within(&is, part)) else {
            // Through JSON, so that the type need not be `Clone`.
            let what = || format!("no copy can be made of this {}", access.resource.kind());
            return serde_json::from_value(was).map_err(|error| json_error(&what(), &error));
        };
        if replaces_objects(&patch, within(&was, part)) {
            let raw = access.read_version(&key, bytes, version).await?;
            carry_over(&mut patch, within(&was, part), within(&raw, part)).map_err(|problem| {
                let kind = access.resource.kind();
                Error::msg(format!("a {kind} cannot be updated, patch it yourself: {problem}"))
            })?;
        }
        if let Some(part) = part {
            patch = json!({ part: patch });
        }
        set_version(&mut patch, version.into());
        access.decode(access.patch(&key, part, &patch).await?.body())
    }
}

impl<T: kube::Resource + Serialize + DeserializeOwned + Clone> Live<'_, T> {
    /// Reads the object, changes it, and writes the difference. Repeats this up to ten times, after
    /// a growing pause, if somebody else has written meanwhile. Returns `None` if the object does
    /// not exist.
    ///
    /// # Errors
    /// As for [`update`](Self::update); a conflict, if others keep writing.
    pub async fn modify(
        self,
        key: &ObjectKey,
        change: impl FnMut(&mut T) + Send,
    ) -> Result<Option<T>, Error> {
        self.modify_part(key, change, None).await
    }

    /// Like [`modify`](Self::modify), but writes the status and nothing else.
    ///
    /// # Errors
    /// As for [`modify`](Self::modify).
    pub async fn modify_status(
        self,
        key: &ObjectKey,
        change: impl FnMut(&mut T) + Send,
    ) -> Result<Option<T>, Error> {
        self.modify_part(key, change, Some(STATUS)).await
    }

    async fn modify_part(
        self,
        key: &ObjectKey,
        mut change: impl FnMut(&mut T) + Send,
        part: Option<&'static str>,
    ) -> Result<Option<T>, Error> {
        let (access, mut backoff) = (self.access(), Backoff::new(self.cx.run_id().seed()));
        loop {
            let Some(bytes) = access.read(key).await? else { return Ok(None) };
            let old: T = access.decode(&bytes)?;
            let mut new = old.clone();
            change(&mut new);
            match self.write_difference(&old, &new, part, Some(bytes)).await {
                Ok(object) => return Ok(Some(object)),
                Err(error) if has_code(error.source(), 404) => return Ok(None),
                Err(error) if error.class() == Class::Conflict && backoff.has_more() => {
                    backoff.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Access<'_> {
    /// An object with the fields that the type does not know. A conflict, if its version is not
    /// `version`. `bytes` is the object, if it was read already.
    async fn read_version(
        &self,
        key: &ObjectKey,
        bytes: Option<Bytes>,
        version: &str,
    ) -> Result<Value, Error> {
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => self.send(get(&self.path(key, None), JSON)?).await?.into_body(),
        };
        let raw: Value = self.decode(&bytes)?;
        if raw["metadata"]["resourceVersion"] == version {
            return Ok(raw);
        }
        let kind = self.resource.kind();
        let message = format!("the {kind} has been written since version {version}");
        let status = Status::failure(&message, "Conflict").with_code(409);
        Err(kube::Error::Api(status.boxed()).into())
    }
}

/// The pauses between repetitions of a write: two writers that met once should not meet again.
pub(crate) struct Backoff {
    random: Rng,
    repeated: u32,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), repeated: 0 }
    }

    pub(crate) fn has_more(&self) -> bool {
        self.repeated < CONFLICTS_MAX
    }

    pub(crate) async fn wait(&mut self) {
        let pause = BACKOFF_MIN.saturating_mul(1 << self.repeated.min(16)).min(BACKOFF_MAX);
        self.repeated += 1;
        sleep(pause.mul_f64(0.5 + self.random.f64() / 2.0)).await;
    }
}

/// A part of an object, or all of it.
fn within<'v>(object: &'v Value, part: Option<&str>) -> &'v Value {
    part.map_or(object, |part| &object[part])
}
