//! The controllers of a manager, before and after they are built.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    AnyController, BuildError, ControllerBuilder, ControllerDefaults, ControllerMetrics,
    ObjectType, Reconcile,
};

use crate::error::ManagerError;
use crate::http::checks::{Checks, Finding, Probe};

/// A controller that is built once the manager has a client.
pub(crate) struct PendingController {
    pub(crate) name: String,
    pub(crate) needs_leadership: bool,
    build: Build,
}

type Build = Box<dyn FnOnce(&Parts) -> Result<Arc<dyn AnyController>, BuildError> + Send>;

/// Builds controllers in another way than with a [`ControllerBuilder`], as a library does.
pub(crate) type BuildOthers = Box<
    dyn FnOnce(&SharedInformerFactory) -> Result<Vec<Arc<dyn AnyController>>, ManagerError> + Send,
>;

/// What controllers are built from.
pub(crate) struct Parts {
    pub(crate) factory: SharedInformerFactory,
    pub(crate) defaults: ControllerDefaults,
    /// `None` if metrics are off.
    pub(crate) metrics: Option<ControllerMetrics>,
    /// The client of the runs.
    pub(crate) client: Client,
}

impl PendingController {
    pub(crate) fn new<K: ObjectType>(
        builder: ControllerBuilder<K>,
        reconciler: impl Reconcile<K>,
        needs_leadership: bool,
    ) -> Self {
        let name = builder.name().to_owned();
        let build = move |parts: &Parts| {
            let mut builder = builder.defaults(parts.defaults.clone());
            builder = builder.client(parts.client.clone());
            if let Some(metrics) = &parts.metrics {
                builder = builder.metrics(metrics);
            }
            let controller = builder.build(&parts.factory, reconciler)?;
            Ok(Arc::new(controller) as Arc<dyn AnyController>)
        };
        Self { name, needs_leadership, build: Box::new(build) }
    }

    pub(crate) fn build(self, parts: &Parts) -> Result<Arc<dyn AnyController>, BuildError> {
        (self.build)(parts)
    }
}

/// Adds the checks of a controller: it is ready when its caches are complete, and not alive if all
/// of its workers are stuck.
pub(crate) fn add_checks(
    checks: &Checks,
    controller: &Arc<dyn AnyController>,
    stuck_after: Duration,
    has_webhooks: bool,
) {
    let name = format!("controller/{}", controller.name());
    let ready = Arc::clone(controller);
    checks.add(Probe::Ready, &name, move || {
        std::future::ready(match ready.trouble() {
            None => Finding::Ok(None),
            // The API server must be able to call this replica, see `State::start`.
            Some(trouble) if has_webhooks => Finding::Ok(Some(trouble)),
            Some(trouble) => Finding::Failed(trouble),
        })
    });
    let live = Arc::clone(controller);
    checks.add(Probe::Live, &name, move || {
        std::future::ready(match live.all_busy_for() {
            Some(busy) if busy > stuck_after => Finding::Failed(format!(
                "all workers have been busy with one object each for {} s: see the log for which, \
                 and give the controller a timeout",
                busy.as_secs()
            )),
            _ => Finding::Ok(None),
        })
    });
}
