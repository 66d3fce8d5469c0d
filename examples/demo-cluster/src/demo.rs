//! A cluster in this process: the embedded API server, and a task that plays users, controllers and
//! nodes.
//!
//! Everything is drawn from a seed and waits on tokio's clock: on a paused clock the same seed
//! gives the same life.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use windlass::informer::ClientStack;
use windlass_apiserver::{ApiServer, Fault, FaultId, FaultRule};

use crate::objects::{APPS, create_all, new_pod, new_pod_group, pod_groups};
use crate::step::{Chooser, PodName, Step};

/// How a [`Demo`] is to be.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct DemoOptions {
    seed: u64,
    schedules: bool,
    outages: bool,
    pace: Duration,
}

/// A cluster in this process that lives until it is [ended](Self::end).
#[derive(Debug)]
pub struct Demo {
    server: ApiServer,
    stop: CancellationToken,
    life: JoinSet<Result<()>>,
}

/// The task.
struct Life {
    server: ApiServer,
    client: Client,
    chooser: Chooser,
    options: DemoOptions,
    pods_made: u64,
    /// When watches fail next.
    outage: Instant,
}

/// Outages begin so long after each other, and last so long.
const OUTAGE_EVERY: Duration = Duration::from_secs(12);
const OUTAGE: Duration = Duration::from_secs(3);

impl DemoOptions {
    /// Something happens every 600 ms, pods are scheduled, and nothing fails.
    pub fn new() -> Self {
        let pace = Duration::from_millis(600);
        Self { seed: 0, schedules: true, outages: false, pace }
    }

    /// What everything is drawn from. Default: 0.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Leaves it to the example to assign pods to nodes.
    pub fn without_scheduler(self) -> Self {
        Self { schedules: false, ..self }
    }

