//! cluster-api #13649: there are four sets instead of two, because the list of those that exist
//! comes from the past, and their names are generated.

use std::sync::Arc;

use kube::api::{ListParams, PostParams};
use windlass::prelude::*;
use windlass::reconciler::Children;

use crate::Way;
use crate::store::{Store, map, maps, value};

/// Keeps one set for each part.
pub struct SetsFromThePast(pub Way);

impl Reconcile<Store> for SetsFromThePast {
    async fn reconcile(&self, store: Arc<Store>, cx: &RunContext) -> Result<Action, Error> {
        if self.0 == Way::Mended {
            let set = |part: &String| map(&store, &format!("main-{part}"), part);
            let sets = store.spec.parts.iter().map(set);
            sets.fold(cx.children(&store), Children::apply).prune().await?;
            return Ok(Action::done());
        }
        let found = maps(cx).list(&ListParams::default().match_any()).await?;
        for part in &store.spec.parts {
            if found.iter().any(|set| value(set) == Some(part)) {
                continue;
            }
            let mut set = map(&store, "", part);
            set.metadata.name = None;
            set.metadata.generate_name = Some("main-".to_owned());
            maps(cx).create(&PostParams::default(), &set).await?;
        }
        Ok(Action::done())
    }
}
