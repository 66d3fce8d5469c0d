//! The cluster: an API server with objects that change.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::{MissedTickBehavior, interval};
use windlass_apiserver::ApiServer;
use windlass_informer::ClientStack;

/// Changes come in bursts of a twentieth of a second.
const BURSTS: u32 = 20;

/// How many objects there are, and how often they change.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// How many objects there are
    #[arg(long, default_value_t = 100_000)]
    pub(crate) objects: u32,
    /// How many objects change each second
    #[arg(long, default_value_t = 500)]
    pub(crate) changes: u32,
}

impl Load {
    /// Serves until the input ends.
    pub(crate) async fn run(&self) -> Result<()> {
        let server = ApiServer::new();
        let client = ClientStack::new().around(server.service(), "default");
        let objects: Api<ConfigMap> = Api::default_namespaced(client);
        for number in 0..self.objects {
            objects.create(&PostParams::default(), &object(number)).await?;
        }
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = server.listen(loopback).await.context("cannot listen on loopback")?;
        let kubeconfig = listening.temporary_kubeconfig(None)?;
        println!("{}", kubeconfig.path().display());
        let (mut input, mut nothing) = (tokio::io::stdin(), Vec::new());
        let changed = tokio::select! {
            changed = self.change(&objects) => changed,
            _ = input.read_to_end(&mut nothing) => Ok(()),
        };
        listening.stop().await;
        changed
    }

    /// Changes one object after the other, for ever.
    async fn change(&self, objects: &Api<ConfigMap>) -> Result<()> {
        let mut burst = interval(Duration::from_secs(1) / BURSTS);
        burst.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next = 0_u64;
        loop {
            burst.tick().await;
            for _ in 0..self.changes / BURSTS {
                // Far apart, so that all namespaces and all kinds of outcome take part.
                let name = name(u32::try_from(next * 7_919 % u64::from(self.objects))?);
                next += 1;
                let patch = Patch::Merge(json!({"data": {"change": next.to_string()}}));
                objects.patch(&name, &PatchParams::default(), &patch).await?;
            }
        }
    }
}

fn name(number: u32) -> String {
    format!("settings-{number:06}")
}

fn object(number: u32) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name(number));
    object.data = Some(BTreeMap::from([("number".to_owned(), number.to_string())]));
    object
}
