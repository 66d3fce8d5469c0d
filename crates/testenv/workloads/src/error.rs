//! The errors of the workloads.

use std::sync::Arc;

use windlass_reconciler::{BuildError, RunError};

use crate::addresses::NODES_MAX;

/// Why the workloads cannot run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadsError {
    /// A controller cannot be built: its informer options conflict with those that others have
    /// requested from the factory.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A controller cannot start, because a cache did not sync in time.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There are more nodes than address ranges.
    #[error("there can be {NODES_MAX} nodes, not {0}")]
    TooManyNodes(u32),
    /// A node cannot be created.
    #[error("node {name} cannot be created")]
    Node {
        /// The name of the node.
        name: String,
        /// The error of the server.
        #[source]
        error: Arc<kube::Error>,
    },
}
