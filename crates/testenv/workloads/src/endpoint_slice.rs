//! The controller of endpoint slices: publishes the addresses of a service's pods.
//!
//! One run compares the existing slices with the [`desired`] ones, and writes the difference.
//! Slices have generated names, so a run trusts the cache only if it shows the writes of the
//! previous run.

mod desired;
mod endpoint;

use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_indexer::{Cached, Lister, ObjectKey};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, BuildError, Controller, Error, Reconcile, RunContext, Watch};

use crate::adoption::{controller, trusted_candidates};
use crate::objects::{EndpointSlice, Node, Pod, Service};
use crate::pod::node;
use crate::replica_set::indexed;
use desired::{Located, MANAGED_BY, MANAGER, changes};
use endpoint::is_published;

/// Reconciles the endpoint slices of services.
pub(crate) struct EndpointSlices {
    slices: Lister<EndpointSlice>,
    pods: Lister<Pod>,
    /// `None` if there are no Node objects.
    nodes: Option<Lister<Node>>,
}

/// Builds the controller with informers from `factory`.
///
/// # Errors
/// If its informer options conflict with those that others have requested.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    workers: usize,
    has_nodes: bool,
) -> Result<Controller<Service>, BuildError> {
    const NAME: &str = "endpointslice";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let slices = factory.informer_with::<EndpointSlice>(indexed).map_err(failed)?;
    let slices = slices.lister().clone();
    let pods = factory.lister::<Pod>().map_err(failed)?;
    let nodes = has_nodes.then(|| factory.lister::<Node>()).transpose().map_err(failed)?;
    let services = factory.lister::<Service>().map_err(failed)?;
    let mut builder = Controller::named(NAME, Watch::<Service>::new())
        .workers(workers)
        .owns(Watch::<EndpointSlice>::new())
        .watches(Watch::<Pod>::new(), move |pod| services_of(&services, pod));
    if has_nodes {
        builder = builder.reads(Watch::<Node>::new());
    }
    builder.build(factory, EndpointSlices { slices, pods, nodes })
}

/// Returns the services that select a pod.
fn services_of(services: &Lister<Service>, pod: &Cached<Pod>) -> Vec<ObjectKey> {
    let services = services.in_namespace(pod.head().namespace().unwrap_or_default());
    // A service that cannot be decoded is reported when the service itself is reconciled.
    let selecting =
        services.iter().filter(|one| one.get().is_ok_and(|service| selects(&service, pod)));
    selecting.map(|service| service.key().clone()).collect()
}

/// The endpoints of a service without a selector are not ours to write.
fn selects(service: &Service, pod: &Cached<Pod>) -> bool {
    let labels = pod.head().labels();
    let selector = &service.spec.selector;
    !selector.is_empty()
        && selector.iter().all(|(key, value)| labels.get(key) == Some(value.as_str()))
}

impl Reconcile<Service> for EndpointSlices {
    async fn reconcile(&self, service: Arc<Service>, cx: &RunContext) -> Result<Action, Error> {
        let is_name_only = service.spec.kind.as_deref() == Some("ExternalName");
        if service.spec.selector.is_empty()
            || is_name_only
            || service.metadata.deletion_timestamp.is_some()
        {
            return Ok(Action::done());
        }
        let mut present = trusted_candidates(cx, &*service, &self.slices).await?;
        present.retain(|slice| is_managed(slice, &service));
        let changes = changes(&service, &self.endpoints(&service, cx)?, &present)?;
        for slice in &changes.create {
            cx.live().create(slice).await?;
        }
        for (old, new) in &changes.update {
            cx.live().update(&**old, new).await?;
        }
        if !changes.delete.is_empty() {
            cx.confirm(&*service).await?;
        }
        for slice in &changes.delete {
            cx.live().delete(&**slice).await?;
        }
        Ok(Action::done())
    }
}

impl EndpointSlices {
    /// Returns the pods of the service that have an address and have not ended, with their nodes.
    fn endpoints(&self, service: &Service, cx: &RunContext) -> Result<Vec<Located>, Error> {
        let mut found = Vec::new();
        for pod in &self.pods.in_namespace(cx.key().namespace().unwrap_or_default()) {
            if !selects(service, &pod) {
                continue;
            }
            let pod = pod.get()?;
            let Some(name) = node(&pod).filter(|_| is_published(&pod)) else { continue };
            let node = match &self.nodes {
                None => None,
                Some(nodes) => {
                    let node = nodes.get(&ObjectKey::cluster(name))?;
                    // Upstream does not publish pods of deleted nodes, unless the service publishes
                    // unready ones.
                    if node.is_none() && !service.spec.publish_not_ready_addresses {
                        continue;
                    }
                    node
                }
            };
            found.push((pod, node));
        }
        found.sort_by_cached_key(|(pod, _)| pod.name_any());
        Ok(found)
    }
}

/// Returns whether we created the slice, for this very service.
fn is_managed(slice: &EndpointSlice, service: &Service) -> bool {
    let owner = controller(&slice.metadata).map(|owner| &owner.uid);
    owner.is_some()
        && owner == service.metadata.uid.as_ref()
        && slice.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
}
