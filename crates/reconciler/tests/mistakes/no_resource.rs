//! What is watched is a spec, not the custom resource that was derived from it.

use serde::{Deserialize, Serialize};
use windlass_reconciler::Watch;

#[derive(Serialize, Deserialize)]
struct FooSpec {
    replicas: u32,
}

fn main() {
    let _ = Watch::<FooSpec>::new();
}
