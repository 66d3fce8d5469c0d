//! The handler of assigned pods: it keeps its own account of which pod is on which node.
//!
//! kube-scheduler keeps much more for each node (requested CPU, ports, volumes). The duties are the
//! same: whatever is missed or doubled here is wrong for as long as the process lives. So the
//! account is by key, and a deleted pod is taken from where the account has it, not from where its
//! last state says that it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass::indexer::{Cached, ObjectKey};
use windlass::informer::{Event, FinalState, Handler};

use crate::pod::SlimPod;

/// Pods by node, as the events told. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    account: Arc<Mutex<Account>>,
    /// Moves with every event.
    changes: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct Account {
    nodes: BTreeMap<String, BTreeSet<ObjectKey>>,
    pods: BTreeMap<ObjectKey, String>,
    tombstones: u64,
}

impl Replica {
    /// The pods of each node that has any.
    pub fn nodes(&self) -> BTreeMap<String, BTreeSet<ObjectKey>> {
        self.account().nodes.clone()
    }

    /// How many deletions were found out by a list, because no watch told of them.
    pub fn tombstones(&self) -> u64 {
        self.account().tombstones
    }

    /// Tells of changes from now on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    fn put(&mut self, pod: &Cached<SlimPod>) {
        self.take(pod.key());
        let Ok(slim) = pod.get() else { return };
        if let Some(node) = slim.node() {
            self.nodes.entry(node.to_owned()).or_default().insert(pod.key().clone());
            self.pods.insert(pod.key().clone(), node.to_owned());
        }
    }

    fn take(&mut self, key: &ObjectKey) {
        let Some(node) = self.pods.remove(key) else { return };
        if let Some(pods) = self.nodes.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.nodes.remove(&node);
            }
        }
    }
}

impl Handler<SlimPod> for Replica {
    fn handle(&mut self, event: Event<SlimPod>) {
        let mut account = self.account();
        match &event {
            // Even an update may bring another node: another pod of the same name, if one was
            // deleted and the next one created while nobody watched.
            Event::Added { object: pod, .. } | Event::Updated { new: pod, .. } => account.put(pod),
            Event::Deleted { object, state } => {
                account.take(object.key());
                if *state == FinalState::LastKnown {
                    account.tombstones += 1;
                }
            }
        }
        drop(account);
        self.changes.send_modify(|changes| *changes += 1);
    }
}
