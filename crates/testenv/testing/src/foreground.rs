//! Foreground deletions, which a controller can keep from completing.

use std::panic::Location;
use std::time::Duration;

use kube::api::DeleteParams;
use windlass_testserver::TestServer;

use crate::objects::TestObject;
use crate::quiet::{Quiet, wait_until};
use crate::report::{fail, state};
use crate::test_cluster::TestCluster;

/// How many steps the collector takes before the test fails: many more than a test has objects.
const STEPS_MAX: u32 = 200;

/// How long a real collector may take. It discovers new kinds every 30 s.
const COLLECTED_WITHIN: Duration = Duration::from_mins(2);

impl TestCluster {
    /// Deletes an object in the foreground, as `kubectl delete --cascade=foreground` does, and
    /// waits until it is gone. The objects that it owns are deleted first.
    ///
    /// The garbage collector deletes the owned objects, and each deletion triggers a run of their
    /// controller. A controller that recreates them blocks the deletion forever. To expose this,
    /// the collector of the embedded server takes [one step at a time][step], and waits until all
    /// controllers are quiet before the next one.
    ///
    /// [step]: windlass_testserver::apiserver::ApiServer::garbage_by_step
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # async fn example(cluster: windlass_testing::TestCluster) {
    /// cluster.delete_in_foreground::<Deployment>("web").await;
    /// assert_eq!(cluster.get_opt::<Deployment>("web").await, None);
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the object still exists at the end; the message shows it, and the state of the
    /// controllers. If a controller fails meanwhile.
    ///
    /// # Cancel safety
    /// Dropping it half-way ends the waiting. The collector of the embedded server may then remain
    /// in step mode.
    #[track_caller]
    pub fn delete_in_foreground<K: TestObject>(&self, name: &str) -> impl Future<Output = ()> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move {
            let Some(server) = self.test_server().and_then(TestServer::server) else {
                self.delete_at::<K>(at, &named, &DeleteParams::foreground()).await;
                let patient = self.timeout(self.limit().max(COLLECTED_WITHIN));
                return patient.gone_at::<K>(at, &named).await;
            };
            server.garbage_by_step(true);
            self.delete_at::<K>(at, &named, &DeleteParams::foreground()).await;
            for step in 0.. {
                let quiet = Quiet::new().ignore_retries();
                wait_until(self, &self.runnables(), &quiet, at).await;
                if !server.collect_step() {
                    break;
                }
                if step == STEPS_MAX {
                    let runnables = state(&self.runnables());
                    fail(
                        at,
                        &format!(
                            "{named} is not gone after {STEPS_MAX} steps of the garbage collector: \
                         something makes again what it deletes\n\n{runnables}"
                        ),
                    );
                }
            }
            server.garbage_by_step(false);
            self.gone_at::<K>(at, &named).await;
        }
    }
}
