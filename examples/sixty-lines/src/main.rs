//! A whole operator: it keeps a `ConfigMap` with the text as HTML for every `Page`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::prelude::*;

/// The custom resource.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Page", namespaced)]
struct PageSpec {
    text: String,
}

/// The reconciler.
struct Publisher;

impl Reconcile<Page> for Publisher {
    async fn reconcile(&self, page: Arc<Page>, cx: &RunContext) -> Result<Action, Error> {
        let data = Some([("index.html".into(), format!("<p>{}</p>", page.spec.text))].into());
        let mut map = ConfigMap { data, ..ConfigMap::default() };
        map.metadata.name = Some(page.name_any());
        map.metadata.namespace = page.namespace();
        // The ConfigMap is deleted with its page; a change to it runs this again. If it belongs to
        // somebody else, this returns an error.
        cx.live().apply_owned(map, &*page).await?;
        cx.event(&*page).normal("Published", "the page is a ConfigMap");
        println!("{} is published", cx.key());
        Ok(Action::done())
    }
}

/// Runs on the cluster of `--kubeconfig`, or on an API server in this process that has one page.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let is_demo = options.kubeconfig.is_none();
    let pages = Controller::named("page", Watch::<Page>::new()).owns(Watch::<ConfigMap>::new());
    let mut manager = Manager::new(options).install(Page::crd()).controller(pages, Publisher);
    if is_demo {
        let server = windlass_apiserver::ApiServer::new();
        manager = manager.connect(move |stack| Ok(stack.around(server.service(), "default")));
        manager = manager.task("hello", async |cx: TaskContext| {
            let hello = Page::new("hello", PageSpec { text: "Hello!".into() });
            Api::default_namespaced(cx.client)
                .create(&PostParams::default(), &hello)
                .await
                .map(drop)
        });
    }
    Ok(manager.run().await?)
}
