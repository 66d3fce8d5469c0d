//! rabbitmq cluster-operator #782: a bigger size is written to the volume, and then the set is made
//! again. Whether that is needed is read from the volume, so a crash in between is never mended.

use std::sync::Arc;

use windlass::prelude::*;

use crate::Way;
use crate::store::{Store, ensure, map, maps, remove, value};

/// Keeps a volume and a set of the same size. The size of a set cannot be changed.
pub struct CrashBetweenSteps(pub Way);

impl Reconcile<Store> for CrashBetweenSteps {
    async fn reconcile(&self, store: Arc<Store>, cx: &RunContext) -> Result<Action, Error> {
        let (volume, set) = ("main-volume", "main-set");
        let size = store.spec.size.as_str();
        let is_of_size = async |name: &str| -> Result<bool, Error> {
            let found = maps(cx).get_opt(name).await?;
            Ok(found.is_none_or(|found| value(&found) == Some(size)))
        };
        let is_volume_right = is_of_size(volume).await?;
        if !is_volume_right {
            cx.live().apply_owned(map(&store, volume, size), &*store).await?;
        }
        let is_set_right = match self.0 {
            Way::Published => is_volume_right,
            Way::Mended => is_of_size(set).await?,
        };
        if !is_set_right {
            remove(cx, set).await?;
        }
        cx.live().apply_owned(map(&store, volume, size), &*store).await?;
        ensure(cx, &map(&store, set, size)).await?;
        Ok(Action::done())
    }
}
