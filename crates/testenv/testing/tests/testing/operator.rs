//! A small operator to test: a `ConfigMap` for every `Page`, with failures on request.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::prelude::*;
use windlass::reconciler::ControllerBuilder;
use windlass_testing::TestCluster;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Page", namespaced)]
pub(crate) struct PageSpec {
    pub(crate) text: String,
}

pub(crate) struct Publisher;

impl Reconcile<Page> for Publisher {
    async fn reconcile(&self, page: Arc<Page>, cx: &RunContext) -> Result<Action, Error> {
        match page.spec.text.as_str() {
            "fails" => return Err(Error::msg("the printer is on fire")),
            "fails for good" => return Err(Error::msg("no such paper").terminal()),
            "again in a minute" => return Ok(Action::requeue_after(Duration::from_mins(1))),
            _ => {}
        }
        let text = match page.spec.text.as_str() {
            // Every run writes a different value, and so triggers another run.
            "always new" => cx.run_id().to_string(),
            text => text.to_owned(),
        };
        let data = [("index.html".to_owned(), format!("<p>{text}</p>"))].into();
        let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        map.metadata.name = Some(page.name_any());
        map.metadata.namespace = page.namespace();
        cx.live().apply_owned(map, &*page).await?;
        cx.event(&*page).normal("Published", "the page is a ConfigMap");
        Ok(Action::done())
    }
}

pub(crate) fn pages() -> ControllerBuilder<Page> {
    Controller::named("page", Watch::<Page>::new()).owns(Watch::<ConfigMap>::new())
}

pub(crate) fn page(name: &str, text: &str) -> Page {
    Page::new(name, PageSpec { text: text.to_owned() })
}

/// Installs the definition of pages.
pub(crate) async fn with_pages(cluster: TestCluster) -> TestCluster {
    cluster.install(&Page::crd()).await;
    cluster
}

/// Returns the message of the panic that fails the test.
pub(crate) async fn failure<T>(body: impl Future<Output = T>) -> String {
    let Err(panic) = AssertUnwindSafe(body).catch_unwind().await else {
        panic!("the test did not fail");
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).expect("a text")
}
