//! The webhooks of the operator in tests.

use std::time::Duration;

use ::gadget_operator::OPERATOR;
use ::gadget_operator::webhooks::webhooks;
use windlass::prelude::Options;
use windlass_testing::TestCluster;
use windlass_testing::testserver::TestServer;

/// Lets the API server call the webhooks of an operator that runs with these options.
pub fn serve(cluster: &TestCluster, namespace: &str, options: &mut Options) {
    options.webhook_bind_address = "127.0.0.1:0".to_owned();
    options.webhook_drain = Duration::ZERO;
    options.webhook_namespace = Some(namespace.to_owned());
    match cluster.test_server().and_then(TestServer::server) {
        // Without a socket, so that it works on the paused clock. Before the operator has started,
        // its definitions name the namespace of deploy/.
        Some(server) => {
            for namespace in [namespace, OPERATOR] {
                let router = webhooks().router().expect("webhooks");
                server.webhooks().handle_service(namespace, OPERATOR, router);
            }
        }
        None => options.webhook_url = Some("https://127.0.0.1:0".to_owned()),
    }
}
