//! What is done for each Shop, and what its status says.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass::prelude::*;
use windlass::reconciler::{Class, ConditionType, ControllerBuilder, InPlan, set_conditions};

use super::{Shop, children};

/// The name of the controller: in logs, in metrics, and in a label on what it makes.
pub(crate) const CONTROLLER: &str = "shop";

/// Whether everything is made, and works.
const READY: ConditionType = ConditionType::new("Ready");

/// How often a blocked Shop is tried again. What is in its way belongs to somebody else, and is
/// not watched.
const BLOCKED_FOR: Duration = Duration::from_secs(30);

/// The reconciler. What it needs besides the cluster becomes a field: a client of another service,
/// for example.
#[derive(Clone, Debug)]
pub struct ShopReconciler;

/// What the reconciler runs for: Shops, and changes to the objects that they own.
pub fn controller() -> ControllerBuilder<Shop> {
    let shops = Watch::<Shop>::new().when(Predicate::generation_changed());
    children::watch(Controller::named(CONTROLLER, shops))
        .pausable()
        // It changes nothing but through its context, so `--plan` can run it.
        .in_plan(InPlan::Run)
}

impl Reconcile<Shop> for ShopReconciler {
    async fn reconcile(&self, shop: Arc<Shop>, cx: &RunContext) -> Result<Action, Error> {
        match make(&shop, cx).await {
            Ok(ready) => {
                write_status(&shop, ready, cx).await?;
                Ok(Action::done())
            }
            // People can do something about these, so they are told.
            Err(error) if matches!(error.class(), Class::Other | Class::Forbidden) => {
                cx.event(&*shop).warning("Blocked", error.to_string());
                write_status(&shop, READY.no("Blocked", error.to_string()), cx).await?;
                Err(error.retry_after(BLOCKED_FOR))
            }
            // The server is busy, or somebody wrote or deleted it meanwhile: the next run will do.
            Err(error) => Err(error),
        }
    }
}

/// Makes what a Shop should have, and deletes what it had and should not have any more. Nothing
/// is sent for objects that are unchanged since they were applied. Returns whether all are ready.
async fn make(shop: &Shop, cx: &RunContext) -> Result<Condition, Error> {
    let made = children::of(shop, cx).prune().await?;
    if made.has_changed() {
        cx.event(shop).normal("Applied", made.to_string());
    }
    Ok(READY.yes("Applied", "everything is as it should be"))
}

/// Writes the status, unless it says all of this already.
async fn write_status(shop: &Shop, ready: Condition, cx: &RunContext) -> Result<(), Error> {
    let mut new = shop.clone();
    let status = new.status.get_or_insert_default();
    status.observed_generation = shop.metadata.generation;
    set_conditions(&mut status.conditions, shop.metadata.generation, [ready]);
    cx.live().update_status(shop, &new).await?;
    Ok(())
}
