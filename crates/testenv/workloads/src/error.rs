//! Why the workloads do not run.

use std::sync::Arc;

use windlass::reconciler::{BuildError, RunError};

use crate::addresses::NODES_MAX;

/// Why the workloads do not run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadsError {
    /// A controller cannot be put together: the factory's informers are asked for in another form
    /// by somebody else.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A controller cannot begin, because a cache is not complete in time.
    #[error(transparent)]
    Run(#[from] RunError),
    /// More nodes than there are ranges of addresses for.
    #[error("there can be {NODES_MAX} nodes, not {0}")]
    TooManyNodes(u32),
    /// A node cannot be created.
    #[error("node {name} cannot be created")]
    Node {
        /// Its name.
        name: String,
        /// What the server says.
        #[source]
        error: Arc<kube::Error>,
    },
}
