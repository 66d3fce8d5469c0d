//! A whole operator: every `Page` becomes a `ConfigMap` with its text as HTML, and stays one.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use windlass::prelude::*;
use windlass::reconciler::{install_definition, set_owner};

/// What users write.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Page", namespaced)]
struct PageSpec {
    text: String,
}

/// What is done for each of them.
struct Publisher;

impl Reconcile<Page> for Publisher {
    async fn reconcile(&self, page: Arc<Page>, cx: &Context) -> Result<Action, Error> {
        let data = Some([("index.html".into(), format!("<p>{}</p>", page.spec.text))].into());
        let mut map = ConfigMap { data, ..ConfigMap::default() };
        map.metadata.name = Some(page.name_any());
        map.metadata.namespace = page.namespace();
        set_owner(&mut map, &*page)?; // it goes with its page, and a change of it leads back here
        cx.live::<ConfigMap>().apply(&map).await?;
        cx.normal(&*page, "Published", "the page is a ConfigMap");
        println!("{} is published", cx.key());
        Ok(Action::Done)
    }
}

/// On the cluster of `--kubeconfig FILE`, or on an API server in this process, with a page to begin with.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let kubeconfig = std::env::args().skip_while(|arg| arg != "--kubeconfig").nth(1);
    let client = if let Some(path) = &kubeconfig {
        let (file, options) = (Kubeconfig::read_from(path)?, KubeConfigOptions::default());
        ClientStack::new().connect(Config::from_custom_kubeconfig(file, &options).await?)?
    } else {
        ClientStack::new().around(windlass_apiserver::ApiServer::new().service(), "default")
    };
    install_definition(&client, &Page::crd()).await?;
    if kubeconfig.is_none() {
        let hello = Page::new("hello", PageSpec { text: "Hello!".into() });
        Api::default_namespaced(client.clone()).create(&PostParams::default(), &hello).await?;
    }
    let factory = SharedInformerFactory::new(client);
    let controller = Controller::of(Watch::<Page>::new())
        .owns(Watch::<ConfigMap>::new())
        .build(&factory, Publisher)?;
    Ok(controller.run(CancellationToken::new()).await?) // until Ctrl-C
}
