//! What happens, and what is said about it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, interval, sleep};
use windlass::indexer::ObjectKey;
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::ConditionType;
use windlass_apiserver::ApiServer;

use super::replica::{Replica, TIMING};
use super::wait::wait_until;
use crate::website::v1;
use crate::{NAME, Website, hosts};

/// Where everything of the story is.
pub(super) const NAMESPACE: &str = "default";

/// Whether a Website is served.
const READY: ConditionType = ConditionType::new("Ready");

/// How many replicas the operator has.
const REPLICAS: usize = 3;

/// How long nothing is said while the story waits.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// The story, and the replicas in it.
pub(super) struct Story<'a> {
    server: &'a ApiServer,
    factory: &'a SharedInformerFactory,
    kubeconfig: PathBuf,
    pause: Duration,
    replicas: Vec<Replica>,
}

impl<'a> Story<'a> {
    /// Starts the replicas.
    pub(super) fn new(
        server: &'a ApiServer,
        factory: &'a SharedInformerFactory,
        kubeconfig: &Path,
        pause: Duration,
    ) -> Result<Self> {
        let start = |number| Replica::start(&format!("replica-{number}"), kubeconfig);
        let replicas = (1..=REPLICAS).map(start).collect::<Result<_>>()?;
        let mut story =
            Self { server, factory, kubeconfig: kubeconfig.to_owned(), pause, replicas };
        story.serve_webhooks_without("");
        Ok(story)
    }

    /// Tells all of it. Does not return unless it should end.
    pub(super) async fn tell(&mut self, ends: bool) -> Result<()> {
        say("An API server runs in this process, with controllers that make pods of Deployments.");
        self.replicas_start().await?;
        self.websites_are_created().await?;
        self.one_is_scaled().await?;
        self.leader_is_killed().await?;
        self.one_is_deleted().await?;
        say("");
        if ends {
            say("That was all. Without --exit everything stays up, and the curl lines work.");
            return Ok(());
        }
        say("Everything stays up until Ctrl-C. The replicas are now:");
        self.say_addresses();
        self.say_why("blog").await?;
        std::future::pending().await
    }

    async fn replicas_start(&mut self) -> Result<()> {
        self.chapter("1. Three replicas of the operator start, each a process of its own.").await;
        for replica in &mut self.replicas {
            let what = format!("{} is ready", replica.name);
            patiently(&what, replica.wait_until_ready()).await?;
        }
        let leader = self.wait_for_leader(None).await?;
        let [lease, renew, retry] = TIMING.map(|(_, time)| time);
        say(&format!(
            "   {leader} holds the Lease and works. The others have filled their caches, and wait."
        ));
        say(&format!(
            "   (The election is timed {lease}, {renew}, {retry} here; by default 15s, 10s, 2s.)"
        ));
        let standby = self.replicas.iter().find(|replica| replica.name != leader);
        let standby = standby.context("there must be a standby")?;
        say(&format!("   {}, a standby, says at /readyz?verbose:", standby.name));
        let identity = format!("{leader}_");
        let knows = standby.wait_until_it_says(&identity);
        for line in patiently("it knows who leads", knows).await?.lines() {
            say(&format!("     {line}"));
        }
        say("   Ask them yourself, in another terminal:");
        self.say_addresses();
        Ok(())
    }

    async fn websites_are_created(&mut self) -> Result<()> {
        self.chapter("2. Somebody creates two Websites, with API version v1.").await;
        self.create("blog", "blog.example.com", 2, "<h1>Blog</h1>").await?;
        self.create("shop", "Shop.Example.COM", 1, "<h1>Shop</h1>").await?;
        self.wait_until_ready("blog", 2).await?;
        self.wait_until_ready("shop", 1).await?;
        self.show("blog").await?;
        self.show("shop").await?;
        say("   A webhook of the operator corrected Shop.Example.COM. Another one converts v1 to");
        let server = json!(self.api::<Website>().get("shop").await?.spec.server);
        say(&format!("   v2, which the operator works with. There, spec.server is {server}."));
        let page = "A ConfigMap holds 1 MiB. ".repeat(1 << 16);
        let refused = self.create("huge", "huge.example.com", 1, &page).await;
        let refusal = refused.err().and_then(|error| error.downcast().ok());
        let Some(kube::Error::Api(refusal)) = refusal else {
            anyhow::bail!("files of more than 1 MiB must be refused");
        };
        say(&format!("   A third one is refused: {}", refusal.message));
        Ok(())
    }

