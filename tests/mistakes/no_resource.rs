// What is watched is a spec, not the custom resource that was derived from it.

use serde::{Deserialize, Serialize};
use windlass::reconciler::Watch;

#[derive(Serialize, Deserialize)]
#[serde(crate = "serde")] // Here `serde` is imported, not a dependency.
struct FooSpec {
    replicas: u32,
}

fn main() {
    let _ = Watch::<FooSpec>::new();
}
