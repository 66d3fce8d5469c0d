//! The story: what a person would do with Foos, what the controller does about it, and why.
//!
//! Each chapter changes something as a user does, through the API server, waits for what must
//! follow, and then tells which runs there were and what led to them. It waits for objects, not for
//! time, so it is as fast as its reader is: between chapters it pauses for as long as it is told
//! to.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use windlass::indexer::{Head, Lister, ObjectKey, Selector};
use windlass::informer::Scope;

use super::Demo;
use super::runs::Told;
use crate::controller::{ERR_RESOURCE_EXISTS, new_deployment};
use crate::foo::{Foo, FooSpec};

/// Where lines go: to the terminal in the program, into a list in tests.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Tells a story on a cluster in this process.
pub struct Story<'a> {
    demo: &'a Demo,
    tell: Tell,
    pause: Duration,
    told: Told,
}

/// The namespace of everything in the story.
const NAMESPACE: &str = "default";

/// The Foo of most chapters, and its Deployment.
const FOO: &str = "example-foo";

/// The Foo that asks for a Deployment of somebody else's.
const LATE_FOO: &str = "late-foo";

/// That Deployment.
const FOREIGN: &str = "not-a-foos";

/// How often the journal is read: more often than it forgets.
const READ_EVERY: Duration = Duration::from_millis(10);

/// How long the controller may have something to do after a step. With a Foo that is refused it
/// always has.
const REST_MAX: Duration = Duration::from_secs(1);

impl<'a> Story<'a> {
    /// A story that pauses for so long before each of its chapters.
    pub fn new(demo: &'a Demo, tell: Tell, pause: Duration) -> Self {
        Self { demo, tell, pause, told: Told::default() }
    }

    /// Tells all of it.
    ///
    /// # Errors
    /// If something does not happen that must.
    pub async fn tell(&mut self) -> Result<()> {
        self.say("An API server runs in this process, with nothing in it but the definition of Foo. Beside it run the");
        self.say("controllers that make pods of Deployments, and the sample controller: a Deployment for every Foo.");
        self.a_foo_is_created().await?;
        self.it_is_scaled().await?;
        self.its_deployment_is_changed_by_hand().await?;
        self.a_deployment_is_somebody_elses().await?;
        self.it_is_deleted().await
    }

    /// Goes on to tell why Foos run, until it is dropped.
    pub async fn follow(&mut self) {
        loop {
            self.meanwhile(sleep(self.pause.max(READ_EVERY))).await;
            self.say_why();
        }
    }

    async fn a_foo_is_created(&mut self) -> Result<()> {
        self.chapter("1. Somebody creates a Foo that asks for a Deployment with one replica.")
            .await;
        self.create(&foo(FOO, FOO, 1)).await?;
        self.until_available(FOO, 1).await?;
        self.outcome(FOO).await
    }

    async fn it_is_scaled(&mut self) -> Result<()> {
        self.chapter("2. It is edited to ask for three.").await;
        self.patch::<Foo>(FOO, json!({"spec": {"replicas": 3}})).await?;
        self.until_available(FOO, 3).await?;
        self.outcome(FOO).await
    }

    async fn its_deployment_is_changed_by_hand(&mut self) -> Result<()> {
        self.chapter("3. Somebody scales the Deployment itself to five, behind the Foo's back.")
            .await;
        let by_hand = self.patch::<Deployment>(FOO, json!({"spec": {"replicas": 5}})).await?;
        let is_repaired = |deployment: &Deployment| {
            // Every change of the spec counts, and the one after the hand's is the controller's.
            deployment.metadata.generation > by_hand.metadata.generation && is_settled(deployment)
        };
        self.until(FOO, "the Deployment has three replicas again", is_repaired).await?;
        self.until_available(FOO, 3).await?;
        self.outcome(FOO).await
    }

    async fn a_deployment_is_somebody_elses(&mut self) -> Result<()> {
        self.chapter("4. A Foo asks for a Deployment that is there already, and not its own.")
            .await;
        self.create(&new_deployment(&foo("somebody", FOREIGN, 2))).await?;
        self.create(&foo(LATE_FOO, FOREIGN, 2)).await?;
        self.until_refused().await?;
        self.why().await;
        self.say("   Nothing was written to that Deployment. The Foo has a Warning event that says why, and is tried");
        self.say(
            "   again after longer and longer waits. Now it is edited to ask for another name.",
        );
        self.patch::<Foo>(LATE_FOO, json!({"spec": {"deploymentName": LATE_FOO}})).await?;
        self.until_available(LATE_FOO, 2).await?;
        self.outcome(LATE_FOO).await
    }

    async fn it_is_deleted(&mut self) -> Result<()> {
        self.chapter("5. The first Foo is deleted.").await;
        self.api::<Foo>().delete(FOO, &DeleteParams::default()).await?;
        self.until_gone::<Deployment>().await?;
        self.until_gone::<ReplicaSet>().await?;
        self.until_gone::<Pod>().await?;
        self.why().await;
        self.say("   Its Deployment, ReplicaSet and pods are gone with it: each names its owner. No code of the");
        self.say("   controller's did that.");
        Ok(())
    }
}