    async fn one_is_scaled(&mut self) -> Result<()> {
        self.chapter("3. The shop is scaled to three.").await;
        self.patch("shop", json!({"spec": {"replicas": 3}})).await?;
        self.wait_until_ready("shop", 3).await?;
        self.show("shop").await
    }

    async fn leader_is_killed(&mut self) -> Result<()> {
        let leader = self.wait_for_leader(None).await?;
        self.serve_webhooks_without(&leader);
        let is_leader = |replica: &&mut Replica| replica.name == leader;
        let killed = self.replicas.iter_mut().find(is_leader).context("a leader we know")?;
        let title = format!("4. kill -9 {}: that is {leader}, which leads.", killed.pid());
        pause(self.pause, &title).await;
        killed.kill().await?;
        let since = Instant::now();
        say("   Nobody leads now. Meanwhile somebody scales the blog to four.");
        self.patch("blog", json!({"spec": {"replicas": 4}})).await?;
        let next = self.wait_for_leader(Some(&leader)).await?;
        let took = since.elapsed().as_secs_f64();
        say(&format!("   {next} leads, {took:.1} s later."));
        self.wait_until_ready("blog", 4).await?;
        let took = since.elapsed().as_secs_f64();
        say(&format!("   The blog has its four pods {took:.1} s after the kill:"));
        self.show("blog").await?;

        // What the Deployment of the operator would do.
        let name = format!("replica-{}", REPLICAS + 1);
        let mut new = Replica::start(&name, &self.kubeconfig)?;
        patiently(&format!("{name} is ready"), new.wait_until_ready()).await?;
        say(&format!("   {name} is started in place of {leader}, as a Deployment would do it."));
        self.replicas.retain(|replica| replica.name != leader);
        self.replicas.push(new);
        Ok(())
    }

    async fn one_is_deleted(&mut self) -> Result<()> {
        self.chapter("5. The shop is deleted.").await;
        say(&format!("   Hosts before: {}", self.hosts().await?));
        self.api::<Website>().delete("shop", &DeleteParams::default()).await?;
        self.wait_for::<Website>("the finalizer is done and the shop is gone", "shop", |shop| {
            shop.is_none()
        })
        .await?;
        self.wait_for::<Deployment>("its Deployment is gone", "shop", |made| made.is_none())
            .await?;
        say(&format!("   Hosts after:  {}", self.hosts().await?));
        say("   The finalizer freed the host, which another object keeps. The rest had an owner.");
        Ok(())
    }
}

