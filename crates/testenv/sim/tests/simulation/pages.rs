//! An operator that keeps a `ConfigMap` for each page, in several ways, most of them wrong.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::manager::Manager;
use windlass::prelude::*;
use windlass_sim::Simulation;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
pub(crate) struct PageSpec {
    pub(crate) text: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct PageStatus {
    pub(crate) published: Option<bool>,
}

/// How the operator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In order: server-side apply of an owned object.
    Apply,
    /// Creates the child with a generated name, and remembers it in an annotation.
    GenerateName,
    /// Writes into the status that the child is there, and makes it then.
    StatusFirst,
    Panic,
}

pub(crate) struct Pages(pub(crate) Way);

impl Reconcile<Page> for Pages {
    async fn reconcile(&self, page: Arc<Page>, cx: &RunContext) -> Result<Action, Error> {
        match self.0 {
            Way::Apply => {
                cx.live().apply_owned(child(&page), &*page).await?;
            }
            Way::GenerateName => generate_name(&page, cx).await?,
            Way::StatusFirst => status_first(&page, cx).await?,
            Way::Panic => panic!("as planned"),
        }
        Ok(Action::done())
    }
}

fn child(page: &Page) -> ConfigMap {
    let data = [("index.html".to_owned(), page.spec.text.clone())].into();
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(page.name_any());
    map.metadata.namespace = page.namespace();
    map
}

/// An answer that is lost is an error, and the retry does not know that there is a child: its name
/// is in no status yet.
async fn generate_name(page: &Page, cx: &RunContext) -> Result<(), Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced(cx.client().clone());
    let mut map = child(page);
    if let Some(made) = page.annotations().get("made") {
        let patch = json!({"data": map.data});
        maps.patch(made, &PatchParams::default(), &Patch::Merge(patch)).await?;
        return Ok(());
    }
    map.metadata.name = None;
    map.metadata.generate_name = Some(format!("{}-", page.name_any()));
    map.metadata.owner_references = page.controller_owner_ref(&()).map(|owner| vec![owner]);
    let made = maps.create(&PostParams::default(), &map).await?;
    let pages: Api<Page> = Api::default_namespaced(cx.client().clone());
    let patch = json!({"metadata": {"annotations": {"made": made.name_any()}}});
    pages.patch(&page.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn status_first(page: &Page, cx: &RunContext) -> Result<(), Error> {
    if page.status.as_ref().and_then(|status| status.published) == Some(true) {
        return Ok(());
    }
    let pages: Api<Page> = Api::default_namespaced(cx.client().clone());
    let patch = Patch::Merge(json!({"status": {"published": true}}));
    pages.patch_status(&page.name_any(), &PatchParams::default(), &patch).await?;
    cx.live().apply_owned(child(page), page).await?;
    Ok(())
}

pub(crate) fn page(name: &str, text: &str) -> Page {
    Page::new(name, PageSpec { text: text.to_owned() })
}

pub(crate) fn simulation(way: Way) -> Simulation {
    Simulation::new(move |process| {
        let mut options = process.options();
        options.leader_elect = true;
        let controller =
            Controller::named("pages", Watch::<Page>::new()).owns(Watch::<ConfigMap>::new());
        Manager::new(options).leader_election("pages").controller(controller, Pages(way))
    })
    .install(Page::crd())
    .step("create", |user| user.create(page("hello", "Hi")))
    .step("change", |user| user.patch::<Page>("hello", json!({"spec": {"text": "Hello"}})))
}
