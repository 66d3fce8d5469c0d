//! A whole operator: every `Page` becomes a `ConfigMap` with its text as HTML, and stays one.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{
    Api, Config, CustomResource, CustomResourceExt as _, ResourceExt as _, api::PostParams,
};
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
        let html = format!("<p>{}</p>", page.spec.text);
        let mut map =
            ConfigMap { data: Some([("index.html".into(), html)].into()), ..ConfigMap::default() };
        map.metadata.name = Some(page.name_any());
        map.metadata.namespace = page.namespace();
        set_owner(&mut map, &*page)?; // it goes with its page, and a change of it leads back here
        cx.live::<ConfigMap>().apply(&map).await?;
        cx.normal(&*page, "Published", "the page is a ConfigMap");
        println!("{} is published, because: {}", cx.key(), cx.causes()[0]);
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
    let pages = Controller::of(Watch::<Page>::new()).owns(Watch::<ConfigMap>::new());
    tokio::select! {
        ended = pages.build(&factory, Publisher)?.run(CancellationToken::new()) => Ok(ended?),
        pressed = tokio::signal::ctrl_c() => Ok(pressed?),
    }
}
