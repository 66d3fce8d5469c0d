//! What is done for each Customer, and what its status says.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::prelude::*;
use windlass::reconciler::{Class, ConditionType, ControllerBuilder, InPlan, set_conditions};

use super::{Customer, children};

/// The name of the controller: in logs, in metrics, and in a label on what it makes.
pub(crate) const CONTROLLER: &str = "customer";

/// Whether everything is made, and works.
const READY: ConditionType = ConditionType::new("Ready");

/// How often a blocked Customer is tried again. What is in its way belongs to somebody else, and is
/// not watched.
const BLOCKED_FOR: Duration = Duration::from_secs(30);

/// The reconciler. What it needs besides the cluster becomes a field: a client of another service,
/// for example.
#[derive(Clone, Debug)]
pub struct CustomerReconciler;

/// What the reconciler runs for: Customers, and changes to the objects that they own.
pub fn controller() -> ControllerBuilder<Customer> {
    let customers = Watch::<Customer>::new().when(Predicate::generation_changed());
    children::watch(Controller::named(CONTROLLER, customers))
        .pausable()
        // It changes nothing but through its context, so `--plan` can run it.
        .in_plan(InPlan::Run)
}

impl Reconcile<Customer> for CustomerReconciler {
    async fn reconcile(&self, customer: Arc<Customer>, cx: &RunContext) -> Result<Action, Error> {
        match make(&customer, cx).await {
            Ok(ready) => {
                write_status(&customer, ready, cx).await?;
                Ok(Action::done())
            }
            // People can do something about these, so they are told.
            Err(error) if matches!(error.class(), Class::Other | Class::Forbidden) => {
                cx.event(&*customer).warning("Blocked", error.to_string());
                write_status(&customer, READY.no("Blocked", error.to_string()), cx).await?;
                Err(error.retry_after(BLOCKED_FOR))
            }
            // The server is busy, or somebody wrote or deleted it meanwhile: the next run will do.
            Err(error) => Err(error),
        }
    }
}

/// Makes what a Customer should have, and deletes what it had and should not have any more. Nothing
/// is sent for objects that are unchanged since they were applied. Returns whether all are ready.
async fn make(customer: &Customer, cx: &RunContext) -> Result<Condition, Error> {
    let made = children::of(customer, cx).prune().await?;
    if made.has_changed() {
        cx.event(customer).normal("Applied", made.to_string());
    }
    Ok(READY.yes("Applied", "everything is as it should be"))
}

/// Writes the status, unless it says all of this already.
async fn write_status(customer: &Customer, ready: Condition, cx: &RunContext) -> Result<(), Error> {
    let mut new = customer.clone();
    let status = new.status.get_or_insert_default();
    status.observed_generation = customer.metadata.generation;
    set_conditions(&mut status.conditions, customer.metadata.generation, [ready]);
    cx.live().update_status(customer, &new).await?;
    Ok(())
}
