//! All that a scheduler knows of its cluster: informers, handlers and listers, and how they start.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use kube::Client;
use kube::core::{DynamicObject, GroupVersionKind};
use tokio::time::{Duration, Instant, timeout_at};
use windlass::indexer::{Lister, ObjectKey};
use windlass::informer::{
    Event, HandlerOptions, InformerFailure, InformerOptions, InformerStatus, Registration,
    Resource, SharedInformer, SharedInformerFactory, filtered,
};
use windlass::workqueue::WorkQueue;

use crate::pod::{ByNode, SlimPod, is_assigned};
use crate::replica::Replica;
use crate::table::Table;
use crate::waiting::Waiting;

/// The caches and handlers of a scheduler. See the crate's documentation.
#[derive(Debug)]
pub struct SchedulerCache {
    factory: SharedInformerFactory,
    pods: SharedInformer<Pod>,
    nodes: Lister<Node>,
    namespaces: Lister<Namespace>,
    claims: Lister<PersistentVolumeClaim>,
    custom: Vec<SharedInformer<DynamicObject>>,
    assigned: Replica,
    waiting: Waiting,
    handlers: Vec<Registration>,
}

/// Pods that have ended need no node, so they are not even sent.
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// How long handlers may be behind the cache before a table is shown nevertheless.
const PATIENCE: Duration = Duration::from_secs(1);

impl SchedulerCache {
    /// Informers and handlers, which do not run yet. Unassigned pods go to `queue`; `kinds` are
    /// custom resources that pods may wait for.
    ///
    /// # Errors
    /// If the server does not know one of the kinds, or does not answer.
    pub async fn new(
        client: Client,
        queue: Option<WorkQueue<ObjectKey>>,
        kinds: &[GroupVersionKind],
    ) -> Result<Self> {
        // Whoever asks this factory for pods gets them as this says: client-go's `InformerFor`.
        let factory = SharedInformerFactory::builder(client)
            .customise(Resource::of::<Pod>(), |options: InformerOptions| {
                options.field_selector(UNFINISHED).index(ByNode)
            })
            .build();
        let pods = factory.informer::<Pod>()?;

        // One informer, two handlers: a pod that is assigned leaves the second and comes to the
        // first. They read pods as a type with the one field that they need.
        let slim = pods.read_as::<SlimPod>()?;
        let (assigned, waiting) = (Replica::default(), Waiting::new(queue));
        let named = |name: &str| HandlerOptions::new().name(name);
        let mut handlers = vec![
            slim.add_handler_with(named("assigned pods"), filtered(is_assigned, assigned.clone()))?,
            slim.add_handler_with(
                named("unassigned pods"),
                filtered(|pod| !is_assigned(pod), waiting.clone()),
            )?,
        ];

        // Asking for a lister registers its informer.
        let (nodes, namespaces) = (factory.lister()?, factory.lister()?);
        let claims = factory.lister()?;

        // Kinds that have no Rust type: the server says what they are.
        let mut custom = Vec::new();
        for kind in kinds {
            let informer = factory.dynamic_informer(kind).await?;
            let options = HandlerOptions::new().name(format!("changes of {}", kind.kind));
            handlers.push(informer.add_handler_with(options, retry_on_change(&waiting, kind))?);
            custom.push(informer);
        }
        Ok(Self { factory, pods, nodes, namespaces, claims, custom, assigned, waiting, handlers })
    }

    /// Starts all informers, and waits until the caches are complete and the handlers have seen all
    /// of them: what the accounts say is the truth from here on. Cancel safe.
    ///
    /// # Errors
    /// If an informer stops or breaks before.
    pub async fn start(&self) -> Result<()> {
        self.factory.start();
        self.factory.wait_for_cache_sync().await?;
        for status in self.factory.status() {
            tracing::info!(
                "The cache of {} is complete: {} objects",
                status.resource,
                status.store.objects
            );
        }
        for handler in &self.handlers {
            let has_synced = handler.wait_for_sync().await;
            let name = handler.status().name;
            ensure!(has_synced, "the handler of {name} ended before it had seen everything");
            tracing::info!("The handler of {name} has seen all that was there");
        }
        Ok(())
    }

    /// Pods by key, and by [`ByNode`].
    pub fn pods(&self) -> &Lister<Pod> {
        self.pods.lister()
    }

    /// Nodes.
    pub fn nodes(&self) -> &Lister<Node> {
        &self.nodes
    }

    /// Objects of a custom kind; `None` if it was not asked for.
    pub fn custom(&self, kind: &str) -> Option<&Lister<DynamicObject>> {
        let informer = self.custom.iter().find(|informer| informer.resource().kind() == kind)?;
        Some(informer.lister())
    }

    /// The account of assigned pods.
    pub fn assigned(&self) -> &Replica {
        &self.assigned
    }

    /// The unassigned pods.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// How every informer is.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.factory.status()
    }

    /// Waits for an informer to break. Cancel safe.
    pub async fn wait_for_failure(&self) -> InformerFailure {
        self.factory.wait_for_failure().await
    }

    /// Pods by node, by the index and by the handler's account. The index changes with the cache,
    /// and the handler hears of it a moment later, so this waits for a moment in which both have
    /// seen the same. Cancel safe.
    ///
    /// # Errors
    /// If the index is not there.
    pub async fn table(&self) -> Result<Table> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let mut changes = self.assigned.changes();
            let table = self.table_now()?;
            if table.agrees() || timeout_at(patience, changes.changed()).await.is_err() {
                return Ok(table);
            }
        }
    }

    fn table_now(&self) -> Result<Table> {
        let mut by_handler = self.assigned.nodes();
        let nodes = self.nodes.list();
        let mut names: Vec<_> = nodes.heads().map(|node| node.key().name().to_owned()).collect();
        // Pods may outlive their node.
        names.extend(by_handler.keys().cloned());
        names.sort();
        names.dedup();
        let mut table = Table {
            waiting: self.waiting.len(),
            others: vec![
                ("namespaces".to_owned(), self.namespaces.len()),
                ("claims".to_owned(), self.claims.len()),
            ],
            rows: Vec::new(),
        };
        for informer in &self.custom {
            let plural = informer.resource().plural().to_owned();
            table.others.push((plural, informer.lister().len()));
        }
        for node in names {
            let indexed = self.pods().by_index::<ByNode>(node.as_str());
            let indexed = indexed.context("pods must have an index by node")?;
            let by_index = indexed.heads().map(|pod| pod.key().clone()).collect();
            table.push(node.clone(), by_index, by_handler.remove(&node).unwrap_or_default());
        }
        Ok(table)
    }

    /// Stops all informers; handlers finish what they are at.
    pub async fn shut_down(&self) {
        self.factory.shut_down().await;
    }
}

/// A handler that lets waiting pods be tried again, whatever happened to an object.
fn retry_on_change(
    waiting: &Waiting,
    kind: &GroupVersionKind,
) -> impl FnMut(Event<DynamicObject>) + Send + 'static + use<> {
    let (waiting, kind) = (waiting.clone(), kind.kind.clone());
    move |event| {
        let what = match &event {
            Event::Added { .. } => "is there",
            Event::Updated { .. } => "has changed",
            Event::Deleted { .. } => "is gone",
        };
        let pods = waiting.try_all_again();
        if pods > 0 {
            tracing::info!(
                "{kind} {} {what}: pods that wait are looked at again ({pods})",
                event.key()
            );
        }
    }
}
