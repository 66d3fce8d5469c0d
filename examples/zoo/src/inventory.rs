//! kro #1170: what was applied is recorded afterwards. What a crash kept from the record is never
//! pruned.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use windlass::prelude::*;

use crate::Way;
use crate::store::{Store, ensure, map, remove, stores};

const ANNOTATION: &str = "zoo.example.com/inventory";

/// Keeps one object for each part, and the names of all in an annotation.
pub struct Inventory(pub Way);

impl Reconcile<Store> for Inventory {
    async fn reconcile(&self, store: Arc<Store>, cx: &RunContext) -> Result<Action, Error> {
        let recorded = store.annotations().get(ANNOTATION).map(String::as_str).unwrap_or_default();
        let recorded: BTreeSet<&str> =
            recorded.split(',').filter(|name| !name.is_empty()).collect();
        let wanted: BTreeSet<&str> = store.spec.parts.iter().map(String::as_str).collect();
        let record = async |names: BTreeSet<&str>| -> Result<(), Error> {
            let names: Vec<&str> = names.into_iter().collect();
            let patch = json!({"metadata": {"annotations": {ANNOTATION: names.join(",")}}});
            stores(cx).patch("main", &PatchParams::default(), &Patch::Merge(patch)).await?;
            Ok(())
        };
        if self.0 == Way::Mended && !wanted.is_subset(&recorded) {
            record(&recorded | &wanted).await?;
        }
        for part in &wanted {
            ensure(cx, &map(&store, part, "part")).await?;
        }
        for part in &recorded - &wanted {
            remove(cx, part).await?;
        }
        if recorded != wanted {
            record(wanted).await?;
        }
        Ok(Action::done())
    }
}
