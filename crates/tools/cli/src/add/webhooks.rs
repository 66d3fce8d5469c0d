//! The webhooks of an operator as a whole: what the first one needs, whichever command adds it.

use anyhow::Result;

use super::changes::Changes;
use super::kind::MANAGER_PLACE;
use super::operator::Operator;
use crate::new::render::{Names, render, render_path};
use crate::new::template::Part;

/// The comment in `src/webhooks.rs` before which webhooks are added.
pub(super) const WEBHOOKS_PLACE: &str = "// More webhooks come here";

/// The file with all webhooks.
pub(super) const WEBHOOKS_FILE: &str = "src/webhooks.rs";

/// The memory limit of a new operator in `deploy/operator.yaml`, and that of one with webhooks,
/// whose reviews may take as much as the defaults of `Webhooks` let them.
const MEMORY: &str = "memory: 128Mi";
const WEBHOOKS_MEMORY: &str = "\
# 320 MiB for admission reviews, 256 MiB for conversions, and 128 MiB for the rest.
memory: 704Mi";

/// Printed for every operator with webhooks.
pub(super) const OUTSIDE_OF_A_CLUSTER: &str = "\
Outside of a cluster, webhooks need a URL by which the API server reaches this machine:
  cargo run -- run --webhook-url https://HOST:9443
Otherwise it calls a Service that does not lead here, and requests for the kind fail, or reach replicas in \
the cluster. See \"Webhooks\" in docs/guide.md of Windlass.
";

/// Plans what the first webhook of an operator needs, such as a Service. Does nothing if it exists.
pub(super) fn prepare(operator: &Operator, names: &Names, changes: &mut Changes<'_>) -> Result<()> {
    if operator.has(WEBHOOKS_FILE) {
        return Ok(());
    }
    for (path, text) in render(&[Part::Webhooks], &[], names) {
        changes.create(&path, text)?;
    }
    changes.module("src/lib.rs", "pub mod webhooks;")?;
    let line = ".webhooks(OPERATOR, webhooks::webhooks())";
    changes.before("src/lib.rs", MANAGER_PLACE, line)?;
    let tests = "tests/common/mod.rs";
    changes.module(tests, "mod webhooks;")?;
    let line = "webhooks::serve(cluster, lease_namespace, &mut options);";
    changes.after(tests, "options.leader_election_namespace =", line)?;
    changes.after("deploy/kustomization.yaml", "- operator.yaml", "- webhooks.yaml")?;
    // Another limit is somebody's choice.
    let deployment = "deploy/operator.yaml";
    if changes.text(deployment)?.lines().any(|line| line.trim() == MEMORY) {
        changes.replace(deployment, MEMORY, WEBHOOKS_MEMORY)?;
    }
    changes.append("deploy/rbac.yaml", &render_path("add/rbac-certificates.yaml", &[], names).1)
}
