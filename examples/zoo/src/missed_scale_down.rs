//! zookeeper-operator, and rabbitmq cluster-operator #758: what a scale-down leaves is removed at
//! the moment at which the scale-down is seen. If it happens while nobody looks, it stays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use windlass::prelude::*;

use crate::Way;
use crate::store::{Store, ensure, map, remove};

/// Keeps one volume for each replica.
pub struct MissedScaleDown {
    way: Way,
    /// How many replicas each store had when it was seen last.
    seen: Mutex<BTreeMap<String, u32>>,
}

impl MissedScaleDown {
    /// An operator that has seen nothing yet.
    pub fn new(way: Way) -> Self {
        Self { way, seen: Mutex::default() }
    }
}

impl Reconcile<Store> for MissedScaleDown {
    async fn reconcile(&self, store: Arc<Store>, cx: &RunContext) -> Result<Action, Error> {
        let volume = |number: u32| map(&store, &format!("main-{number}"), &store.spec.size);
        if self.way == Way::Mended {
            let children = cx.children(&store);
            let children =
                (0..store.spec.replicas).fold(children, |all, one| all.apply(volume(one)));
            children.prune().await?;
            return Ok(Action::done());
        }
        for number in 0..store.spec.replicas {
            ensure(cx, &volume(number)).await?;
        }
        let name = store.metadata.name.clone().unwrap_or_default();
        let before = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(name, store.spec.replicas)
        };
        for number in store.spec.replicas..before.unwrap_or_default() {
            remove(cx, &format!("main-{number}")).await?;
        }
        Ok(Action::done())
    }
}
