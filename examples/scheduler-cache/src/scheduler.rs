//! A toy scheduler, for the cluster of this process: the node with the fewest pods gets the next
//! one.
//!
//! It reads nothing but caches, and writes nothing but bindings. Pods with the label of a pod group
//! wait until that group is there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use demo_cluster::{GROUP_LABEL, bind, pod_group_kind};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use windlass::indexer::ObjectKey;
use windlass::workqueue::WorkQueue;

use crate::cache::SchedulerCache;
use crate::pod::ByNode;

/// Assigns pods of a queue to nodes.
#[derive(Clone)]
pub struct Scheduler {
    client: Client,
    cache: Arc<SchedulerCache>,
    queue: WorkQueue<ObjectKey>,
    /// Pods that were assigned a moment ago, which the cache does not show yet. Without them, pods
    /// that come together would all go to the same node. kube-scheduler calls them assumed.
    assumed: Arc<Mutex<BTreeMap<ObjectKey, String>>>,
}

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It was assigned to a node, which had so many pods.
    Assigned(String, usize),
    /// It waits for this pod group.
    Waits(String),
    /// There is nothing to do: it is gone, or has a node.
    Over,
}

impl Scheduler {
    /// Takes pods from `queue`, and knows what `cache` knows.
    pub fn new(client: Client, cache: Arc<SchedulerCache>, queue: WorkQueue<ObjectKey>) -> Self {
        Self { client, cache, queue, assumed: Arc::default() }
    }

    /// Goes on until the queue is shut down.
    pub async fn run(&self) {
        while let Some(lease) = self.queue.get().await {
            let key = lease.key();
            match self.schedule(key).await {
                Ok(decision) => {
                    match decision {
                        Decision::Assigned(node, pods) => {
                            tracing::info!(
                                "Scheduled {key} to {node}, which has the fewest pods ({pods})"
                            );
                        }
                        Decision::Waits(group) => {
                            tracing::info!("{key} waits: there is no PodGroup {group}");
                        }
                        Decision::Over => {}
                    }
                    lease.finish();
                }
                Err(error) => {
                    tracing::warn!("{key} is tried again later: {error:#}");
                    // Refused only after the queue was shut down.
                    let _ = lease.retry();
                }
            }
        }
    }

    /// Decides about one pod.
    ///
    /// # Errors
    /// If the pod cannot be read, there is no node, or the server refuses.
    pub async fn schedule(&self, key: &ObjectKey) -> Result<Decision> {
        let Some(pod) = self.cache.pods().get(key)? else { return Ok(Decision::Over) };
        if has_node(&pod) || pod.metadata.deletion_timestamp.is_some() {
            return Ok(Decision::Over);
        }
        if let Some(group) = self.missing_group(&pod) {
            return Ok(Decision::Waits(group));
        }
        let (node, pods) = self.emptiest_node()?.context("there is no node")?;
        let namespace = key.namespace().unwrap_or_default();
        match bind(&self.client, namespace, key.name(), &node).await {
            Ok(()) => {
                self.assumed().insert(key.clone(), node.clone());
                Ok(Decision::Assigned(node, pods))
            }
            // The cache is a moment behind: the pod is gone, or assigned.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
                Ok(Decision::Over)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The group that a pod waits for.
    fn missing_group(&self, pod: &Pod) -> Option<String> {
        let group = pod.labels().get(GROUP_LABEL)?;
        let groups = self.cache.custom(&pod_group_kind().kind)?;
        let key = ObjectKey::namespaced(&pod.namespace().unwrap_or_default(), group);
        groups.cached(&key).is_none().then(|| key.to_string())
    }

    /// The first of the nodes with the fewest pods, by the index and by what is assumed.
    fn emptiest_node(&self) -> Result<Option<(String, usize)>> {
        let mut assumed = self.assumed();
        // What the cache shows by now, or has lost, is no longer assumed.
        assumed.retain(|key, _| {
            self.cache.pods().get(key).is_ok_and(|pod| pod.is_some_and(|pod| !has_node(&pod)))
        });
        let mut emptiest: Option<(String, usize)> = None;
        for node in self.cache.nodes().list().heads() {
            let name = node.key().name();
            let indexed = self.cache.pods().by_index::<ByNode>(name)?.heads().count();
            let pods = indexed + assumed.values().filter(|node| *node == name).count();
            if emptiest.as_ref().is_none_or(|(_, fewest)| pods < *fewest) {
                emptiest = Some((name.to_owned(), pods));
            }
        }
        Ok(emptiest)
    }

    fn assumed(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, String>> {
        self.assumed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_node(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("cache", &self.cache).finish_non_exhaustive()
    }
}
