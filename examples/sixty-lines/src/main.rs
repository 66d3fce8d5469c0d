//! A whole operator: it keeps a `ConfigMap` with the text as HTML for every `Page`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::prelude::*;
use windlass::reconciler::{install_crd, stop_on_signal};

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
        Ok(Action::Done)
    }
}

/// Runs on the cluster of a kubeconfig, or on an API server in this process that has one page.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("warn").init();
    let kubeconfig = std::env::args().nth(1);
    let client = if let Some(path) = &kubeconfig {
        let (file, options) = (Kubeconfig::read_from(path)?, KubeConfigOptions::default());
        ClientStack::new().connect(Config::from_custom_kubeconfig(file, &options).await?)?
    } else {
        ClientStack::new().around(windlass_apiserver::ApiServer::new().service(), "default")
    };
    install_crd(&client, &Page::crd()).await?;
    if kubeconfig.is_none() {
        let hello = Page::new("hello", PageSpec { text: "Hello!".into() });
        Api::default_namespaced(client.clone()).create(&PostParams::default(), &hello).await?;
    }
    let factory = SharedInformerFactory::new(client);
    let controller = Controller::of(Watch::<Page>::new())
        .owns(Watch::<ConfigMap>::new())
        .build(&factory, Publisher)?;
    Ok(controller.run(stop_on_signal()?).await?)
}
