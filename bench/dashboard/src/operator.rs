//! The operator: runs that end in every way.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_manager::{Manager, Options};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};

struct Settings;

impl Reconcile<ConfigMap> for Settings {
    async fn reconcile(&self, object: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        let number = object.data.as_ref().and_then(|data| data.get("number")?.parse::<u64>().ok());
        tokio::time::sleep(Duration::from_millis(2)).await;
        match number.unwrap_or_default() % 1_000 {
            0 => Err(Error::msg("spec.color is not one of red, green and blue").terminal()),
            1 => Err(Error::msg("the registry answered 503: try again later")),
            number if number % 20 == 2 => Ok(Action::requeue_after(Duration::from_mins(10))),
            _ => Ok(Action::done()),
        }
    }
}

/// The manager of the operator.
pub(crate) fn manager(options: Options) -> Manager {
    let controller = Controller::named("settings", Watch::<ConfigMap>::new()).workers(16);
    Manager::new(options).controller(controller, Settings)
}
