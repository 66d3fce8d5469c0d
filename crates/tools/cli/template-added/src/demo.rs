//! `cargo run`: a cluster in this process, the operator on it, and a Shop. No other cluster is
//! touched.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use kube::api::{Api, PostParams};
use windlass::prelude::*;
use windlass::reconciler::{ConditionType, stop_on_signal};
use windlass_cluster::Cluster;

use crate::shop::Shop;
use crate::{definitions, manager};

/// How the demo runs.
#[derive(Args, Clone, Debug, Default)]
pub struct Flags {
    /// End when the Shop is ready; otherwise everything stays up until Ctrl-C
    #[arg(long)]
    pub exit: bool,
}

/// Runs the operator on a cluster in this process.
///
/// # Errors
/// If the cluster does not start, or the operator fails.
pub async fn run(flags: Flags) -> Result<()> {
    let stop = stop_on_signal()?;
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut cluster = Cluster::builder().listen(loopback).start().await?;
    let (server, token) = (cluster.server().clone(), stop.clone());
    let kubeconfig = cluster.kubeconfig().context("it listens")?.display().to_string();
    say("A Kubernetes cluster runs in this process, and the operator on it. Nothing really runs");
    say("in its pods, and no other cluster is touched.");
    let mut options = Options::default().without_http();
    options.log_level = "warn".to_owned();
    // For `windlass why`, if the demo stays up.
    let mut inside = None;
    if !flags.exit {
        // A free port. If somebody takes it before the manager does, the demo ends with an error.
        let address = TcpListener::bind(loopback)?.local_addr()?;
        options.metrics_bind_address = address.to_string();
        inside = Some(address);
        // The operator prints the URL of its dashboard, which has a token.
        options.dashboard = Some(loopback.to_string());
    }
    // For webhooks, if there are some: the cluster calls them at a port that is free.
    options.webhook_bind_address = "127.0.0.1:0".to_owned();
    options.webhook_url = Some("https://127.0.0.1:0".to_owned());
    let operator = definitions()
        .into_iter()
        .fold(manager(options), Manager::install)
        .connect(move |stack| Ok(stack.around(server.service(), "default")))
        .on_write(|_, write| {
            // An apply may find that there is nothing to do.
            if write.has_changed() {
                say(&format!("   the operator: {write}"));
            }
        })
        .task("demo", move |cx: TaskContext| {
            let (token, kubeconfig) = (token.clone(), kubeconfig.clone());
            async move {
                show(&cx, &kubeconfig, inside).await?;
                if flags.exit {
                    token.cancel();
                }
                anyhow::Ok(())
            }
        });
    let ran = tokio::select! {
        ran = operator.run_until(stop) => ran.map_err(anyhow::Error::from),
        ended = cluster.wait_for_end() => Err(anyhow!("the cluster has stopped: {ended:?}")),
    };
    cluster.stop().await?;
    ran
}

/// Creates a Shop, waits until it is ready, and says what to try next.
async fn show(cx: &TaskContext, kubeconfig: &str, inside: Option<SocketAddr>) -> Result<()> {
    let example: Shop = serde_saphyr::from_str(include_str!("../deploy/example-shop.yaml"))?;
    let name = example.metadata.name.clone().context("the example has a name")?;
    say("");
    say(&format!("Somebody creates the Shop of deploy/example-shop.yaml, {name}:"));
    let api = Api::default_namespaced(cx.client.clone());
    api.create(&PostParams::default(), &example).await?;

    let informer = cx.factory.informer::<Shop>()?;
    let mut events = informer.subscribe()?;
    cx.factory.start();
    let key = ObjectKey::namespaced("default", &name);
    let message = loop {
        events.next().await.context("the operator has stopped")?;
        let found = informer.lister().get(&key)?;
        let status = found.and_then(|shop| shop.status.clone()).unwrap_or_default();
        let ready = ConditionType::new("Ready").find(&status.conditions);
        if let Some(ready) = ready.filter(|ready| ready.status == "True") {
            break ready.message.clone();
        }
    };
    say(&format!("The Shop is ready: {message}."));
    say("");
    let Some(inside) = inside else {
        say("Without --exit everything stays up, for kubectl, `windlass why` and the dashboard.");
        return Ok(());
    };
    say("Try, in another terminal:");
    say(&format!("   export KUBECONFIG={kubeconfig}"));
    say("   kubectl get shops,configmaps,services,pods");
    say(&format!("   kubectl describe shops {name}"));
    say(&format!(
        "   kubectl patch shops {name} --type merge --patch '{{\"spec\":{{\"title\":\"New\"}}}}'"
    ));
    say(&format!("   windlass why Shop {name} --url http://{inside}"));
    say(&format!("   kubectl delete shops {name}"));
    say("The URL of the dashboard is further up: open it in a browser.");
    say("");
    say("Ctrl-C ends it, and everything in it.");
    Ok(())
}

/// Nobody may be listening, as behind `| head -1`; that is no reason to stop.
fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
