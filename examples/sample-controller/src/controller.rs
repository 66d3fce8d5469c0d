//! The controller: what is done for a Foo, and what leads to a run of it.
//!
//! The place of `controller.go` of the original, whose informers, queue, workers and retries are
//! the framework's here. What is left of it is `syncHandler` ([`SampleController::reconcile`]) and
//! `NewController` ([`controller`]).
//!
//! Invariants: a Deployment that is not this Foo's is never written to; one that is loses nothing
//! by a write, since only what changed is sent, with the version that it was seen at.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use serde_json::json;
use windlass::indexer::ObjectKey;
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::{
    Action, Controller, Error, Predicate, Reconcile, RunContext, Watch, is_controlled_by, set_owner,
};
use windlass::workqueue::{Exponential, MaxOf, TokenBucket};

use crate::foo::{Foo, FooStatus};

/// The controller's name: of its queue, in its logs, and as whom it writes.
pub const NAME: &str = "sample-controller";

/// The reason of the event of a Foo that is as it should be.
pub const SYNCED: &str = "Synced";

/// The reason of the event of a Foo whose Deployment is somebody else's.
pub const ERR_RESOURCE_EXISTS: &str = "ErrResourceExists";

/// What the event of a Foo that is as it should be says.
const MESSAGE_SYNCED: &str = "Foo synced successfully";

/// How often every Foo is looked at again, though nothing happened.
const RESYNC: Duration = Duration::from_secs(30);

/// How many Foos are worked on at once.
const WORKERS: usize = 2;

/// How long a Foo that failed waits: longer each time.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));

/// How many retries of all Foos there may be a second, and how many at once.
const RETRIES: (f64, u32) = (50.0, 300);

/// Makes a Deployment for every Foo, and keeps it as the Foo says.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleController;

/// The controller with its sources, on the informers of `factory`.
///
/// # Errors
/// If somebody else has asked `factory` for other informers of the same types.
pub fn controller(factory: &SharedInformerFactory) -> Result<Controller<Foo>> {
    let limiter = MaxOf::new(vec![
        Box::new(Exponential::new(BACKOFF.0, BACKOFF.1)?),
        Box::new(TokenBucket::new(RETRIES.0, RETRIES.1)?),
    ])?;
    let foos = Watch::<Foo>::new().options(|informer| informer.resync(RESYNC));
    // A resync of Deployments would lead to the same Foos once more.
    let deployments = Watch::<Deployment>::new().when(Predicate::version_changed());
    let controller = Controller::named(NAME, foos)
        .owns(deployments)
        .workers(WORKERS)
        .limiter(limiter)
        .build(factory, SampleController)?;
    Ok(controller)
}

impl Reconcile<Foo> for SampleController {
    async fn reconcile(&self, foo: Arc<Foo>, cx: &RunContext) -> Result<Action, Error> {
        if foo.spec.deployment_name.is_empty() {
            // No error, since no retry helps: the next run comes when somebody edits it.
            tracing::error!(foo = %cx.key(), "Deployment name missing from object reference");
            return Ok(Action::done());
        }
        let deployment = find_or_create(&foo, cx).await?;
        if !is_controlled_by(&deployment.metadata, &*foo) {
            let message = exists(&foo.spec.deployment_name);
            cx.event(&foo).warning(ERR_RESOURCE_EXISTS, &message);
            return Err(Error::msg(message));
        }
        let deployment = scale(&foo, deployment, cx).await?;
        update_status(&foo, &deployment, cx).await?;
        cx.event(&foo).normal(SYNCED, MESSAGE_SYNCED);
        tracing::info!(foo = %cx.key(), "Successfully synced");
        Ok(Action::done())
    }

    async fn absent(&self, key: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        // Its Deployment goes with it, by its owner reference.
        tracing::info!(foo = %key, "Foo in the queue no longer exists");
        Ok(Action::done())
    }
}

/// The Deployment that a Foo names, whosever it is; a new one if there is none.
async fn find_or_create(foo: &Foo, cx: &RunContext) -> Result<Arc<Deployment>, Error> {
    let namespace = foo.namespace().unwrap_or_default();
    let key = (&*namespace, &*foo.spec.deployment_name);
    if let Some(deployment) = cx.get::<Deployment>(key)? {
        return Ok(deployment);
    }
    let mut deployment = new_deployment(foo);
    // By this it is found again, leads back to the Foo when it changes, and goes with it.
    set_owner(&mut deployment, foo)?;
    // The cache may be behind. Then this is refused, and the next run sees what is there. If the
    // Foo is being deleted, this returns an error that ends the run and is no failure.
    Ok(Arc::new(cx.live::<Deployment>().create(&deployment).await?))
}

/// The Deployment with as many replicas as the Foo asks for, if it asks for any.
async fn scale(
    foo: &Foo,
    deployment: Arc<Deployment>,
    cx: &RunContext,
) -> Result<Arc<Deployment>, Error> {
    let current = deployment.spec.replicas;
    let Some(wanted) = foo.spec.replicas.filter(|wanted| current != Some(*wanted)) else {
        return Ok(deployment);
    };
    tracing::debug!(foo = %cx.key(), ?current, wanted, "Update deployment resource");
    let mut scaled = Deployment::clone(&deployment);
    scaled.spec.replicas = Some(wanted);
    Ok(Arc::new(cx.live::<Deployment>().update(&*deployment, &scaled).await?))
}

/// Tells by the Foo's status how many replicas are available. If it says so already, nothing is
/// sent.
async fn update_status(foo: &Foo, deployment: &Deployment, cx: &RunContext) -> Result<(), Error> {
    let status = deployment.status.as_ref();
    let available_replicas = status.and_then(|status| status.available_replicas).unwrap_or(0);
    let updated = Foo { status: Some(FooStatus { available_replicas }), ..foo.clone() };
    cx.live::<Foo>().update_status(foo, &updated).await?;
    Ok(())
}

/// What a Foo is told whose Deployment is somebody else's.
fn exists(deployment: &str) -> String {
    format!("Resource {deployment:?} already exists and is not managed by Foo")
}

/// The Deployment that a Foo asks for, without an owner.
///
/// # Panics
/// Never: the object below is one.
pub fn new_deployment(foo: &Foo) -> Deployment {
    let labels = json!({"app": "nginx", "controller": foo.name_any()});
    serde_json::from_value(json!({
        "metadata": {"name": foo.spec.deployment_name, "namespace": foo.namespace()},
        "spec": {
            "replicas": foo.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    }))
    .expect("a Deployment must be one")
}
