//! crossplane #7221: the status holds something that each write of the status changes.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use windlass::prelude::*;

use crate::Way;
use crate::store::{Store, stores};

/// Says in the status what it has seen.
pub struct StatusForEver(pub Way);

impl Reconcile<Store> for StatusForEver {
    async fn reconcile(&self, store: Arc<Store>, cx: &RunContext) -> Result<Action, Error> {
        let seen = match self.0 {
            Way::Published => store.resource_version(),
            Way::Mended => store.metadata.generation.map(|generation| generation.to_string()),
        };
        let patch = Patch::Merge(json!({"status": {"seen": seen}}));
        stores(cx).patch_status("main", &PatchParams::default(), &patch).await?;
        Ok(Action::done())
    }
}
