//! The built-in controllers that belong to the API machinery. Custom resource definitions become
//! kinds, deleted namespaces are emptied, garbage is collected. With RBAC, aggregated roles are
//! filled, and every namespace gets a service account (without RBAC, too, if
//! [`Builder::default_accounts`](crate::Builder::default_accounts) says so).
//!
//! On a real cluster these run as separate controllers and a little later. Here they run to the end
//! after every request, under the same lock, one change at a time: watchers see every step that a
//! real cluster would show, and a test that reads next finds the cluster at rest. Only the garbage
//! collector can be [slowed down](crate::Builder::garbage_by_step), for tests of controllers that
//! act between its steps.

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
    /// Runs the built-in controllers until nothing changes any more.
    pub(crate) fn run_controllers(&mut self) {
        self.handle_changes();
        self.aggregate_roles();
        self.handle_changes();
    }

    fn handle_changes(&mut self) {
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
                    None => drop(self.collect_after_change(&kind, &touched)),
                }
            }
            if self.creates_accounts {
                self.settle_account(&kind, &touched);
            }
        }
    }

    /// Changes an object on behalf of a controller. Removes it if it is terminating and nothing
    /// holds it.
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