/// What chapters are made of.
impl Story<'_> {
    fn say(&self, line: &str) {
        (self.tell)(line);
    }

    /// Begins a chapter, after what there is still to be said of the one before.
    async fn chapter(&mut self, title: &str) {
        self.meanwhile(sleep(self.pause)).await;
        self.say_why();
        self.say("");
        self.say(title);
    }

    /// What came of a chapter.
    async fn outcome(&mut self, name: &str) -> Result<()> {
        let (what, selector) = (format!("{name} has as many pods as it wants"), made_for(name));
        self.until(name, "its Deployment has all replicas", is_settled).await?;
        let deployments = self.demo.factory.lister::<Deployment>()?;
        let deployment = deployments.get(&key(name))?.context("the Deployment must be there")?;
        let wanted = deployment.spec.replicas.unwrap_or(1);
        let has_all = |pods: &Lister<Pod>| {
            Ok(i32::try_from(pods.select(&selector).heads().count()) == Ok(wanted))
        };
        self.meanwhile(self.demo.until(&what, has_all)).await?;
        self.why().await;
        let pods = self.demo.factory.lister::<Pod>()?.select(&selector);
        let pods: Vec<&str> = pods.heads().map(Head::name).collect();
        self.say(&format!("   Deployment {name} wants {wanted}, and has {}", pods.join(", ")));
        Ok(())
    }

    /// Why Foos ran since the last time.
    async fn why(&mut self) {
        let queue = self.demo.controller.queue();
        // What it wrote itself leads to runs, too. A Foo that is refused has no rest, and is told
        // of as it is.
        let _ = self.meanwhile(timeout(REST_MAX, queue.wait_idle())).await;
        self.say_why();
    }

    fn say_why(&mut self) {
        self.told.read(&self.demo.controller);
        for line in self.told.lines() {
            self.say(&format!("   {line}"));
        }
    }

    /// Waits for something, and reads the journal meanwhile.
    async fn meanwhile<T>(&mut self, wait: impl Future<Output = T>) -> T {
        tokio::pin!(wait);
        loop {
            match timeout(READ_EVERY, &mut wait).await {
                Ok(done) => return done,
                Err(_) => self.told.read(&self.demo.controller),
            }
        }
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.demo.client().clone(), NAMESPACE)
    }

    async fn create<K>(&self, object: &K) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        self.api().create(&PostParams::default(), object).await?;
        Ok(())
    }

    async fn patch<K>(&self, name: &str, patch: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        Ok(self.api().patch(name, &params, &patch).await?)
    }

    async fn until<K>(&mut self, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
    {
        let key = key(name);
        let holds = |object: Option<Arc<K>>| object.is_some_and(|object| is_so(&object));
        self.meanwhile(self.demo.until(what, |objects| objects.get(&key).map(holds))).await
    }

    async fn until_available(&mut self, foo: &str, replicas: i32) -> Result<()> {
        let is_so = |foo: &Foo| {
            foo.status.as_ref().is_some_and(|status| status.available_replicas == replicas)
        };
        self.until(foo, &format!("{foo} has {replicas} available replicas"), is_so).await
    }

    /// Waits for the event of a Foo whose Deployment is somebody else's.
    async fn until_refused(&self) -> Result<()> {
        let is_refusal = |event: &Event| {
            event.involved_object.name.as_deref() == Some(LATE_FOO)
                && event.reason.as_deref() == Some(ERR_RESOURCE_EXISTS)
        };
        self.demo
            .until::<Event>("the refusal is an event", |events| {
                for event in &events.in_namespace(NAMESPACE) {
                    if is_refusal(&*event.get()?) {
                        return Ok(true);
                    }
                }
                Ok(false)
            })
            .await
    }

    /// Waits until nothing of a type is left that was made for the first Foo.
    async fn until_gone<K>(&self) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope: Scope> + DeserializeOwned + Send + Sync + 'static,
    {
        let what = format!("no {} of {FOO} is left", K::kind(&()));
        let selector = made_for(FOO);
        let is_gone = |objects: &Lister<K>| {
            // The Deployment has no labels itself, but the name; what is below it has labels.
            let is_left = objects.cached(&key(FOO)).is_some();
            Ok(!is_left && objects.select(&selector).heads().next().is_none())
        };
        self.demo.until(&what, is_gone).await
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced(NAMESPACE, name)
}

fn foo(name: &str, deployment: &str, replicas: i32) -> Foo {
    let spec = FooSpec { deployment_name: deployment.to_owned(), replicas: Some(replicas) };
    let mut foo = Foo::new(name, spec);
    foo.metadata.namespace = Some(NAMESPACE.to_owned());
    foo
}

/// What pods and replica sets of a Foo's Deployment are labelled with.
fn made_for(foo: &str) -> Selector {
    Selector::everything().equals("controller", foo)
}

/// Whether a Deployment has the pods that it asks for, and no others.
fn is_settled(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas;
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.replicas == wanted
            && status.available_replicas == wanted
    })
}

impl std::fmt::Debug for Story<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Story").field("pause", &self.pause).finish_non_exhaustive()
    }
}
