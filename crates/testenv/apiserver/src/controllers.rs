//! What a cluster does by itself with objects, as far as it belongs to the API machinery: custom
//! resource definitions become kinds, deleted namespaces are emptied, garbage is collected; where
//! roles decide, aggregated ones are filled, and every namespace has a service account (which it
//! has without roles, too, if [`Builder::default_accounts`](crate::Builder::default_accounts) says
//! so).
//!
//! On a real cluster these run on their own and a little later. Here they run to the end after
//! every request, under the same lock, one change at a time: whoever watches sees every step that a
//! real cluster would show, and a test that reads next finds the cluster at rest. The garbage
//! collector alone can be [slowed down](crate::Builder::garbage_by_step), for tests of what others
//! do between its steps.

mod accounts;
mod definitions;
mod garbage;
mod namespaces;
pub(crate) mod owners;
mod roles;

use serde_json::{Map, Value};

use crate::fields::is_terminating;
use crate::fields::nothing_holds;
use crate::kinds::Registered;
use crate::object::Key;
use crate::state::State;

impl State {
    /// Lets the built-in controllers do all that there is to do.
    pub(crate) fn settle(&mut self) {
        self.settle_touched();
        self.aggregate_roles();
        self.settle_touched();
    }

    fn settle_touched(&mut self) {
        let mut steps = 0_u64;
        while let Some(touched) = self.touched.pop_front() {
            steps += 1;
            debug_assert!(steps < 100_000_000, "the controllers must come to rest");
            let Some(kind) = self.registry.by_id(touched.kind).cloned() else { continue };
            self.settle_definition(&kind, &touched);
            if self.collects {
                self.settle_namespace(&kind, &touched);
                match &mut self.uncollected {
                    Some(uncollected) => uncollected.push_back(touched.clone()),
                    None => drop(self.settle_garbage(&kind, &touched)),
                }
            }
            if self.creates_accounts {
                self.settle_account(&kind, &touched);
            }
        }
    }

    /// Changes an object on behalf of a controller; one that nothing holds any more goes.
    fn rewrite(
        &mut self,
        kind: &Registered,
        key: &Key,
        edit: impl FnOnce(&mut Map<String, Value>),
    ) {
        let Some(old) = self.store.get(kind.storage, key) else { return };
        let old = old.value();
        let mut object = old.clone();
        edit(&mut object);
        if object == old {
            return;
        }
        if is_terminating(&object) && nothing_holds(kind, &object) {
            self.remove(kind, key);
        } else {
            self.put(kind, key, object);
        }
    }
}
