//! Runs one test on both servers: a macro turns a function into a test on the embedded server and a
//! test on a real kube-apiserver, which is ignored unless it is requested.

/// Makes two tests of `async fn $test(server: TestServer)`: `$test::embedded`, and `$test::real`,
/// which is ignored by default because it needs a real kube-apiserver with etcd.
///
/// `cargo xtask test --real` builds these programs and runs the ignored tests; elsewhere it is
/// `cargo test -- --ignored`. More arguments are those of `#[tokio::test(…)]`.
///
/// ```no_run
/// use windlass_testserver::{TestServer, on_each_server};
///
/// on_each_server!(namespaces_are_created, flavor = "multi_thread");
/// async fn namespaces_are_created(server: TestServer) {
///     let namespace = server.namespace("example").await.expect("a namespace");
///     // … the same on both
/// #   drop(namespace);
/// }
/// ```
#[macro_export]
macro_rules! on_each_server {
    ($test:ident $(, $($options:tt)+)?) => {
        $crate::both_tests!($test, $crate::TestServer::embedded() $(, $($options)+)?);
    };
}

/// Like [`on_each_server`], with an embedded server that enforces roles, as the real one does.
#[macro_export]
macro_rules! on_each_server_with_roles {
    ($test:ident $(, $($options:tt)+)?) => {
        $crate::both_tests!($test, $crate::TestServer::embedded_with_roles() $(, $($options)+)?);
    };
}

/// The common part of both macros.
#[doc(hidden)]
#[macro_export]
macro_rules! both_tests {
    ($test:ident, $embedded:expr $(, $($options:tt)+)?) => {
        mod $test {
            #[tokio::test$(($($options)+))?]
            async fn embedded() {
                super::$test($embedded).await;
            }

            #[tokio::test$(($($options)+))?]
            #[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
            async fn real() {
                let server = $crate::TestServer::real().await;
                super::$test(server.expect("a real kube-apiserver")).await;
            }
        }
    };
}
