//! What is done for a workload, and when.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass::prelude::*;
use windlass::reconciler::{ControllerBuilder, InPlan};

use crate::annotation::{HASH, asks_for_restarts};
use crate::configuration::{Configuration, Source};
use crate::index::{ByConfigMap, BySecret};
use crate::reference::{Kind, references};
use crate::throttle::Throttle;
use crate::workload::Workload;

/// The reconciler, of all kinds of workloads.
#[derive(Clone, Debug)]
pub struct Restarter {
    throttle: Arc<Throttle>,
}

/// What the reconciler is run for: changes of the workload that are not only in its status, and
/// changes of the objects that it refers to.
///
/// No change is missed. The index is asked when the event of an object arrives. If the workload is
/// not in the cache at that moment, its own event is still to come, and that run reads the object.
pub fn controller<W: Workload>() -> ControllerBuilder<W> {
    let is_relevant = Predicate::generation_changed().or(Predicate::annotations_changed());
    let workloads = Watch::<W>::new().when(is_relevant);
    Controller::named(workloads.resource().kind().to_ascii_lowercase(), workloads)
        .refers_to(Watch::<ConfigMap>::new().when(Predicate::version_changed()), ByConfigMap)
        .refers_to(Watch::<Secret>::new().when(Predicate::version_changed()), BySecret)
        .in_plan(InPlan::Run)
}

impl Restarter {
    /// A reconciler that is throttled together with all others that have this throttle.
    pub fn new(throttle: Arc<Throttle>) -> Self {
        Self { throttle }
    }

    fn finish(&self, cx: &RunContext) -> Action {
        self.throttle.release(cx.controller(), cx.key());
        Action::done()
    }
}

impl<W: Workload> Reconcile<W> for Restarter {
    async fn reconcile(&self, workload: Arc<W>, cx: &RunContext) -> Result<Action, Error> {
        let (meta, annotations) = (workload.meta(), workload.annotations());
        // The hash stays at a workload that no longer asks: to remove it would be a restart.
        if meta.deletion_timestamp.is_some() || !asks_for_restarts(annotations) {
            return Ok(self.finish(cx));
        }
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let references = references(namespace, annotations, workload.template());
        let hash = match Configuration::read(&references, |kind, key| get(cx, kind, key))? {
            Configuration::Complete { hash } => hash,
            Configuration::Incomplete { missing } => {
                // The pods could not start. The creation of what is missing leads to another run.
                let note =
                    format!("not restarted, because of what is missing: {}", missing.join(", "));
                cx.event(&workload).warning("ConfigMissing", note);
                return Ok(self.finish(cx));
            }
        };
        if workload.hash() == Some(&*hash) {
            return Ok(self.finish(cx));
        }
        // A plan shows all restarts, also those that would have to wait.
        if !cx.is_plan() {
            let wait = self.throttle.wait(cx.controller(), cx.key(), Instant::now());
            if !wait.is_zero() {
                return Ok(Action::requeue_after(wait));
            }
        }
        let mut new = W::clone(&workload);
        let template = new.template_mut().metadata.get_or_insert_default();
        template.annotations.get_or_insert_default().insert(HASH.into(), hash.clone());
        // If somebody has written the workload since it was cached, this fails and is tried again.
        cx.live().update(&workload, &new).await?;
        cx.event(&workload)
            .normal("ConfigChanged", format!("the configuration has the hash {hash}"));
        Ok(self.finish(cx))
    }

    async fn absent(&self, _: &ObjectKey, cx: &RunContext) -> Result<Action, Error> {
        Ok(self.finish(cx))
    }
}

fn get(cx: &RunContext, kind: Kind, key: &ObjectKey) -> Result<Option<Source>, Error> {
    Ok(match kind {
        Kind::ConfigMap => cx.get::<ConfigMap>(key)?.map(Source::ConfigMap),
        Kind::Secret => cx.get::<Secret>(key)?.map(Source::Secret),
    })
}