/// What chapters are made of.
impl Story<'_> {
    async fn chapter(&mut self, title: &str) {
        pause(self.pause, title).await;
        self.serve_webhooks_without("");
    }

    /// Where the replicas answer, as lines for a shell.
    fn say_addresses(&self) {
        for Replica { name, probes, metrics, .. } in &self.replicas {
            say(&format!("     curl 'http://{probes}/readyz?verbose'        # {name}"));
            say(&format!("     curl http://{metrics}/metrics"));
            say(&format!("     curl http://{metrics}/debug/windlass"));
        }
        let kubeconfig = self.kubeconfig.display();
        say(&format!(
            "     kubectl --kubeconfig {kubeconfig} get websites,deployments,pods,leases,events"
        ));
    }

    /// The line that asks the leader about a Website. The others do not reconcile.
    async fn say_why(&self, name: &str) -> Result<()> {
        let leader = self.wait_for_leader(None).await?;
        let leader = self.replicas.iter().find(|replica| replica.name == leader);
        let Replica { name: leader, metrics, .. } = leader.context("a leader we know")?;
        say(&format!("     windlass why Website {name} --url http://{metrics}   # {leader} leads"));
        Ok(())
    }

    /// Has the server call the webhooks of a replica that runs, and is not this one. On a real
    /// cluster the Service of the webhooks leads to the replicas that are ready.
    fn serve_webhooks_without(&mut self, gone: &str) {
        let address =
            |one: &mut Replica| (one.name != gone && one.is_running()).then_some(one.webhooks);
        if let Some(address) = self.replicas.iter_mut().find_map(address) {
            self.server.webhooks().resolve(NAMESPACE, NAME, address);
        }
    }

    /// A Website, and what was made for it.
    async fn show(&self, name: &str) -> Result<()> {
        let site = self.api::<Website>().get(name).await?;
        let status = site.status.unwrap_or_default();
        let ready = READY.find(&status.conditions).map(|ready| ready.message.clone());
        say(&format!(
            "   Website {name} ({}): {}",
            site.spec.host,
            ready.as_deref().unwrap_or("nothing is known")
        ));
        let made = self.api::<Deployment>().get(name).await?.name_any();
        let map = self.api::<ConfigMap>().get(name).await?.name_any();
        let service = self.api::<Service>().get(name).await?.name_any();
        let of_site = format!("app.kubernetes.io/instance={name}");
        let pods = self.api::<Pod>().list(&ListParams::default().labels(&of_site)).await?;
        let pods: Vec<String> = pods.iter().map(Pod::name_any).collect();
        say(&format!("     configmap/{map} service/{service} deployment/{made}"));
        say(&format!("     pods: {}", pods.join(" ")));
        Ok(())
    }

    /// The hosts, and who has them.
    async fn hosts(&self) -> Result<String> {
        let map = self.api::<ConfigMap>().get(hosts::NAME).await?;
        let entries = map.data.unwrap_or_default();
        let shown = entries.iter().map(|(host, site)| format!("{host} -> {site}"));
        Ok(shown.collect::<Vec<_>>().join(", "))
    }

    /// Waits until somebody leads who is not `gone`, and returns the name of that replica.
    async fn wait_for_leader(&self, gone: Option<&str>) -> Result<String> {
        let is_new = |lease: &Lease| holder(lease).is_some_and(|name| Some(name) != gone);
        let what = "a replica takes the Lease";
        self.wait_for(what, NAME, |lease: Option<&Lease>| lease.is_some_and(is_new)).await?;
        let lease = self.api::<Lease>().get(NAME).await?;
        Ok(holder(&lease).context("a Lease that is held")?.to_owned())
    }

    async fn wait_until_ready(&self, name: &str, replicas: i32) -> Result<()> {
        let is_ready = |site: &Website| {
            let status = site.status.as_ref();
            status.is_some_and(|status| {
                let ready = READY.find(&status.conditions);
                status.available_replicas == replicas
                    && ready.is_some_and(|ready| {
                        ready.status == "True"
                            && ready.observed_generation == site.metadata.generation
                    })
            })
        };
        let what = format!("the Website {name} is ready");
        self.wait_for(&what, name, |site| site.is_some_and(is_ready)).await
    }

    async fn wait_for<K>(
        &self,
        what: &str,
        name: &str,
        is_so: impl Fn(Option<&K>) -> bool,
    ) -> Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope: windlass::informer::Scope>
            + serde::de::DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let key = ObjectKey::namespaced(NAMESPACE, name);
        let is_so = |lister: &windlass::indexer::Lister<K>| Ok(is_so(lister.get(&key)?.as_deref()));
        patiently(what, wait_until(self.factory, what, is_so)).await
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.factory.client().clone(), NAMESPACE)
    }

    /// Creates a Website of the first version, with one page.
    async fn create(&self, name: &str, host: &str, replicas: i32, page: &str) -> Result<()> {
        let spec = v1::WebsiteSpec {
            host: host.to_owned(),
            files: [("index.html".to_owned(), page.to_owned())].into(),
            replicas: Some(replicas),
            image: None,
        };
        self.api().create(&PostParams::default(), &v1::Website::new(name, spec)).await?;
        Ok(())
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let patch = Patch::Merge(patch);
        self.api::<Website>().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// The name of the replica that holds a Lease. Its identity has a random part after it.
fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    holder.split('_').next().filter(|name| !name.is_empty())
}

/// Begins a chapter.
async fn pause(pause: Duration, title: &str) {
    sleep(pause).await;
    say("");
    say(title);
}

/// Waits for something, and says so now and then.
async fn patiently<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let since = Instant::now();
    let mut silence = interval(SILENT_FOR);
    silence.tick().await;
    tokio::pin!(wait);
    loop {
        tokio::select! {
            done = &mut wait => return done,
            _ = silence.tick() => {
                say(&format!("   … waiting until {what} ({} s)", since.elapsed().as_secs()));
            }
        }
    }
}

/// Nobody may be listening, as behind `| head -1`; that is no reason to stop.
pub(super) fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
