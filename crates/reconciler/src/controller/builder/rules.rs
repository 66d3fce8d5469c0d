//! When keys run, in which order, and what happens if they fail.

use std::sync::Arc;
use std::time::Duration;

use windlass_indexer::{ObjectKey, ObjectType};
use windlass_workqueue::{Group, Priority};

use super::ControllerBuilder;
use crate::cause::Cause;
use crate::error::Error;
use crate::history::finished::FailedRun;
use crate::sources::enqueue::Debounce;
use crate::sources::pause::{PAUSED_ANNOTATION, Pause};

impl<K: ObjectType> ControllerBuilder<K> {
    /// How urgent a key is, depending on the cause. Default: [`Priority::Low`] for objects that
    /// existed when the controller started and for resyncs, [`Priority::Normal`] for the rest. If
    /// the policy panics, that is logged, and the key gets [`Priority::Normal`].
    ///
    /// The policy also decides about [`Action::requeue_after`](crate::Action::requeue_after), whose
    /// cause is [`Cause::Timer`], unless the run [decides itself](crate::Action::priority). See
    /// [`retry_priority`](Self::retry_priority) for retries.
    pub fn priority(
        self,
        policy: impl Fn(&ObjectKey, &Cause) -> Priority + Send + Sync + 'static,
    ) -> Self {
        Self { priority: Arc::new(policy), ..self }
    }

    /// How urgent the retry after an error is. Default: as urgent as the run that failed, which
    /// also holds after a panic or a timeout. If the policy panics, that is logged, and the default
    /// is used.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::{Class, Controller, Watch};
    /// use windlass_workqueue::Priority;
    ///
    /// let builder = Controller::named("greeter", Watch::<ConfigMap>::new()).retry_priority(
    ///     |_, error| match error.class() {
    ///         Class::Conflict => Priority::High,
    ///         _ => Priority::Low,
    ///     },
    /// );
    /// # drop(builder);
    /// ```
    pub fn retry_priority(
        self,
        policy: impl Fn(&ObjectKey, &Error) -> Priority + Send + Sync + 'static,
    ) -> Self {
        Self { retry_priority: Some(Arc::new(policy)), ..self }
    }

    /// Lets namespaces take turns, so that a busy one does not keep the others waiting. Default:
    /// they do not.
    pub fn fair(self) -> Self {
        self.fair_by(|key| Group::of(&key.namespace()))
    }

    /// Lets groups of keys take turns within a priority: tenants, clusters, shards. Default: keys
    /// run in the order in which they became ready.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::{Controller, Watch};
    /// use windlass_workqueue::Group;
    ///
    /// // By the first part of the name, as in `acme-web`.
    /// let builder = Controller::named("configmap", Watch::<ConfigMap>::new())
    ///     .fair_by(|key| Group::of(&key.name().split('-').next()));
    /// # drop(builder);
    /// ```
    pub fn fair_by(self, group_of: impl Fn(&ObjectKey) -> Group + Send + Sync + 'static) -> Self {
        Self { queue: self.queue.fair_by(group_of), ..self }
    }

    /// How long a key that is ready stays at one priority before it moves up by one, so that urgent
    /// keys do not starve it. Default: 30 seconds.
    pub fn aging(self, aging: Duration) -> Self {
        Self { queue: self.queue.aging(aging), ..self }
    }

    /// Runs a key only when nothing has happened to it for `quiet`, but at the latest `at_most`
    /// after the first event. For objects that change many times in a row. Objects that existed
    /// when the controller started, and resyncs, do not wait. Default: keys run at once.
    pub fn debounce(self, quiet: Duration, at_most: Duration) -> Self {
        Self { debounce: Some(Debounce::new(quiet, at_most)), ..self }
    }

    /// How often a key that fails runs in a row before it is given up: it is then not retried
    /// before something changes, and has all of its attempts again when something does. Default:
    /// it is retried for ever, with growing delays.
    ///
    /// Counts at most one failure for each backoff window: a run that an event starts before the
    /// retry is due has the number of that retry.
    ///
    /// A key that was given up is logged, and shown by [`Controller::inactive`], the debug report
    /// and a metric. Errors of the classes [`NotLeader`](crate::Class::NotLeader) and
    /// [`StaleRead`](crate::Class::StaleRead) do not count.
    ///
    /// [`Controller::inactive`]: crate::Controller::inactive
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { settings: self.settings.max_attempts(attempts), ..self }
    }

    /// Calls `hook` with every run that failed, panicked or took too long, after the retry was
    /// scheduled. For an error tracker, or a counter of your own. It does not decide about the
    /// retry: the [error](crate::Error) itself does. It must not block. If it panics, that is
    /// logged.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_reconciler::{Controller, Watch};
    /// let builder = Controller::named("configmap", Watch::<ConfigMap>::new()).on_error(|failed| {
    ///     if failed.run.attempt == 10 {
    ///         eprintln!("{} fails again and again: {:?}", failed.key, failed.error);
    ///     }
    /// });
    /// # drop(builder);
    /// ```
    pub fn on_error(self, hook: impl Fn(&FailedRun<'_>) + Send + Sync + 'static) -> Self {
        Self { settings: self.settings.on_error(hook), ..self }
    }

    /// Lets people pause an object: while it has the annotation `windlass.dev/paused: "true"`
    /// ([`PAUSED_ANNOTATION`](crate::PAUSED_ANNOTATION)), it is not reconciled. Default: objects
    /// cannot be paused.
    ///
    /// As in Cluster API, everything stops, also the clean-up before a deletion: an object with a
    /// finalizer stays until it is no longer paused. An object that is deleted completely is no
    /// longer paused: [`absent`](crate::Reconcile::absent) runs. When the annotation is removed,
    /// the object runs, even if a predicate ignores the change.
    ///
    /// A paused object is logged once, and shown by [`Controller::inactive`], the debug report and
    /// a metric; [`Reconcile::paused`](crate::Reconcile::paused) can write a condition. The
    /// annotation is read from the cached bytes. A [resident] cache does not have them, so a
    /// controller of its objects that can be paused is not built.
    ///
    /// [`Controller::inactive`]: crate::Controller::inactive
    /// [resident]: windlass_informer::InformerOptions::resident
    pub fn pausable(self) -> Self {
        self.paused_by(PAUSED_ANNOTATION)
    }

    /// Like [`pausable`](Self::pausable), with an annotation of this name.
    pub fn paused_by(self, annotation: &str) -> Self {
        Self { pause: Pause::by(annotation), ..self }
    }
}