    /// Whether all watches fail now and then, while pods are deleted and history is forgotten.
    /// Default: no.
    pub fn outages(self, outages: bool) -> Self {
        Self { outages, ..self }
    }
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Demo {
    /// Starts a server, fills it and begins its life.
    ///
    /// # Errors
    /// If the server refuses something.
    pub async fn start(options: DemoOptions) -> Result<Self> {
        let server = ApiServer::builder().seed(options.seed).build();
        let client = client_of(&server);
        create_all(&client).await?;
        let mut life = Life {
            server: server.clone(),
            client,
            chooser: Chooser::new(options.seed, options.schedules),
            options,
            pods_made: 0,
            outage: Instant::now() + OUTAGE_EVERY,
        };
        // There is something to list from the beginning.
        for app in 0..APPS.len() {
            life.happen(Step::Create(app)).await?;
        }
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let stopped = stop.clone();
        tasks.spawn(
            async move { stopped.run_until_cancelled(life.go_on()).await.unwrap_or(Ok(())) },
        );
        Ok(Self { server, stop, life: tasks })
    }

    /// A client, with Windlass' layers around the server.
    pub fn client(&self) -> Client {
        client_of(&self.server)
    }

    /// The server, for inspection and faults.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Ends the life; what is there stays as it is.
    ///
    /// # Errors
    /// If something in it failed before.
    pub async fn end(mut self) -> Result<()> {
        self.stop.cancel();
        while let Some(ended) = self.life.join_next().await {
            ended
                .context("the life of the demo cluster panicked")?
                .context("the demo cluster failed")?;
        }
        Ok(())
    }
}

/// Assigns a pod to a node, as a scheduler does.
///
/// # Errors
/// If the server refuses: 404 if the pod is gone, 409 if it is assigned already.
pub async fn bind(
    client: &Client,
    namespace: &str,
    pod: &str,
    node: &str,
) -> Result<(), kube::Error> {
    let binding = Binding {
        metadata: ObjectMeta { name: Some(pod.to_owned()), ..ObjectMeta::default() },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let bound: Result<Status, _> =
        pods.create_subresource("binding", pod, &PostParams::default(), &binding).await;
    bound.map(drop)
}

fn client_of(server: &ApiServer) -> Client {
    ClientStack::new().around(server.service(), "default")
}

impl Life {
    async fn go_on(mut self) -> Result<()> {
        loop {
            let jitter = self.chooser.rng.f64() + 0.5;
            sleep(self.options.pace.mul_f64(jitter)).await;
            if self.options.outages && Instant::now() >= self.outage {
                self.fail_for_a_while().await?;
            }
            let pods = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await?;
            let step = self.chooser.next(&pods.items);
            self.happen(step).await?;
        }
    }

    async fn happen(&mut self, step: Step) -> Result<()> {
        tracing::debug!(?step, "in the demo cluster");
        let happened = match step {
            Step::Create(app) => self.create(app).await,
            Step::Bind(PodName { namespace, name }, node) => {
                bind(&self.client, &namespace, &name, node).await
            }
            Step::Start(pod) => self.report(&pod, "Running", 0).await,
            Step::Restart(pod, restarts) => self.report(&pod, "Running", restarts).await,
            Step::Finish(pod) => self.report(&pod, "Succeeded", 0).await,
            Step::Delete(pod) => self.delete(&pod, DeleteParams::default()).await,
            Step::Remove(pod) => self.delete(&pod, DeleteParams::default().grace_period(0)).await,
            Step::ToggleGroup => self.toggle_group().await,
        };
        match happened {
            // Somebody else may have been faster, such as the scheduler of an example.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            happened => Ok(happened?),
        }
    }

    async fn create(&mut self, app: usize) -> Result<(), kube::Error> {
        let (namespace, app, has_group) = APPS[app];
        self.pods_made += 1;
        let pod = new_pod(app, &format!("{app}-{}", self.pods_made), has_group);
        self.pods(namespace).create(&PostParams::default(), &pod).await.map(drop)
    }

    /// What a node says of a pod.
    async fn report(&self, pod: &PodName, phase: &str, restarts: i32) -> Result<(), kube::Error> {
        let PodName { namespace, name } = pod;
        let is_running = phase == "Running";
        let app = name.split('-').next().unwrap_or_default();
        let status: Value = json!({"status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": if is_running { "True" } else { "False" }}],
            "containerStatuses": [{
                "name": app,
                "image": format!("registry.example.com/{app}:1"),
                "imageID": "",
                "ready": is_running,
                "restartCount": restarts,
            }],
        }});
        let (params, patch) = (PatchParams::default(), Patch::Merge(status));
        self.pods(namespace).patch_status(name, &params, &patch).await.map(drop)
    }

    async fn delete(&self, pod: &PodName, params: DeleteParams) -> Result<(), kube::Error> {
        self.pods(&pod.namespace).delete(&pod.name, &params).await.map(drop)
    }

    async fn toggle_group(&self) -> Result<(), kube::Error> {
        let (namespace, name, _) = APPS[2];
        let groups = pod_groups(&self.client, namespace);
        match groups.get_opt(name).await? {
            Some(_) => groups.delete(name, &DeleteParams::default()).await.map(drop),
            None => groups.create(&PostParams::default(), &new_pod_group(name)).await.map(drop),
        }
    }

    /// All watches end and cannot come back, a pod goes meanwhile, and history is forgotten: those
    /// who watch can only find out by a list what they have missed.
    async fn fail_for_a_while(&mut self) -> Result<()> {
        self.outage = Instant::now() + OUTAGE_EVERY;
        tracing::warn!(
            "demo: for {} seconds all watches fail, and a pod is deleted",
            OUTAGE.as_secs()
        );
        let refuse = Fault::Fail { code: 503, retry_after: None };
        let rule = FaultRule::new(refuse).verb("watch");
        let _outage = Outage { id: self.server.faults().add(rule), server: self.server.clone() };
        self.server.restore(&self.server.snapshot());
        let pods = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await?;
        if let Some(pod) = pods.items.first() {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            self.happen(Step::Remove(PodName { namespace, name })).await?;
        }
        self.server.compact();
        sleep(OUTAGE).await;
        Ok(())
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// A fault that ends with this, also when the demo is ended in the middle of it.
struct Outage {
    server: ApiServer,
    id: FaultId,
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.server.faults().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and phases of all pods after some time.
    async fn pods_after(seconds: u64, options: DemoOptions) -> Vec<String> {
        let demo = Demo::start(options).await.expect("a cluster");
        sleep(Duration::from_secs(seconds)).await;
        let pods = Api::<Pod>::all(demo.client());
        demo.end().await.expect("a life without failures");
        let pods = pods.list(&ListParams::default()).await.expect("a list");
        let show = |pod: Pod| {
            let phase = pod.status.and_then(|status| status.phase);
            format!("{} {}", pod.metadata.name.unwrap_or_default(), phase.unwrap_or_default())
        };
        pods.items.into_iter().map(show).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn same_seed_gives_the_same_life() {
        let one = pods_after(60, DemoOptions::new().seed(3)).await;
        assert!(one.len() >= 3, "{one:?}");
        assert_eq!(one, pods_after(60, DemoOptions::new().seed(3)).await);
        assert_ne!(one, pods_after(60, DemoOptions::new().seed(4)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn pods_come_and_go_and_stay_few() {
        for options in [DemoOptions::new(), DemoOptions::new().outages(true)] {
            let pods = pods_after(120, options).await;
            assert!((1..=10).contains(&pods.len()), "{pods:?}");
        }
    }
}
