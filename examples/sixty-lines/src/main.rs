//! A whole operator: every `Page` becomes a `ConfigMap` with its text as HTML, and stays one.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, CustomResource, CustomResourceExt as _, ResourceExt as _};
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
        let mut published = ConfigMap::default();
        published.metadata.name = Some(page.name_any());
        published.metadata.namespace = page.namespace();
        let html = format!("<p>{}</p>", page.spec.text);
        published.data = Some([("index.html".to_owned(), html)].into());
        set_owner(&mut published, &*page)?; // it goes with its page, and leads back to it when it changes
        cx.live::<ConfigMap>().apply(&published).await?;
        cx.normal(&*page, "Published", "the page is a ConfigMap");
        println!("{} is published, because {}", cx.key(), cx.causes()[0]);
        Ok(Action::Done)
    }
}

/// With `--kubeconfig FILE` on that cluster, otherwise on an API server in this process, with a page to begin with.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let kubeconfig = std::env::args().skip_while(|arg| arg != "--kubeconfig").nth(1);
    let client = match &kubeconfig {
        Some(path) => {
            let config = Kubeconfig::read_from(path)?;
            ClientStack::new().connect(Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)?
        }
        None => ClientStack::new().around(windlass_apiserver::ApiServer::new().service(), "default"),
    };
    install_definition(&client, &Page::crd()).await?;
    if kubeconfig.is_none() {
        let page = Page::new("hello", PageSpec { text: "Hello".to_owned() });
        Api::default_namespaced(client.clone()).create(&Default::default(), &page).await?;
    }
    let factory = SharedInformerFactory::new(client);
    let controller =
        Controller::of(Watch::<Page>::new()).owns(Watch::<ConfigMap>::new()).build(&factory, Publisher)?;
    let stop = CancellationToken::new();
    tokio::select! {
        ended = controller.run(stop) => Ok(ended?),
        pressed = tokio::signal::ctrl_c() => Ok(pressed?),
    }
}
