//! The controller of disruption budgets: computes how many pods of a budget may be evicted. The API
//! server refuses further evictions.
//!
//! [`budget`] decides. This file gathers its input: the pods that a budget selects, and how many
//! their controllers want.

mod budget;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use windlass_indexer::{Cached, Lister, ObjectKey};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, BuildError, Controller, Error, Reconcile, RunContext, Watch};

use crate::adoption::controller;
use crate::clock::Clock;
use crate::objects::{Deployment, DisruptionBudget, Pod, ReplicaSet, StatefulSet};
use budget::{failed, status_of, wanted};

/// Updates the statuses of disruption budgets.
pub(crate) struct DisruptionBudgets {
    pods: Lister<Pod>,
    replica_sets: Lister<ReplicaSet>,
    deployments: Lister<Deployment>,
    stateful_sets: Lister<StatefulSet>,
    clock: Clock,
}

/// Builds the controller with informers from `factory`.
///
/// # Errors
/// If its informer options conflict with those that others have requested.
pub(crate) fn build(
    factory: &SharedInformerFactory,
    workers: usize,
    clock: Clock,
) -> Result<Controller<DisruptionBudget>, BuildError> {
    const NAME: &str = "disruption";
    let failed = |error| BuildError::Informer { controller: NAME.to_owned(), error };
    let reconciler = DisruptionBudgets {
        pods: factory.lister::<Pod>().map_err(failed)?,
        replica_sets: factory.lister::<ReplicaSet>().map_err(failed)?,
        deployments: factory.lister::<Deployment>().map_err(failed)?,
        stateful_sets: factory.lister::<StatefulSet>().map_err(failed)?,
        clock,
    };
    let budgets = factory.lister::<DisruptionBudget>().map_err(failed)?;
    Controller::named(NAME, Watch::<DisruptionBudget>::new())
        .workers(workers)
        .watches(Watch::<Pod>::new(), move |pod| budgets_of(&budgets, pod))
        .reads(Watch::<ReplicaSet>::new())
        .reads(Watch::<Deployment>::new())
        .reads(Watch::<StatefulSet>::new())
        .build(factory, reconciler)
}

/// Returns the budgets that select a pod.
fn budgets_of(budgets: &Lister<DisruptionBudget>, pod: &Cached<Pod>) -> Vec<ObjectKey> {
    let budgets = budgets.in_namespace(pod.head().namespace().unwrap_or_default());
    // A budget that cannot be decoded is reported when the budget itself is reconciled.
    let selecting = budgets.iter().filter(|one| {
        one.get()
            .is_ok_and(|budget| selector(&budget).is_ok_and(|labels| selects(labels.as_ref(), pod)))
    });
    selecting.map(|budget| budget.key().clone()).collect()
}

/// Returns `None` if the budget has no selector.
fn selector(budget: &DisruptionBudget) -> Result<Option<Selector>, Error> {
    let selector = budget.spec.selector.clone().map(Selector::try_from).transpose();
    selector.map_err(|error| Error::from(error).terminal())
}

fn selects(selector: Option<&Selector>, pod: &Cached<Pod>) -> bool {
    let labels: BTreeMap<String, String> =
        pod.head().labels().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    selector.is_some_and(|selector| selector.matches(&labels))
}

impl Reconcile<DisruptionBudget> for DisruptionBudgets {
    async fn reconcile(
        &self,
        budget: Arc<DisruptionBudget>,
        cx: &RunContext,
    ) -> Result<Action, Error> {
        if budget.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let now = self.clock.now();
        let pods = self.pods_of(&budget)?;
        let mut new = DisruptionBudget::clone(&budget);
        let wanted = match wanted(&budget.spec, pods.len(), || self.scale(&pods)) {
            Ok(wanted) => wanted,
            Err(error) => {
                new.status = failed(&budget, &error.to_string(), now);
                cx.live().update_status(&*budget, &new).await?;
                return Err(error);
            }
        };
        let (status, again) = status_of(&budget, &pods, wanted, now);
        new.status = status;
        cx.live().update_status(&*budget, &new).await?;
        Ok(again.map_or(Action::done(), Action::requeue_after))
    }
}

impl DisruptionBudgets {
    fn pods_of(&self, budget: &DisruptionBudget) -> Result<Vec<Arc<Pod>>, Error> {
        let selector = selector(budget)?;
        let pods = self.pods.in_namespace(&budget.namespace().unwrap_or_default());
        let selected = pods.iter().filter(|pod| selects(selector.as_ref(), pod));
        Ok(selected.map(|pod| pod.get()).collect::<Result<_, _>>()?)
    }

    /// Returns how many pods the controllers of these pods want, in total.
    fn scale(&self, pods: &[Arc<Pod>]) -> Result<i32, Error> {
        let mut scales = BTreeMap::new();
        for pod in pods {
            // A pod without a controller is not counted, as upstream.
            let Some(owner) = controller(&pod.metadata) else { continue };
            if !scales.contains_key(&owner.uid) {
                let (uid, scale) = self.scale_of(pod, &owner.kind, &owner.name)?;
                scales.insert(owner.uid.clone(), (uid, scale));
            }
        }
        // Several replica sets of one deployment count once, with the deployment's number.
        let scales: BTreeMap<String, i32> = scales.into_values().collect();
        Ok(scales.into_values().fold(0, i32::saturating_add))
    }

    /// Returns the uid of the controller that wants the pods, and how many it wants.
    fn scale_of(&self, pod: &Pod, kind: &str, name: &str) -> Result<(String, i32), Error> {
        let namespace = pod.namespace().unwrap_or_default();
        let key = ObjectKey::namespaced(&namespace, name);
        let unknown = || {
            let name = pod.name_any();
            Error::msg(format!("found no controller with a scale for pod {namespace}/{name}"))
        };
        if kind == "StatefulSet" {
            let set = self.stateful_sets.get(&key)?.ok_or_else(unknown)?;
            return Ok((set.uid().unwrap_or_default(), set.replicas()));
        }
        if kind != "ReplicaSet" {
            return Err(unknown());
        }
        let set = self.replica_sets.get(&key)?.ok_or_else(unknown)?;
        let owner = controller(&set.metadata).filter(|owner| owner.kind == "Deployment");
        let Some(owner) = owner else {
            return Ok((set.uid().unwrap_or_default(), set.replicas()));
        };
        let key = ObjectKey::namespaced(&namespace, &owner.name);
        let deployment = self.deployments.get(&key)?.ok_or_else(unknown)?;
        let replicas = deployment.spec.replicas.unwrap_or(1);
        Ok((deployment.uid().unwrap_or_default(), replicas))
    }
}
