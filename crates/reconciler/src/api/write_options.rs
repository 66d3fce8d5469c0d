//! How objects are written, where the defaults do not fit.

use serde_json::{Value, json};

/// How [`Live`](crate::Live) and [`Children`](crate::Children) write.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Error, RunContext};
/// use windlass_reconciler::{FieldValidation, WriteOptions};
///
/// # async fn example(cx: &RunContext, map: &ConfigMap) -> Result<(), Error> {
/// let careful = WriteOptions::new().unforced().field_validation(FieldValidation::Strict);
/// cx.live().with(careful).apply(map).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct WriteOptions<'a> {
    pub(crate) is_dry: bool,
    pub(crate) is_unforced: bool,
    pub(crate) field_manager: Option<&'a str>,
    pub(crate) validation: Option<FieldValidation>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) grace_period: Option<u32>,
    pub(crate) is_version_bound: bool,
    pub(crate) is_owner_unblocked: bool,
    pub(crate) is_deleted_owner_allowed: bool,
}

/// What the server does about fields that the kind does not have, and about fields that are given
/// twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// It refuses the write.
    Strict,
    /// It drops the fields, and answers with a warning, which is logged. The server's default.
    Warn,
    /// It drops the fields.
    Ignore,
}

/// What happens to the objects that a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it. The server's default for most kinds.
    Background,
    /// They are deleted before it. It is deleted after the objects that block its deletion.
    Foreground,
    /// They stay, without this owner.
    Orphan,
}

impl<'a> WriteOptions<'a> {
    /// The defaults of a controller.
    pub fn new() -> Self {
        Self::default()
    }

    /// The server checks a write and answers as if it had made it, but does not. Default: it does.
    ///
    /// The object is read before, and after a deletion, to check that nothing was stored: if a
    /// server ignores the option, the error is a [`DryRunIgnored`](crate::DryRunIgnored). This
    /// needs the verb `get`.
    pub fn dry_run(self) -> Self {
        Self { is_dry: true, ..self }
    }

    /// Leaves fields alone that others have written with another value: an apply is then refused,
    /// with an [`ApplyConflict`](crate::ApplyConflict) that names them. Default: an apply takes
    /// such fields over.
    pub fn unforced(self) -> Self {
        Self { is_unforced: true, ..self }
    }

    /// In whose name fields are written. Default: the name of the controller. A controller that
    /// applies two parts of one object separately needs a name for each, since an apply removes
    /// what the last one in its name had, and this one lacks.
    pub fn field_manager(self, name: &'a str) -> Self {
        Self { field_manager: Some(name), ..self }
    }

    /// What happens to unknown fields. Default: what the server does by default, which is to drop
    /// them and to warn.
    pub fn field_validation(self, validation: FieldValidation) -> Self {
        Self { validation: Some(validation), ..self }
    }

    /// What a delete does to the objects that the deleted one owns. Default: the server's. Use
    /// [`Propagation::Orphan`] only with servers that are known to honour it: one that ignores it
    /// deletes them, and nothing says so in time.
    pub fn propagation(self, propagation: Propagation) -> Self {
        Self { propagation: Some(propagation), ..self }
    }

    /// The grace period of a deleted or evicted pod, in seconds. Default: that of its spec.
    pub fn grace_period(self, seconds: u32) -> Self {
        Self { grace_period: Some(seconds), ..self }
    }

    /// Deletes an object only in the version that was passed. If somebody has written it since
    /// then, that is a conflict. Default: it is deleted in any version. A server that ignores this
    /// goes unnoticed; one that ignores the uid does not.
    pub fn same_version(self) -> Self {
        Self { is_version_bound: true, ..self }
    }

    /// An owner reference does not block the deletion of the owner: if that is deleted in the
    /// foreground, it does not wait for this object. Default: it blocks. Some clusters allow that
    /// only to accounts that may update the `finalizers` subresource of the owner.
    pub fn non_blocking_owner(self) -> Self {
        Self { is_owner_unblocked: true, ..self }
    }

    /// Makes an object for an owner although that is being deleted: a Job that cleans up, for
    /// example. Its reference does not block the deletion, because a foreground deletion would
    /// delete it at once; a finalizer of yours keeps the owner until the Job is done. A garbage
    /// collector that has just started may delete it all the same: then it is made again by the
    /// next run. Default: it is refused, with [`OwnerDeleted`](crate::OwnerDeleted).
    ///
    /// ```
    /// # use k8s_openapi::api::batch::v1::Job;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::{Error, RunContext, WriteOptions};
    /// /// A part of `Finalize::cleanup`.
    /// # async fn example(cx: &RunContext, owner: &ConfigMap, job: Job) -> Result<(), Error> {
    /// cx.live().with(WriteOptions::new().allow_deleted_owner()).apply_owned(job, owner).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_deleted_owner(self) -> Self {
        Self { is_deleted_owner_allowed: true, ..self }
    }

    /// The query parameters of a write, in the name of `controller`.
    pub(crate) fn query(&self, controller: &'a str) -> Vec<(&'static str, &'a str)> {
        let mut query = vec![("fieldManager", self.field_manager.unwrap_or(controller))];
        if let Some(validation) = self.validation {
            query.push(("fieldValidation", validation.name()));
        }
        query.extend(self.dry_query());
        query
    }

    /// The query parameter of a dry run.
    pub(crate) fn dry_query(&self) -> Option<(&'static str, &'a str)> {
        self.is_dry.then_some(("dryRun", "All"))
    }

    /// The options of a delete, for the body of the request.
    pub(crate) fn delete_options(&self, uid: &str, version: Option<&str>) -> Value {
        let mut options = json!({"preconditions": {"uid": uid}});
        if let Some(version) = version.filter(|_| self.is_version_bound) {
            options["preconditions"]["resourceVersion"] = version.into();
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = propagation.name().into();
        }
        if let Some(seconds) = self.grace_period {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if self.is_dry {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}

impl FieldValidation {
    fn name(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Warn => "Warn",
            Self::Ignore => "Ignore",
        }
    }
}

impl Propagation {
    fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}
