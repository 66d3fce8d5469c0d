//! One cluster for all tests of a process: starting one takes seconds, creating a namespace does
//! not.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::ControlPlane;
use super::options::{CLEANUP_CONTROLLERS, ControlPlaneOptions};
use crate::Error;

/// Never dropped. Its servers and files are removed when the process ends.
static SHARED: OnceCell<Arc<ControlPlane>> = OnceCell::const_new();

impl ControlPlane {
    /// Returns the cluster that the tests of this process share; the first caller starts it.
    ///
    /// It runs the controllers that complete deletions ([`CLEANUP_CONTROLLERS`]) and the one that
    /// fills aggregated cluster roles, and no others. It is for tests that stay within a namespace
    /// of their own and inject no faults. Every test has to create its own client: a client ends
    /// with its runtime.
    ///
    /// If the first caller is cancelled half-way, the next one starts it.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub async fn shared() -> Result<Arc<Self>, Error> {
        let start = || async {
            let options = ControlPlaneOptions::new()
                .controllers(CLEANUP_CONTROLLERS)
                .controllers(["clusterrole-aggregation-controller"]);
            Self::start(options).await.map(Arc::new)
        };
        SHARED.get_or_try_init(start).await.cloned()
    }
}
