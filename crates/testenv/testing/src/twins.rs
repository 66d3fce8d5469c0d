//! Runs one test on both servers: a macro turns a function into a test on the embedded server and a
//! test on a real kube-apiserver, which is ignored unless it is requested.

/// Makes two tests of `async fn $test(cluster: TestCluster)`: `$test::embedded`, and `$test::real`,
/// which is ignored by default because it needs a real kube-apiserver with etcd.
///
/// `cargo test -- --ignored` runs the ignored ones. More arguments are those of
/// `#[tokio::test(…)]`. A paused clock is resumed on the real server.
///
/// ```no_run
/// use windlass_testing::{TestCluster, on_each_cluster};
///
/// on_each_cluster!(works_on_both, start_paused = true);
/// async fn works_on_both(cluster: TestCluster) {
///     // … run a controller, wait until it is quiet, check the result
/// #   drop(cluster);
/// }
/// ```
#[macro_export]
macro_rules! on_each_cluster {
    ($test:ident $(, $($options:tt)+)?) => {
        mod $test {
            #[tokio::test$(($($options)+))?]
            async fn embedded() {
                super::$test($crate::TestCluster::embedded()).await;
            }

            #[tokio::test$(($($options)+))?]
            #[ignore = "needs a real kube-apiserver: see `on_each_cluster!`"]
            async fn real() {
                $crate::Clock::resume();
                super::$test($crate::TestCluster::real().await).await;
            }
        }
    };
}
