//! zookeeper-operator #312 and #314: the data of a new cluster is deleted, because a read from the
//! past shows the old one of the same name, which is being deleted.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{GetParams, Patch, PatchParams};
use serde_json::json;
use windlass::prelude::*;

use crate::Way;
use crate::store::{Store, ensure, map, remove, stores};

const FINALIZER: &str = "zoo.example.com/volumes";
/// When it looks again: what it has read may have been old.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

const VOLUME: &str = "main-volume";

/// Deletes the volume before the store is gone.
pub struct StaleDeletion(pub Way);

impl Reconcile<Store> for StaleDeletion {
    async fn reconcile(&self, store: Arc<Store>, cx: &RunContext) -> Result<Action, Error> {
        let read = match self.0 {
            // Any API server may answer, with what it has.
            Way::Published => {
                let read = stores(cx).get_with("main", &GetParams::any()).await;
                match read {
                    Err(kube::Error::Api(status)) if status.code == 404 => {
                        return Ok(Action::requeue_after(LOOK_AGAIN));
                    }
                    read => Arc::new(read?),
                }
            }
            // The cache never goes back.
            Way::Mended => store,
        };
        let finalizers =
            |list: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": list}}));
        if read.metadata.deletion_timestamp.is_some() {
            remove(cx, VOLUME).await?;
            let none = finalizers(json!(null));
            return match stores(cx).patch("main", &PatchParams::default(), &none).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Action::done()),
                patched => Ok(patched.map(|_| Action::done())?),
            };
        }
        if read.metadata.finalizers.is_none() {
            let patch = finalizers(json!([FINALIZER]));
            stores(cx).patch("main", &PatchParams::default(), &patch).await?;
        }
        let mut volume = map(&read, VOLUME, &read.spec.size);
        // As volumes do, it outlives its owner.
        volume.metadata.owner_references = None;
        ensure(cx, &volume).await?;
        Ok(match self.0 {
            Way::Published => Action::requeue_after(LOOK_AGAIN),
            Way::Mended => Action::done(),
        })
    }
}
