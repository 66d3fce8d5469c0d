//! One cluster for all tests of a process: a start takes seconds, a namespace of one's own does
//! not.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::ControlPlane;
use super::options::{CLEANUP_CONTROLLERS, ControlPlaneOptions};
use crate::Error;

/// It is never dropped. Its servers and files are gone with the process all the same.
static SHARED: OnceCell<Arc<ControlPlane>> = OnceCell::const_new();

impl ControlPlane {
    /// The cluster that the tests of this process share, started by the first that asks for it.
    ///
    /// It runs the controllers that end deletions ([`CLEANUP_CONTROLLERS`]) and the one that fills
    /// aggregated cluster roles, and no others. It is
    /// for tests that keep to a namespace of their own, and inject no faults. Every test has to ask
    /// for a client of its own: a client ends with the runtime that it was made in.
    ///
    /// If the first that asks goes away half-way, the next one starts it.
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
